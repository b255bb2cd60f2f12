"""`SqliteStore`: conversations in one SQLite file, shared by threads and processes."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
from anyio.lowlevel import RunVar

from ..database_file import create_for_owner, identity
from ..errors import ConfigurationError, MemoryStoreError
from ..messages import Message, dump_messages, load_messages
from ..setting_checks import check_number
from .sqlite_failures import explained, is_locked
from .sqlite_schema import prepare
from .store import History, StoredTurn, check_bounds, message_key

T = TypeVar("T")

THREADS = 8
"""How many threads of one event loop wait for SQLite at once; tools have threads of their own."""
_limiter = RunVar[anyio.CapacityLimiter]("advisorchain.memory.sqlite")
_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_abandoned: list[sqlite3.Connection] = []
"""Connections of the parent process, in a forked child."""


class SqliteStore:
    """Keeps conversations in a SQLite file (WAL, ``synchronous=NORMAL``), which is made when it does not exist.

    Works on asyncio and trio: statements run in threads, one at a time. Several stores and processes may share a file.
    After an error the file is opened again, so a store recovers when its file does.

    Args:
        path: of the file, seen from the working directory of now. Beside it SQLite keeps two more, ``-wal`` and
            ``-shm``: a network drive will not do.
        busy_timeout: seconds to wait for others that write, at most; then `MemoryStoreError`.
    """

    lossless = True

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 2.0) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ConfigurationError(f"SqliteStore(path) takes the path of a file, not {path!r}.")
        if os.fspath(path) == ":memory:":
            raise ConfigurationError("SqliteStore needs a file; for conversations in memory use InMemoryStore().")
        check_number("busy_timeout (seconds)", busy_timeout)
        self.path = Path(path).absolute()  # a program that changes its directory keeps its file
        self.busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._locked_at = -math.inf
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        _stores.add(self)

    async def load(
        self,
        conversation_id: str,
        *,
        branch: str = "",
        last_turns: int | None = None,
        last_messages: int | None = None,
        before: str | None = None,
    ) -> History:
        """See `MemoryStore.load`."""
        check_bounds(last_turns, last_messages)
        return await self._run(
            f"load conversation {conversation_id!r}",
            lambda db: _load(db, conversation_id, branch, last_turns, last_messages, before),
        )

    async def append(
        self, conversation_id: str, turn_id: str, messages: Sequence[Message], *, branch: str = ""
    ) -> None:
        """See `MemoryStore.append`."""
        what = f"append turn {turn_id!r} to conversation {conversation_id!r}"
        messages = tuple(messages)
        if messages:
            rows = [(message_key(message), _body(message, what)) for message in messages]
            await self._run(what, lambda db: _append(db, conversation_id, branch, turn_id, rows))

    async def delete(self, conversation_id: str) -> None:
        """See `MemoryStore.delete`."""
        await self._run(f"delete conversation {conversation_id!r}", lambda db: _delete(db, conversation_id))

    async def conversations(self) -> tuple[str, ...]:
        """See `MemoryStore.conversations`."""
        return await self._run("list the conversations", _conversations)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        with suppress(Exception):
            self._drop()

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    # Threads and the connection --------------------------------------------------------------------------------------

    async def _run(self, what: str, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            limiter = _limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(THREADS)
            _limiter.set(limiter)
        return await anyio.to_thread.run_sync(self._in_thread, what, work, time.monotonic(), limiter=limiter)

    def _in_thread(self, what: str, work: Callable[[sqlite3.Connection], T], asked: float) -> T:
        start = time.monotonic()
        if not self._lock.acquire(timeout=self.busy_timeout):
            raise MemoryStoreError(
                f"Could not {what} in {self.path}: other threads have kept the file for {self.busy_timeout:g} s. "
                "Try again, or give SqliteStore a longer busy_timeout."
            )
        try:
            # Who waited for a thread while others found the file locked has waited for the file, too.
            waited = time.monotonic() - (asked if self._locked_at > asked else start)
            left = max(0.0, self.busy_timeout - waited)
            with self._opened(left) as connection:
                return work(connection)
        except MemoryStoreError as exc:
            raise MemoryStoreError(f"Could not {what} in {self.path}: {exc}") from exc
        except (sqlite3.Error, OSError, UnicodeError) as exc:
            self._drop()
            if is_locked(exc):
                self._locked_at = time.monotonic()
            raise MemoryStoreError(f"Could not {what} in {self.path}: {explained(exc, self.path)}") from exc
        finally:
            self._lock.release()

    @contextmanager
    def _opened(self, seconds: float) -> Generator[sqlite3.Connection]:
        """The connection; whatever ends the work, no transaction is left open."""
        if self._connection is not None and self._file != identity(self.path):
            self._drop()  # the file was removed or replaced
        connection = self._connection
        if connection is None:
            connection = self._connect(seconds)
        else:
            connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
        try:
            yield connection
        finally:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.rollback()

    def _connect(self, seconds: float) -> sqlite3.Connection:
        create_for_owner(self.path)
        connection = sqlite3.connect(self.path, timeout=seconds, isolation_level=None, check_same_thread=False)
        try:
            prepare(connection)
            self._file = identity(self.path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _after_fork(self) -> None:
        """A child must not use its parent's connection, not even close it: that would drop the parent's locks."""
        if self._connection is not None:
            _abandoned.append(self._connection)
            self._connection = None
        self._lock = threading.Lock()


def _renew_after_fork() -> None:
    for store in list(_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_after_fork)


# Statements ----------------------------------------------------------------------------------------------------------


def _body(message: Message, what: str) -> str:
    try:
        return dump_messages((message,))[1:-1]
    except Exception as exc:
        named = f"{message.role} message {getattr(message, 'id', None)!r}"
        raise MemoryStoreError(f"Could not {what}: the {named} cannot be written as JSON ({exc}).") from exc


def _load(
    db: sqlite3.Connection,
    conversation: str,
    branch: str,
    last_turns: int | None,
    last_messages: int | None,
    before: str | None,
) -> History:
    db.execute("BEGIN")  # both statements read one state
    end = 2**62
    if before is not None:
        row = db.execute(
            "SELECT max(t.seq) FROM memory_messages m JOIN memory_turns t ON t.seq = m.turn "
            "WHERE m.id = ? AND t.conversation = ? AND t.branch = ?",
            (before, conversation, branch),
        ).fetchone()
        if row[0] is None:
            raise MemoryStoreError(f"the conversation has no message {before!r} to load before.")
        end = row[0]
    start = 0
    if last_turns is not None or last_messages is not None:
        start, left = end, 2**62 if last_messages is None else last_messages
        latest = db.execute(
            "SELECT seq, size FROM memory_turns INDEXED BY memory_turns_order "
            "WHERE conversation = ? AND branch = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
            (conversation, branch, end, -1 if last_turns is None else last_turns),
        )
        for seq, size in latest:  # read step by step: never more rows than fit
            left -= size
            if left < 0:
                break
            start = seq
        latest.close()
    rows = db.execute(
        "SELECT t.seq, t.turn, m.body FROM memory_turns t INDEXED BY memory_turns_order "
        "CROSS JOIN memory_messages m ON m.turn = t.seq "
        "WHERE t.conversation = ? AND t.branch = ? AND t.seq >= ? AND t.seq < ? ORDER BY t.seq, m.position",
        (conversation, branch, start, end),
    ).fetchall()
    db.execute("COMMIT")
    return History(_turn(list(group)) for _, group in groupby(rows, itemgetter(0)))


def _turn(rows: list[tuple[int, str, str]]) -> StoredTurn:
    turn_id = rows[0][1]
    try:
        return StoredTurn(turn_id, load_messages(f"[{','.join([row[2] for row in rows])}]"))
    except (ValueError, TypeError) as exc:
        raise MemoryStoreError(
            f"turn {turn_id!r} is damaged ({str(exc).splitlines()[0]}); restore the file from a backup, or delete the "
            "conversation."
        ) from exc


def _append(db: sqlite3.Connection, conversation: str, branch: str, turn: str, rows: list[tuple[str, str]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "INSERT INTO memory_turns (conversation, branch, turn, size) VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
        (conversation, branch, turn),
    )
    seq, size = db.execute(
        "SELECT seq, size FROM memory_turns WHERE conversation = ? AND branch = ? AND turn = ?",
        (conversation, branch, turn),
    ).fetchone()
    for key, body in rows:
        added: Any = db.execute(
            "INSERT INTO memory_messages (turn, position, id, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (seq, size, key, body),
        )
        size += added.rowcount
    db.execute("UPDATE memory_turns SET size = ? WHERE seq = ?", (size, seq))
    db.execute("COMMIT")


def _delete(db: sqlite3.Connection, conversation: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    turns = "SELECT seq FROM memory_turns WHERE conversation = ?"
    db.execute(f"DELETE FROM memory_messages WHERE turn IN ({turns})", (conversation,))
    db.execute("DELETE FROM memory_turns WHERE conversation = ?", (conversation,))
    db.execute("COMMIT")


def _conversations(db: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(sorted({row[0] for row in db.execute("SELECT DISTINCT conversation FROM memory_turns")}))
