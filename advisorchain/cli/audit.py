"""``advisorchain audit``: check and show the files of `JsonLinesSink`."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ..audit import head, records, verify
from .display import one_line, open_console
from .problems import one_line_errors

audit_app = typer.Typer(
    name="audit",
    help="Check and show the audit files of JsonLinesSink.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A file that JsonLinesSink wrote.")]
ExpectOption = Annotated[
    str | None,
    typer.Option("--expect", metavar="COUNT:HASH", help="A head kept elsewhere; finds a cut or rewritten file."),
]
KeyOption = Annotated[
    str | None, typer.Option("--key-env", metavar="NAME", help="The environment variable that holds the key.")
]
LastOption = Annotated[int | None, typer.Option("--last", "-n", min=1, help="Only so many, the newest ones.")]

COLUMNS = ("#", "time", "kind", "conversation", "what", "outcome", "seconds", "tokens", "details")
WIDTH = 240
"""Columns of the table where there is no terminal."""

_DETAILS = ("error", "class", "attempts", "cache", "stop_reason", "return_direct", "direct", "lost_before", "torn")


@audit_app.command("verify")
def verify_file(file: FileArgument, expect: ExpectOption = None, key_env: KeyOption = None) -> None:
    """Check the hash chain of a file and of the rotated ones before it; code 1 when something is wrong."""
    with one_line_errors():
        report = verify(file, key=key_env, expect=expect)
        for place in report.torn:
            _say(f"torn: {place}: a crash left an incomplete line; the next writer went on behind it")
        if report.problem is not None:
            _say(f"FAILED ({report.problem.kind}): {report.problem.message}")
            intact = report.count >= report.first
            _say(f"intact up to record {report.count}: {report.head}" if intact else "no record is intact")
            raise typer.Exit(1)
        kind = "HMAC" if report.keyed else "without a key"
        files = f" in {len(report.files)} files" if len(report.files) > 1 else ""
        _say(f"OK: records {report.first} to {report.count}{files} ({kind})")
        _say(f"head: {report.head}")
        if expect is None:
            _say("whether the end was cut off, only --expect with a head kept elsewhere can tell")


@audit_app.command("head")
def print_head(file: FileArgument) -> None:
    """Print COUNT:HASH of the last record: keep it where nobody who writes the file can change it."""
    with one_line_errors():
        typer.echo(head(file))


@audit_app.command("show")
def show(file: FileArgument, last: LastOption = None) -> None:
    """Print the records of a file as a table, unchecked."""
    with one_line_errors():
        found = deque(records(file), maxlen=last)
        table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
        for record in found:
            table.add_row(*(Text(one_line(cell)) for cell in _row(record)))
        console = open_console()
        if not console.is_terminal:  # lines as long as they are, for grep and friends
            console.width = WIDTH
        console.print(table)


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    tokens = [record.get("input_tokens"), record.get("output_tokens")]
    return (
        str(record.get("seq", "")),
        _time(record.get("time")),
        str(record.get("kind", "")),
        str(record.get("conversation") or ""),
        str(record.get("tool") or record.get("model") or ""),
        str(record.get("outcome") or ""),
        f"{record['seconds']:.3f}" if isinstance(record.get("seconds"), int | float) else "",
        "/".join("?" if count is None else str(count) for count in tokens) if any(tokens) else "",
        ", ".join(f"{name}={record[name]}" for name in _DETAILS if record.get(name)),
    )


def _time(at: Any) -> str:
    if not isinstance(at, int | float):
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):  # the file may say anything
        return str(at)


def _say(text: str) -> None:
    open_console().print(Text(one_line(text)), soft_wrap=True)
