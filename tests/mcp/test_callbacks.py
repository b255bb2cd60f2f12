"""What a server may ask while it works: of the user, of the model, and where it may work."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent
from mcp_client import result_of
from pydantic import BaseModel

from advisorchain import ChatClient, ConfigurationError
from advisorchain.mcp import McpServer, McpTools, Question, Sampling
from advisorchain.testing import ScriptedModel

pytestmark = pytest.mark.filterwarnings(
    "ignore:The (sampling|roots) capability is deprecated"
)  # for 2026, on the server's side


class Seat(BaseModel):
    row: int


def _asking() -> MCPServer:
    server = MCPServer("asking")

    @server.tool()
    async def book(context: Context[Any]) -> str:
        """Book a seat."""
        answer = await context.elicit("Which\u200b row?", Seat)
        return f"{answer.action} {answer.data.row if answer.action == 'accept' else ''}".strip()

    @server.tool()
    async def think(context: Context[Any]) -> str:
        """Ask the model."""
        answer = await context.session.create_message(
            messages=[SamplingMessage(role="user", content=TextContent(text="What is 6 x 7?"))],
            max_tokens=5_000, system_prompt="You are a calculator.", temperature=0.5, stop_sequences=["END"],
        )  # fmt: skip
        return str(getattr(answer.content, "text", answer.content))

    @server.tool()
    async def where(context: Context[Any]) -> str:
        """Ask for the roots."""
        return " ".join(str(root.uri) for root in (await context.session.list_roots()).roots)

    return server


def _tools(**settings: Any) -> McpTools:
    return McpTools([McpServer.in_process(_asking(), era="legacy", **settings)])


async def test_a_question_to_the_user(anyio_backend: str) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> dict[str, Any] | None:
        asked.append(question)
        return {"row": 12} if len(asked) == 1 else None

    async with _tools(elicitation=ask) as tools:
        assert (await result_of(tools, "book")).content == "accept 12"
        assert (await result_of(tools, "book")).content == "decline"
    assert (asked[0].server, asked[0].message, asked[0].url) == ("asking", "Which row?", None)
    assert set(asked[0].schema["properties"]) == {"row"}


async def test_a_question_that_cannot_be_asked_is_a_cancelled_one(anyio_backend: str, caplog: Any) -> None:
    async def ask(question: Question) -> dict[str, Any]:
        raise ZeroDivisionError("inner secret")

    async with _tools(elicitation=ask) as tools:
        assert (await result_of(tools, "book")).content == "cancel"
    assert "asked the user something, and elicitation= failed" in caplog.text


async def test_a_server_cannot_ask_what_it_may_not(anyio_backend: str) -> None:
    async with _tools() as tools:
        for name in ("book", "think", "where"):
            assert (await result_of(tools, name)).is_error, name


async def test_a_request_to_the_model(anyio_backend: str) -> None:
    model = ScriptedModel(["42"])
    sampling = Sampling(ChatClient(model), max_calls=1, max_tokens=100)
    async with _tools(sampling=sampling) as tools:
        assert (await result_of(tools, "think")).content == "42"
        assert (await result_of(tools, "think")).is_error, "the budget is one answer"
    (request,) = model.requests
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.options.max_tokens == 100 and request.options.temperature == 0.5
    assert sampling.calls == 1


async def test_the_budget_holds_for_new_connections_too(anyio_backend: str) -> None:
    sampling = Sampling(ChatClient(ScriptedModel(["one", "two"])), max_calls=1)
    tools = _tools(sampling=sampling)
    assert (await result_of(tools, "think")).content == "one"
    await tools.aclose()
    assert (await result_of(tools, "think")).is_error
    await tools.aclose()


async def test_a_model_that_fails_tells_the_server_nothing(anyio_backend: str, caplog: Any) -> None:
    sampling = Sampling(ChatClient(ScriptedModel([RuntimeError("inner secret")])))
    with caplog.at_level(logging.ERROR, "advisorchain.mcp"):
        async with _tools(sampling=sampling) as tools:
            message = await result_of(tools, "think")
    assert message.is_error and "inner secret" not in str(message.content)
    assert "asked for an answer of the model, which failed" in caplog.text


async def test_roots(anyio_backend: str, tmp_path: Path) -> None:
    async with _tools(roots=[tmp_path, "file:///srv/data"]) as tools:
        assert (await result_of(tools, "where")).content == f"{tmp_path.as_uri()} file:///srv/data"


@pytest.mark.parametrize("setting", ["max_calls", "max_tokens"])
def test_a_budget_of_nothing_is_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        Sampling(ChatClient(ScriptedModel([])), **{setting: 0})
