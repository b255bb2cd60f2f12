"""The tables of `SqliteStore`, their version, and the way from one version to the next."""

from __future__ import annotations

import sqlite3

from ..errors import MemoryStoreError

MIGRATIONS: list[tuple[str, ...]] = [
    (
        # seq gives the order of turns; size is how many messages a turn has, so that windows need not read them.
        "CREATE TABLE memory_turns (seq INTEGER PRIMARY KEY AUTOINCREMENT, conversation TEXT NOT NULL, "
        "branch TEXT NOT NULL, turn TEXT NOT NULL, size INTEGER NOT NULL, UNIQUE (conversation, branch, turn))",
        "CREATE INDEX memory_turns_order ON memory_turns (conversation, branch, seq)",
        "CREATE TABLE memory_messages (turn INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, "
        "body TEXT NOT NULL, PRIMARY KEY (turn, position), UNIQUE (turn, id)) WITHOUT ROWID",
        "CREATE INDEX memory_messages_id ON memory_messages (id)",
    ),
]
"""Statements that make version ``n + 1`` out of version ``n``; a file may have other tables beside ours."""


def prepare(connection: sqlite3.Connection) -> None:
    """Set a new connection up, and make or migrate the tables, in one transaction.

    Raises:
        MemoryStoreError: a later version of the package has written the file.
    """
    # Reading the mode takes no lock; switching to it does, and happens once in the life of a file.
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection)  # another process may have been faster
    if version > len(MIGRATIONS):
        raise MemoryStoreError(
            f"the file has version {version} of the tables, this package knows up to {len(MIGRATIONS)}; update "
            "advisorchain."
        )
    connection.execute("CREATE TABLE IF NOT EXISTS memory_schema (version INTEGER NOT NULL)")
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute("DELETE FROM memory_schema")
    connection.execute("INSERT INTO memory_schema VALUES (?)", (len(MIGRATIONS),))
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 when there are none yet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_schema'").fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM memory_schema").fetchone()
    return 0 if row is None else int(row[0])
