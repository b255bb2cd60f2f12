"""Running the tool calls of one answer: which tool each is, an id of its own for each, one result for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..context import Turn
from ..exchange import ChatRequest, ChatResponse
from ..invocation import ToolResult
from ..messages import ToolCall
from ..options import ChatOptions
from ..tool_set import ToolSet
from .definition import Tool
from .execution import ErrorDetail, UnknownTool, run_call

CONCURRENCY = 8
"""How many calls of one round run at once."""


def offer_of(sent: ChatRequest, response: ChatResponse[Any]) -> tuple[ToolSet, ChatOptions]:
    """The tools and options that the model had when it gave this answer, as the terminal recorded them.

    For an answer that an advisor made up: those that the model last had in this round, else those of ``sent``.
    """
    offers = sent.offers
    if not offers:
        return sent.tools, sent.options
    return offers.get(response.message.id) or offers[next(reversed(offers))]


def offered_tools(sent: ChatRequest, response: ChatResponse[Any], calls: Sequence[ToolCall]) -> list[Tool]:
    """For every call of the answer the tool that was offered under its name, or a placeholder that fails."""
    offered, _ = offer_of(sent, response)
    return [offered.get(call.name) or UnknownTool(call.name, offered) for call in calls]


def refusal_of(sent: ChatRequest, response: ChatResponse[Any]) -> str | None:
    """Why the calls of an answer must not run, in words for the model; None when they may."""
    if response.stop_reason == "length":
        return "Not executed: the answer was cut at its length limit. Call again, with shorter arguments."
    if offer_of(sent, response)[1].tool_choice == "none":
        return "Not executed: tools may not be called now. Answer without them."
    return None


def with_unique_ids(response: ChatResponse[Any], turn: Turn) -> ChatResponse[Any]:
    """The response, with calls renamed whose id was used before in this turn (some servers count from 0 each time)."""
    used = turn.call_ids
    calls = response.message.tool_calls
    if len(calls) == 1 and calls[0].id not in used:
        used.add(calls[0].id)
        return response
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and used.isdisjoint(ids):
        used |= ids
        return response
    renamed: list[ToolCall] = []
    for call in calls:
        if call.id in used and call.executed_by == "client":
            call = call.replace(id=f"{call.id[:32]}_{turn.runtime.ids()}")
        used.add(call.id)
        renamed.append(call)
    return response.replace(message=response.message.model_copy(update={"tool_calls": tuple(renamed)}))


async def run_calls(
    request: ChatRequest,
    calls: Sequence[ToolCall],
    tools: Sequence[Tool],
    *,
    concurrency: int,
    error_detail: ErrorDetail,
) -> list[ToolResult]:
    """Run a batch through the request's tool chain: one result per call, in call order.

    Calls run concurrently, at most ``concurrency`` at once; a tool with ``parallel=False`` runs alone, in its place.
    A call that fails gives an error result and never disturbs the others.

    Raises:
        AdvisorChainError: one whose ``ends_turn`` is true; the other calls are cancelled.
    """
    results: list[Any] = [None] * len(calls)
    start = 0
    while start < len(calls):
        end = start + 1
        if tools[start].parallel:
            while end < len(calls) and tools[end].parallel:
                end += 1
        if end - start == 1:
            results[start] = await run_call(request, calls[start], tools[start], error_detail)
        else:
            await _run_together(request, calls, tools, results, range(start, end), concurrency, error_detail)
        start = end
    return results


async def _run_together(
    request: ChatRequest,
    calls: Sequence[ToolCall],
    tools: Sequence[Tool],
    results: list[Any],
    indexes: range,
    concurrency: int,
    error_detail: ErrorDetail,
) -> None:
    import anyio

    waiting = iter(indexes)  # calls start in call order, in whatever order the tasks do
    slots = anyio.Semaphore(concurrency, fast_acquire=True)
    fatal: list[BaseException] = []

    async def work() -> None:
        if fatal:
            return
        index = next(waiting)
        try:
            results[index] = await run_call(request, calls[index], tools[index], error_detail)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:
            fatal.append(exc)
            group.cancel_scope.cancel()

    async def wait_and_work() -> None:
        async with slots:
            await work()

    async with anyio.create_task_group() as group:
        for _ in indexes:  # a task for each call: its context variables are its own
            group.start_soon(work if len(indexes) <= concurrency else wait_and_work)
    if fatal:
        raise fatal[0]
