"""What is recorded of each step of a turn: `Tracing`, the observer that telemetry gives to turns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..messages import ToolCall
from . import content, names
from .attributes import answered, request_attributes, response_attributes, told_by
from .counted_next import CountedNext
from .current import RUNNING_TOOL, SERVED, Held, RunningTool
from .failures import error_type, is_cancellation
from .first_chunk import FirstChunk
from .safe_values import MAX_NAME_CHARS, safe_attributes, safe_text

if TYPE_CHECKING:
    from ..chain import Entry
    from ..context import Turn
    from ..observation import Attributes
    from ..tools.definition import Tool
    from .otel import Recorder, Telemetry, Work

T = TypeVar("T")

logger = logging.getLogger("advisorchain.telemetry")

_BUILT_IN = "advisorchain."


class Tracing:
    """Records turns with a `Recorder`; see `Observer` for what each hook is."""

    def __init__(self, settings: Telemetry, recorder: Recorder) -> None:
        self._recorder = recorder
        self._instruments = recorder.instruments
        self._custom = settings.advisor_spans == "custom"
        self._capture = recorder.capture
        self._chunk_metrics = settings.chunk_metrics and self._instruments is not None
        self._on_spans = settings.capture_content in ("span", "both") and recorder.traces
        self._in_events = settings.capture_content in ("event", "both") and recorder.logs
        self.advisors = settings.advisor_spans != "none" and (recorder.traces or self._instruments is not None)

    # A turn ----------------------------------------------------------------------------------------------------------

    async def turn(
        self, client: str, request: ChatRequest, run: Callable[[], Awaitable[ChatResponse[Any]]]
    ) -> ChatResponse[Any]:
        """``invoke_agent {client}``."""
        turn, client = request.context.turn, safe_text(client, MAX_NAME_CHARS)
        attributes: dict[str, Any] = {
            names.OPERATION: "invoke_agent",
            names.AGENT: client,
            names.TURN: turn.id,
            names.MODE: "stream" if request.streaming else "call",
        }
        if request.conversation_id is not None:
            attributes[names.CONVERSATION] = request.conversation_id
        if turn.path:
            attributes[names.PATH] = "/".join(turn.path)
        work = self._recorder.work(f"invoke_agent {client}", "internal", attributes)
        try:
            with Held(SERVED, None), work:
                if self._on_spans and work.recording:
                    self._capture.put(work.late, names.INPUT_MESSAGES, content.input_messages, turn.messages)
                try:
                    response = await run()
                    work.late[names.STOP_REASON] = safe_text(response.stop_reason, MAX_NAME_CHARS)
                    if self._on_spans and work.recording:
                        self._capture.answer(work.late, response)
                    return response
                finally:
                    ledger = turn.ledger
                    work.late[names.ROUNDS] = ledger.rounds
                    work.late[names.MODEL_CALLS] = ledger.model_calls
                    work.late[names.TOOL_CALLS] = ledger.tool_calls
                    if work.recording:
                        work.late.update(names.usage_attributes(ledger.usage, "gen_ai.aggregated_usage"))
        finally:
            if (instruments := self._instruments) is not None:
                about = _told(work, {names.AGENT: client})
                instruments.turn.record(work.seconds, about)
                instruments.turn_model_calls.record(turn.ledger.model_calls, about)
                instruments.turn_tool_calls.record(turn.ledger.tool_calls, about)

    # Advisors --------------------------------------------------------------------------------------------------------

    async def advise(self, entry: Entry, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """``advisor {name}``."""
        assert entry.advise is not None
        if self._leaves_out(entry):
            return await entry.advise(request, call_next)
        with self._recorder.work(f"advisor {entry.name}", "internal", None) as work:
            counted = CountedNext(call_next, work, entry.is_tool_loop)
            try:
                response = await entry.advise(request, counted)
            except BaseException as error:
                self._end_advisor(entry, work, counted, request, "chat", error)
                raise
            self._end_advisor(entry, work, counted, request, "chat")
            return response

    async def advise_tool(self, entry: Entry, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """``advisor {name}``, around a tool call."""
        assert entry.advise_tool is not None
        if self._leaves_out(entry):
            return await entry.advise_tool(invocation, call_next)
        with self._recorder.work(f"advisor {entry.name}", "internal", None) as work:
            counted = CountedNext(call_next, work, False)
            try:
                result = await entry.advise_tool(invocation, counted)
            except BaseException as error:
                self._end_advisor(entry, work, counted, invocation.request, "tool", error)
                raise
            self._end_advisor(entry, work, counted, invocation.request, "tool")
            return result

    def _leaves_out(self, entry: Entry) -> bool:
        """Whether this pass has no span: of a built-in advisor, or below a span that is not recorded either."""
        if self._custom and (type(entry.advisor).__module__ + ".").startswith(_BUILT_IN):
            wrapped = getattr(entry.advise or entry.advise_tool, "__module__", None)  # a function's, if it is one
            if (str(wrapped) + ".").startswith(_BUILT_IN):
                return True
        return self._instruments is None and self._recorder.is_dropped()

    def _end_advisor(
        self,
        entry: Entry,
        work: Work,
        counted: CountedNext,
        request: ChatRequest,
        wraps: str,
        error: BaseException | None = None,
    ) -> None:
        if error is not None:
            outcome = "cancelled" if is_cancellation(error) else "error"
        elif counted.calls:
            outcome = "proceeded"
        else:
            outcome = "short_circuited"
            if (instruments := self._instruments) is not None:
                instruments.short_circuits.add(1, {names.ADVISOR: entry.name})
        if not work.recording:
            return
        # All at the end, in one call, which is what recording a span costs most: samplers have its name.
        work.late = about = {
            names.ADVISOR: entry.name,
            names.ADVISOR_ORDER: entry.order,
            names.ADVISOR_TYPE: type(entry.advisor).__qualname__,
            names.ADVISOR_WRAPS: wraps,
            names.ADVISOR_OUTCOME: outcome,
            names.ADVISOR_NEXT_CALLS: counted.calls,
            names.OPENINFERENCE_KIND: told_by(entry.advisor, "span_kind", str, "CHAIN"),
        }
        if request.round:
            about[names.ROUND] = request.round
        if entry.is_tool_loop and wraps == "chat":
            about[names.TOOL_LOOP] = True

    # Models ----------------------------------------------------------------------------------------------------------

    async def model_call(self, name: str, model: ChatNext, request: ChatRequest, run: ChatNext) -> ChatResponse[Any]:
        """``chat {model}``."""
        provider = told_by(model, "provider", str)
        common = safe_attributes({
            names.OPERATION: "chat",
            names.PROVIDER: provider or names.OTHER,
            names.REQUEST_MODEL: request.options.model or name,
            names.SERVER_ADDRESS: told_by(model, "server_address", str),
            names.SERVER_PORT: told_by(model, "server_port", int),
        })  # fmt: skip
        attributes = common | safe_attributes(request_attributes(request))
        kind = "client" if provider else "internal"
        work = self._recorder.work(f"chat {common[names.REQUEST_MODEL]}", kind, attributes)
        first: FirstChunk | None = None
        response: ChatResponse[Any] | None = None
        try:
            with work:
                if request.streaming:
                    first = FirstChunk(request, self._gap_recorder(common))
                    request = first.request
                if self._on_spans and work.recording:
                    self._capture.request(work.late, request)
                try:
                    response = await run(request)
                except Exception as error:
                    self._tell_exception(error)
                    raise
                if work.recording and isinstance(response, ChatResponse):
                    work.late.update(response_attributes(response))
                    if first is not None and first.seconds is not None:
                        work.late[names.FIRST_CHUNK] = first.seconds
                    if self._on_spans:
                        self._capture.answer(work.late, response)
                if self._in_events and isinstance(response, ChatResponse):
                    self._tell_details(attributes, request, response)
                return response
        finally:
            if self._instruments is not None:
                self._measure_model(work, common, response, first)

    def _gap_recorder(self, common: Mapping[str, Any]) -> Callable[[float], None] | None:
        if not self._chunk_metrics or self._instruments is None:
            return None
        record = self._instruments.per_chunk.record
        return lambda seconds: record(seconds, common)

    def _measure_model(
        self, work: Work, common: dict[str, Any], response: ChatResponse[Any] | None, first: FirstChunk | None
    ) -> None:
        instruments = self._instruments
        assert instruments is not None
        about = _told(work, common)
        if isinstance(response, ChatResponse):
            if (model := answered(response, "model")) is not None:
                about[names.RESPONSE_MODEL] = safe_text(model)
            for kind in ("input", "output"):
                if (tokens := names.token_count(response.usage, f"{kind}_tokens")) is not None:
                    instruments.tokens.record(tokens, {**about, names.TOKEN_TYPE: kind})
        instruments.model.record(work.seconds, about)
        if first is not None and first.seconds is not None:
            instruments.first_chunk.record(first.seconds, about)

    # Tools -----------------------------------------------------------------------------------------------------------

    async def tool_call(
        self, request: ChatRequest, call: ToolCall, tool: Tool, direct: bool, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """``execute_tool {tool}``. A name that is no tool's is the model's invention: content."""
        began = perf_counter()
        name = safe_text(call.name, MAX_NAME_CHARS) if tool.source != "unknown" else names.OTHER
        common = {names.OPERATION: "execute_tool", names.TOOL: name}
        attributes: dict[str, Any] = {
            **common,
            names.TOOL_CALL: call.id,
            names.TOOL_TYPE: "function",
            names.TOOL_SOURCE: tool.source,
            names.TOOL_DIRECT: direct,
        }
        if request.round:
            attributes[names.ROUND] = request.round
        if tool.description:
            attributes[names.TOOL_DESCRIPTION] = content.cut(tool.description, content.CUTS[2])
        covering = SERVED.get()
        if covering is None:
            work: Work = self._recorder.work(f"execute_tool {name}", "internal", attributes)
            span: AbstractContextManager[Any] = work
        else:
            SERVED.set(None)  # what the tool itself calls has spans of its own
            covering.late.update(safe_attributes(attributes))
            covering.rename(f"tools/call {name}")
            work, span = covering, nullcontext()
        described: dict[str, Any] = {}
        try:
            with span, Held(RUNNING_TOOL, RunningTool(request.context.turn, call.id, work, described)):
                if self._on_spans and work.recording:
                    self._capture.put(work.late, names.TOOL_ARGUMENTS, content.plain, call.arguments)
                try:
                    result = await run()
                except BaseException as error:
                    if not is_cancellation(error):
                        work.failed = error_type(error)
                    raise
                finally:
                    work.late.update(described)
                if result.is_error:
                    work.failed = _failure_of(result, described)
                if self._on_spans and work.recording:
                    self._capture.put(work.late, names.TOOL_RESULT, content.cut, result.content)
                return result
        finally:
            if (instruments := self._instruments) is not None:
                about, seconds = _told(work, common), perf_counter() - began
                instruments.tool.record(seconds, about)
                if (method := described.get(names.MCP_METHOD)) is not None:
                    instruments.mcp_client.record(seconds, {**about, names.MCP_METHOD: method})

    def describe_tool_call(self, turn: Turn, call_id: str, attributes: Attributes) -> None:
        """Attributes for the end of the tool call's span."""
        running = RUNNING_TOOL.get()
        if running is not None and running.turn is turn and running.call_id == call_id:
            running.described.pop(names.RPC_STATUS, None)  # of an earlier attempt
            running.described.update(safe_attributes(attributes))

    def carrier(self) -> dict[str, str]:
        """The current span as a trace context."""
        return self._recorder.carrier()

    @contextmanager
    def served(
        self, method: str, target: str | None, meta: Attributes, attributes: Attributes
    ) -> Generator[Callable[[str | None], None]]:
        """``{method} {target}`` of a served request, a child of the span that the client has told of."""
        if method not in names.MCP_METHODS:
            method = names.OTHER
        about: dict[str, Any] = {names.MCP_METHOD: method, **attributes}
        if target is not None:
            about |= {names.OPERATION: "execute_tool", names.TOOL: target}
        name = method if target is None else f"{method} {target}"
        work = self._recorder.work(name, "server", about, meta)

        def fail(kind: str | None) -> None:
            work.failed = kind

        try:
            with Held(SERVED, work if target is not None else None), work:
                try:
                    yield fail
                except Exception as error:
                    if (code := error_type(error)).lstrip("-").isdigit():
                        work.late[names.RPC_STATUS] = code
                    raise
        finally:
            if (instruments := self._instruments) is not None:
                known = {names.MCP_METHOD: method}
                if target is not None:
                    known[names.TOOL] = work.late.get(names.TOOL, target)
                instruments.mcp_server.record(work.seconds, _told(work, known))

    # Notes and operations --------------------------------------------------------------------------------------------

    async def operation(self, name: str, running: Awaitable[T], target: str, attributes: Attributes | None) -> T:
        """``{name}`` or ``{name} {target}``."""
        name, target = safe_text(name, MAX_NAME_CHARS), safe_text(target, MAX_NAME_CHARS)
        known = names.OPERATIONS.get(name, names.OTHER_OPERATION)
        own = {names.MCP_METHOD if known.client else names.OPERATION: name, names.OPENINFERENCE_KIND: known.kind}
        if target:
            own[known.target] = target
        about = own | safe_attributes(attributes) | own  # ours count, and come first: what is too much is left out
        span_name = f"{name} {target}" if known.in_name and target else name
        work = self._recorder.work(span_name, "client" if known.client else "internal", about)
        try:
            with work:
                found = await running
                if (count := _count(found)) is not None:
                    work.late[known.found] = count
                    if name == "retrieval" and self._instruments is not None:
                        self._instruments.hits.record(count, {known.target: target})
                return found
        finally:
            if known.client and self._instruments is not None:
                self._instruments.mcp_client.record(work.seconds, _told(work, {names.MCP_METHOD: name}))

    def note(self, name: str, attributes: Attributes | None) -> None:
        """An event of the current span; counted, if it is one of `names.NOTES`."""
        name, about = safe_text(name, MAX_NAME_CHARS), safe_attributes(attributes)
        self._recorder.note(name, about)
        known = names.NOTES.get(name)
        if known is None or self._instruments is None:
            return
        labels = {key: about[key] for key in known.by if key in about}
        instrument = getattr(self._instruments, known.instrument)
        if known.value is None:
            instrument.add(1, labels)
        elif (state := names.BREAKER_STATES.get(about.get(known.value, ""))) is not None:
            instrument.set(state, labels)

    # Events ----------------------------------------------------------------------------------------------------------

    def _tell_details(self, asked: dict[str, Any], request: ChatRequest, response: ChatResponse[Any]) -> None:
        about = {**asked, **response_attributes(response), **self._capture.exchange(request, response)}
        self._recorder.event(names.INFERENCE_DETAILS, about)

    def _tell_exception(self, error: BaseException) -> None:
        if not self._recorder.logs:
            return
        about = {names.EXCEPTION_TYPE: type(error).__qualname__}
        if self._in_events:
            self._capture.put(about, names.EXCEPTION_MESSAGE, content.exception_text, error)
        self._recorder.event(names.OPERATION_EXCEPTION, about, warning=True)


def _told(work: Work, about: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a measurement: with the kind of the error, if there was one."""
    return {**about} if work.failed is None else {**about, names.ERROR_TYPE: safe_text(work.failed, MAX_NAME_CHARS)}


def _failure_of(result: ToolResult, described: Mapping[str, Any]) -> str:
    """The kind of an error result: the code that an MCP server answered with, else the exception's class."""
    kind = str((result.failure or {}).get("exception") or "tool_error")
    return str(described.get(names.RPC_STATUS, kind)) if kind == "McpError" else kind


def _count(found: Any) -> int | None:
    """How many were found; a text is one thing, and some things fail to tell."""
    if not isinstance(found, Sized) or isinstance(found, str | bytes):
        return None
    try:
        return len(found)
    except Exception:
        return None
