"""`PostgresStore`: conversations in PostgreSQL, shared by processes and machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection, Error

from advisorchain import ConfigurationError, MemoryStoreError, Message, dump_messages, load_messages
from advisorchain.memory import History, StoredTurn, check_bounds, message_key

from .connections import Connection, Connections
from .failures import checked_dsn, explained
from .schema import checked_name, prepare
from .statements import LoadedTurn, Statements

T = TypeVar("T")


class PostgresStore:
    """Keeps conversations in PostgreSQL 12 or newer; the tables are made at the first use. asyncio only.

    Every append is one transaction, every load one statement. Turns of a conversation are stored one after the other,
    in whatever process and machine they come from. After an error the store connects anew, so it recovers when its
    server does.

    Args:
        dsn: ``postgresql://user:password@host:port/database?sslmode=require``, or what libpq takes besides.
        schema: where the tables are; it is made when it does not exist.
        timeout: seconds that a call takes at most; then `MemoryStoreError`.
        max_connections: how many connections one event loop opens at most; further work waits for one.
    """

    lossless = True

    def __init__(
        self, dsn: str, *, schema: str = "advisorchain", timeout: float = 5.0, max_connections: int = 8
    ) -> None:
        said, self._secrets = checked_dsn(dsn)
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout <= 3600:
            raise ConfigurationError(f"timeout must be seconds above 0, at most 3600, not {timeout!r}.")
        if not isinstance(max_connections, int) or isinstance(max_connections, bool) or max_connections < 1:
            raise ConfigurationError(f"max_connections must be an int of at least 1, not {max_connections!r}.")
        self.schema = checked_name(schema)
        self.timeout = timeout
        self._statements = Statements(schema)
        self._connections = Connections(said, self._prepare, timeout, max_connections)

    async def load(
        self,
        conversation_id: str,
        *,
        branch: str = "",
        last_turns: int | None = None,
        last_messages: int | None = None,
        before: str | None = None,
    ) -> History:
        """See ``MemoryStore.load``."""
        check_bounds(last_turns, last_messages)
        what = f"load conversation {conversation_id!r}"
        found = await self._run(
            what, lambda db: self._statements.load(db, conversation_id, branch, last_turns, last_messages, before)
        )
        if found is None:
            raise MemoryStoreError(f"Could not {what}: it has no message {before!r} to load before.")
        return History([_turn(turn, what) for turn in found])

    async def append(
        self, conversation_id: str, turn_id: str, messages: Sequence[Message], *, branch: str = ""
    ) -> None:
        """See ``MemoryStore.append``."""
        what = f"append turn {turn_id!r} to conversation {conversation_id!r}"
        rows = [(message_key(message), _body(message, what)) for message in messages]
        if rows:
            await self._run(what, lambda db: self._statements.append(db, conversation_id, branch, turn_id, rows))

    async def delete(self, conversation_id: str) -> None:
        """See ``MemoryStore.delete``."""
        what = f"delete conversation {conversation_id!r}"
        await self._run(what, lambda db: self._statements.delete(db, conversation_id))

    async def conversations(self) -> tuple[str, ...]:
        """See ``MemoryStore.conversations``."""
        return tuple(sorted(await self._run("list the conversations", self._statements.conversations)))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next use opens new ones."""
        _check_loop()
        await self._connections.aclose()

    def __repr__(self) -> str:
        return f"PostgresStore(schema={self.schema!r})"

    async def _prepare(self, connection: AsyncConnection[Any]) -> None:
        await prepare(connection, self.schema)

    async def _run(self, what: str, work: Callable[[Connection], Awaitable[T]]) -> T:
        _check_loop()
        try:
            return await self._connections.run(work)
        except MemoryStoreError as exc:
            raise MemoryStoreError(f"Could not {what} in Postgres: {exc}") from exc
        except TimeoutError as exc:
            raise MemoryStoreError(
                f"Could not {what} in Postgres: no answer within {self.timeout:g} s. Check that the server runs and "
                "that dsn= is right; if it is busy, raise timeout= or max_connections=."
            ) from exc
        except (Error, OSError, UnicodeError) as exc:
            raise MemoryStoreError(f"Could not {what} in Postgres: {explained(exc, self._secrets)}") from exc


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError("PostgresStore needs asyncio; on trio use SqliteStore.") from None


def _body(message: Message, what: str) -> str:
    try:
        return dump_messages((message,))[1:-1]
    except Exception as exc:
        raise MemoryStoreError(f"Could not {what}: a message cannot be written as JSON ({exc}).") from exc


def _turn(turn: LoadedTurn, what: str) -> StoredTurn:
    try:
        return StoredTurn(turn.id, load_messages(f"[{turn.bodies}]"))
    except (ValueError, TypeError) as exc:
        raise MemoryStoreError(
            f"Could not {what}: turn {turn.id!r} is damaged ({str(exc).splitlines()[0]}); restore the database from a "
            "backup, or delete the conversation."
        ) from exc
