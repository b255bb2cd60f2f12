"""A server that goes away, comes back, refuses, or does not answer: a clear error in time, and recovery."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import psycopg
import pytest

from advisorchain import AssistantMessage, ChatClient, MemoryStoreError, Message, UserMessage
from advisorchain.advisors import MemoryAdvisor
from advisorchain.testing import ScriptedModel
from advisorchain_postgres import PostgresStore


def turn(number: int | str = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


async def fails(store: PostgresStore, text: str) -> str:
    """Everything that a store does fails with this text."""
    found = ""
    for work in (store.load("c"), store.append("c", "t", turn()), store.delete("c"), store.conversations()):
        with pytest.raises(MemoryStoreError, match=text) as caught:
            await work
        error: BaseException | None = caught.value
        while error is not None:
            found += f"{error} {error!r}"
            error = error.__cause__ or error.__context__
    return found + repr(store)


async def test_the_server_is_killed_and_restarted(store: PostgresStore, server: Any, run: Any) -> None:
    client = ChatClient(ScriptedModel(["one", "two", "three"]), advisors=[MemoryAdvisor(store)])
    await run(client, "1?", conversation_id="c")
    server.kill()
    try:
        with within(10):
            await fails(store, r"in Postgres: .*Check that the server runs and that dsn= is right, and try again\.$")
            with pytest.raises(MemoryStoreError):
                await run(client, "2?", conversation_id="c")
    finally:
        server.start()
    await run(client, "3?", conversation_id="c")
    assert [message.text for message in await store.load("c")][:3] == ["1?", "one", "3?"]


async def test_killed_while_many_append(store: PostgresStore, server: Any) -> None:
    """What was said to be stored is there after the crash; nothing waits for ever."""
    stored: list[str] = []
    refused: list[str] = []
    enough = anyio.Event()

    async def append(task: int) -> None:
        for number in range(1000):
            name = f"{task}-{number}"
            try:
                await store.append(f"c{task % 3}", name, turn(name))
            except MemoryStoreError:
                refused.append(name)
                enough.set()  # a server that refuses everybody is not waited for
                return
            stored.append(name)
            if len(stored) > 20:
                enough.set()

    try:
        with within(60):
            async with anyio.create_task_group() as group:
                for task in range(20):
                    group.start_soon(append, task)
                await enough.wait()
                assert not refused
                await anyio.to_thread.run_sync(server.kill)
        assert len(refused) == 20
    finally:
        server.start()
    found = [each for task in range(3) for each in (await store.load(f"c{task}")).turns]
    assert all([m.text for m in t.messages] == [f"question {t.id}", f"answer {t.id}"] for t in found)
    names = [each.id for each in found]
    assert len(set(names)) == len(names)
    assert set(stored) <= set(names) <= {*stored, *refused}


async def test_connections_that_the_server_ended(store: PostgresStore, query: Any) -> None:
    """Nobody notices."""
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.append, f"c{number}", "t", turn())
    query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'advisorchain'")
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.append, f"c{number}", "u", turn())
    assert len(await store.conversations()) == 20


@pytest.mark.parametrize("where", ["?host=/nowhere", "localhost:1", "127.0.0.1:1,127.0.0.1:2", "nowhere.invalid"])
async def test_a_server_that_never_was(where: str) -> None:
    where = f"/db{where}" if where.startswith("?") else f"{where}/db"
    store = PostgresStore(f"postgresql://ada:hunter2@{where}", timeout=3)
    with within(13):
        found = await fails(store, r"Check that the server runs|no answer within 3 s")
        assert "hunter2" not in found and "?." not in found
    await store.aclose()


async def test_a_wrong_password(server: Any, schema: str) -> None:
    server.lock_out(f"ada_{schema}", "right")
    where = f"/postgres?host={server.socket_directory}"
    wrong = PostgresStore(f"postgresql://ada_{schema}:hunter2@{where}", schema=schema)
    with within(10):
        found = await fails(wrong, r'password authentication failed for user "ada.*Check the user and password in dsn=')
    assert "hunter2" not in found
    none = PostgresStore(f"postgresql://ada_{schema}@{where}", schema=schema)
    await fails(none, "no password supplied.*Check the user and password in dsn=")
    await wrong.aclose()
    await none.aclose()


async def test_what_the_user_may_not_do(server: Any, schema: str, query: Any) -> None:
    server.lock_out(f"ada_{schema}", "hunter2")
    query(f"REVOKE CREATE ON DATABASE postgres FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM ada_{schema}")
    dsn = f"postgresql://ada_{schema}:hunter2@/postgres?host={server.socket_directory}"
    store = PostgresStore(dsn, schema=schema)
    assert "hunter2" not in await fails(
        store, "permission denied.*Give the user of dsn= the right to create the tables"
    )
    query(f"CREATE SCHEMA {schema} AUTHORIZATION ada_{schema}")
    await store.append("c", "t", turn())
    await store.aclose()


async def test_a_database_that_does_not_exist(server: Any) -> None:
    store = PostgresStore(server.dsn.replace("/postgres?", "/nothing?"))
    await fails(store, 'database "nothing" does not exist.*Check the name of the database')
    await store.aclose()


async def test_a_read_only_server(store: PostgresStore, server: Any, schema: str, query: Any) -> None:
    await store.append("c", "t", turn())
    query(f"CREATE ROLE reader_{schema} LOGIN SUPERUSER")
    query(f"ALTER ROLE reader_{schema} SET default_transaction_read_only = on")
    reader = PostgresStore(f"postgresql://reader_{schema}@/postgres?host={server.socket_directory}", schema=schema)
    with pytest.raises(MemoryStoreError, match="The server is read-only"):
        await reader.append("c", "u", turn())
    assert len(await reader.load("c")) == 2
    await reader.aclose()


async def test_a_server_that_does_not_answer() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        port = silent.extra(anyio.abc.SocketAttribute.local_port)
        store = PostgresStore(f"postgresql://ada:hunter2@127.0.0.1:{port}/db", timeout=0.2)
        with within(10):
            assert "hunter2" not in await fails(store, r"no answer within 0\.2 s\. Check that the server runs")
        with within(10):
            async with anyio.create_task_group() as group:
                for _ in range(100):
                    group.start_soon(fails, store, "no answer within")
        await store.aclose()


async def test_a_conversation_that_somebody_has_locked(server: Any, schema: str, query: Any) -> None:
    store = PostgresStore(server.dsn, schema=schema, timeout=1.5)
    await store.append("c", "t", turn())
    other = await psycopg.AsyncConnection.connect(server.dsn)
    await other.execute(f"SELECT 1 FROM {schema}.memory_lines FOR UPDATE".encode())
    with within(10):
        for _ in range(3):
            with pytest.raises(MemoryStoreError, match=r"no answer within 1\.5 s|took too long"):
                await store.append("c", "u", turn())
    await store.append("d", "t", turn())
    await other.close()
    await store.append("c", "u", turn())
    assert [each.id for each in (await store.load("c")).turns] == ["t", "u"]
    await store.aclose()


async def test_a_turn_that_cannot_be_stored_in_time(
    store: PostgresStore, schema: str, server: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a turn has no more time than a call of the store; still, its failure is a `MemoryStoreError`."""
    monkeypatch.setattr("advisorchain.turn_end.TURN_END_SECONDS", 3.0)
    monkeypatch.setattr("advisorchain.advisors.memory.APPEND_SECONDS", 1.5)
    client = ChatClient(ScriptedModel(["one", "two", "three"]), advisors=[MemoryAdvisor(store)])
    await run(client, "1?", conversation_id="c")
    async with await psycopg.AsyncConnection.connect(server.dsn) as other:
        await other.execute(f"SELECT 1 FROM {schema}.memory_lines FOR UPDATE".encode())
        with within(10), pytest.raises(MemoryStoreError, match=r"\(PostgresStore\) did not say within 1.5 s"):
            await run(client, "2?", conversation_id="c")
    await run(client, "3?", conversation_id="c")
    assert [message.text for message in await store.load("c")][:3] == ["1?", "one", "3?"]


class Wire:
    """A connection to the server that can be cut off: nothing comes through any more, but nobody hangs up."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def to(self, path: str) -> AsyncIterator[int]:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(65536):
                    await self.open.wait()
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.open.wait()
            other_reader, other_writer = await asyncio.open_unix_connection(path)
            for pair in ((reader, other_writer), (other_reader, writer)):
                task = asyncio.create_task(forward(*pair))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

        listener = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with listener:
            yield listener.sockets[0].getsockname()[1]
            self.open.set()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_server_that_falls_silent(server: Any, schema: str) -> None:
    wire = Wire()
    async with wire.to(f"{server.socket_directory}/.s.PGSQL.5432") as port:
        store = PostgresStore(f"postgresql://postgres@127.0.0.1:{port}/postgres", schema=schema, timeout=2)
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(store.append, "c", f"t{number}", turn())
        wire.open.clear()
        with within(10):
            await fails(store, "no answer within 2 s")
        with within(10):
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(fails_once, store, f"u{number}")
        wire.open.set()
        await store.append("c", "last", turn())
        assert (await store.load("c")).turns[-1].id == "last"
        await store.aclose()


async def fails_once(store: PostgresStore, name: str) -> None:
    with pytest.raises(MemoryStoreError, match="no answer within"):
        await store.append("c", name, turn())


def test_an_event_loop_that_ends_in_the_middle_of_the_work(
    server: Any, schema: str, query: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not wait for the pool, and leaves no connection open."""
    caplog.set_level("CRITICAL", "psycopg")  # a record that pytest keeps would keep the connection it tells of
    store = PostgresStore(server.dsn, schema=schema)
    asyncio.run(store.append("c", "first", turn()))

    async def begin(seconds: float) -> None:
        tasks = [asyncio.create_task(store.append("c", f"{seconds}-{n}", turn())) for n in range(20)]
        await asyncio.sleep(seconds)
        assert len(tasks) == 20

    with within(90):
        for step in range(100):
            asyncio.run(begin(step * 0.0005))
    deadline = time.monotonic() + 10
    while query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'advisorchain'") != [(0,)]:
        assert time.monotonic() < deadline
        gc.collect()  # a connection that was being made is closed with the frames that held it
        time.sleep(0.05)
    found: Any = asyncio.run(store.load("c"))
    assert found.turns[0].id == "first" and all(len(each.messages) == 2 for each in found.turns)


async def test_a_pool_that_cannot_be_closed_holds_nobody_up(server: Any, schema: str, caplog: Any) -> None:
    store = PostgresStore(server.dsn, schema=schema, timeout=1)
    await store.append("c", "t", turn())
    (loop,) = store._connections._loops.values()
    assert loop.opened is not None
    lock = loop.opened.pool._lock
    await lock.acquire()  # as a task of the pool that is stuck would hold it
    try:
        with within(10):
            await store.aclose()
        assert "was not closed within 3 s" in caplog.text
    finally:
        lock.release()
    assert len(await store.load("c")) == 2
    await store.aclose()
