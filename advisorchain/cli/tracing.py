"""The traces of a command's turns: sets up OpenTelemetry's SDK, and prints, writes and sends what it records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ..errors import AdvisorChainError
from .choice import UsageProblem
from .display import one_line
from .tracing_options import TracingOptions

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

    from .trace_export import OtlpExport
    from .trace_spans import TraceSpan

SERVICE = "advisorchain"

_own_process = False


def trace_whole_process() -> None:
    """Let tracing be the process's own: spans of other libraries are recorded too. For the program only."""
    global _own_process
    _own_process = True


class Tracing:
    """Traces what the options ask for, while it is entered; at the end everything is printed, written and sent.

    It ends so after an error, Ctrl-C and SIGTERM too: with the spans that there are, unfinished ones included.
    Without such options it does nothing, and loads nothing.

    Args:
        options: what to do with traces.
        title: of the HTML page.
        console: where trees are printed.

    Attributes:
        telemetry: for ``ChatClient(telemetry=…)``.

    Raises:
        UsageProblem: the file cannot be written.
        ConfigurationError: the exporter of ``--otlp`` is not installed.
    """

    def __init__(self, options: TracingOptions, title: str, console: Console) -> None:
        self._options = options
        self._title = title
        self._console = console
        self._kept: list[TraceSpan] = []  # for the page
        self._turns = self._recorded = 0
        self._export: OtlpExport | None = None
        self._spans: Any = None
        self._file_failed = False
        self.telemetry: Any = True
        if options.wanted:
            self._set_up()

    def _set_up(self) -> None:
        from ..telemetry import Telemetry
        from .trace_collector import SpanCollector

        options = self._options
        if options.html is not None:
            _check_page(options.html)
        if options.file is not None:
            try:
                options.file.open("a").close()
            except OSError as exc:
                raise UsageProblem(f"--trace-file {str(options.file)!r}: {exc.strerror or exc}.") from None
        if options.otlp is not None:
            from .trace_export import OtlpExport

            self._export = OtlpExport(options.otlp)
        self._spans = SpanCollector()
        processors: list[SpanProcessor] = [self._spans]
        if self._export is not None:
            processors.append(self._export.processor)
        provider = _provider(processors)
        self.telemetry = Telemetry(tracer_provider=provider, capture_content="span" if options.content else None)

    def __enter__(self) -> Tracing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._spans is None:
            return
        try:
            self._show(self._spans.take(unfinished=True))
            if self._turns and not self._recorded and error is None:
                self._warn("No spans were recorded: a variable OTEL_SDK_DISABLED or OTEL_TRACES_SAMPLER may say so.")
        finally:  # a terminal that is gone does not keep the page from being written
            self._write_page()
            self._spans.close()
            if self._export is not None:
                self._export.close()
                self._tell_losses()

    def throw_away(self) -> Any:
        """For a client whose turns nobody wants to see: traced like the others, so that it loads what they need."""
        if self._spans is None:
            return False
        from opentelemetry.sdk.trace import TracerProvider

        from ..telemetry import Telemetry

        return Telemetry(tracer_provider=TracerProvider(shutdown_on_exit=False))

    def turn_done(self) -> None:
        """Print and write the turn that has ended; its spans are not kept unless the page needs them."""
        if self._spans is not None:
            self._turns += 1
            self._show(self._spans.take())
            self._tell_losses()

    def _show(self, spans: Sequence[ReadableSpan]) -> None:
        if not spans:
            return
        from .trace_spans import span_of
        from .trace_tree import print_trace

        self._recorded += len(spans)
        self._write_lines(spans)
        if not self._options.tree and self._options.html is None:
            return
        found = [span_of(span) for span in spans]
        if self._options.html is not None:
            self._kept += found
        if self._options.tree:
            self._console.print()
            print_trace(self._console, found)

    def _write_lines(self, spans: Sequence[ReadableSpan]) -> None:
        path = self._options.file
        if path is None or self._file_failed:
            return
        try:
            lines = "".join(f"{span.to_json(indent=None)}\n" for span in spans)
            with path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except (OSError, TypeError, ValueError) as exc:
            self._file_failed = True
            self._warn(f"The trace file {path} could not be written: {getattr(exc, 'strerror', None) or exc}.")

    def _write_page(self) -> None:
        from .trace_page import write_trace_page

        if self._options.html is None or not self._kept:
            return
        try:
            write_trace_page(self._kept, self._options.html, self._title)
        except AdvisorChainError as exc:
            self._warn(str(exc))

    def _tell_losses(self) -> None:
        problem = self._export.problem() if self._export is not None else None
        if problem is not None:
            self._warn(problem)

    def _warn(self, text: str) -> None:
        typer.echo(f"warning: {one_line(text)}", err=True)


def _check_page(path: Path) -> None:
    """Refuse to replace what is no page of ours."""
    from .trace_page import is_trace_page

    try:
        if path.exists() and path.stat().st_size and not is_trace_page(path):
            raise UsageProblem(f"--trace-html {str(path)!r}: that file is no trace page, and is not replaced.")
    except OSError as exc:
        raise UsageProblem(f"--trace-html {str(path)!r}: {exc.strerror or exc}.") from None


def _provider(processors: Sequence[SpanProcessor]) -> TracerProvider:
    """The provider that is there if it is the SDK's, else one of ours."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider() if _own_process else None
    if not isinstance(provider, TracerProvider):
        resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME") or SERVICE})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        if _own_process:
            trace.set_tracer_provider(provider)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def not_traced(console: Console) -> Tracing:
    """What does nothing."""
    return Tracing(TracingOptions(), "", console)
