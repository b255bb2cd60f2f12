"""Copies of requests, responses, invocations and results are written by hand: none may lose an attribute."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ToolInvocation,
    ToolResult,
    ToolSet,
    UserMessage,
    tool,
)


@tool
def look() -> str:
    """Look."""
    return ""


def full(kind: type[Any], **values: Any) -> Any:
    """An object with a value of its own in every slot."""
    made = kind.__new__(kind)
    for name in kind.__slots__:
        setattr(made, name, values.get(name, f"the {name}"))
    return made


def request() -> Any:
    """A full request."""
    return full(ChatRequest, messages=(UserMessage(content="Hi"),), tools=ToolSet([look]))


def changed(old: Any, new: Any) -> set[str]:
    """Which attributes of a copy are others."""
    assert type(new) is type(old) and new is not old
    return {name for name in old.__slots__ if getattr(new, name) is not getattr(old, name)}


@pytest.mark.parametrize("name", ChatRequest.__slots__)
def test_a_request_with_another(name: str) -> None:
    old, value = request(), {"messages": (), "tools": ToolSet()}.get(name, "another")
    new = old.replace(**{name: value})
    assert changed(old, new) == {name} and getattr(new, name) is value


def test_other_copies_of_a_request() -> None:
    old = request()
    assert changed(old, old.replace()) == set()
    assert changed(old, old.muted()) == {"emit", "streaming"}
    assert changed(old, old.tap(print)) == {"emit"}
    assert changed(old, old.with_instruction("Be brief.")) == {"messages"}
    assert changed(old, old.with_tools(ToolSet(), ())) == {"tools", "messages"}
    for_round = old.for_round(2, (), ("a result",))
    assert changed(old, for_round) == {"round", "messages", "tool_results", "steering", "offers"}
    assert (for_round.round, for_round.tool_results) == (2, ("a result",))
    assert for_round.steering is None and for_round.offers == {}, "each round has offers of its own"


def test_messages_and_tools_may_be_any_iterable() -> None:
    new = request().replace(messages=iter([UserMessage(content="a")]), tools=(each for each in [look]))
    assert [message.text for message in new.messages] == ["a"] and type(new.messages) is tuple
    assert new.tools.get("look") is look and list(new.tools) == list(new.tools) == [look]


@pytest.mark.parametrize("name", [name for name in ChatResponse.__slots__ if name != "message"])
def test_a_response_with_another(name: str) -> None:
    old = full(ChatResponse)
    assert changed(old, old.replace(**{name.removeprefix("_"): "another"})) == {name}


def test_other_copies_of_a_response() -> None:
    first, last, other = UserMessage(content="a"), AssistantMessage(content="b"), AssistantMessage(content="c")
    old = full(ChatResponse, message=last, new_messages=(first, last))
    assert changed(old, old.seen_as(request())) == {"request"}
    new = old.replace(message=other)
    assert changed(old, new) == {"message", "new_messages"}
    assert new.new_messages == (first, other), "the answer is what the turn ends with"


@pytest.mark.parametrize("name", [name for name in ToolResult.__slots__ if name != "content"])
def test_a_result_with_another(name: str) -> None:
    old = full(ToolResult)
    assert changed(old, old.replace(**{name.removeprefix("_"): "another"})) == {name}


def test_other_copies_of_a_result() -> None:
    old = full(ToolResult)
    assert changed(old, old.with_text("cut")) == {"content"}
    assert changed(old, old.replace(content="***")) == {"content", "artifact", "_structured"}, "no value beside it"
    stamps = {"call_id", "name", "return_direct", "source", "trusted"}
    assert changed(old, old.stamped("id", "look", True, "server", False)) == stamps


@pytest.mark.parametrize("name", ["call", "tool", "request"])
def test_an_invocation_with_another(name: str) -> None:
    old = full(ToolInvocation)
    assert changed(old, old.replace(**{name: "another"})) == {name}
