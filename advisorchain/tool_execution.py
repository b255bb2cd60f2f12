"""User-controlled execution: the caller runs a response's tool calls, and sends the completed history back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .advisors.tool_calling import ToolCallingAdvisor
from .errors import ConfigurationError
from .exchange import ChatRequest, ChatResponse, Steering
from .invocation import ToolResult
from .messages import ToolCall
from .prompt import Transcript
from .tools.batch import offered_tools, refusal_of, run_calls
from .tools.definition import Tool
from .tools.result import convert_result

NOT_EXECUTED = "Not executed: the application did not allow this call."
"""The result of a call that the caller left out."""


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """What running a response's tool calls gave.

    Attributes:
        messages: the full history for the next call; every call has its result.
        results: one per call, in call order.
        direct: the results that may be the answer themselves: all of them if every call was direct and successful,
            else none.
    """

    messages: Transcript
    results: tuple[ToolResult, ...]
    direct: tuple[ToolResult, ...]


async def execute_tools(
    response: ChatResponse[Any],
    calls: Iterable[Any] | None,
    results: Mapping[str, Any] | None,
    loop: ToolCallingAdvisor,
) -> ToolExecution:
    """Run the open calls of a response, with the settings of ``loop``; see ``ChatClient.execute_tools``."""
    if not isinstance(response, ChatResponse):
        raise ConfigurationError(f"execute_tools takes a response of this client, not {response!r}.")
    request = response.request
    if request is None:
        raise ConfigurationError("This response never reached a model: it has no request whose tools could run.")
    if results is not None and not isinstance(results, Mapping):
        raise ConfigurationError(f"results= maps call ids to results, for example {{call.id: ...}}; not {results!r}.")
    given = dict(results or {})
    opened = {call.id: call for call in response.tool_calls}
    if not opened:
        raise ConfigurationError("The response has no open tool calls.")
    chosen = _chosen(opened, calls, given)
    steering = Steering()
    request = request.muted().replace(steering=steering)
    turn = request.context.turn
    # Model and memory read the calls as they were run, not as the model wrote them.
    edited = tuple(chosen.get(call.id, call) for call in response.message.tool_calls)
    response = response.replace(message=response.message.model_copy(update={"tool_calls": edited}))
    tools = dict(zip(opened, offered_tools(request, response, response.tool_calls), strict=True))
    refusal = refusal_of(request, response)
    ran: list[ToolResult] = []
    try:
        if chosen and refusal is None:
            ran = await run_calls(
                request,
                list(chosen.values()),
                [tools[call_id] for call_id in chosen],
                concurrency=loop.concurrency,
                error_detail=loop.error_detail,
            )
        found = {result.call_id: result for result in ran}
        ordered = tuple(
            found.get(call_id) or _given(call, given, refusal or NOT_EXECUTED, tools[call_id], request)
            for call_id, call in opened.items()
        )
        messages = [loop.message_of(result, tools[result.call_id]) for result in ordered]
    except BaseException as error:
        await turn.end(None, error)
        raise
    turn.ledger.rounds += 1
    turn.transcript = [*response.new_messages, *messages, *steering]
    direct = all(result.return_direct and not result.is_error and not result.failure for result in ordered)
    await turn.end(response, None)  # of the call that made the response, once more: for what its tools have registered
    return ToolExecution(Transcript((*turn.messages, *turn.transcript), turn.id), ordered, ordered if direct else ())


def _chosen(
    opened: Mapping[str, ToolCall], calls: Iterable[Any] | None, given: Mapping[str, Any]
) -> dict[str, ToolCall]:
    """By id: the calls to run."""
    unknown = sorted(given.keys() - opened.keys())
    if unknown:
        raise ConfigurationError(f"results= has {unknown}, which are no open calls of the response: {list(opened)}.")
    if calls is None:
        return {call_id: call for call_id, call in opened.items() if call_id not in given}
    if isinstance(calls, str | ToolCall) or not isinstance(calls, Iterable):
        raise ConfigurationError(f"calls= takes a list of calls or ids, for example calls=[{calls!r}].")
    chosen: dict[str, ToolCall] = {}
    for item in calls:
        call = opened.get(item) if isinstance(item, str) else item
        if not isinstance(call, ToolCall) or call.id not in opened:
            raise ConfigurationError(f"calls= has {item!r}, which is no open call of the response: {list(opened)}.")
        if call.id in given:
            raise ConfigurationError(f"Call {call.id!r} is in calls= and in results=; run it or give its result.")
        chosen[call.id] = call
    return chosen


def _given(call: ToolCall, given: Mapping[str, Any], refusal: str, tool: Tool, request: ChatRequest) -> ToolResult:
    """The caller's own result of a call; without one, an error result."""
    result = convert_result(given[call.id]) if call.id in given else ToolResult.error(refusal)
    return result.stamped(call.id, call.name, tool.is_direct(request.context), tool.source, tool.trusted)
