"""`check_audit_sink`: our sinks keep the contract, and every rule of it is one that can be broken."""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from advisorchain import AuditError, ConfigurationError
from advisorchain.audit import AuditRecord, JsonLinesSink, LoggingSink, SqliteSink, records, verify
from advisorchain.audit.sink import encode_record
from advisorchain.testing import check_audit_sink


async def test_logging() -> None:
    kept: list[AuditRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(json.loads(record.getMessage()))

    class Fail(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space left")

    logger, failing = (logging.Logger(name) for name in ("kept", "failing"))
    logger.addHandler(Keep())
    failing.addHandler(Fail())
    await check_audit_sink(lambda: LoggingSink(logger), lambda: kept, broken=lambda: LoggingSink(failing))


@pytest.mark.parametrize("settings", [{}, {"fsync": "interval"}, {"rotate_bytes": 100_000, "key": b"k" * 32}], ids=str)
async def test_json_lines(tmp_path: Path, settings: dict[str, Any]) -> None:
    path, locked = tmp_path / "audit.jsonl", tmp_path / "locked.jsonl"
    JsonLinesSink(locked).close()
    lock = os.open(locked, os.O_RDWR)

    def broken() -> JsonLinesSink:
        sink = JsonLinesSink(locked, lock_seconds=0.05)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return sink

    def kept() -> list[AuditRecord]:
        rotated = sorted(tmp_path.glob("audit.jsonl.*"), key=lambda path: int(path.suffix[1:]))
        return [record for each in [*rotated, path] for record in records(each)]

    await check_audit_sink(lambda: JsonLinesSink(path, **settings), kept, broken=broken)
    os.close(lock)
    assert verify(path, key=settings.get("key")).ok


async def test_sqlite(tmp_path: Path) -> None:
    path, locked = tmp_path / "audit.db", tmp_path / "locked.db"
    lock = sqlite3.connect(locked, isolation_level=None)

    def broken() -> SqliteSink:
        sink = SqliteSink(locked, busy_seconds=0.05)
        lock.execute("BEGIN EXCLUSIVE")
        return sink

    def kept() -> list[AuditRecord]:
        connection = sqlite3.connect(path)
        try:
            return [json.loads(text) for (text,) in connection.execute("SELECT record FROM audit ORDER BY seq")]
        finally:
            connection.close()

    try:
        await check_audit_sink(lambda: SqliteSink(path), kept, broken=broken)
    finally:
        lock.close()


# What the contract finds ---------------------------------------------------------------------------------------------

KEPT: list[AuditRecord] = []


class Right:
    """A right one, to be broken."""

    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        KEPT.append(json.loads(encode_record(record)))

    def digest(self, data: bytes) -> str:
        import hashlib

        return hashlib.sha256(data).hexdigest()


class Doubles(Right):
    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        super().write(record)
        super().write(record)


class Reorders(Right):
    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        KEPT.insert(0, json.loads(encode_record(record)))


class Races(Right):
    async def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        there = list(KEPT)
        await anyio.lowlevel.checkpoint()
        KEPT[:] = [*there, json.loads(encode_record(record))]


class OneLoop(Right):
    """Works on the first event loop only."""

    def __init__(self) -> None:
        self.lock: Any = None

    async def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        from anyio.lowlevel import current_token

        self.lock = self.lock or current_token()
        if self.lock != current_token():
            raise RuntimeError("attached to a different loop")
        super().write(record)


class PlainJson(Right):
    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        KEPT.append(json.loads(json.dumps(record)))


class Adds(Right):
    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        super().write(record)
        record["seq"] = 1


class Later(Right):
    """Keeps a record only with the one after it."""

    def __init__(self) -> None:
        self.last: list[AuditRecord] = []

    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        self.last.append(json.loads(encode_record(record)))
        if record["number"] != 0 or not durable:
            KEPT.extend(self.last)
            self.last.clear()


class NotDurable(Right):
    def write(self, record: AuditRecord) -> Any:  # type: ignore[override]
        super().write(record)


class Keeps(Right):
    """Keeps the caller's own object."""

    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        KEPT.append(record)


class Shows(Right):
    def digest(self, data: bytes) -> str:
        return f"{len(data):08}" + data[:100].decode("latin-1")


class Restless(Right):
    numbers = itertools.count(10**9)

    def digest(self, data: bytes) -> str:
        return str(next(self.numbers))


class Swallows(Right):
    def write(self, record: AuditRecord, *, durable: bool = False) -> Any:
        return None


@pytest.mark.parametrize(
    ("sink", "rule"),
    [
        (Swallows, "kept once, whole, and in order"),
        (Doubles, "kept once, whole, and in order"),
        (Reorders, "kept once, whole, and in order"),
        (Races, "lose nothing"),
        (OneLoop, "Tasks and threads"),
        (PlainJson, "any content"),
        (Adds, "has changed the record"),
        (Keeps, "is kept as it was then"),
        (NotDurable, "durable"),
        (Later, "the record is kept when the write is done"),
        (Shows, "does not show it"),
        (Restless, "two digests"),
    ],
)
async def test_a_broken_one_is_found(sink: Any, rule: str) -> None:
    KEPT.clear()
    with pytest.raises(AssertionError, match=rule):
        await check_audit_sink(sink, lambda: list(KEPT))


async def test_a_swallowed_failure_is_found() -> None:
    KEPT.clear()
    await check_audit_sink(Right, lambda: list(KEPT))
    with pytest.raises(AssertionError, match="raised nothing"):
        await check_audit_sink(Right, lambda: list(KEPT), broken=Swallows)


def modes_in(directory: Path) -> dict[str, str]:
    return {file.name: oct(file.stat().st_mode & 0o777) for file in directory.iterdir()}


async def test_the_database_is_its_owners_alone(tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "audit.db")
    await sink.write({"kind": "turn"})
    modes = modes_in(tmp_path)
    sink.close()
    assert "audit.db" in modes and set(modes.values()) == {"0o600"}, modes


async def test_columns_of_odd_fields(tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "audit.db")
    await sink.write({"kind": "tool", "time": 10**40, "tool": "a\ud800", "conversation": [1], "outcome": None})
    sink.close()
    connection = sqlite3.connect(tmp_path / "audit.db")
    (row,) = connection.execute("SELECT time, tool, conversation, outcome FROM audit")
    connection.close()
    assert row == (1e40, "a\\ud800", "[1]", None)  # the column of times turns a text of digits into a number


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_database_that_goes_away_under_the_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "audit.db"
    sink = SqliteSink("audit.db")
    await sink.write({"kind": "first"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path.rename(tmp_path / "old.db") if replaced else path.unlink()
    await sink.write({"kind": "second"})
    sink.close()
    await sink.write({"kind": "third"})
    sink.close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT kind FROM audit").fetchall() == [("second",), ("third",)]
    assert os.listdir() == []


async def test_a_database_whose_directory_goes_away(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    directory.mkdir()
    sink = SqliteSink(directory / "audit.db")
    shutil.rmtree(directory)
    directory.touch()
    with pytest.raises(AuditError, match=r"audit\.db.*Not a directory"):
        await sink.write({"kind": "turn"})
    sink.close()


def test_settings_of_the_database(tmp_path: Path) -> None:
    for seconds in (-1, "5", float("inf")):
        with pytest.raises(ConfigurationError, match="busy_seconds must be a number"):
            SqliteSink(tmp_path / "audit.db", busy_seconds=seconds)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "audit.db")
    sink._insert({"kind": "before"}, False)
    parents = sink._connection
    child = os.fork()
    if child == 0:
        try:
            sink._insert({"kind": "child"}, False)
            sink.close()
            os._exit(0 if parents is not None and parents is not sink._connection else 1)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    sink._insert({"kind": "after"}, False)
    assert sink._connection is parents is not None
    assert [kind for (kind,) in parents.execute("SELECT kind FROM audit ORDER BY seq")] == ["before", "child", "after"]
    sink.close()
