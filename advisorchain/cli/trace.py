"""``advisorchain trace``: show the trace of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .choice import UsageProblem
from .display import one_line, open_console
from .problems import one_line_errors

trace_app = typer.Typer(
    name="trace",
    help="Show traces that --trace-file wrote.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@trace_app.callback()
def trace() -> None:
    """Show traces that --trace-file wrote."""


@trace_app.command("view")
def view(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that --trace-file wrote, or OTLP JSON lines of a collector.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PAGE", help="The page; default: FILE, ending in .html.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no page of this command.")] = False,
) -> None:
    """Make one HTML page of a trace file: the chain, the timeline, the details of every span. It needs no network.

    A page of this command that is there already is replaced; any other file only with --force.
    """
    from .trace_page import count_turns, write_trace_page
    from .trace_spans import read_spans

    with one_line_errors():
        spans = read_spans(file)
        page = output if output is not None else file.with_suffix(".html")
        _check(page, file, force)
        write_trace_page(spans, page, file.name)
        turns = count_turns(spans)
        text = f"wrote {page}: {_counted(turns, 'turn')}, {_counted(len(spans), 'span')}"
        open_console().print(Text(one_line(text)), soft_wrap=True)


def _check(page: Path, file: Path, force: bool) -> None:
    """Refuse to replace what is not ours to replace.

    Raises:
        UsageProblem: the page is the trace file itself, a directory, or a file that is no page.
    """
    from .trace_page import is_trace_page

    try:
        if not page.exists():
            return
        if page.samefile(file):
            raise UsageProblem(f"The page would replace its trace file {file}: name another one with -o.")
        if page.is_dir():
            raise UsageProblem(f"{page} is a directory: name a file with -o.")
        if page.is_file() and page.stat().st_size and not force and not is_trace_page(page):
            raise UsageProblem(f"{page} is there and is no trace page: name another one with -o, or give --force.")
    except OSError as exc:
        raise UsageProblem(f"Cannot look at {page}: {exc.strerror or exc}.") from None


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
