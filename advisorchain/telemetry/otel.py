"""OpenTelemetry: providers, spans, events, propagation. The only module of the library that imports it.

Nothing is recorded until the application has set up a provider, and no provider is ever set up here. What is recorded
of which step of a turn is in ``tracing.py``, every name in ``names.py``. Names of the GenAI and MCP
conventions are in development: they may change with a minor version. Content (messages, tool arguments and results,
texts of errors) is left out unless it is asked for.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import Token
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, get_args

from opentelemetry import context as otel_context
from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import _internal
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from ..async_callable import is_async
from ..errors import ConfigurationError
from ..setting_checks import check_function, check_number
from ..version import __version__
from .capture import Capture
from .failures import error_type, is_cancellation
from .guarded import ignored
from .names import CANCELLED, ERROR_TYPE, Instruments
from .safe_values import MAX_NAME_CHARS, safe_attributes, safe_text
from .tracing import Tracing

if TYPE_CHECKING:
    from ..observation import Observer

logger = logging.getLogger("advisorchain.telemetry")

CaptureContent = Literal["none", "span", "event", "both"]
"""Where content goes: nowhere, onto spans, into events (log records), or both."""
AdvisorSpans = Literal["all", "custom", "none"]
"""Which advisors have spans: all, those that are not built in, or none."""
Redact = Callable[[str, Any], Any]
"""``redact(attribute, value)``: what is captured instead of the value (plain JSON data); None leaves it out."""

_VARIABLES = set(os.environ)
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_FROM_ENVIRONMENT: dict[str, CaptureContent] = {
    "": "none", "NO_CONTENT": "none", "FALSE": "none",
    "SPAN_ONLY": "span", "TRUE": "span", "EVENT_ONLY": "event", "SPAN_AND_EVENT": "both",
}  # fmt: skip
MAX_CONTENT_BYTES = 65_536
"""How large one captured attribute may be: backends drop a whole batch above some 4 MiB."""
_SCOPE = "advisorchain"
_LONGEST_PARENT, _LONGEST_STATE = 512, 8_192
"""Of what came from outside: OpenTelemetry warns of what is longer, so that a stranger could fill the log."""
_PROVIDER_VARIABLES = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")


class Telemetry:
    """How a client's turns are traced: ``ChatClient(..., telemetry=Telemetry(capture_content="span"))``.

    Args:
        tracer_provider: default: the global one, once the application has set it.
        meter_provider: as above.
        logger_provider: as above; for events.
        capture_content: where messages, tool arguments and results, and texts of errors go. Default: what the variable
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says (``NO_CONTENT``, ``SPAN_ONLY``, ``EVENT_ONLY``,
            ``SPAN_AND_EVENT``), else nowhere.
        max_content_bytes: of one captured attribute; texts are cut so that it fits, and it stays valid JSON.
        redact: sees everything that is captured, and may change it or leave it out.
        advisor_spans: which advisors have spans.
        chunk_metrics: measure the time between the chunks of streamed answers; costs a little per chunk.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        logger_provider: Any = None,
        capture_content: CaptureContent | None = None,
        max_content_bytes: int = MAX_CONTENT_BYTES,
        redact: Redact | None = None,
        advisor_spans: AdvisorSpans = "all",
        chunk_metrics: bool = False,
    ) -> None:
        if capture_content is not None and capture_content not in get_args(CaptureContent):
            raise ConfigurationError(
                f"capture_content must be one of {get_args(CaptureContent)}, not {capture_content!r}."
            )
        if advisor_spans not in get_args(AdvisorSpans):
            raise ConfigurationError(f"advisor_spans must be one of {get_args(AdvisorSpans)}, not {advisor_spans!r}.")
        check_number("max_content_bytes", max_content_bytes, least=256, whole=True)
        check_function("redact", redact, "an attribute's name and its value")
        if is_async(redact):
            raise ConfigurationError("redact must not be async: spans end where nothing can be awaited.")
        for what, provider, method in (
            ("tracer_provider", tracer_provider, "get_tracer"),
            ("meter_provider", meter_provider, "get_meter"),
            ("logger_provider", logger_provider, "get_logger"),
        ):
            if provider is not None and not callable(getattr(provider, method, None)):
                raise ConfigurationError(f"{what} must be an OpenTelemetry provider, not {provider!r}.")
        self._providers = (tracer_provider, meter_provider, logger_provider)
        self.capture_content: CaptureContent = capture_content or _captured_by_environment()
        self.max_content_bytes = max_content_bytes
        self.redact = redact
        self.advisor_spans: AdvisorSpans = advisor_spans
        self.chunk_metrics = chunk_metrics
        self._events_alone = logger_provider is not None or self.capture_content in ("event", "both")
        self._tracing: tuple[tuple[Any, ...], Tracing | None] = ((), None)

    def with_providers(self, tracer_provider: Any, meter_provider: Any) -> Telemetry:
        """A copy with these providers where they are given."""
        own = self._providers
        return Telemetry(
            tracer_provider=own[0] if tracer_provider is None else tracer_provider,
            meter_provider=own[1] if meter_provider is None else meter_provider, logger_provider=own[2],
            capture_content=self.capture_content, max_content_bytes=self.max_content_bytes, redact=self.redact,
            advisor_spans=self.advisor_spans, chunk_metrics=self.chunk_metrics,
        )  # fmt: skip

    def observer(self) -> Observer | None:
        """What watches a turn that begins now; None as long as no provider is there."""
        tracers, meters, loggers = self._providers
        if tracers is None and not _is_unset(trace, "_TRACER_PROVIDER", _PROVIDER_VARIABLES[0]):
            tracers = _global("opentelemetry.trace", trace.get_tracer_provider)
        if meters is None and not _is_unset(_internal, "_METER_PROVIDER", _PROVIDER_VARIABLES[1]):
            meters = _global("opentelemetry.metrics", metrics.get_meter_provider)
        if tracers is None and meters is None and not self._events_alone:
            return None
        if loggers is None and (logs := sys.modules.get("opentelemetry._logs")) is not None:
            loggers = _global("opentelemetry._logs", logs.get_logger_provider)
        if tracers is None and meters is None and loggers is None:
            return None
        providers = (tracers, meters, loggers)
        known, tracing = self._tracing
        if known != providers:
            tracing = Tracing(self, Recorder(self, *providers))
            self._tracing = (providers, tracing)
        return tracing


def _captured_by_environment() -> CaptureContent:
    said = os.environ.get(CAPTURE_VARIABLE, "").strip()
    found = _FROM_ENVIRONMENT.get(said.upper())
    if found is None:
        logger.warning("%s=%r is none of %s: no content is captured.", CAPTURE_VARIABLE, said, [*_FROM_ENVIRONMENT][1:])
        return "none"
    return found


def _is_unset(module: Any, attribute: str, variable: str) -> bool:
    """Whether nobody has set a global provider, as far as a look tells: asking for it costs a microsecond per turn."""
    return getattr(module, attribute, variable) is None and variable not in _VARIABLES


def _global(package: str, get: Callable[[], Any]) -> Any:
    """The global provider, or None as long as it is the API's own, which does nothing."""
    try:
        provider = get()
    except Exception as error:  # a variable names one that cannot be made, which is not tried again
        ignored(error)
        _VARIABLES.difference_update(_PROVIDER_VARIABLES)
        return None
    return None if type(provider).__module__.startswith(package) else provider


DEFAULT = Telemetry()
"""What a client has that was given nothing else: the global providers."""


class Work:
    """A span that is current while its block runs, and ends once, however that ends.

    The block may set ``late``, attributes for the end, and ``failed``, the kind of an error that is no exception.
    """

    __slots__ = ("span", "recording", "late", "failed", "seconds", "_capture", "_token", "_began")

    def __init__(self, span: Span, capture: Capture | None = None) -> None:
        self.span = span
        self.recording = span.is_recording()
        self.late: dict[str, Any] = {}
        self.failed: str | None = None
        self.seconds = 0.0
        self._capture = capture
        self._token: Token[otel_context.Context] | None = None

    def __enter__(self) -> Work:
        # A span that is not recorded is made current too, if it is valid: what is inside must not be recorded either.
        if self.span.get_span_context().is_valid:
            self._token = otel_context.attach(trace.set_span_in_context(self.span))
        self._began = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        self.seconds = perf_counter() - self._began
        # The loop was closed under a task that still ran: its context is gone, and with it what was attached.
        if self._token is not None and kind is not GeneratorExit:
            otel_context.detach(self._token)
        if error is not None:
            if is_cancellation(error):
                self.late[CANCELLED] = True
            else:
                self.failed = error_type(error)
        if self.recording:
            self.recording = False  # what a task says that has outlived it is too late
            try:
                self._end(error)
            except Exception as failure:
                ignored(failure)

    def _end(self, error: BaseException | None) -> None:
        try:
            if self.failed is not None:
                self.late[ERROR_TYPE] = safe_text(self.failed, MAX_NAME_CHARS)
                text = self._capture.error_text(error) if error is not None and self._capture is not None else None
                self.span.set_status(Status(StatusCode.ERROR, text))
            if self.late:
                self.span.set_attributes(self.late)
        finally:
            self.span.end()

    def event(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Something that happens while it runs."""
        if self.recording:
            _add_event(self.span, name, attributes)

    def rename(self, name: str) -> None:
        """Give the span the name that was not known when it began."""
        if self.recording:
            self.span.update_name(safe_text(name, MAX_NAME_CHARS))


def _add_event(span: Span, name: str, attributes: Mapping[str, Any]) -> None:
    try:
        span.add_event(name, dict(attributes))
    except Exception as error:
        ignored(error)


_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}


class Recorder:
    """The providers' tracer, instruments and logger, as far as there are any.

    Attributes:
        traces: whether spans are made.
        instruments: None without a meter provider.
    """

    def __init__(self, settings: Telemetry, tracers: Any, meters: Any, loggers: Any) -> None:
        version = __version__
        self._tracer: trace.Tracer | None = _made(tracers, lambda of: of.get_tracer(_SCOPE, version))
        self._logger = _made(loggers, lambda of: of.get_logger(_SCOPE, version))
        self.instruments = _made(meters, lambda of: Instruments(of.get_meter(_SCOPE, version)))
        self.traces = self._tracer is not None
        self.logs = self._logger is not None
        self.capture = Capture(settings.redact, settings.max_content_bytes)
        self._on_spans = self.capture if settings.capture_content in ("span", "both") else None

    def work(
        self, name: str, kind: str, attributes: Mapping[str, Any] | None, received: Mapping[str, Any] | None = None
    ) -> Work:
        """A span that begins now; its parent is the current one, or that of a ``received`` trace context.

        What is current then (the HTTP request that brought it, say) is linked.
        """
        tracer = self._tracer
        if tracer is None:
            return Work(trace.INVALID_SPAN)
        if not name.isascii() or len(name) > MAX_NAME_CHARS:
            name = safe_text(name, MAX_NAME_CHARS)
        about = attributes if attributes is None else safe_attributes(attributes)
        try:
            if received is None:
                return Work(tracer.start_span(name, kind=_KINDS[kind], attributes=about), self._on_spans)
            remote, here = _remote(received), trace.get_current_span().get_span_context()
            links = [Link(here)] if remote is not None and _is_other(here, remote) else None
            return Work(tracer.start_span(name, remote, _KINDS[kind], about, links), self._on_spans)
        except Exception as error:
            ignored(error)
            return Work(trace.INVALID_SPAN)

    @staticmethod
    def is_dropped() -> bool:
        """Whether what is current belongs to a trace that is not recorded."""
        span = trace.get_current_span()
        return not span.is_recording() and span.get_span_context().is_valid

    def carrier(self) -> dict[str, str]:
        """What is current, as ``traceparent`` and ``tracestate``."""
        carrier: dict[str, str] = {}
        if self.traces:
            try:
                propagate.inject(carrier)
            except Exception as error:
                ignored(error)
        return carrier

    def event(self, name: str, attributes: Mapping[str, Any], *, warning: bool = False) -> None:
        """A log record of its own, which belongs to the current span."""
        if self._logger is not None:
            from opentelemetry._logs import SeverityNumber

            severity = SeverityNumber.WARN if warning else SeverityNumber.INFO
            try:
                self._logger.emit(event_name=name, attributes=dict(attributes), severity_number=severity)
            except Exception as error:
                ignored(error)

    def note(self, name: str, attributes: Mapping[str, Any]) -> None:
        """An event of the current span; of safe values."""
        span = trace.get_current_span()
        if self.traces and span.is_recording():
            _add_event(span, name, attributes)


def _made(provider: Any, make: Callable[[Any], Any]) -> Any:
    """What the provider makes, or None: without it, or when it fails."""
    try:
        return None if provider is None else make(provider)
    except Exception as error:
        ignored(error)
        return None


def _is_other(here: trace.SpanContext, remote: otel_context.Context) -> bool:
    """Whether what is current is a span, and not the remote one: a server in the client's process sees it twice."""
    return here.is_valid and here.span_id != trace.get_current_span(remote).get_span_context().span_id


def _remote(received: Mapping[str, Any]) -> otel_context.Context | None:
    """The context of a carrier that came from outside, or None when it holds no trace."""
    texts = {
        key: value
        for key, value in received.items()
        if isinstance(value, str) and len(value) <= (_LONGEST_PARENT if key == "traceparent" else _LONGEST_STATE)
    }
    context = propagate.extract(texts)
    return context if trace.get_current_span(context).get_span_context().is_remote else None
