"""What really happened in a turn: an advisor that measures every model call and every tool call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

from ..advisor import Advisor
from ..context import ContextKey
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..messages import Usage


@dataclass(slots=True)
class Step:
    """One measured call; times in seconds, ``start`` counts from the start of the turn.

    ``error`` is the type of what it raised; ``seen`` is the request that the model really got.
    """

    kind: Literal["model", "tool"]
    start: float
    seconds: float = 0.0
    name: str = ""
    arguments: Mapping[str, Any] | str | None = None
    calls: tuple[str, ...] = ()
    usage: Usage | None = None
    direct: bool = False
    failed: bool = False
    error: str = ""
    seen: ChatRequest | None = None


@dataclass(slots=True)
class Timeline:
    """The steps of one turn, in the order in which they started."""

    started: float = field(default_factory=perf_counter)
    steps: list[Step] = field(default_factory=list[Step])
    seconds: float = 0.0
    first_text: float | None = None
    text_events: int = 0

    def begin(self, step: Step) -> Step:
        """Note a step that starts now."""
        step.start = perf_counter() - self.started
        self.steps.append(step)
        return step

    def end(self, step: Step) -> None:
        """Note that the step is over."""
        step.seconds = perf_counter() - self.started - step.start

    def saw_text(self) -> None:
        """Note a piece of streamed text."""
        self.text_events += 1
        if self.first_text is None:
            self.first_text = perf_counter() - self.started

    def finish(self) -> None:
        """Note that the turn is over."""
        self.seconds = perf_counter() - self.started

    def count(self, kind: Literal["model", "tool"]) -> int:
        """How many calls of that kind were made."""
        return sum(step.kind == kind for step in self.steps)


TIMELINE = ContextKey[Timeline]("advisorchain.cli.timeline")
"""The timeline of a call: ``client.call(..., context={TIMELINE: Timeline()})``."""


class TimelineAdvisor(Advisor):
    """Measures model calls and tool calls for a call's `TIMELINE`.

    Args:
        order: where it stands; default: next to the model and the tools. Between retry and breaker it measures every
            attempt, those that the breaker refuses too.
    """

    inside = "tool_loop"

    def __init__(self, order: int = 990) -> None:
        self.order = order

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Measure one model call."""
        timeline = request.context.get(TIMELINE)
        if timeline is None:
            return await call_next(request)
        step = timeline.begin(Step("model", 0.0, failed=True))
        try:
            response = await call_next(request)
        except BaseException as error:
            step.error = type(error).__name__
            raise
        finally:
            timeline.end(step)
        step.failed = False
        step.seen = response.request
        step.usage = response.usage
        step.calls = tuple(call.name for call in response.tool_calls)
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Measure one tool call."""
        timeline = invocation.context.get(TIMELINE)
        if timeline is None:
            return await call_next(invocation)
        call = invocation.call
        direct = invocation.tool.is_direct(invocation.context)
        step = timeline.begin(Step("tool", 0.0, name=call.name, arguments=call.arguments, direct=direct, failed=True))
        try:
            result = await call_next(invocation)
        except BaseException as error:
            step.error = type(error).__name__
            raise
        finally:
            timeline.end(step)
        step.failed = result.is_error
        return result
