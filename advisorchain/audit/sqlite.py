"""`SqliteSink`: records in one SQLite file, for queries."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from pathlib import Path

from ..database_file import create_for_owner, identity
from ..errors import AuditError, ConfigurationError
from ..setting_checks import check_number
from .record_chain import Digest
from .sink import AuditRecord, encode_record

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL, kind TEXT, turn TEXT, conversation TEXT, tool TEXT, outcome TEXT,
    record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_conversation ON audit (conversation, seq);
CREATE INDEX IF NOT EXISTS audit_turn ON audit (turn);
"""
_COLUMNS = ("time", "kind", "turn", "conversation", "tool", "outcome")
_INSERT = f"INSERT INTO audit ({', '.join(_COLUMNS)}, record) VALUES (?, ?, ?, ?, ?, ?, ?)"

_sinks: weakref.WeakSet[SqliteSink] = weakref.WeakSet()
_left_to_parent: list[sqlite3.Connection] = []
"""Connections that a fork has copied: a child must neither use nor close them."""


def _column(value: object) -> float | str | None:
    """What SQLite can keep of a field: texts without lone surrogates, numbers of 64 bits; the rest as text."""
    if value is None or isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return str(value).encode(errors="backslashreplace").decode()


class SqliteSink:
    """Inserts every record into the table ``audit`` of a SQLite file: ``record`` has it as JSON, the most asked-for
    fields have columns. Several processes may write. There is no hash chain: who can write the file can change it.

    Args:
        path: the file; created when it is not there. Its directory must exist.
        key: as for `JsonLinesSink`: the hashes of arguments are then HMACs.
        busy_seconds: how long a write waits for another process.

    Raises:
        ConfigurationError: the file cannot be opened or is no SQLite database, or ``busy_seconds`` is out of range.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, key: str | bytes | None = None, busy_seconds: float = 5.0
    ) -> None:
        check_number("busy_seconds", busy_seconds)
        # Absolute, because the program may change its directory later.
        self.path = Path(path) if os.fspath(path) == ":memory:" else Path(path).absolute()
        self.busy_seconds = busy_seconds
        self._digest = Digest(key)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        _sinks.add(self)
        try:
            self._connected()
        except sqlite3.Error as exc:
            raise ConfigurationError(f"Cannot open the audit database {self.path}: {exc}.") from exc

    async def write(self, record: AuditRecord, *, durable: bool = False) -> None:
        """Insert a record, in a thread.

        Args:
            record: the record.
            durable: the disk has confirmed it; otherwise it survives the end of the process.

        Raises:
            AuditError: it could not be inserted.
        """
        import anyio.to_thread

        await anyio.to_thread.run_sync(self._insert, record, durable)

    def digest(self, data: bytes) -> str:
        """SHA-256, or with a key HMAC-SHA-256."""
        return self._digest(data)

    def close(self) -> None:
        """Close the file. A later write opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._file != identity(self.path):
            self._connection.close()  # somebody has removed or replaced the file: nobody would see what goes there
            self._connection = None
        if self._connection is None:
            create_for_owner(self.path)
            connection = sqlite3.connect(
                self.path, timeout=self.busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.executescript(_SCHEMA)
            except BaseException:
                connection.close()
                raise
            self._connection, self._file = connection, identity(self.path)
        return self._connection

    def _insert(self, record: AuditRecord, durable: bool) -> None:
        values = (*(_column(record.get(column)) for column in _COLUMNS), encode_record(record).decode())
        try:
            with self._lock:
                connection = self._connected()
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                connection.execute(_INSERT, values)
        except (sqlite3.Error, OSError) as exc:
            raise AuditError(f"Cannot write to the audit database {self.path}: {exc}.") from exc

    def _after_fork(self) -> None:
        if self._connection is not None:
            _left_to_parent.append(self._connection)
            self._connection = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()

    def __repr__(self) -> str:
        return f"SqliteSink({str(self.path)!r})"


def _renew_after_fork() -> None:
    for sink in list(_sinks):
        sink._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_after_fork)
