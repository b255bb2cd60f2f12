"""The options with which a command shows or sends the trace of its turns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import typer

from ..models.http.addresses import shown_address
from .choice import UsageProblem

TraceOption = Annotated[bool, typer.Option("--trace", help="Print each turn's trace as a tree.")]
OtlpOption = Annotated[
    str | None,
    typer.Option("--otlp", metavar="URL", help="Send traces over OTLP/HTTP, for example to http://localhost:4318."),
]
TraceHtmlOption = Annotated[
    Path | None, typer.Option("--trace-html", metavar="FILE", help="Write the trace as one HTML page.")
]
TraceFileOption = Annotated[
    Path | None,
    typer.Option("--trace-file", metavar="FILE.jsonl", help="Append the trace's spans to a file, one per line."),
]
TraceContentOption = Annotated[
    bool,
    typer.Option("--trace-content", help="Traces hold messages, tool arguments and results too, not only names."),
]


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """What a command was told about traces.

    Args:
        tree: print each turn's trace.
        otlp: where to send traces; a URL without a path gets ``/v1/traces``.
        html: the page to write at the end.
        file: the file that spans are appended to.
        content: capture content; False: what ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says.

    Raises:
        UsageProblem: an option is wrong, or a file cannot be written there.
    """

    tree: bool = False
    otlp: str | None = None
    html: Path | None = None
    file: Path | None = None
    content: bool = False

    def __post_init__(self) -> None:
        if self.content and not self.wanted:
            raise UsageProblem("--trace-content goes with --trace, --otlp, --trace-html or --trace-file.")
        if self.otlp is not None:
            endpoint(self.otlp)
        for name, path in (("--trace-html", self.html), ("--trace-file", self.file)):
            if path is None:
                continue
            if path.is_dir():
                raise UsageProblem(f"{name} {str(path)!r}: that is a directory.")
            if not path.absolute().parent.is_dir():
                raise UsageProblem(f"{name} {str(path)!r}: there is no directory {str(path.parent)!r}.")
        if self.html is not None and self.file is not None and self.html.resolve() == self.file.resolve():
            raise UsageProblem(f"--trace-html and --trace-file need a file each: both name {str(self.file)!r}.")

    @property
    def wanted(self) -> bool:
        """Whether turns are traced."""
        return self.tree or self.otlp is not None or self.html is not None or self.file is not None


def endpoint(url: str) -> str:
    """Where the traces go: the URL, with ``/v1/traces`` when it has no path.

    Raises:
        UsageProblem: it is no URL of HTTP.
    """
    parts = urlsplit("")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise UsageProblem(f"--otlp takes a URL such as http://localhost:4318, not {shown_address(url)!r}.")
    return urlunsplit(parts._replace(path="/v1/traces")) if parts.path in ("", "/") else url
