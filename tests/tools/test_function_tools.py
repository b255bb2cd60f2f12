"""Tools made from functions and methods: schema, description, arguments, injected context."""

from __future__ import annotations

import contextvars
import enum
import functools
import logging
import socket
import threading
import uuid
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from advisorchain import ChatClient, ConfigurationError, Tool, ToolCall, ToolContext, tool
from advisorchain.testing import ScriptedModel


async def result_of(run: Any, made: Tool, arguments: Any, **settings: Any) -> Any:
    """The message that the model reads after one call of the tool."""
    model = ScriptedModel([[ToolCall(made.name, arguments)], "done"])
    response = await run(ChatClient(model, tools=[made], **settings), "go")
    assert response.text == "done"
    (message,) = [m for m in model.requests[1].messages if m.role == "tool"]
    return message


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """One line of an order."""

    sku: str
    amount: int = Field(ge=1, description="how many")


class Address(BaseModel):
    """Where to."""

    city: str
    items: list[Item] = []


def test_bare_and_called_decorator() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool(name="plus", title="Plus", description="Adds.", tags=["math"], meta={"unit": "1"}, read_only=True)
    def other(a: int, b: int) -> int:
        return a + b

    assert isinstance(add, Tool) and add.name == "add" and add.description == "Add two numbers."
    assert add(1, 2) == 3, "still callable as the function"
    assert add.type == "function" and add.title == "add" and not add.return_direct
    assert (other.name, other.title, other.description, other.tags) == ("plus", "Plus", "Adds.", {"math"})
    assert dict(other.meta) == {"unit": "1"} and other.read_only is True and other.idempotent is None
    assert add.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


async def test_types_of_parameters(run: Any) -> None:
    seen: dict[str, Any] = {}

    @tool
    def order(
        color: Color,
        when: date,
        at: datetime,
        key: uuid.UUID,
        price: Decimal,
        address: Address,
        items: list[Item],
        size: Literal["s", "m"],
        point: tuple[int, int],
        flags: set[str],
        extra: dict[str, float] | None = None,
    ) -> str:
        """Order things."""
        seen.update(locals())
        return "ok"

    identifier = uuid.uuid4()
    raw = (
        '{"color": "red", "when": "2026-01-02", "at": "2026-01-02T03:04:05Z", "key": "%s", "price": "1.50", '
        '"address": {"city": "Bern", "items": [{"sku": "a", "amount": 1}]}, "items": [{"sku": "b", "amount": 2}], '
        '"size": "s", "point": [1, 2], "flags": ["x"]}' % identifier
    )
    assert not (await result_of(run, order, raw)).is_error
    assert seen["color"] is Color.RED and seen["when"] == date(2026, 1, 2) and seen["at"].year == 2026
    assert seen["key"] == identifier and seen["price"] == Decimal("1.50") and seen["extra"] is None
    assert seen["address"].items == [Item(sku="a", amount=1)] and seen["items"] == [Item(sku="b", amount=2)]
    assert seen["point"] == (1, 2) and seen["flags"] == {"x"}
    assert order.input_schema["required"] == [
        "color", "when", "at", "key", "price", "address", "items", "size", "point", "flags",
    ]  # fmt: skip
    assert "how many" in str(order.input_schema)


async def test_the_same_arguments_as_a_dict(run: Any) -> None:
    @tool
    def order(color: Color, when: date, key: uuid.UUID, items: list[Item]) -> str:
        """Order things."""
        return f"{color.name} {when.year} {key.version} {items[0].amount}"

    arguments = {
        "color": "blue",
        "when": "2026-01-02",
        "key": str(uuid.uuid4()),
        "items": [{"sku": "a", "amount": 3}],
    }
    assert (await result_of(run, order, arguments)).text == "BLUE 2026 4 3"


@pytest.mark.parametrize(
    "hint",
    [
        int | None,
        Optional[int],  # noqa: UP045
        Annotated[int | None, Field(description="a number")],
        Annotated[Optional[int], Field(description="a number"), Field(ge=0)],  # noqa: UP045
    ],
)
async def test_or_none_is_optional(run: Any, hint: Any) -> None:
    def show(number: Any) -> str:
        """Show it."""
        return repr(number)

    show.__annotations__["number"] = hint
    made = tool(show)
    assert "required" not in made.input_schema or "number" not in made.input_schema["required"]
    assert (await result_of(run, made, {})).text == "None"
    assert (await result_of(run, made, {"number": None})).text == "None"
    assert (await result_of(run, made, '{"number": 4}')).text == "4"


async def test_defaults_and_field(run: Any) -> None:
    @tool
    def search(
        query: Annotated[str, Field(description="what", min_length=2)],
        limit: int = Field(5, ge=1, le=10, description="how many"),
        sort: Color = Color.RED,
        tags: list[str] = [],  # noqa: B006
    ) -> str:
        """Search."""
        return f"{query} {limit} {sort.name} {tags}"

    properties = search.input_schema["properties"]
    assert properties["query"] == {"description": "what", "minLength": 2, "type": "string"}
    assert properties["limit"]["maximum"] == 10 and properties["limit"]["default"] == 5
    assert properties["sort"]["default"] == "red"
    assert search.input_schema["required"] == ["query"]
    assert (await result_of(run, search, {"query": "ab"})).text == "ab 5 RED []"
    error = await result_of(run, search, {"query": "a", "limit": 11})
    assert error.is_error and "query" in error.text and "limit" in error.text


def test_values_in_a_schema_keep_their_titles() -> None:
    @tool
    def save(
        title: str,
        book: dict[str, str] = {"title": "Untitled"},  # noqa: B006
        other: Annotated[Any, Field(examples=[{"title": "Dune"}])] = None,
    ) -> str:
        """Save."""
        return title

    properties = save.input_schema["properties"]
    assert properties["title"] == {"type": "string"}
    assert properties["book"]["default"] == {"title": "Untitled"}
    assert properties["other"]["examples"] == [{"title": "Dune"}]


GOOGLE = """Book a trip.

    It takes a while.

    Args:
        city: where to go,
            in any language.
        days: how long.

    Returns:
        A number.
    """
NUMPY = """Book a trip.

    It takes a while.

    Parameters
    ----------
    city : str
        where to go,
        in any language.
    days : int
        how long.

    Returns
    -------
    str
        A number.
    """
SPHINX = """Book a trip.

    It takes a while.

    :param city: where to go,
        in any language.
    :param days: how long.
    :return: A number.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings(doc: str) -> None:
    def trip(city: str, days: int) -> str:
        return city

    trip.__doc__ = doc
    made = tool(trip)
    properties = made.input_schema["properties"]
    assert properties["city"]["description"].split() == "where to go, in any language.".split()
    assert properties["days"]["description"] == "how long."
    assert "Book a trip." in made.description and "It takes a while." in made.description
    assert "how long" not in made.description and "A number" not in made.description


def test_a_field_description_wins_over_the_docstring() -> None:
    @tool
    def f(x: Annotated[int, Field(description="from the field")], y: int) -> int:
        """Do.

        Args:
            x: from the docstring
            y: from the docstring
        """
        return x

    assert f.input_schema["properties"]["x"]["description"] == "from the field"
    assert f.input_schema["properties"]["y"]["description"] == "from the docstring"


async def test_parameters_named_like_attributes_of_a_model(run: Any) -> None:
    @tool
    def odd(
        copy: int, json: int, schema: int, model_x: int, _x: int, dict: int, model_config: int, validate: int = 0
    ) -> str:
        """Odd."""
        return f"{copy}{json}{schema}{model_x}{_x}{dict}{model_config}{validate}"

    names = ["copy", "json", "schema", "model_x", "_x", "dict", "model_config", "validate"]
    assert list(odd.input_schema["properties"]) == names
    assert (await result_of(run, odd, {name: index for index, name in enumerate(names)})).text == "01234567"
    error = await result_of(run, odd, {"copy": "no"})
    assert error.is_error and "copy" in error.text and "_x" in error.text and "parameter_" not in error.text


async def test_renamed_parameters_do_not_collide(run: Any) -> None:
    @tool
    def odd(copy: int, parameter_0: int) -> str:
        """Odd."""
        return f"{copy} {parameter_0}"

    assert (await result_of(run, odd, {"copy": 1, "parameter_0": 2})).text == "1 2"


@pytest.mark.parametrize("source", ["def f(*args: int): 0", "def f(**kwargs: int): 0", "def f(x: int, /): 0"])
def test_parameters_that_cannot_be_named(source: str) -> None:
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(ConfigurationError, match=r"f: parameter .*(args|kwargs|x)"):
        tool(names["f"])


class Session:
    """Of a database: no JSON schema."""


def test_a_parameter_without_a_schema() -> None:
    def query(sql: str, connection: socket.socket) -> str:
        """Query."""
        return sql

    with pytest.raises(ConfigurationError) as caught:
        tool(query)
    text = str(caught.value)
    assert "query" in text and "'connection'" in text and "socket" in text and "'sql'" not in text

    def other(session: Session) -> str:
        """Query."""
        return ""

    with pytest.raises(ConfigurationError, match=r"other: parameter 'session' of type Session"):
        ChatClient(ScriptedModel([]), tools=[other])


def test_types_that_are_not_defined() -> None:
    def f(x: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
        """F."""
        return ""

    with pytest.raises(ConfigurationError, match=r"(?s)f.*'Missing'.*import"):
        tool(f)


async def test_types_defined_in_a_function(run: Any) -> None:
    class Local(BaseModel):
        x: int

    class Kind(str, enum.Enum):
        A = "a"

    @dataclass
    class Data:
        y: int

    class Typed(TypedDict):
        z: int

    @tool
    async def local(model: Local, kind: Kind, data: Data, typed: Typed) -> Local:
        """Local."""
        return Local(x=model.x + data.y + typed["z"])

    arguments = {"model": {"x": 1}, "kind": "a", "data": {"y": 2}, "typed": {"z": 3}}
    assert (await result_of(run, local, arguments)).text == '{"x":6}'
    assert local.output_schema is not None and local.output_schema["properties"]["x"] == {"type": "integer"}


async def test_the_context_is_injected_and_hidden(run: Any) -> None:
    @tool
    def who(name: str, context: ToolContext) -> str:
        """Who."""
        return f"{name} {context.conversation_id} {context.call.name} {context.context['user']}"

    @tool
    async def other(ctx: ToolContext | None, name: str = "x") -> str:
        """Who."""
        assert ctx is not None and ctx.request.user_text == "go"
        assert ctx.idempotency_key.endswith(ctx.call.id)
        return name

    assert list(who.input_schema["properties"]) == ["name"]
    assert list(other.input_schema["properties"]) == ["name"]
    model = ScriptedModel([[ToolCall("who", {"name": "Ann"}), ToolCall("other", {})], "done"])
    await run(ChatClient(model, tools=[who, other]), "go", conversation_id="c1", context={"user": "u7"})
    assert [m.text for m in model.requests[1].messages if m.role == "tool"] == ["Ann c1 who u7", "x"]
    error = await result_of(run, who, {"name": "Ann", "context": "forged"})
    assert error.is_error and "context: unexpected argument" in error.text


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_sync_tools_run_in_threads_with_their_context_variables(run: Any) -> None:
    threads: list[int] = []

    @tool
    def show() -> str:
        """Show."""
        threads.append(threading.get_ident())
        return VARIABLE.get()

    token = VARIABLE.set("set by the caller")
    try:
        assert (await result_of(run, show, None)).text == "set by the caller"
    finally:
        VARIABLE.reset(token)
    assert threads[0] != threading.get_ident()


class Desk:
    """Methods of all kinds."""

    prefix = "p"

    def __init__(self, state: str) -> None:
        self.state = state

    @tool
    def method(self, x: int) -> str:
        """A method."""
        return f"{self.state}{x}"

    @tool
    async def async_method(self, x: int) -> str:
        """An async method."""
        return f"{self.state}{x}"

    @classmethod
    @tool
    def inner_class(cls, x: int) -> str:
        """A class method."""
        return f"{cls.prefix}{x}"

    @tool
    @classmethod
    def outer_class(cls, x: int) -> str:
        """A class method."""
        assert isinstance(cls, type)
        return f"{cls.prefix}{x}"

    @staticmethod
    @tool
    def inner_static(x: int) -> str:
        """A static method."""
        return f"s{x}"

    @tool
    @staticmethod
    def outer_static(x: int) -> str:
        """A static method."""
        return f"s{x}"

    def not_a_tool(self) -> None:
        """Left out."""


class Special(Desk):
    """Inherits tools, changes one."""

    prefix = "q"

    @tool
    def method(self, x: int) -> str:
        """Another method."""
        return f"special {self.state}{x}"

    @tool(return_direct=True)
    def added(self) -> str:
        """Added."""
        return "added"


METHODS = ["method", "async_method", "inner_class", "outer_class", "inner_static", "outer_static"]


async def test_methods_of_all_kinds(run: Any) -> None:
    model = ScriptedModel([[ToolCall(name, {"x": 1}) for name in METHODS], "done"])
    await run(ChatClient(model, tools=[Desk("a")]), "go")
    assert [t.name for t in model.requests[0].tools] == METHODS
    assert [m.text for m in model.requests[1].messages if m.role == "tool"] == ["a1", "a1", "p1", "p1", "s1", "s1"]
    assert all("cls" not in t.input_schema["properties"] for t in model.requests[0].tools)


async def test_inherited_and_overridden_methods(run: Any) -> None:
    registry = Tool.from_object(Special("b"))
    assert [t.name for t in registry] == [*METHODS, "added"]
    assert [t.name for t in registry.direct] == ["added"]
    model = ScriptedModel([[ToolCall("method", {"x": 1}), ToolCall("outer_class", {"x": 1})], "done"])
    await run(ChatClient(model, tools=[registry]), "go")
    assert [m.text for m in model.requests[1].messages if m.role == "tool"] == ["special b1", "q1"]


async def test_two_objects_of_one_class_keep_their_state(run: Any) -> None:
    first, second = Desk("a"), Desk("b")
    model = ScriptedModel([[ToolCall("one", {"x": 1}), ToolCall("method", {"x": 2})], "done"])
    await run(ChatClient(model, tools=[first.method.replace(name="one"), second.method]), "go")
    assert [m.text for m in model.requests[1].messages if m.role == "tool"] == ["a1", "b2"]


@pytest.mark.parametrize("thing", [Desk("a").method, max], ids=["a tool", "a builtin"])
def test_what_has_no_signature_is_named(thing: Any) -> None:
    with pytest.raises(ConfigurationError, match="max|method"):
        Tool.from_function(thing, name="other")


def test_methods_called_as_plain_python() -> None:
    desk = Desk("a")
    assert desk.method(1) == "a1" and Desk.method(desk, 1) == "a1"
    assert Desk.inner_class(1) == desk.inner_class(1) == "p1"
    assert Desk.outer_class(1) == desk.outer_class(1) == "p1"
    assert Desk.inner_static(1) == desk.outer_static(1) == "s1"


async def test_callables(run: Any) -> None:
    class Adder:
        """Adds."""

        def __call__(self, a: int, b: int = 1) -> int:
            """Add numbers."""
            return a + b

    def base(a: int, b: int) -> int:
        """Add."""
        return a + b

    made = Tool.from_function(functools.partial(base, b=2), name="partial", description="Adds two.")
    assert (await result_of(run, made, {"a": 1})).text == "3"
    called = Tool.from_function(Adder(), name="adder")
    assert (await result_of(run, called, {"a": 1})).text == "2"

    class Bound:
        """A plain object."""

        async def double(self, a: int) -> int:
            """Double."""
            return 2 * a

    assert (await result_of(run, Tool.from_function(Bound().double), {"a": 2})).text == "4"


def test_a_tool_needs_a_name_that_providers_take() -> None:
    with pytest.raises(ConfigurationError, match="name"):
        Tool.from_function(lambda x: x, description="A lambda.")
    assert Tool.from_function(lambda x: x, description="A lambda.", name="same").name == "same"
    with pytest.raises(ConfigurationError, match="name"):
        Desk("a").method.replace(name="")


def test_no_description_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def lookUp_order_status(x: int) -> int:  # noqa: N802
        return x

    with caplog.at_level(logging.WARNING, "advisorchain"):
        made = tool(lookUp_order_status)
    assert made.description == "look Up order status"
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "lookUp_order_status" in record.getMessage()


def test_an_async_generator_is_refused() -> None:
    async def numbers() -> Any:
        """Numbers."""
        yield 1

    with pytest.raises(ConfigurationError, match="numbers"):
        tool(numbers)


def test_unknown_settings_are_refused() -> None:
    def f() -> str:
        """F."""
        return ""

    with pytest.raises(ConfigurationError, match=r"retrun_direct.*return_direct"):
        Tool.from_function(f, retrun_direct=True)
    with pytest.raises(ConfigurationError, match="timeout must be over 0"):
        tool(timeout=0)(f)
