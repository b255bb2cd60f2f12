"""Asking one tool of a server through a client: what the model reads, and the result behind it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pytest

from advisorchain import (
    ChatClient,
    ChatResponse,
    TextPart,
    ToolCall,
    ToolInvocation,
    ToolMessage,
    ToolNext,
    ToolProgress,
    ToolResult,
    tool_advisor,
)
from advisorchain.mcp import McpTools
from advisorchain.testing import ScriptedModel


class Asked(NamedTuple):
    """What came of one call: the text and the parts that the model reads, the result, and the whole turn."""

    text: str
    parts: tuple[Any, ...]
    result: ToolResult
    message: ToolMessage
    response: ChatResponse[Any]
    progress: list[tuple[float, float | None]]


class Ask(Protocol):
    streamed: bool

    async def __call__(self, tools: McpTools, name: str, arguments: Any = ..., **kwargs: Any) -> Asked: ...


@pytest.fixture
def ask(run: Any) -> Ask:
    """``await ask(tools, "name", {...})``: the model calls the tool in the first round and answers in the second."""

    class Asking:
        streamed = run.mode == "stream"

        async def __call__(self, tools: McpTools, name: str, arguments: Any = None, **kwargs: Any) -> Asked:
            results: list[ToolResult] = []

            @tool_advisor(order=300, name="watch")
            async def watch(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
                results.append(await call_next(invocation))
                return results[-1]

            model = ScriptedModel([[ToolCall(name, arguments or {})], "That is what I found."])
            client = ChatClient(model, tools=[tools], advisors=[watch])
            response = await run(client, "Find it.", **kwargs)
            message = next(each for each in response.new_messages if isinstance(each, ToolMessage))
            parts = (TextPart(text=message.content),) if isinstance(message.content, str) else message.content
            return Asked(
                "".join(part.text for part in parts if isinstance(part, TextPart)),
                tuple(part for part in parts if not isinstance(part, TextPart)),
                results[0] if results else ToolResult.error("not run"),
                message,
                response,
                [(event.progress, event.total) for event in run.events if isinstance(event, ToolProgress)],
            )

    return Asking()
