"""What a client's turns leave in a trace: spans in memory, their tree, and what must hold of every trace."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from advisorchain.telemetry import Telemetry

Tree = tuple[str, tuple["Tree", ...]]
"""A span's name and outcome, and its children in the order in which they began."""


class _Lives(SpanProcessor):
    def __init__(self) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.started.append(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.ended.append(span.context.span_id)


class Traced:
    """Providers of its own, and what they have recorded. ``telemetry(...)`` makes settings that use them."""

    def __init__(self, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.lives = _Lives()
        self.tracer_provider = TracerProvider(**settings)
        self.tracer_provider.add_span_processor(self.lives)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.reader])
        self.log_exporter = InMemoryLogRecordExporter()
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self.log_exporter))

    def telemetry(self, **settings: Any) -> Telemetry:
        return Telemetry(
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
            logger_provider=self.logger_provider,
            **settings,
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name or span.name.startswith(f"{name} ")]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def check(self) -> None:
        """Every span has ended, once; children lie within their parents and end before them."""
        assert Counter(self.lives.started) == Counter(self.lives.ended)
        assert not [identity for identity, count in Counter(self.lives.ended).items() if count != 1]
        by_id = {span.context.span_id: span for span in self.spans if span.context is not None}
        order = {identity: position for position, identity in enumerate(self.lives.ended)}
        for span in self.spans:
            assert span.context is not None
            if span.parent is None or span.parent.is_remote:
                continue
            parent = by_id[span.parent.span_id]
            assert parent.context is not None
            assert parent.context.trace_id == span.context.trace_id
            assert (parent.start_time or 0) <= (span.start_time or 0)
            assert order[span.context.span_id] < order[parent.context.span_id], f"{span.name} outlives {parent.name}"

    def tree(self, *, ordered: bool = True) -> tuple[Tree, ...]:
        """The trees, with what is told of each span's end; ``ordered=False``: for calls that run at once."""
        children: dict[int | None, list[ReadableSpan]] = {}
        known = {span.context.span_id for span in self.spans if span.context is not None}
        for span in self.spans:
            parent = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            children.setdefault(parent, []).append(span)

        def below(identity: int | None) -> tuple[Tree, ...]:
            found = [
                (told(span), below(span.context.span_id if span.context is not None else None))
                for span in children.get(identity, ())
            ]
            return tuple(found if ordered else sorted(found))

        return below(None)

    def metrics(self) -> dict[str, list[Any]]:
        """The data points of each instrument."""
        data = self.reader.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found.setdefault(metric.name, []).extend(metric.data.data_points)
        return found

    def exported(self) -> str:
        """Every byte that leaves: spans, metrics and events."""
        data = self.reader.get_metrics_data()
        records = [record.log_record for record in self.log_exporter.get_finished_logs()]
        return "\n".join([
            *(span.to_json() for span in self.spans),
            data.to_json() if data is not None else "",
            *(f"{record.event_name} {record.body} {record.attributes}" for record in records),
        ])  # fmt: skip


def told(span: ReadableSpan) -> str:
    """A span's name, kind, and what its end says; the same under call and stream."""
    attributes = span.attributes or {}
    said = [span.name, span.kind.name.lower(), span.status.status_code.name.lower()]
    for key in (
        "advisorchain.round", "advisorchain.advisor.outcome", "advisorchain.advisor.next_calls",
        "advisorchain.cancelled",
        "advisorchain.stop_reason", "advisorchain.rounds", "advisorchain.model_calls", "advisorchain.tool_calls",
        "error.type", "gen_ai.usage.input_tokens", "gen_ai.aggregated_usage.input_tokens", "advisorchain.path",
        "gen_ai.response.finish_reasons", "gen_ai.memory.record.count",
    ):  # fmt: skip
        if key in attributes:
            said.append(f"{key.rpartition('.')[2]}={attributes[key]}")
    said += [event.name for event in span.events]
    return " ".join(said)


@contextmanager
def no_complaints() -> Iterator[None]:
    """No record at ERROR of OpenTelemetry's own loggers: "Failed to detach context" is one."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                records.append(record)

    handler = Keep()
    watched = logging.getLogger("opentelemetry")
    watched.addHandler(handler)
    try:
        yield
    finally:
        watched.removeHandler(handler)
    assert not records, [record.getMessage() for record in records]
