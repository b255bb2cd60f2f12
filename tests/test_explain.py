"""What `client.explain()` shows: the onion as rows, as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ToolInvocation,
    ToolNext,
    ToolResult,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.testing import ScriptedModel


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class AuditAdvisor(Advisor):
    order = 100

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        return await call_next(invocation)


@chat_advisor(order=300)
async def greeting(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    return await call_next(request)


@tool_advisor(order=560, name="tool_guard")
async def guard(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
    return await call_next(invocation)


@chat_advisor(order=225, streams="hold")
async def redact(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    return await call_next(request)


def test_explain_shows_the_onion() -> None:
    client = ChatClient(
        ScriptedModel([], name="gpt"), tools=[add], advisors=[AuditAdvisor(), guard, greeting, redact],
        return_direct={"add": True},
    )  # fmt: skip
    rows = client.chain.explain().rows
    assert [(row.name, row.order, row.position, row.wraps, row.streams) for row in rows] == [
        ("audit", 100, "outside", "both", "pass"),
        ("redact", 225, "outside", "chat", "hold"),
        ("greeting", 300, "outside", "chat", "pass"),
        ("tool_calling", 500, "loop", "chat", "pass"),
        ("tool_guard", 560, "inside", "tool", "pass"),
        ("return_direct", 650, "inside", "chat", "pass"),
    ]
    origin = add.origin
    assert client.explain().splitlines() == [
        "order  advisor          where    wraps",
        "  100  audit            outside  chat + tool",
        "  225  redact           outside  chat  holds streamed text",
        "  300  greeting         outside  chat",
        "  500  ↻ tool_calling   loop     chat",
        "  560  │ tool_guard     inside   tool",
        "  650  │ return_direct  inside   chat",
        " 1000  │ gpt            model    -",
        "",
        "tools",
        f"  add  {origin}  return direct (client)",
    ]
    data = json.loads(client.explain(format="json"))
    assert data["model"] == "gpt"
    assert data["rows"][3] == {
        "name": "tool_calling", "order": 500, "type": "ToolCallingAdvisor", "position": "loop", "wraps": "chat",
        "streams": "pass",
    }  # fmt: skip
    assert data["tools"] == [
        {"name": "add", "origin": origin, "return_direct": True, "return_direct_from": "client"},
    ]  # fmt: skip


def test_explain_without_a_loop_and_with_an_unknown_format() -> None:
    client = ChatClient(ScriptedModel([]), advisors=[greeting, guard], tool_loop=False)
    assert {row.position for row in client.chain.explain().rows} == {"no loop"}
    assert "↻" not in client.explain() and "│" not in client.explain()
    with pytest.raises(ConfigurationError, match="'yaml'"):
        client.explain(format="yaml")  # type: ignore[arg-type]
