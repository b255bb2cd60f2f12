"""Tools from a model, from a schema, by subclassing; immutability; converters and output schemas."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from advisorchain import (
    ChatClient,
    ConfigurationError,
    ImagePart,
    Tool,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    augment,
    tool,
)
from advisorchain.testing import ScriptedModel


class FindOrders(BaseModel):
    """Find orders of a customer."""

    customer: str = Field(description="who")
    limit: int = 5


class Strict(BaseModel):
    """Refuses more."""

    model_config = ConfigDict(extra="forbid")
    x: int


async def results(run: Any, tools: list[Any], *calls: ToolCall) -> list[Any]:
    """What the model reads of the calls."""
    model = ScriptedModel([list(calls), "done"])
    await run(ChatClient(model, tools=tools), "go")
    return [message for message in model.requests[1].messages if isinstance(message, ToolMessage)]


async def test_from_a_model(run: Any) -> None:
    async def find(arguments: FindOrders) -> list[str]:
        return [f"{arguments.customer}{n}" for n in range(arguments.limit)]

    def strict(arguments: Strict) -> int:
        return arguments.x

    made = Tool.from_model(FindOrders, find)
    assert made.name == "find_orders" and made.description == "Find orders of a customer."
    assert made.input_schema["properties"]["customer"] == {"description": "who", "type": "string"}
    other = Tool.from_model(Strict, strict, name="strict", return_direct=False, timeout=3)
    assert other.timeout == 3
    found = await results(
        run,
        [made, other],
        ToolCall("find_orders", '{"customer": "a", "limit": 2}'),
        ToolCall("find_orders", {"customer": "b", "limit": "x"}),
        ToolCall("strict", {"x": 1}),
        ToolCall("strict", {"x": 1, "y": 2}),
        ToolCall("find_orders", "[]"),
    )
    assert [m.is_error for m in found] == [False, True, False, True, True]
    assert found[0].text == '["a0","a1"]' and "limit" in found[1].text and "y: unexpected" in found[3].text


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("sync", [True, False])
async def test_from_a_schema(run: Any, sync: bool) -> None:
    def handle(arguments: dict[str, Any]) -> Any:
        return sorted(arguments)

    async def handle_async(arguments: dict[str, Any]) -> Any:
        return sorted(arguments)

    made = Tool.from_schema(
        "trip", handle if sync else handle_async, description="Plan.", input_schema=SCHEMA, tags={"t"}
    )
    assert made.input_schema == SCHEMA and made.tags == {"t"}
    found = await results(
        run,
        [made],
        ToolCall("trip", {"city": "Bern"}),
        ToolCall("trip", '{"city": "Bern", "days": 0}'),
        ToolCall("trip", {}),
        ToolCall("trip", {"city": 3, "more": 1}),
        ToolCall("trip", "{"),
        ToolCall("trip", None),
        ToolCall("trip", "null"),
    )
    assert [m.is_error for m in found] == [False, True, True, True, True, True, True]
    assert found[0].text == '["city"]' and "days" in found[1].text and "'city'" in found[2].text
    assert "city" in found[3].text and "more" in found[3].text
    assert "not valid JSON" in found[4].text and "not null" in found[6].text


async def test_a_schema_without_arguments(run: Any) -> None:
    made = Tool.from_schema("ping", lambda arguments: arguments, description="Ping.")
    found = await results(run, [made], ToolCall("ping", None), ToolCall("ping", "  \n"), ToolCall("ping", ""))
    assert [m.text for m in found] == ["{}", "{}", "{}"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        [],
        "object",
        {"type": "object", "properties": {"a": {"type": "bogus"}}},
        {"type": "object", "required": "a"},
    ],
)
def test_what_is_no_schema_of_an_object(schema: Any) -> None:
    with pytest.raises(ConfigurationError):
        Tool.from_schema("x", lambda arguments: 1, description="X.", input_schema=schema)


class Greet(Tool):
    """A subclass with a model."""

    name = "greet"
    description = "Greet somebody."
    return_direct = False

    class Arguments(BaseModel):
        """Of a greeting."""

        who: str
        times: int = 1

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Greet."""
        return " ".join([f"hello {arguments['who']} ({context.call.name})"] * arguments["times"])


class Raw(Tool):
    """A subclass with a schema."""

    name = "raw"
    description = "Raw."
    input_schema = SCHEMA
    return_direct = True

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Answer."""
        return ToolResult(arguments["city"], artifact=arguments)


async def test_subclasses(run: Any) -> None:
    greet, raw = Greet(), Raw(name="renamed", return_direct=False)
    assert greet.input_schema["required"] == ["who"] and raw.name == "renamed" and not raw.return_direct
    assert Raw().return_direct
    found = await results(
        run,
        [greet, raw],
        ToolCall("greet", {"who": "Ann", "times": 2}),
        ToolCall("greet", {}),
        ToolCall("renamed", {"city": "Bern"}),
        ToolCall("renamed", {"days": 1}),
    )
    assert [m.is_error for m in found] == [False, True, False, True]
    assert found[0].text == "hello Ann (greet) hello Ann (greet)" and found[2].text == "Bern"


def test_subclasses_that_are_wrong() -> None:
    class Nameless(Tool):
        """No name."""

        async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            """Do."""

    class Sync(Tool):
        """Not async."""

        name = "sync"

        def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
            """Do."""

    with pytest.raises(ConfigurationError, match="Nameless has no name"):
        Nameless()
    with pytest.raises(ConfigurationError, match=r"Sync\.handle must be async"):
        Sync()
    with pytest.raises(ConfigurationError, match="Greet is a class; pass an instance"):
        ChatClient(ScriptedModel([]), tools=[Greet])


@tool(meta={"a": 1})
def base(x: int) -> int:
    """Base."""
    return x


@pytest.mark.parametrize("made", [base, Greet(), Tool.from_schema("s", lambda a: 1, description="S.")])
def test_tools_are_immutable(made: Tool) -> None:
    with pytest.raises(AttributeError, match=r"immutable; use tool\.replace\(return_direct="):
        made.return_direct = True
    before = dict(vars(made))
    changed = made.replace(return_direct=True, meta={"b": 2}, name="other", tags=["x"], timeout=None)
    assert vars(made) == before and not made.return_direct
    assert changed.return_direct and dict(changed.meta) == {"b": 2} and changed.name == "other"
    assert changed.tags == {"x"} and changed.timeout is None and type(changed) is type(made)
    assert changed.input_schema == made.input_schema and changed.description == made.description
    with pytest.raises(ConfigurationError, match="retrun"):
        made.replace(retrun=True)


@pytest.mark.parametrize("change", [{"timeout": "5"}, {"timeout": -1}, {"max_result_chars": -1}], ids=str)
def test_settings_of_a_wrong_kind_are_named(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        base.replace(**change)


async def test_a_changed_copy_runs_under_its_own_name(run: Any) -> None:
    found = await results(
        run, [base, base.replace(name="other")], ToolCall("other", {"x": "no"}), ToolCall("other", {"x": 3})
    )
    assert "'other'" in found[0].text and found[1].text == "3"


def test_description_with_meta() -> None:
    assert base.description_with_meta == 'Base. (meta: {"a":1})'
    assert base.replace(meta={}).description_with_meta == "Base."
    assert "object" in base.replace(meta={"x": object()}).description_with_meta


@dataclass
class Weather:
    """The weather."""

    city: str
    degrees: float


async def test_result_converter_and_artifact(run: Any) -> None:
    @tool(result_converter=lambda weather: f"{weather.city}: {weather.degrees}", return_direct=True)
    def weather(city: str) -> Weather:
        """The weather."""
        return Weather(city, 7.5)

    model = ScriptedModel([[ToolCall("weather", {"city": "Bern"})]])
    response = await run(ChatClient(model, tools=[weather]), "go")
    assert response.text == "Bern: 7.5" and response.direct_results[0].artifact == Weather("Bern", 7.5)

    @tool(result_converter=lambda value: {"value": value})
    def number() -> int:
        """A number."""
        return 3

    @tool(result_converter=lambda value: 1 / 0)
    def failing() -> int:
        """A number."""
        return 3

    found = await results(run, [number, failing], ToolCall("number"), ToolCall("failing"))
    assert found[0].text == '{"value":3}' and found[1].is_error and "ZeroDivisionError" in found[1].text


def test_output_schema() -> None:
    @tool
    def weather(city: str) -> Weather:
        """The weather."""
        return Weather(city, 1)

    @tool(output_schema={"type": "object", "properties": {}})
    def given(city: str) -> dict[str, Any]:
        """Given."""
        return {}

    class Sum(TypedDict):
        sum: int

    @tool
    def add(a: int, b: int) -> Sum:
        """Add."""
        return {"sum": a + b}

    @tool
    def text(city: str) -> str:
        """Text."""
        return city

    @tool
    def picture() -> ImagePart:
        """A picture."""
        return ImagePart(data=b"1")

    assert picture.output_schema is None  # content, not data
    assert add.output_schema is not None and add.output_schema["properties"] == {"sum": {"type": "integer"}}
    assert weather.output_schema is not None
    assert weather.output_schema["properties"] == {"city": {"type": "string"}, "degrees": {"type": "number"}}
    assert given.output_schema == {"type": "object", "properties": {}}
    assert text.output_schema is None


async def test_a_call_builds_no_schema_and_no_validator(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def typed(order: FindOrders, context: ToolContext) -> str:
        """Has a signature."""
        return order.customer

    tools = [
        typed,
        Tool.from_model(FindOrders, lambda order: order.customer),
        Tool.from_schema("plain", lambda arguments: arguments["city"], description="Plain.", input_schema=SCHEMA),
        augment(typed.replace(name="augmented"), Strict),
    ]
    calls = [
        ToolCall("typed", {"order": {"customer": "a"}}), ToolCall("find_orders", '{"customer": "b"}'),
        ToolCall("plain", {"city": "c"}), ToolCall("augmented", {"order": {"customer": "d"}, "x": 1}),
    ]  # fmt: skip
    model = ScriptedModel([calls, "one", calls, "two"])
    client = ChatClient(model, tools=tools)
    await run(client, "go")  # what is not known before somebody asks may be made then, once
    built: list[str] = []

    def watch(kind: type[Any], name: str) -> None:
        plain = inspect.getattr_static(kind, name)
        function = getattr(plain, "__func__", plain)

        def watched(*args: Any, **kwargs: Any) -> Any:
            built.append(f"{kind.__name__}.{name}")
            return function(*args, **kwargs)

        monkeypatch.setattr(kind, name, type(plain)(watched) if plain is not function else watched)

    watch(TypeAdapter, "__init__")
    watch(BaseModel, "model_json_schema")
    watch(type(BaseModel), "__new__")
    watch(Draft202012Validator, "check_schema")
    watch(inspect.Signature, "from_callable")
    await run(client, "go")
    assert built == []
    assert [m.text for m in model.requests[-1].messages if isinstance(m, ToolMessage)] == ["a", "b", "c", "d"]
    Tool.from_model(Strict, lambda strict: strict.x)
    assert built, "it would have been noticed"
