"""The spans of a process, kept until they are taken."""

from __future__ import annotations

from threading import Lock

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor


class SpanCollector(SpanProcessor):
    """Keeps finished spans until they are taken, and knows those that are not finished. For any threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[int, Span] = {}
        self._finished: list[ReadableSpan] = []
        self._closed = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Know a span that begins."""
        context = span.get_span_context()
        if context is not None and not self._closed:
            with self._lock:
                self._open[context.span_id] = span

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that is finished."""
        context = span.get_span_context()
        if context is not None and not self._closed:
            with self._lock:
                self._open.pop(context.span_id, None)
                self._finished.append(span)

    def take(self, *, unfinished: bool = False) -> list[ReadableSpan]:
        """What was finished since the last time; with ``unfinished`` also what has only begun."""
        with self._lock:
            taken, self._finished = self._finished, []
            if unfinished:
                taken += self._open.values()
                self._open = {}
        return taken

    def close(self) -> None:
        """Keep nothing more."""
        self._closed = True
        self.take(unfinished=True)
