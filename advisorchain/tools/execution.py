"""Running one tool call: an attempt (`run_tool`, the innermost of the tool chain), and the call around it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any, Literal

from ..errors import AdvisorChainError, ConfigurationError, ToolError, UnknownToolError
from ..events import ToolFinished, ToolStarted
from ..exchange import ChatRequest
from ..failures import tool_failure
from ..invocation import ToolInvocation, ToolResult
from ..messages import ToolCall
from ..tool_set import ToolSet
from .definition import Tool
from .result import encodable
from .timeout import run_within

logger = logging.getLogger("advisorchain")

ErrorDetail = Literal["type", "message"]
FINISH_SECONDS = 1.0
"""How long handing on a `ToolFinished` may hold up a cancellation."""
LISTED_TOOLS = 50
"""How many tool names the error about an unknown tool lists."""


async def run_tool(invocation: ToolInvocation) -> ToolResult:
    """Validate, run within the tool's timeout, convert: one attempt of one call.

    Raises:
        ToolArgumentsError: the arguments are malformed or invalid.
        ToolTimeoutError: the tool did not return in time.
        Exception: whatever the tool raises.
    """
    tool = invocation.tool
    running = tool.start(tool.validate(invocation.call.arguments), invocation)
    seconds = tool.timeout
    return tool.convert(await (running if seconds is None else run_within(running, seconds, tool.name)))


class UnknownTool(Tool):
    """Stands for a tool that the request does not offer, so that the tool advisors see the call; always fails.

    Args:
        name: what the model called.
        offered: the tools that the request does offer.
        text: the error's text; default: says that there is no such tool, and lists those that are offered.
    """

    def __init__(self, name: str, offered: ToolSet, text: str | None = None) -> None:
        self._set(name=name, title=name, description="", origin="unknown", source="unknown", timeout=None)
        self._set(_offered=offered, _text=text)

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Fail.

        Raises:
            UnknownToolError: names the tools that the request does offer.
        """
        if self._text is not None:  # type: ignore[attr-defined]
            raise UnknownToolError(self._text)  # type: ignore[attr-defined]
        names = self._offered.names  # type: ignore[attr-defined]
        listed = ", ".join(names[:LISTED_TOOLS]) + (", ..." if len(names) > LISTED_TOOLS else "")
        available = f"Available tools: {listed}." if names else "No tools are available."
        raise UnknownToolError(f"There is no tool {self.name[:200]!r}. {available}")


def run_call(
    request: ChatRequest, call: ToolCall, tool: Tool, error_detail: ErrorDetail = "type"
) -> Awaitable[ToolResult]:
    """Run one call through the request's tool chain; a failure becomes an error result.

    Raises:
        AdvisorChainError: one whose ``ends_turn`` is true.
    """
    context = request.context
    ledger = context.turn.ledger
    ledger.tool_calls += 1
    ledger.calls_by_tool[call.name] = ledger.calls_by_tool.get(call.name, 0) + 1
    direct = tool.is_direct(context)
    run = _told if request.streaming or logger.isEnabledFor(logging.DEBUG) else _run_call
    observer = context.turn.observer
    if observer is None:
        return run(request, call, tool, direct, error_detail)
    return observer.tool_call(request, call, tool, direct, partial(run, request, call, tool, direct, error_detail))


async def _run_call(
    request: ChatRequest, call: ToolCall, tool: Tool, direct: bool, error_detail: ErrorDetail
) -> ToolResult:
    try:
        result = await request.execute(ToolInvocation(call, tool, request, request.round))
        if not isinstance(result, ToolResult):
            raise ConfigurationError(
                f"A tool advisor answered the call of {call.name!r} with {type(result).__name__}, not a ToolResult; "
                "does it miss a return?"
            )
    except BaseException as exc:
        error = tool_failure(exc)
        if error is None:
            raise
        if isinstance(error, AdvisorChainError) and error.ends_turn:
            raise error from error.__cause__
        result = error_result(error, call.name, error_detail)
    if not result.content.isascii():
        result = encodable(result)
    return result.stamped(call.id, call.name, direct, tool.source, tool.trusted)


def error_result(error: BaseException, tool: str, detail: ErrorDetail) -> ToolResult:
    """What reaches the model of an error: a `ToolError`'s text, else its type and a neutral sentence."""
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:  # its own __str__ fails
        message = ""
    if isinstance(error, ToolError):
        text = message or f"The tool {tool!r} failed."
        logger.debug("Tool %r: %s", tool, kind)
    else:
        logger.warning("Tool %r failed", tool, exc_info=error)
        text = f"The tool {tool!r} failed ({kind}). The details are in the application's log."
        if detail == "message":
            text = f"The tool {tool!r} failed ({kind}: {message})."
    return ToolResult.error(text, failure={"exception": kind})


async def _told(
    request: ChatRequest, call: ToolCall, tool: Tool, direct: bool, error_detail: ErrorDetail
) -> ToolResult:
    turn = request.context.turn
    clock, round = turn.runtime.clock, request.round or turn.round
    mark = " [direct]" if direct else ""
    start = clock()
    logger.debug("turn %s round %d: tool %s%s starts", turn.id, round, call.name, mark)
    result = ToolResult.error("The call was cancelled.", failure={"exception": "Cancelled"})
    try:
        if request.streaming:
            event = ToolStarted(call, tool.title or None, direct, path=turn.path, round=round, attempt=turn.attempt)
            await request.emit(event)
        result = await _run_call(request, call, tool, direct, error_detail)
    except AdvisorChainError as error:  # one that ends the turn
        result = ToolResult.error(
            f"The call ended the turn ({type(error).__name__}).", failure={"exception": type(error).__name__}
        )
        raise
    finally:
        seconds = clock() - start
        outcome = "error" if result.is_error else "ok"
        logger.debug(
            "turn %s round %d: tool %s%s ends after %.3f s: %s", turn.id, round, call.name, mark, seconds, outcome
        )
        if request.streaming:
            import anyio

            result = result.stamped(call.id, call.name, direct, tool.source, tool.trusted)
            # Shielded, so that every start has its end; not for long, because a tap may hang.
            with anyio.move_on_after(FINISH_SECONDS, shield=True):
                await request.emit(ToolFinished(result, seconds, path=turn.path, round=round, attempt=turn.attempt))
    return result
