"""Tools made from methods and callables, their injected context, and functions that are refused."""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
from typing import Any

import pytest

from advisorchain import ChatClient, ConfigurationError, Tool, ToolCall, ToolContext, ToolMessage, tool
from advisorchain.testing import ScriptedModel


async def test_the_context_is_injected_and_hidden(run: Any, result_of: Any) -> None:
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
    assert [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)] == ["Ann c1 who u7", "x"]
    error = await result_of(who, {"name": "Ann", "context": "forged"})
    assert error.is_error and "context: unexpected argument" in error.text


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_sync_tools_run_in_threads_with_their_context_variables(result_of: Any) -> None:
    threads: list[int] = []

    @tool
    def show() -> str:
        """Show."""
        threads.append(threading.get_ident())
        return VARIABLE.get()

    token = VARIABLE.set("set by the caller")
    try:
        assert (await result_of(show, None)).text == "set by the caller"
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
    assert [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)] == [
        "a1",
        "a1",
        "p1",
        "p1",
        "s1",
        "s1",
    ]
    assert all("cls" not in t.input_schema["properties"] for t in model.requests[0].tools)


async def test_inherited_and_overridden_methods(run: Any) -> None:
    registry = Tool.from_object(Special("b"))
    assert [t.name for t in registry] == [*METHODS, "added"]
    assert [t.name for t in registry.direct] == ["added"]
    model = ScriptedModel([[ToolCall("method", {"x": 1}), ToolCall("outer_class", {"x": 1})], "done"])
    await run(ChatClient(model, tools=[registry]), "go")
    assert [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)] == ["special b1", "q1"]


async def test_two_objects_of_one_class_keep_their_state(run: Any) -> None:
    first, second = Desk("a"), Desk("b")
    model = ScriptedModel([[ToolCall("one", {"x": 1}), ToolCall("method", {"x": 2})], "done"])
    await run(ChatClient(model, tools=[first.method.replace(name="one"), second.method]), "go")
    assert [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)] == ["a1", "b2"]


@pytest.mark.parametrize("thing", [Desk("a").method, max], ids=["a tool", "a builtin"])
def test_what_has_no_signature_is_named(thing: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"max|method"):
        Tool.from_function(thing, name="other")


def test_methods_called_as_plain_python() -> None:
    desk = Desk("a")
    assert desk.method(1) == "a1" and Desk.method(desk, 1) == "a1"
    assert Desk.inner_class(1) == desk.inner_class(1) == "p1"
    assert Desk.outer_class(1) == desk.outer_class(1) == "p1"
    assert Desk.inner_static(1) == desk.outer_static(1) == "s1"


def test_a_partial_is_described_as_its_function() -> None:
    def base(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first
        """
        return a + b

    made = Tool.from_function(functools.partial(base, b=2))
    assert (made.name, made.description) == ("base", "Add two numbers.")
    assert made.input_schema["properties"]["a"]["description"] == "the first"


async def test_callables(result_of: Any) -> None:
    class Adder:
        """Adds."""

        def __call__(self, a: int, b: int = 1) -> int:
            """Add numbers."""
            return a + b

    def base(a: int, b: int) -> int:
        """Add."""
        return a + b

    made = Tool.from_function(functools.partial(base, b=2), name="partial", description="Adds two.")
    assert (await result_of(made, {"a": 1})).text == "3"
    called = Tool.from_function(Adder(), name="adder")
    assert (await result_of(called, {"a": 1})).text == "2"

    class Bound:
        """A plain object."""

        async def double(self, a: int) -> int:
            """Double."""
            return 2 * a

    assert (await result_of(Tool.from_function(Bound().double), {"a": 2})).text == "4"


def test_a_tool_needs_a_name_that_providers_take() -> None:
    with pytest.raises(ConfigurationError, match="name"):
        Tool.from_function(lambda x: x, description="A lambda.")
    assert Tool.from_function(lambda x: x, description="A lambda.", name="same").name == "same"
    with pytest.raises(ConfigurationError, match="name"):
        Desk("a").method.replace(name="")


def test_no_description_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def lookUp_order_status(x: int) -> int:
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
