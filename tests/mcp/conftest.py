"""Fixtures for the tests of MCP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from mcp_client import children

from advisorchain import ChatClient, ToolCall, ToolMessage
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both eras of the protocol: that of 2026, and the handshake of before."""
    return request.param


@pytest.fixture
async def mcp(anyio_backend: Any) -> AsyncIterator[Callable[..., McpTools]]:
    """``mcp(server, ..., filter=...)``: an `McpTools` that is closed at the end; then no child process may be left."""
    before = children()
    made: list[McpTools] = []

    def make(*servers: McpServer, **settings: Any) -> McpTools:
        made.append(McpTools(servers, **settings))
        return made[-1]

    yield make
    for tools in made:
        await tools.aclose()
    assert not children() - before, "a child process is left"


@pytest.fixture
def quick_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process that does not end by itself is killed sooner than by default."""
    monkeypatch.setattr("advisorchain.mcp.child.END_SECONDS", 0.3)
    monkeypatch.setattr("advisorchain.mcp.child.KILL_SECONDS", 0.3)


Call = Callable[..., Awaitable[ToolMessage]]


@pytest.fixture
def call(run: Any) -> Call:
    """``await call(tools, "name", arguments, advisors=[...])``: what the model reads after one call, in one turn."""

    async def ask(tools: Any, name: str, arguments: Any = None, **settings: Any) -> ToolMessage:
        model = ScriptedModel([[ToolCall(name, arguments or {})], "done"])
        await run(ChatClient(model, tools=[tools], **settings), "go")
        (message,) = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
        return message

    return ask
