"""Checking a hash-chained file: `verify` names the first record that was changed, removed or reordered."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ..errors import AuditError, ConfigurationError
from .record_chain import NO_HASH, Digest, Line, parse_line

try:
    import fcntl
except ImportError:  # Windows: such a file cannot be written there
    fcntl = None  # type: ignore[assignment]

ProblemKind = Literal["changed", "removed", "reordered", "repeated", "torn", "key", "cut", "rewritten", "missing"]

_EXPECT = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True)
class AuditProblem:
    """The first thing that is wrong.

    Attributes:
        kind: ``"changed"``, ``"removed"``, ``"reordered"``, ``"repeated"``; ``"torn"``: the last line is incomplete;
            ``"key"``: written with another key or with none; and with ``expect``: ``"cut"`` (the record is not there),
            ``"rewritten"`` (it is another one), ``"missing"`` (it is in a rotated file that is not here).
        file, line: where.
        message: the sentence.
    """

    kind: ProblemKind
    file: str
    line: int
    message: str


@dataclass
class AuditReport:
    """What `verify` found.

    Attributes:
        files: the files checked, the oldest first.
        first: number of the first record checked; over 1 when an older file is not here.
        count, hash: the last intact record: the head.
        keyed: whether the hashes are HMACs.
        torn: places where a crash has left an incomplete line and the next writer went on: ``file:line (bytes)``.
        problem: the first problem, or None.
    """

    files: list[str] = field(default_factory=list)
    first: int = 1
    count: int = 0
    hash: str = NO_HASH
    keyed: bool = False
    torn: list[str] = field(default_factory=list)
    problem: AuditProblem | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return self.problem is None

    @property
    def head(self) -> str:
        """``COUNT:HASH`` of the last intact record."""
        return f"{self.count}:{self.hash}"


def verify(path: str | os.PathLike[str], *, key: str | bytes | None = None, expect: str | None = None) -> AuditReport:
    """Check a file that `JsonLinesSink` wrote, and the rotated files before it that are in the same directory.

    Args:
        path: the file.
        key: as for the sink: the name of an environment variable, or bytes.
        expect: a head that was kept elsewhere, ``COUNT:HASH``: the record COUNT must be there and have this hash. Finds
            a cut end, an emptied file, and without a key also a file that was rewritten as a whole.

    Raises:
        AuditError: the file cannot be read.
        ConfigurationError: ``expect`` is not of that form, or the key is not there.
    """
    digest = Digest(key)
    expected = _expected(expect)
    report = AuditReport(keyed=digest.key_id is not None)
    files = _with_predecessors(Path(path))
    for number, file in enumerate(files):
        report.files.append(str(file))
        problem = _verify_file(file, report, digest, expected, continues=number > 0)
        if problem is not None:
            report.problem = problem
            return report
    if expected is not None and expected[0] > report.count:
        message = f"The records end at number {report.count}; number {expected[0]} was expected: the end was cut off."
        report.problem = AuditProblem("cut", str(path), 0, message)
    elif expected is not None and 0 < expected[0] < report.first:
        message = f"Record {expected[0]} is in an older file that is not here; the records start at {report.first}."
        report.problem = AuditProblem("missing", str(path), 0, message)
    return report


def head(path: str | os.PathLike[str]) -> str:
    """``COUNT:HASH`` of the last complete record: keep it where nobody who can write the file can, see `verify`.

    Raises:
        AuditError: the file cannot be read, or has no complete record.
    """
    last: Line | None = None
    with _opened(Path(path)) as (stream, size):
        for line in _lines(stream, size):
            last = parse_line(line) or last
    if last is None:
        if size == 0:
            return f"0:{NO_HASH}"
        raise AuditError(f"{path} has no complete record; it is no audit file.")
    return f"{last.seq}:{last.stated}"


def records(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The records of one file that can be read, in order, unchecked; with ``seq``.

    Raises:
        AuditError: the file cannot be read.
    """
    with _opened(Path(path)) as (stream, size):
        for line in _lines(stream, size):
            parsed = parse_line(line)
            if parsed is not None:
                try:
                    yield json.loads(parsed.record)
                except ValueError:
                    continue


def _expected(expect: str | None) -> tuple[int, str] | None:
    if expect is None:
        return None
    match = _EXPECT.fullmatch(expect.strip())
    if match is None:
        raise ConfigurationError(
            f"The expected head must be COUNT:HASH, as `advisorchain audit head` prints it: {expect!r}."
        )
    return int(match[1]), match[2]


class _opened:
    """The file and its size, taken while no writer is in the middle of a record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> tuple[BinaryIO, int]:
        try:
            self._stream = self.path.open("rb")
        except OSError as exc:
            raise AuditError(f"Cannot read the audit file {self.path}: {exc.strerror or exc}.") from exc
        if fcntl is not None:
            fcntl.flock(self._stream, fcntl.LOCK_SH)
        size = os.fstat(self._stream.fileno()).st_size
        if fcntl is not None:
            fcntl.flock(self._stream, fcntl.LOCK_UN)
        return self._stream, size

    def __exit__(self, *exc: object) -> None:
        self._stream.close()


def _lines(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        line = stream.readline(size)
        if not line:
            return
        size -= len(line)
        yield line


def _with_predecessors(path: Path) -> list[Path]:
    files = [path]
    while True:
        with _opened(files[0]) as (stream, size):
            parsed = parse_line(stream.readline(min(size, 65536)))
        try:
            previous = json.loads(parsed.record)["previous"]["file"] if parsed is not None else None
        except (ValueError, KeyError, TypeError):
            previous = None
        if not isinstance(previous, str) or os.path.basename(previous) != previous:
            return files
        file = path.with_name(previous)
        if file in files or not file.is_file():
            return files
        files.insert(0, file)


def _verify_file(
    path: Path, report: AuditReport, digest: Digest, expected: tuple[int, str] | None, *, continues: bool
) -> AuditProblem | None:
    """Go through the records of one file; updates the report, and returns the first problem."""
    torn = b""
    torn_line = 0
    number = 0

    def problem(kind: ProblemKind, message: str, line: int | None = None) -> AuditProblem:
        at = number if line is None else line
        return AuditProblem(kind, str(path), at, f"{path.name}:{at}: {message}")

    with _opened(path) as (stream, size):
        lines = _lines(stream, size)
        for number, raw in enumerate(lines, 1):
            line = parse_line(raw)
            if line is None:
                torn, torn_line = torn + raw, torn_line or number
                continue
            try:
                record = json.loads(line.record)
            except ValueError:
                return problem("changed", f"record {line.seq} was changed: it is no JSON.")
            is_start = report.count == 0 or (continues and number == 1)
            if record.get("kind") == "start" and record.get("key_id") != digest.key_id:
                return problem("key", _key_problem(record, digest))
            if digest(line.sealed) != line.stated:
                return problem("changed", f"record {line.seq} was changed.")
            note = record.get("torn")
            if torn or note:
                if not torn:
                    return problem("removed", f"the torn line before record {line.seq} was removed.")
                if not isinstance(note, dict) or digest(torn.removesuffix(b"\n")) != note.get("digest"):
                    text = f"this is no record, so the one after {report.count} was changed."
                    return problem("changed", text, torn_line)
                report.torn.append(f"{path.name}:{torn_line} ({note.get('bytes')} bytes)")
                torn, torn_line = b"", 0
            if is_start and not continues:
                previous = record.get("previous")
                if isinstance(previous, dict) and record.get("kind") == "start":
                    report.count, report.hash = int(previous["count"]), str(previous["hash"])
                report.first = report.count + 1
            if line.seq != report.count + 1:
                return _out_of_order(problem, line, report.count, [line, *filter(None, map(parse_line, lines))])
            if line.prev != report.hash:
                return problem("changed", f"the record before record {line.seq} was replaced.")
            report.count, report.hash = line.seq, line.stated
            if expected is not None and expected[0] == line.seq and expected[1] != line.stated:
                return problem("rewritten", f"record {line.seq} is not the one that was expected: it was rewritten.")
    if torn:
        text = "the last line is incomplete: the writer crashed, or the line was changed or cut."
        return problem("torn", text, torn_line)
    return None


def _out_of_order(problem: Any, line: Line, count: int, rest: list[Line]) -> AuditProblem:
    wanted = count + 1
    if line.seq <= count:
        return problem("repeated", f"record {line.seq} stands here again, after record {count}.")  # type: ignore[no-any-return]
    if any(later.seq == wanted for later in rest):
        return problem("reordered", f"record {line.seq} stands before record {wanted}.")  # type: ignore[no-any-return]
    missing = f"record {wanted} was" if line.seq == wanted + 1 else f"records {wanted} to {line.seq - 1} were"
    return problem("removed", f"{missing} removed before record {line.seq}.")  # type: ignore[no-any-return]


def _key_problem(start: dict[str, Any], digest: Digest) -> str:
    if digest.key_id is None:
        return "the file was written with a key: pass the key, or the start record was changed."
    if start.get("key_id") is None:
        return "the file was written without a key: anybody could have made it, or the start record was changed."
    return "the file was written with another key, or the start record was changed."
