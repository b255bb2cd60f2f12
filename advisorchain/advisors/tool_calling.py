"""The recursive tool loop: ask the model, run the tools it calls, ask again, until it answers or a limit is reached."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ..advisor import Advisor
from ..context import Turn
from ..errors import ConfigurationError, ToolLoopLimitError
from ..events import RoundFinished
from ..exchange import ChatNext, ChatRequest, ChatResponse, Steering, StopReason
from ..invocation import ToolResult
from ..messages import AssistantMessage, Message, ToolMessage
from ..order import Order
from ..setting_checks import check_number
from ..shield import run_shielded
from ..stream import emit_text, start_round
from ..tools.batch import CONCURRENCY, offered_tools, refusal_of, run_calls, with_unique_ids
from ..tools.definition import Tool
from ..tools.execution import ErrorDetail, run_call
from ..tools.limits import Breach, Limit, LoopLimits, OnLimit, Repeats
from ..tools.result import MAX_RESULT_CHARS, trim

logger = logging.getLogger("advisorchain")

T = TypeVar("T")

FINALIZE_SECONDS = 5.0
"""How long ``finalize_loop`` may take when the turn is cancelled."""


class LoopState:
    """What one run of the loop knows: plain data, so that an open round can be stored (the counts of repeats apart).

    Attributes:
        round: the running round, from 1.
        messages: the transcript: what the next round sends.
        new_messages: what this run has added to it.
        results: the results of the last round's calls.
        stopped: why `stop` was called, or None.
    """

    __slots__ = ("round", "messages", "new_messages", "results", "stopped", "repeats", "refused_rounds", "steering")

    def __init__(self, messages: tuple[Message, ...], new_messages: Sequence[Message] = ()) -> None:
        self.round = 0
        self.messages = messages
        self.new_messages = list(new_messages)
        self.results: tuple[ToolResult, ...] = ()
        self.stopped: str | None = None
        self.repeats: Repeats | None = None
        self.refused_rounds = 0
        self.steering = Steering()

    def stop(self, reason: str) -> None:
        """End the loop with the current answer; its open calls do not run."""
        self.stopped = reason

    def append(self, *messages: Message) -> None:
        """Add messages to the transcript."""
        self.messages += messages
        self.new_messages.extend(messages)


class ToolCallingAdvisor(Advisor):
    """Runs the tool loop. Advisors with a lower order wrap the whole loop, those with a higher one every round.

    Subclass it and override `initialize_loop`, `before_round`, `after_round` or `finalize_loop` to take part.

    Args:
        max_rounds: batches of tool calls per turn; the answer after the last batch is not a round.
        max_calls: tool calls per turn.
        max_calls_per_tool: calls of each tool per turn; or a mapping from tool name to that number.
        max_repeats: identical calls with identical results, without anything new between them.
        max_seconds: wall time of the turn, checked before every batch.
        max_tokens: input and output tokens of the turn, checked before every batch.
        on_limit: what happens at a limit, for all or by limit: ``"answer"`` (one last model call with
            ``tool_choice="none"``), ``"stop"`` (a closing sentence), ``"raise"`` (`ToolLoopLimitError`). Default:
            ``"answer"`` for rounds, calls, calls_per_tool and repeats, ``"stop"`` for seconds and tokens.
        concurrency: how many calls of one round run at once.
        error_detail: ``"message"`` shows the model the text of any exception, not only of a `ToolError`.
        max_result_chars: how much of a result's text the model reads, unless the tool says otherwise.
        trim: ``trim(result) -> str`` instead: what the model reads of a result.

    Limits count per turn, however often an outer advisor re-enters the loop (only ``max_repeats`` starts anew then). A
    batch over a limit runs not at all.

    Raises:
        ConfigurationError: a value is out of range, or an outcome is unknown.
    """

    order: int = Order.TOOL_LOOP
    is_tool_loop = True

    def __init__(
        self,
        *,
        max_rounds: int | None = 25,
        max_calls: int | None = None,
        max_calls_per_tool: int | Mapping[str, int] | None = None,
        max_repeats: int | None = 3,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        on_limit: OnLimit | Mapping[Limit, OnLimit] | None = None,
        concurrency: int = CONCURRENCY,
        error_detail: ErrorDetail = "type",
        max_result_chars: int = MAX_RESULT_CHARS,
        trim: Callable[[ToolResult], str] | None = None,
        order: int = Order.TOOL_LOOP,
        name: str | None = None,
    ) -> None:
        self.limits = LoopLimits(
            rounds=max_rounds, calls=max_calls, calls_per_tool=max_calls_per_tool, repeats=max_repeats,
            seconds=max_seconds, tokens=max_tokens, on_limit=on_limit,
        )  # fmt: skip
        check_number("concurrency", concurrency, least=1, whole=True)
        check_number("max_result_chars", max_result_chars, whole=True)
        if error_detail not in ("type", "message"):
            raise ConfigurationError(f"error_detail must be 'type' or 'message', not {error_detail!r}.")
        self.concurrency = concurrency
        self.error_detail: ErrorDetail = error_detail
        self.max_result_chars = max_result_chars
        self.order = order
        if name is not None:
            self.name = name
        self._trim = trim
        cls, own = type(self), ToolCallingAdvisor
        self._hooked = cls.before_round is not own.before_round or cls.after_round is not own.after_round
        self._finalizes = cls.finalize_loop is not own.finalize_loop

    # Hooks -----------------------------------------------------------------------------------------------------------

    async def initialize_loop(self, request: ChatRequest) -> ChatRequest:
        """Called once, before the first round; returns the request that the loop starts from."""
        return request

    async def before_round(self, request: ChatRequest, state: LoopState) -> ChatRequest:
        """Called before every model call; changed messages count for this round only."""
        return request

    async def after_round(self, response: ChatResponse[Any], state: LoopState) -> ChatResponse[Any]:
        """Called with every answer before its tool calls run; ``state.stop(reason)`` ends the loop here."""
        return response

    async def finalize_loop(
        self, outcome: ChatResponse[Any] | BaseException, state: LoopState
    ) -> ChatResponse[Any] | None:
        """Called once on every exit, with the response or the error; may return another response."""
        return None

    # The loop --------------------------------------------------------------------------------------------------------

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Run rounds until the model answers without tool calls, or something ends the loop.

        Raises:
            ToolLoopLimitError: a limit with outcome ``"raise"`` is reached.
        """
        turn = request.context.turn
        state = LoopState(request.messages, turn.added_to(request.messages))
        turn.transcript = state.new_messages
        try:
            request = _checked(await self.initialize_loop(request), ChatRequest, "initialize_loop")
            state.messages = request.messages
            response = await self._run(request, state, turn, call_next)
            if request.streaming:
                await self._round_finished(request, response, state, turn)
        except BaseException as error:
            if self._finalizes:
                await self._finalize(partial(self._finalize_failed, error, state))
            raise
        if self._finalizes:
            changed: list[ChatResponse[Any] | None] = []

            async def finalize() -> None:
                changed.append(await self.finalize_loop(response, state))

            await self._finalize(finalize)
            response = next(filter(None, changed), response)
        return response

    async def _finalize(self, fn: Callable[[], Awaitable[None]]) -> None:
        if not await run_shielded(fn, FINALIZE_SECONDS):
            logger.error("finalize_loop of %r took over %g s and was cancelled", self.name, FINALIZE_SECONDS)

    async def _finalize_failed(self, error: BaseException, state: LoopState) -> None:
        try:
            await self.finalize_loop(error, state)
        except Exception:  # the loop's own error is the one to raise
            logger.exception("finalize_loop of %r failed", self.name)

    async def _run(self, request: ChatRequest, state: LoopState, turn: Turn, call_next: ChatNext) -> ChatResponse[Any]:
        while True:
            sent, response = await self._ask(request, state, turn, call_next)
            calls = response.tool_calls
            if state.stopped is not None:
                return self._finish(response, state, turn, reason=("stopped", state.stopped))
            if not calls:
                return self._finish(response, state, turn)
            refusal = self._refusal(sent, response, state)
            if request.options.tool_choice not in (None, "auto", "none"):
                # A forced choice is for the first answer: kept, the model could never stop calling tools.
                request = request.replace(options=request.options.replace(tool_choice="auto"))
            if refusal is not None:
                if state.refused_rounds > 1:  # the retry was no better
                    return self._finish(response, state, turn)
                await self._refuse(sent, response, refusal, state, turn)
                continue
            tools = offered_tools(sent, response, calls)
            counted = [call for call, tool in zip(calls, tools, strict=True) if not tool.repeatable]
            breach = self.limits.check(calls, counted, turn.ledger, state.repeats, turn.runtime.clock())
            if breach is not None:
                return await self._at_limit(breach, request, sent, response, state, turn, call_next)
            unique = with_unique_ids(response, turn)
            if unique is not response:
                response, calls = unique, unique.tool_calls
            turn.ledger.rounds += 1
            if len(calls) == 1:
                results = [await run_call(sent, calls[0], tools[0], self.error_detail)]
            else:
                results = await run_calls(
                    sent, calls, tools, concurrency=self.concurrency, error_detail=self.error_detail
                )
            if counted and self.limits.repeats is not None:
                known = [result for result, tool in zip(results, tools, strict=True) if not tool.repeatable]
                if state.repeats is None:
                    state.repeats = Repeats()
                state.repeats.record(counted, known)
            state.results = tuple(results)
            messages = [self.message_of(result, tool) for result, tool in zip(results, tools, strict=True)]
            self._close_round(response, messages, state, turn)
            if sent.streaming:
                await self._round_finished(sent, response, state, turn)

    async def _ask(
        self, request: ChatRequest, state: LoopState, turn: Turn, call_next: ChatNext
    ) -> tuple[ChatRequest, ChatResponse[Any]]:
        """One model call: the request as the loop sent it, and the answer."""
        state.round += 1
        sent = request.for_round(state.round, state.messages, state.results, state.steering)
        if self._hooked:
            sent = _checked(await self.before_round(sent, state), ChatRequest, "before_round")
        if sent.streaming:
            await start_round(sent)
        response = await call_next(sent)
        if not isinstance(response, ChatResponse):
            raise ConfigurationError(
                f"An advisor inside the tool loop answered with {type(response).__name__}, not a ChatResponse; does "
                "it miss 'return await call_next(request)'?"
            )
        if self._hooked:
            response = _checked(await self.after_round(response, state), ChatResponse, "after_round")
        if state.steering:
            state.append(*_kept(state.steering, response))
            state.steering.clear()  # the same list: the round's tools add to it
            state.steering.asked = 0
        if sent.streaming and turn.emitted_round < state.round and response.text:
            await emit_text(sent, response.text)  # a short-circuit, or a model that does not stream
        return sent, response

    def _refusal(self, sent: ChatRequest, response: ChatResponse[Any], state: LoopState) -> str | None:
        """Why the calls of this answer must not run, or None."""
        refusal = refusal_of(sent, response)
        state.refused_rounds = 0 if refusal is None else state.refused_rounds + 1
        return refusal

    async def _refuse(
        self, sent: ChatRequest, response: ChatResponse[Any], text: str, state: LoopState, turn: Turn
    ) -> None:
        """Answer every call of the round with an error result; nothing runs."""
        response = with_unique_ids(response, turn)
        turn.ledger.rounds += 1
        results = [
            ToolResult.error(text).stamped(call.id, call.name, False, "local", True) for call in response.tool_calls
        ]
        state.results = tuple(results)
        self._close_round(response, [result.message() for result in results], state, turn)
        if sent.streaming:
            await self._round_finished(sent, response, state, turn)

    def _close_round(
        self, response: ChatResponse[Any], results: Sequence[Message], state: LoopState, turn: Turn
    ) -> None:
        """Take a complete round into the transcript."""
        state.append(*response.new_messages, *results, *state.steering)
        if state.steering:
            state.steering = Steering()
        turn.transcript = state.new_messages

    async def _at_limit(
        self,
        breach: Breach,
        request: ChatRequest,
        sent: ChatRequest,
        response: ChatResponse[Any],
        state: LoopState,
        turn: Turn,
        call_next: ChatNext,
    ) -> ChatResponse[Any]:
        reason = ("limit", {"limit": breach.limit, "allowed": breach.allowed})
        refused = f"Not executed: {breach.message} Answer with what you have."
        await self._refuse(sent, response, refused, state, turn)
        if breach.outcome == "raise":
            raise ToolLoopLimitError(breach.limit, breach.allowed, breach.message)
        if breach.outcome == "answer":
            last = request.replace(options=request.options.replace(tool_choice="none"))
            state.results = ()
            _, response = await self._ask(last, state, turn, call_next)
            if response.text:
                return self._finish(response, state, turn, "limit", reason)
        else:
            state.round += 1
            response = ChatResponse(AssistantMessage(), request=sent)
            if sent.streaming:
                await start_round(sent.replace(round=state.round))
        response = response.replace(message=AssistantMessage(content=breach.message))
        if sent.streaming:
            await emit_text(sent.replace(round=state.round), breach.message)
        return self._finish(response, state, turn, "limit", reason)

    def _finish(
        self,
        response: ChatResponse[Any],
        state: LoopState,
        turn: Turn,
        stop_reason: StopReason | None = None,
        reason: tuple[str, Any] | None = None,
    ) -> ChatResponse[Any]:
        """The loop's response: an answer without open calls, the transcript, the turn's usage."""
        metadata = response.metadata
        if response.tool_calls:  # they do not run, so the answer must not leave them open
            metadata = {**metadata, "dropped_calls": response.tool_calls}
            kept = tuple(call for call in response.message.tool_calls if call.executed_by != "client")
            response = response.replace(message=response.message.model_copy(update={"tool_calls": kept}))
        if reason is not None:
            metadata = {**metadata, reason[0]: reason[1]}
        state.new_messages.extend(response.new_messages)
        turn.transcript = state.new_messages
        return response.replace(
            new_messages=tuple(state.new_messages),
            usage=turn.ledger.usage,
            metadata=metadata,
            stop_reason=stop_reason or response.stop_reason,
        )

    def message_of(self, result: ToolResult, tool: Tool) -> ToolMessage:
        """What the model reads of a result: cut as the tool, ``trim`` or ``max_result_chars`` say."""
        if self._trim is not None:
            text = self._trim(result)
            if not isinstance(text, str):
                raise ConfigurationError(f"trim= must return a text, not {type(text).__name__}.")
            return result.message(text)
        limit = self.max_result_chars if tool.max_result_chars is None else tool.max_result_chars
        return result.message() if len(result.content) <= limit else result.message(trim(result.content, limit))

    async def _round_finished(
        self, request: ChatRequest, response: ChatResponse[Any], state: LoopState, turn: Turn
    ) -> None:
        text, calls = response.text, len(response.tool_calls)
        await request.emit(RoundFinished(text, calls, path=turn.path, round=state.round, attempt=turn.attempt))


def _checked(value: Any, kind: type[T], hook: str) -> T:
    """What a hook returned.

    Raises:
        ConfigurationError: it is something else.
    """
    if not isinstance(value, kind):
        raise ConfigurationError(f"{hook} must return a {kind.__name__}, not {type(value).__name__}.")
    return value


def _kept(steering: Steering, response: ChatResponse[Any]) -> list[Message]:
    """The steered messages that belong to this answer: those of discarded attempts do not."""
    kept = {message.id: message for message in steering[steering.asked :]}
    if response.request is not None:
        seen = {message.id for message in response.request.messages}
        kept = {m.id: m for m in steering[: steering.asked] if m.id in seen} | kept
    return list(kept.values())
