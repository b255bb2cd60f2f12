"""Checking a hash-chained file: `verify` names the first record that was changed, removed or reordered."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ..errors import AuditError, ConfigurationError
from .record_chain import NO_HASH, Digest, Line, last_line, parse_line, predecessor

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
    newest = Path(path)
    with _opened(newest) as (stream, size):  # kept open: a writer may give it another name meanwhile
        for file in _predecessors(newest, stream, size):
            with _opened(file) as (older, older_size):
                report.problem = _verify_file(file, older, older_size, report, digest, expected)
            if report.problem is not None:
                return report
        report.problem = _verify_file(newest, stream, size, report, digest, expected)
    if report.problem is not None:
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
    with _opened(Path(path)) as (stream, size):
        last, _ = last_line(stream.fileno(), size)
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
            record = parsed.record() if parsed is not None else None
            if record is not None:
                yield record


def _expected(expect: str | None) -> tuple[int, str] | None:
    if expect is None:
        return None
    match = _EXPECT.fullmatch(expect.strip())
    if match is None:
        raise ConfigurationError(
            f"The expected head must be COUNT:HASH, as `advisorchain audit head` prints it: {expect!r}."
        )
    return int(match[1]), match[2]


@contextmanager
def _opened(path: Path) -> Generator[tuple[BinaryIO, int]]:
    """The file and its size, taken while no writer is in the middle of a record."""
    try:
        stream = path.open("rb")
    except OSError as exc:
        raise AuditError(f"Cannot read the audit file {path}: {exc.strerror or exc}.") from exc
    with stream:
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_SH)
        size = os.fstat(stream.fileno()).st_size
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_UN)
        yield stream, size


def _lines(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        line = stream.readline(size)
        if not line:
            return
        size -= len(line)
        yield line


def _predecessors(path: Path, stream: BinaryIO, size: int) -> list[Path]:
    """The rotated files before a file that are in its directory, the oldest first."""
    files: dict[Path, None] = {}
    directory = Path(os.path.realpath(path)).parent
    previous = _previous_file(stream, size)
    while previous is not None and os.path.basename(previous) == previous:
        file = directory / previous
        if file in files or not os.path.isfile(file):
            break
        files[file] = None
        with _opened(file) as (older, older_size):
            previous = _previous_file(older, older_size)
    return [*files][::-1]


def _previous_file(stream: BinaryIO, size: int) -> str | None:
    line = parse_line(stream.readline(min(size, 65536)))
    stream.seek(0)
    before = predecessor(line.record()) if line is not None else None
    return before.file if before is not None else None


def _verify_file(
    path: Path, stream: BinaryIO, size: int, report: AuditReport, digest: Digest, expected: tuple[int, str] | None
) -> AuditProblem | None:
    """Go through the records of one file; updates the report, and returns the first problem."""
    continues = bool(report.files)
    report.files.append(str(path))
    torn: list[bytes] = []
    torn_line = 0
    number = 0

    def problem(kind: ProblemKind, message: str, line: int | None = None) -> AuditProblem:
        at = number if line is None else line
        return AuditProblem(kind, str(path), at, f"{path.name}:{at}: {message}")

    lines = _lines(stream, size)
    for number, raw in enumerate(lines, 1):
        line = parse_line(raw)
        if line is None:
            torn.append(raw)
            torn_line = torn_line or number
            continue
        record = line.record()
        if record is None:
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
            if not isinstance(note, dict) or digest(b"".join(torn).removesuffix(b"\n")) != note.get("digest"):
                text = f"this is no record, so the one after {report.count} was changed."
                return problem("changed", text, torn_line)
            report.torn.append(f"{path.name}:{torn_line} ({note.get('bytes')} bytes)")
            torn, torn_line = [], 0
        if is_start and not continues:
            before = predecessor(record)
            if before is not None:
                report.count, report.hash = before.count, before.hash
            report.first = report.count + 1
        if line.seq != report.count + 1:
            return _out_of_order(problem, line, report.count, lines)
        if line.prev != report.hash:
            return problem("changed", f"the record before record {line.seq} was replaced.")
        report.count, report.hash = line.seq, line.stated
        if expected is not None and expected[0] == line.seq and expected[1] != line.stated:
            return problem("rewritten", f"record {line.seq} is not the one that was expected: it was rewritten.")
    if torn:
        text = "the last line is incomplete: the writer crashed, or the line was changed or cut."
        return problem("torn", text, torn_line)
    return None


def _out_of_order(
    problem: Callable[[ProblemKind, str], AuditProblem], line: Line, count: int, rest: Iterator[bytes]
) -> AuditProblem:
    wanted = count + 1
    if line.seq <= count:
        return problem("repeated", f"record {line.seq} stands here again, after record {count}.")
    if any(later.seq == wanted for later in map(parse_line, rest) if later is not None):
        return problem("reordered", f"record {line.seq} stands before record {wanted}.")
    missing = f"record {wanted} was" if line.seq == wanted + 1 else f"records {wanted} to {line.seq - 1} were"
    return problem("removed", f"{missing} removed before record {line.seq}.")


def _key_problem(start: dict[str, Any], digest: Digest) -> str:
    if digest.key_id is None:
        return "the file was written with a key: pass the key, or the start record was changed."
    if start.get("key_id") is None:
        return "the file was written without a key: anybody could have made it, or the start record was changed."
    return "the file was written with another key, or the start record was changed."
