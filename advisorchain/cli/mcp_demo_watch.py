"""What the MCP demo shows of a turn: every attempt of a tool call, and what the model was offered, as it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..advisor import Advisor
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult


@dataclass(slots=True)
class Attempt:
    """One attempt of a tool call: ``result`` or ``error`` (the type of what was raised); seconds."""

    name: str
    server: str
    arguments: Mapping[str, Any] | str | None
    seconds: float = 0.0
    result: ToolResult | None = None
    error: str = ""


@dataclass(slots=True)
class Watched:
    """What happened in one turn; ``requests`` are those that the model really got."""

    attempts: list[Attempt] = field(default_factory=list[Attempt])
    requests: list[ChatRequest] = field(default_factory=list[ChatRequest])
    model_calls: int = 0


class Watch(Advisor):
    """Watches one turn at a time; ``seen`` is what it saw. Between retry and breaker it sees every attempt."""

    order = 870
    inside = "tool_loop"

    def __init__(self) -> None:
        self.seen = Watched()

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Note what the model was asked."""
        self.seen.model_calls += 1
        response = await call_next(request)
        if response.request is not None:
            self.seen.requests.append(response.request)
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Note the attempt."""
        tool, started = invocation.tool, perf_counter()
        attempt = Attempt(tool.name, tool.source, invocation.call.arguments)
        self.seen.attempts.append(attempt)
        try:
            attempt.result = await call_next(invocation)
        except BaseException as error:
            attempt.error = type(error).__name__
            raise
        finally:
            attempt.seconds = perf_counter() - started
        return attempt.result
