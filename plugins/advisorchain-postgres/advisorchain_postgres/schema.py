"""The tables of `PostgresStore`, their version, and the way from one version to the next."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from psycopg import AsyncConnection

from advisorchain import ConfigurationError, MemoryStoreError

ENCODINGS = ("UTF8", "SQL_ASCII")
"""Encodings of a database that can hold every text."""

MIGRATIONS: list[tuple[str, ...]] = [
    (
        # A line is a branch of a conversation. Whoever appends to it holds the lock of its row, and "turns" says how
        # many turns it has: so turns are numbered in the order in which they become visible. The long_… columns hold
        # ids that do not fit into an index, where a short key stands for them.
        "CREATE TABLE {schema}.memory_lines (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        'conversation text COLLATE "C" NOT NULL, branch text COLLATE "C" NOT NULL, long_conversation text, '
        "turns bigint NOT NULL DEFAULT 0, UNIQUE (conversation, branch))",
        # No index begins with anything but the line, so that no other conversation is ever read on the way.
        "CREATE TABLE {schema}.memory_turns (line bigint NOT NULL, place bigint NOT NULL, "
        'turn text COLLATE "C" NOT NULL, long_turn text, size bigint NOT NULL, PRIMARY KEY (line, place), '
        "UNIQUE (line, turn))",
        "CREATE TABLE {schema}.memory_messages (line bigint NOT NULL, place bigint NOT NULL, position bigint NOT NULL, "
        'id text COLLATE "C" NOT NULL, body text NOT NULL, PRIMARY KEY (line, place, position), '
        "UNIQUE (line, id, place))",
    ),
]
"""Statements that make version ``n + 1`` out of version ``n``; a schema may have other tables beside ours."""


def checked_name(schema: Any) -> str:
    """The name of a schema.

    Raises:
        ConfigurationError: it is no plain name.
    """
    if not isinstance(schema, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema):
        raise ConfigurationError(
            f"schema must be a name of letters, digits and _, at most 63 of them, like 'public', not {schema!r}."
        )
    return schema


async def prepare(connection: AsyncConnection[Any], schema: str) -> None:
    """Make or migrate the tables where that is needed, in one transaction, one process at a time.

    Raises:
        MemoryStoreError: a later version of the package has made the tables, or the database cannot hold every text.
    """
    if await _version(connection, schema) == len(MIGRATIONS):
        return
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in ENCODINGS:
        raise MemoryStoreError(f"the database has the encoding {encoding}; PostgresStore needs one with UTF8.")
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_of(schema),))
        version = await _version(connection, schema)
        if version == len(MIGRATIONS):
            return  # another process has been faster
        if version > len(MIGRATIONS):
            raise MemoryStoreError(
                f"the schema {schema} has version {version} of the tables, this package knows up to {len(MIGRATIONS)}; "
                "update advisorchain-postgres."
            )
        found = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        if await found.fetchone() is None:  # "IF NOT EXISTS" would need the right to make one even if there is one
            await _run(connection, "CREATE SCHEMA {schema}", schema)
        if version == 0:
            await _run(connection, "CREATE TABLE IF NOT EXISTS {schema}.memory_schema (version int NOT NULL)", schema)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await _run(connection, statement, schema)
        await _run(connection, "DELETE FROM {schema}.memory_schema", schema)
        await _run(connection, f"INSERT INTO {{schema}}.memory_schema VALUES ({len(MIGRATIONS)})", schema)


async def _version(connection: AsyncConnection[Any], schema: str) -> int:
    """The version of the tables; 0 when there are none yet."""
    # Not with to_regclass(): in a transaction that waited for a lock, its cache may not know yet what others have made.
    found = await connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'memory_schema'",
        (schema,),
    )
    if await found.fetchone() is None:
        return 0
    found = await _run(connection, "SELECT version FROM {schema}.memory_schema", schema)
    row = await found.fetchone()
    return 0 if row is None else int(row[0])


async def _run(connection: AsyncConnection[Any], statement: str, schema: str) -> Any:
    return await connection.execute(statement.replace("{schema}", f'"{schema}"').encode())


def _lock_of(schema: str) -> int:
    """The number of the advisory lock under which the tables of a schema are made."""
    digest = hashlib.sha256(f"advisorchain.memory:{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
