"""Audit: one record per turn and one per tool call."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec

from pydantic_core import from_json

from ..advisor import Advisor
from ..audit.redaction import Redaction
from ..chain import AdvisorChain
from ..context import ContextKey, Turn
from ..errors import AuditError, ConfigurationError, ToolArgumentsError, ToolTimeoutError, UnknownToolError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..failures import ATTEMPTS, tool_failure, unwrapped
from ..invocation import ToolInvocation, ToolResult
from ..model_call import requested_model
from ..order import Order
from ..setting_checks import check_function
from ..shield import run_shielded
from ..tools.canonical import canonical_arguments
from ..turn_end import TurnEnd

if TYPE_CHECKING:
    from ..audit import AuditRecord, AuditSink

P = ParamSpec("P")

logger = logging.getLogger("advisorchain.audit")

SINK_SECONDS = 5.0
"""How long one record may take in a sink that has to be awaited; then it counts as failed."""

_OUTCOMES = (
    (ToolTimeoutError, "timeout"),
    (UnknownToolError, "unknown_tool"),
    (ToolArgumentsError, "invalid_arguments"),
)


class _AuditedTurn:
    """What the records of one turn share."""

    __slots__ = ("turn", "secrets")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.secrets: set[str] = set()


class AuditAdvisor(Advisor):
    """Writes one record per turn and one per tool call to a sink.

    A record says who, what, how long and how it ended: ids, conversation, advisors, model, tool, source, a hash of the
    arguments, outcome, duration, bytes, tokens, stop reason, type of error, attempts, cache hit, and whether a result
    was to be and was returned directly. It says nothing of the contents unless ``values=True``.

    Args:
        sink: where records go, see `AuditSink`. A sink that fails never fails the call: the first failure is logged,
            and the next record that can be written says how many were lost (``lost_before``).
        values: also record arguments, results, the user's text and the answer, redacted and cut.
        redact_fields: field names to redact at any depth, besides those that always are, see `Redaction`.
        redact_types: types to redact, besides pydantic's secret types.
        max_chars: a longer value is cut; None: never.
        required: nothing runs unrecorded: an intent record is on disk before each turn and tool call, an outcome after
            it. When a record cannot be written, the turn ends with `AuditError`.
        clock: Unix seconds.

    Raises:
        ConfigurationError: the sink has no ``write``, or another setting is not what it must be.
    """

    order: int = Order.AUDIT

    def __init__(
        self,
        sink: AuditSink,
        *,
        values: bool = False,
        redact_fields: Iterable[str] = (),
        redact_types: Iterable[type] = (),
        max_chars: int | None = 1000,
        required: bool = False,
        clock: Callable[[], float] = time.time,
        order: int = Order.AUDIT,
        name: str | None = None,
    ) -> None:
        if isinstance(sink, type) or not callable(getattr(sink, "write", None)):
            raise ConfigurationError(
                f"AuditAdvisor(sink) takes an audit sink, for example JsonLinesSink(path), not {sink!r}."
            )
        check_function("clock", clock, "no arguments")
        self.sink = sink
        self.values = values
        self.redaction = Redaction(redact_fields, redact_types, max_chars=max_chars)
        self.required = required
        self.clock = clock
        self.order = order
        if name is not None:
            self.name = name
        self._sink_write = sink.write
        self._digest: Callable[[bytes], str] = getattr(sink, "digest", _sha256)
        self._key = ContextKey[_AuditedTurn](f"advisorchain.audit.{id(self)}")
        self._named: tuple[AdvisorChain | None, list[str]] = (None, [])
        self._lost = 0

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Record the turn at its end, however it ends.

        Raises:
            AuditError: the audit is required and a record could not be written.
        """
        context = request.context
        known = context.get(self._key)
        if known is None or known.turn is not context.turn:  # else an outer advisor sends the request again
            audited = _AuditedTurn(context.turn)
            # First, because who is cancelled while the intent is written has written it.
            context.at_turn_end(lambda end: self._begin(self._turn_record, request, end, audited))
            if self.required:
                await self._write(self._turn_start, "turn_intent", request)
            context[self._key] = audited
        return await call_next(request)

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Record the call: all its attempts are one call.

        Raises:
            AuditError: the audit is required and a record could not be written.
        """
        clock = invocation.request.context.turn.runtime.clock
        start = clock()
        try:
            if self.required:
                await self._write(self._tool_start, "tool_intent", invocation)
                start = clock()
            result = await call_next(invocation)
        except BaseException as exc:
            try:
                await self._write(self._tool_record, invocation, clock() - start, None, exc)
            except AuditError as failed:
                raise failed from exc
            raise
        pending = self._begin(self._tool_record, invocation, clock() - start, result, None)
        if pending is not None:
            await pending
        return result

    # Writing ---------------------------------------------------------------------------------------------------------

    async def _write(self, make: Callable[P, AuditRecord], *args: P.args, **kwargs: P.kwargs) -> None:
        pending = self._begin(make, *args, **kwargs)
        if pending is not None:
            await pending

    def _begin(self, make: Callable[P, AuditRecord], *args: P.args, **kwargs: P.kwargs) -> Awaitable[None] | None:
        """Make a record and hand it to the sink; returns what is left to await.

        Raises:
            AuditError: it failed, and the audit is required.
        """
        try:
            record = make(*args, **kwargs)
            if self._lost:
                record["lost_before"] = self._lost
            pending = self._sink_write(record, durable=self.required)
        except Exception as exc:
            self._failed(exc)
            return None
        if pending is None:
            self._lost = 0
            return None
        return self._finish(pending)

    async def _finish(self, pending: Awaitable[None]) -> None:
        try:
            if not await run_shielded(lambda: pending, SINK_SECONDS):
                raise TimeoutError(f"{self.sink!r} took over {SINK_SECONDS:g} s.")
        except Exception as exc:
            self._failed(exc)
        else:
            self._lost = 0

    def _failed(self, exc: Exception) -> None:
        if self.required:
            if isinstance(exc, AuditError):
                raise exc
            raise AuditError(
                f"The audit is required, and a record could not be written: {type(exc).__name__}."
            ) from exc
        self._lost += 1
        if self._lost == 1:
            logger.error(
                "Advisor %r: %r failed; the calls go on unrecorded. Further failures are counted, not logged.",
                self.name, self.sink, exc_info=exc,
            )  # fmt: skip

    # Records ---------------------------------------------------------------------------------------------------------

    def _turn_start(self, kind: str, request: ChatRequest, seen: ChatRequest | None = None) -> AuditRecord:
        """The fields of every turn record; ``seen`` is the last request that the model saw, if it is known."""
        turn = request.context.turn
        chain = turn.chain
        if self._named[0] is not chain:
            self._named = (chain, [entry.name for entry in chain.entries] if chain is not None else [])
        record: AuditRecord = {
            "kind": kind,
            "time": self.clock(),
            "turn": turn.id,
            "conversation": request.conversation_id,
            "model": requested_model(seen or request),
            "advisors": self._named[1],
        }
        if turn.path:
            record["path"] = turn.path
        return record

    def _turn_record(self, request: ChatRequest, end: TurnEnd, audited: _AuditedTurn) -> AuditRecord:
        response, error = end.response, end.error
        seen = response.request if response is not None else None
        record = self._turn_start("turn", request, seen)
        turn = audited.turn
        ledger = turn.ledger
        usage = ledger.usage
        record["outcome"] = _outcome(error)
        record["seconds"] = round(turn.runtime.clock() - ledger.started, 6)
        record["rounds"] = ledger.rounds
        record["model_calls"] = ledger.model_calls
        record["tool_calls"] = ledger.tool_calls
        record["input_tokens"] = usage.input_tokens
        record["output_tokens"] = usage.output_tokens
        if error is not None:
            record["error"] = _type_name(error)
        if response is not None:
            record["stop_reason"] = response.stop_reason
            record["bytes"] = _bytes(response.text)
            if response.direct_results:
                record["direct"] = [result.call_id for result in response.direct_results]
            if response.metadata:
                _take_metadata(record, response.metadata)
        attempts = request.context.get(ATTEMPTS)
        if attempts:  # of all model calls, not only of the one that answered
            most = max(
                [number for (id, key), number in attempts.items() if id == turn.id and isinstance(key, int)], default=0
            )
            if most:
                record["attempts"] = most
        if self.values:
            record["input"] = self.redaction.value(request.user_text, audited.secrets)
            record["output"] = None if response is None else self.redaction.value(response.text, audited.secrets)
        return record

    def _tool_start(self, kind: str, invocation: ToolInvocation) -> AuditRecord:
        request, call, tool = invocation.request, invocation.call, invocation.tool
        context = request.context
        turn = context.turn
        record: AuditRecord = {
            "kind": kind,
            "time": self.clock(),
            "turn": turn.id,
            "conversation": request.conversation_id,
            "round": invocation.round,
            "call": call.id,
            "tool": call.name[:200],
            "source": tool.source,
            "arguments_hash": self._digest(canonical_arguments(call.arguments)),
            "return_direct": tool.is_direct(context),
        }
        if turn.path:
            record["path"] = turn.path
        if tool.policy_name != tool.name:  # what the server calls it
            record["remote"] = tool.policy_name.removeprefix(f"{tool.source}/")[:200]
        return record

    def _tool_record(
        self, invocation: ToolInvocation, seconds: float, result: ToolResult | None, error: BaseException | None
    ) -> AuditRecord:
        record = self._tool_start("tool", invocation)
        record["seconds"] = round(seconds, 6)
        if result is None:
            record["outcome"] = _outcome(error)
            if error is not None:
                record["error"] = _type_name(error)
                if record["outcome"] == "cancelled" and tool_failure(error) is not None:
                    record["outcome"] = "error"  # a cancellation that the tool's transport has leaked, for one
            attempts = getattr(error, "attempts", None)
            if isinstance(attempts, int):
                record["attempts"] = attempts
        else:
            failure = result.failure
            record["outcome"] = "error" if result.is_error else "ok"
            record["bytes"] = _bytes(result.content)
            if result.parts:
                record["parts"] = len(result.parts)
            if failure is not None:
                record["outcome"] = failure.get("kind") or record["outcome"]
                record["error"] = failure.get("exception")
                record["class"] = failure.get("class")
                _take_metadata(record, failure)
            if result.metadata:
                _take_metadata(record, result.metadata)
        if self.values:
            self._add_values(record, invocation, result)
        return record

    def _add_values(self, record: AuditRecord, invocation: ToolInvocation, result: ToolResult | None) -> None:
        audited = invocation.context.get(self._key)
        secrets = audited.secrets if audited is not None else set[str]()
        arguments: Any = invocation.call.arguments or {}
        data: Any = None
        # Each value may give secrets away that stand in another one too, so all are looked at before one is recorded.
        with suppress(ValueError):
            data = from_json(arguments) if isinstance(arguments, str) else arguments
            self.redaction.value(data, secrets)
        value: Any = None
        if result is not None:
            value = result.artifact
            if value is None or isinstance(value, str | bytes | int | float):
                value = result.content
            record["result"] = self.redaction.value(value, secrets)
        if data is None:  # malformed: there are no fields to redact by, so nothing of it may be said
            record["arguments"] = f"[malformed: {len(arguments)} characters]"
            return
        try:  # as converted, the arguments give secrets away by type
            record["arguments"] = self.redaction.value(invocation.arguments, secrets)
        except Exception:  # invalid, so not converted
            record["arguments"] = self.redaction.value(data, secrets)
        if result is not None:
            record["result"] = self.redaction.value(value, secrets)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "ok"
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    return "error" if isinstance(error, Exception | SystemExit) else "cancelled"


def _type_name(error: BaseException) -> str:
    return type(unwrapped(error)).__name__


def _take_metadata(record: AuditRecord, metadata: Any) -> None:
    for name in ("attempts", "cache"):
        value = metadata.get(name)
        if value is not None:
            record[name] = value if isinstance(value, int | str) else len(value) if hasattr(value, "__len__") else None
