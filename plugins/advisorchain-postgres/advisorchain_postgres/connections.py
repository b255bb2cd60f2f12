"""Pools of connections: one for each event loop, made anew when the server was away."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import anyio
from psycopg import AsyncConnection, Error, IsolationLevel
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from .failures import is_lost

T = TypeVar("T")
Connection = AsyncConnection[tuple[Any, ...]]
Pool = AsyncConnectionPool[Connection]
Work = Callable[[Connection], Awaitable[T]]

logger = logging.getLogger("advisorchain.postgres")

CLOSE_FACTOR = 3
"""How many times the timeout of a piece of work closing a pool may take."""

_all: weakref.WeakSet[Connections] = weakref.WeakSet()
_abandoned: list[Any] = []
"""Connections of the parent process, in a forked child."""


class _Opened(NamedTuple):
    pool: Pool
    busy: set[Connection]
    closing: AsyncGenerator[None]


class _Loop:
    """What one event loop has open."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opened: _Opened | None = None
        self.closing: set[asyncio.Task[None]] = set()


class Connections:
    """Gives connections of the running event loop to pieces of work.

    A pool is opened by connecting once outside of it: so the first error of a server that is away, or refuses us, is
    the server's own, and comes at once.

    Args:
        said: what the data source name says.
        prepare: what a new pool begins with, for example making the tables.
        timeout: seconds that a piece of work may take, waiting for a connection included.
        size: how many connections one event loop opens at most.
    """

    def __init__(self, said: dict[str, Any], prepare: Work[None], timeout: float, size: int) -> None:
        defaults: dict[str, Any] = {"application_name": "advisorchain", "connect_timeout": max(2, math.ceil(timeout))}
        self._conninfo = make_conninfo(**{**defaults, **said, "client_encoding": "utf8"})
        self._prepare = prepare
        self._timeout = timeout
        self._size = size
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()
        _all.add(self)

    async def run(self, work: Work[T]) -> T:
        """Do the work, which must be repeatable: when its connection turns out to be lost, it is done once more.

        Raises:
            Error: of PostgreSQL.
            TimeoutError: there was no connection, or no answer, in time.
            RuntimeError: the event loop is not asyncio's.
        """
        loop = self._loop()
        opened = None
        try:
            with anyio.fail_after(self._timeout):
                opened = await self._opened(loop)
                try:
                    return await self._use(loop, opened, work)
                except Error as exc:
                    if not is_lost(exc):
                        raise
                opened = await self._opened(loop)
                return await self._use(loop, opened, work)
        except TimeoutError:
            self._drop(loop, opened)  # its other connections may hang, too
            raise

    async def aclose(self) -> None:
        """Close what the running event loop has open; the next use opens it again."""
        running = asyncio.get_running_loop()
        loop = self._loops.get(running)
        if loop is not None:
            self._drop(loop, loop.opened)
            while loop.closing:
                await asyncio.wait(loop.closing)
            if loop.opened is None:
                self._loops.pop(running, None)

    def _loop(self) -> _Loop:
        running = asyncio.get_running_loop()
        found = self._loops.get(running)
        if found is None:
            for known in self._loops.keyrefs():  # made in one step: other threads have loops of their own
                if (other := known()) is not None and other.is_closed():
                    self._loops.pop(other, None)  # what it had may know it, and would keep it for ever
            found = self._loops[running] = _Loop()
        return found

    async def _opened(self, loop: _Loop) -> _Opened:
        async with loop.lock:
            if loop.opened is None:
                connection = await AsyncConnection.connect(self._conninfo, autocommit=True)
                try:
                    await self._configure(connection)
                    await self._prepare(connection)
                finally:
                    await connection.close()
                loop.opened = await self._open()
            return loop.opened

    async def _open(self) -> _Opened:
        connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        busy: set[Connection] = set()

        async def configure(connection: Connection) -> None:
            connections.add(connection)
            await self._configure(connection)

        pool: Pool = AsyncConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},
            configure=configure,
            min_size=0,
            max_size=self._size,
            open=False,
            timeout=2 * self._timeout,  # the work's own deadline comes first
            reconnect_timeout=self._timeout,
            name="advisorchain",
        )
        others = asyncio.all_tasks()
        await pool.open()  # waits for nothing: what is new afterwards is the pool's
        guard = asyncio.create_task(_end_with_us(asyncio.all_tasks() - others))
        opened = _Opened(pool, busy, self._until_closed(pool, busy, connections, guard))
        await anext(opened.closing)
        return opened

    async def _until_closed(
        self, pool: Pool, busy: set[Connection], connections: weakref.WeakSet[Connection], guard: asyncio.Task[None]
    ) -> AsyncGenerator[None]:
        """Closes the pool when it is closed itself, which event loops do when they end."""
        process, running = os.getpid(), weakref.ref(asyncio.get_running_loop())
        try:
            yield
        finally:
            if os.getpid() == process:  # in a forked child they are the parent's
                loop = running()
                state = self._loops.get(loop) if loop is not None else None
                if state is not None and state.opened is not None and state.opened.pool is pool:
                    state.opened = None
                with suppress(asyncio.CancelledError):  # at the end of a loop the pool's tasks are cancelled already
                    await pool.close(timeout=self._timeout)
                guard.cancel()
                for connection in set(connections) - busy:
                    await connection.close()

    async def _configure(self, connection: Connection) -> None:
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)  # a statement sees what others stored
        # What a client that vanished leaves behind must end: its locks keep others from the conversation. And jit costs
        # more than our statements do.
        limit = f"{math.ceil(self._timeout * 1000)}ms"
        await connection.execute(
            "SELECT set_config('statement_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', %s, false), set_config('jit', 'off', false)",
            (limit, limit),
        )

    async def _use(self, loop: _Loop, opened: _Opened, work: Work[T]) -> T:
        connection = await opened.pool.getconn()
        opened.busy.add(connection)
        try:
            return await work(connection)
        except Error as exc:
            if is_lost(exc):
                self._drop(loop, opened)
            raise
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                await connection.close()  # this does not ask the server, which may not answer
            with anyio.CancelScope(shield=True):
                if loop.opened is not opened:
                    await asyncio.sleep(0)  # the pool closes first: it would replace a broken connection
                await opened.pool.putconn(connection)
            opened.busy.discard(connection)

    def _drop(self, loop: _Loop, opened: _Opened | None) -> None:
        """Have a pool closed; what others are doing with its connections goes on."""
        if opened is not None and loop.opened is opened:
            loop.opened = None
            task = asyncio.get_running_loop().create_task(_close(opened, CLOSE_FACTOR * self._timeout))
            loop.closing.add(task)
            task.add_done_callback(loop.closing.discard)

    def _after_fork(self) -> None:
        """A child must not use its parent's connections, not even close them: the server would end them."""
        _abandoned.append(self._loops)
        self._loops = weakref.WeakKeyDictionary()


async def _end_with_us(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks of a pool when we are cancelled, until they have ended.

    Theirs go on when a cancellation comes while they connect, or are just about to do something. An event loop that
    ends cancels every task once and waits for all: for ever, without us.
    """
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        while tasks := {task for task in tasks if not task.done()}:
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.001)


async def _close(opened: _Opened, seconds: float) -> None:
    """Close a pool; one whose lock is never free, say, is left to its tasks' end and the garbage collector."""
    limit = asyncio.timeout(seconds)
    with suppress(TimeoutError):
        async with limit:
            await opened.closing.aclose()
    if limit.expired():
        logger.warning("A pool of connections to PostgreSQL was not closed within %g s, and is left alone.", seconds)


def _renew_after_fork() -> None:
    for connections in list(_all):
        connections._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_after_fork)
