"""`augment`: extra arguments reach the consumer, typed, and never the tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from advisorchain import (
    AugmentedCall,
    ChatClient,
    ChatRequest,
    ConfigurationError,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolMessage,
    ToolProvider,
    ToolRegistry,
    ToolResult,
    augment,
    tool,
)
from advisorchain.advisors import RetryAdvisor, ToolCacheAdvisor
from advisorchain.testing import ScriptedModel


class Thought(BaseModel):
    thought: str = Field(description="Why you call this tool")
    confidence: float = Field(default=1.0, ge=0, le=1)


GOT: list[AugmentedCall[Any]] = []
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    GOT.clear()
    RAN.clear()


def consume(call: AugmentedCall[Any]) -> None:
    assert RAN == [], "the consumer comes first"
    GOT.append(call)


@tool(return_direct=True, read_only=True, tags=["x"], timeout=3, meta={"a": 1})
async def weather(city: str, days: int = 1) -> str:
    """The weather.

    Args:
        city: where
    """
    RAN.append((city, days))
    return f"{city}: sunny"


ARGUMENTS = {"thought": "it was asked for", "confidence": 0.5, "city": "Rome", "days": 2}


async def ask(run: Any, *tools: Any, arguments: Any = ARGUMENTS, name: str = "weather", **settings: Any) -> str:
    """What the model reads of one call."""
    client = ChatClient(ScriptedModel([[ToolCall(name, arguments)], "Done."]), tools=list(tools), **settings)
    response = await run(client, "Go", return_direct={name: False})
    (message,) = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    return message.text


@pytest.mark.parametrize("kind", [dict, json.dumps])
async def test_extra_arguments_go_to_the_consumer(run: Any, kind: Any) -> None:
    more = augment(weather, Thought, consume)
    assert await ask(run, more, arguments=kind(ARGUMENTS)) == "Rome: sunny"
    assert RAN == [("Rome", 2)]
    (call,) = GOT
    assert call.arguments == Thought(thought="it was asked for", confidence=0.5)
    assert call.tool is weather
    assert call.call.arguments == kind(ARGUMENTS)
    assert call.request.user_text == "Go"


def test_the_schema_has_them_first_and_nothing_else_changes() -> None:
    more = augment(weather, Thought, consume)
    assert more.input_schema == {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "description": "Why you call this tool"},
            "confidence": {"type": "number", "default": 1.0, "minimum": 0, "maximum": 1},
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["thought", "city"],
        "additionalProperties": False,
    }
    assert list(more.input_schema["properties"]) == ["thought", "confidence", "city", "days"]
    assert "thought" not in weather.input_schema["properties"]
    names = [*Tool._SETTINGS, "target", "is_direct", "convert"]
    for name in names:
        kept, own = getattr(more, name), getattr(weather, name)
        assert getattr(kept, "__func__", kept) == getattr(own, "__func__", own), name  # of methods: the function
    assert isinstance(more, type(weather))
    assert more.reads_context, "no cache may leave the consumer out"


async def test_an_async_consumer_is_awaited(run: Any) -> None:
    async def consumer(call: AugmentedCall[Thought]) -> None:
        import anyio

        await anyio.sleep(0.01)
        consume(call)

    assert await ask(run, augment(weather, Thought, consumer)) == "Rome: sunny"
    assert len(GOT) == len(RAN) == 1


async def test_no_consumer_and_defaults(run: Any) -> None:
    assert await ask(run, augment(weather, Thought)) == "Rome: sunny"
    assert await ask(run, augment(weather, Thought, GOT.append), arguments={"thought": "t", "city": "X"}) == "X: sunny"
    assert GOT[0].arguments.confidence == 1.0


@pytest.mark.parametrize("extra", [{}, {"thought": 7}, {"thought": "t", "confidence": 9}, {"confidence": None}])
async def test_invalid_extra_arguments_never_stop_the_call(run: Any, extra: dict[str, Any]) -> None:
    assert await ask(run, augment(weather, Thought, consume), arguments={"city": "Rome", **extra}) == "Rome: sunny"
    assert (GOT, RAN) == ([], [("Rome", 1)])


async def test_unless_they_are_required(run: Any) -> None:
    more = augment(weather, Thought, consume, required=True)
    text = await ask(run, more, arguments={"city": "Rome", "confidence": 9})
    assert text == (
        "Invalid arguments for tool 'weather':\n- thought: Field required\n- confidence: Input should be less than or "
        "equal to 1"
    )
    assert (GOT, RAN) == ([], [])
    assert await ask(run, more) == "Rome: sunny"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{", "not valid JSON|malformed JSON"),
        ("[]", "must be one JSON object"),
        ('{"thought": "t"}', "city"),
        ("7", "object"),
    ],
)
@pytest.mark.parametrize("required", [True, False])
async def test_the_tools_own_errors_stay(run: Any, arguments: str, text: str, required: bool) -> None:
    found = await ask(run, augment(weather, Thought, consume, required=required), arguments=arguments)
    assert any(part in found for part in text.split("|"))
    assert (GOT, RAN) == ([], [])


async def test_what_a_consumer_raises_stops_the_tool(run: Any) -> None:
    def consumer(call: AugmentedCall[Thought]) -> None:
        if call.arguments.confidence < 0.9:
            raise ToolError("Be sure first.")

    assert await ask(run, augment(weather, Thought, consumer)) == "Be sure first."
    assert RAN == []


async def test_the_tool_sees_nothing_of_them(run: Any) -> None:
    @tool
    def spy(context: ToolContext, city: str) -> str:
        """Look."""
        assert context.invocation.tool is spy
        return json.dumps(context.call.arguments)

    text = await ask(run, augment(spy, Thought, consume), name="spy", arguments={"thought": "t", "city": "Rome"})
    assert text == '{"city": "Rome"}'
    assert len(GOT) == 1


async def test_keep(run: Any) -> None:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    free = Tool.from_schema("free", handler, description="Takes anything.")
    text = await ask(run, augment(free, Thought, consume, keep=True), name="free", arguments={"thought": "t", "x": 1})
    assert json.loads(text) == {"thought": "t", "x": 1}
    assert len(GOT) == 1
    with pytest.raises(ConfigurationError, match="'weather' takes no arguments beside those of its schema; leave keep"):
        augment(weather, Thought, keep=True)


def test_a_name_that_is_taken() -> None:
    class Clash(BaseModel):
        city: str
        days: int

    with pytest.raises(ConfigurationError, match="Tool 'weather' has 'city', 'days' already, which Clash would add"):
        augment(weather, Clash)
    with pytest.raises(ConfigurationError, match="has 'confidence', 'thought' already"):
        augment(augment(weather, Thought), Thought)


@pytest.mark.parametrize("model", [dict, BaseModel, Thought(thought="t"), None])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="augment takes a pydantic model with fields"):
        augment(weather, model)


def test_what_is_no_consumer() -> None:
    with pytest.raises(ConfigurationError, match="consumer= takes a function"):
        augment(weather, Thought, "print")  # type: ignore[call-overload]


class Mood(StrEnum):
    calm = "calm"


class Place(BaseModel):
    name: str


class Extra(BaseModel):
    mood: Mood
    there: Place


async def test_definitions_of_one_name_and_two_meanings(run: Any) -> None:
    async def handler(arguments: dict[str, Any]) -> str:
        return str(arguments["place"]["street"])

    street = {"type": "object", "properties": {"street": {"type": "string"}}}
    schema = {"type": "object", "properties": {"place": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": street}}
    go = Tool.from_schema("go", handler, input_schema=schema, description="Go.")
    more = augment(go, Extra, consume)
    definitions = more.input_schema["$defs"]
    assert definitions["Place"]["properties"].keys() == {"street"}
    assert definitions["Extra_Place"]["properties"].keys() == {"name"}
    assert more.input_schema["properties"]["there"] == {"$ref": "#/$defs/Extra_Place"}
    assert more.input_schema["properties"]["mood"] == {"$ref": "#/$defs/Mood"}
    arguments = {"mood": "calm", "there": {"name": "home"}, "place": {"street": "Via Roma"}}
    assert await ask(run, more, name="go", arguments=arguments) == "Via Roma"
    assert GOT[0].arguments == Extra(mood=Mood.calm, there=Place(name="home"))


# What can be augmented ------------------------------------------------------------------------------------------------


class Desk:
    def __init__(self, name: str) -> None:
        self.name = name

    async def _plain(self, city: str) -> str:
        """A method that becomes a tool."""
        return f"{self.name} in {city}"

    where = augment(tool(_plain), Thought, consume).replace(name="where")


class Notes:
    @tool
    def note(self, text: str) -> str:
        """Note it."""
        return text

    @tool
    def clear(self) -> None:
        """Forget all notes."""


class City(BaseModel):
    """A city."""

    city: str


class Subclass(Tool):
    name = "sub"
    description = "A subclass."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}

    @property
    def policy_name(self) -> str:
        return f"here/{self.name}"

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"sub": arguments}

    def convert(self, value: Any) -> ToolResult:
        return ToolResult(f"converted {json.dumps(value)}")


async def plain_function(city: str) -> str:
    """A function."""
    return f"fn {city}"


class Provider:
    async def tools(self, request: ChatRequest) -> Iterable[Tool]:
        return [weather]


@pytest.mark.parametrize(
    ("make", "name", "text"),
    [
        (lambda: augment(plain_function, Thought, consume), "plain_function", "fn Rome"),
        (lambda: augment(Tool.from_model(City, lambda city: city.city), Thought, consume), "city", "Rome"),
        (lambda: augment(Subclass(), Thought, consume), "sub", 'converted {"sub": {"city": "Rome"}}'),
        (lambda: augment(Provider(), Thought, consume), "weather", "Rome: sunny"),
        (lambda: augment(ToolRegistry([weather]), Thought, consume), "weather", "Rome: sunny"),
        (lambda: augment([weather, [plain_function]], Thought, consume), "plain_function", "fn Rome"),
        (lambda: [augment([Provider(), plain_function], Thought, consume)[0]], "weather", "Rome: sunny"),
        (lambda: Desk("Ada"), "where", "Ada in Rome"),
        (lambda: augment(weather, Thought, consume).replace(name="forecast"), "forecast", "Rome: sunny"),
        (
            lambda: ChatClient(ScriptedModel(["Sub."])).as_tool("agent", "An agent.").replace(title="A"),
            "agent", "Sub.",
        ),
    ],
    ids=[
        "function", "model", "subclass", "provider", "registry", "list", "list with provider", "method", "new name",
        "agent",
    ],
)  # fmt: skip
async def test_all_kinds_of_tools(run: Any, make: Any, name: str, text: str) -> None:
    found = make()
    arguments: dict[str, Any] = {"thought": "t", "city": "Rome"}
    if name == "agent":
        found, arguments = augment(found, Thought, consume), {"thought": "t", "prompt": "Go"}
    assert await ask(run, *(found if isinstance(found, list) else [found]), name=name, arguments=arguments) == text
    assert [call.arguments.thought for call in GOT] == ["t"]
    assert GOT[0].tool.name == name


def test_what_it_gives() -> None:
    assert isinstance(augment(plain_function, Thought), Tool)
    assert [found.name for found in augment(Notes(), City)] == ["note", "clear"]
    assert isinstance(augment(Provider(), Thought), ToolProvider)
    more: Any = augment(Subclass(), Thought)
    assert more.policy_name == "here/sub"
    assert more.replace(name="x").policy_name == "here/x"


async def test_a_registry_stays_alive(run: Any) -> None:
    registry = ToolRegistry([plain_function])
    more = augment(registry, Thought, consume)
    registry.register(weather)
    assert await ask(run, more) == "Rome: sunny"


async def test_a_provider_gives_the_same_objects_for_the_same_tools() -> None:
    more = augment(Provider(), Thought)
    request: Any = None
    (one,), (two,) = await more.tools(request), await more.tools(request)
    assert one is two


async def test_the_instructions_of_a_provider_stay(run: Any) -> None:
    class Told(Provider):
        instructions: ClassVar = {"desk": "Ask before you book."}

    client = ChatClient(ScriptedModel(["Done."]), tools=[augment(Told(), Thought)])
    await run(client, "Go")
    requests: list[ChatRequest] = client.model.requests  # type: ignore[attr-defined]
    assert requests[0].messages[0].text == "About the tools of desk: Ask before you book."


async def test_a_provider_whose_tool_clashes_ends_the_turn(run: Any) -> None:
    class Clash(BaseModel):
        city: str

    with pytest.raises(ConfigurationError, match="Tool 'weather' has 'city' already"):
        await ask(run, augment(Provider(), Clash))


async def test_two_augmentations(run: Any) -> None:
    class Mark(BaseModel):
        mark: int

    more = augment(augment(weather, Thought, consume), Mark, consume)
    assert list(more.input_schema["properties"]) == ["mark", "thought", "confidence", "city", "days"]
    assert await ask(run, more, arguments={**ARGUMENTS, "mark": 3}) == "Rome: sunny"
    assert [type(call.arguments) for call in GOT] == [Mark, Thought]


async def test_with_a_cache_every_call_is_seen_and_with_a_retry_every_attempt(run: Any) -> None:
    more = augment(weather, Thought, GOT.append)
    cache = ToolCacheAdvisor()
    for _ in range(2):
        await ask(run, more, advisors=[cache])
    assert len(GOT) == 2

    fails = [ConnectionError("x")]

    async def flaky(arguments: dict[str, Any]) -> str:
        if fails:
            raise fails.pop()
        return "fine"

    flaky_tool = Tool.from_schema("flaky", flaky, description="Flaky.", idempotent=True)
    retry = RetryAdvisor(tool={"attempts": 2, "wait": 0.0})
    assert await ask(run, augment(flaky_tool, Thought, GOT.append), name="flaky", advisors=[retry]) == "fine"
    assert len(GOT) == 4


async def test_a_direct_result_stays_direct(run: Any) -> None:
    client = ChatClient(ScriptedModel([[ToolCall("weather", ARGUMENTS)]]), tools=[augment(weather, Thought, consume)])
    response = await run(client, "Go")
    assert (response.text, response.stop_reason) == ("Rome: sunny", "return_direct")
