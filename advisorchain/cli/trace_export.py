"""Spans sent to a server over OTLP/HTTP: never in the way of a turn, and with one line about what did not arrive."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from threading import Thread

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from ..errors import ConfigurationError
from ..models.http.addresses import shown_address
from .display import shortened
from .tracing_options import endpoint

TIMEOUT = 2.0
"""Seconds that one request may take, its retries included."""
PATIENCE = 2.5
"""Seconds that the end of the program waits for what is still to be sent."""

QUEUE = 50_000
"""Spans that may wait to be sent; ``OTEL_BSP_MAX_QUEUE_SIZE`` overrides it."""

_LOGGERS = ("opentelemetry.exporter", "opentelemetry.sdk", "urllib3")


class OtlpExport:
    """Sends spans in the background, and knows how many got lost and why.

    Args:
        url: of the server, as on the command line.

    Raises:
        ConfigurationError: the exporter is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError:
            raise ConfigurationError(
                "--otlp needs OpenTelemetry's exporter: pip install 'advisorchain[otlp]'."
            ) from None
        self._shown = shown_address(endpoint(url))
        self._log = _KeptRecords()
        self._exporter = _Counted(OTLPSpanExporter(endpoint(url), timeout=TIMEOUT))
        self._batches = _Batches(
            self._exporter, max_queue_size=None if os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else QUEUE
        )
        self._told = self._closed = False

    @property
    def processor(self) -> SpanProcessor:
        """What the provider is given."""
        return self._batches

    def problem(self) -> str | None:
        """What to tell the user about spans that did not arrive; once."""
        exporter = self._exporter
        dropped = self._closed and self._batches.given > exporter.sent + exporter.lost
        if self._told or not (exporter.lost or dropped):
            return None
        self._told = True
        what = "Part of the trace" if exporter.sent else "The trace"
        why = self._log.reason() if exporter.lost else "there was too much of it at once"
        return f"{what} did not reach {self._shown}: {why}."

    def close(self) -> None:
        """Send what is left; waits `PATIENCE` seconds at most."""
        closing = Thread(target=self._batches.shutdown, name="advisorchain-otlp-close", daemon=True)
        closing.start()
        closing.join(PATIENCE)
        if closing.is_alive():
            self._exporter.give_up()
        self._closed = True
        self._log.close()


class _Batches(BatchSpanProcessor):
    """Counts what it is given: when its queue is full it leaves spans out, and logs that only now and then."""

    given = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that is finished."""
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled:
            self.given += 1
        super().on_end(span)


class _Counted(SpanExporter):
    """Counts what its exporter could not send."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._given_up = False
        self.sent = self.lost = 0

    def give_up(self) -> None:
        """Send no more."""
        self._given_up = True
        self.lost += 1

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = SpanExportResult.FAILURE if self._given_up else self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()


class _KeptRecords(logging.Handler):
    """Keeps what the exporter logs, for a line of ours; nobody else gets it while this is open."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._messages: list[str] = []
        self._before = [(logger, logger.propagate) for logger in map(logging.getLogger, _LOGGERS)]
        for logger, _ in self._before:
            logger.addHandler(self)
            logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self._messages = [*self._messages[-9:], record.getMessage()]

    def close(self) -> None:
        """Let others get it again."""
        for logger, propagated in self._before:
            logger.removeHandler(self)
            logger.propagate = propagated
        super().close()

    def reason(self) -> str:
        """Why nothing arrived, in a few words."""
        for message in reversed(self._messages):
            for pattern, told in _REASONS:
                if found := re.search(pattern, message):
                    return shortened(told.format(*found.groups()), 120).rstrip(".")
        return f"no answer within {TIMEOUT:g} s"


_REASONS = (
    (r"code: (\d+), reason: ([^\n]*)", "it answered {} {}"),
    (r"\[Errno -?\d+\] ([\w ]+)", "{}"),
    (r"\[SSL: (\w+)\]", "TLS failed ({})"),
    (r"exceeds max_request_size", "there was too much of it at once"),
)
"""What the exporter logs, and what is told of it."""
