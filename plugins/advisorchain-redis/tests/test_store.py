"""`RedisStore` against a real server."""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import time
import weakref
from typing import Any

import anyio
import anyio.abc
import pytest

from advisorchain import AssistantMessage, ChatClient, ConfigurationError, MemoryStoreError, Message, UserMessage
from advisorchain.advisors import MemoryAdvisor
from advisorchain.testing import ScriptedModel, check_memory_store
from advisorchain_redis import RedisState, RedisStore


def turn(number: int | str = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")


async def test_the_contract(server: Any) -> None:
    numbers = itertools.count()
    await check_memory_store(lambda: RedisStore(server.url, prefix=f"contract{next(numbers)}", timeout=10))


async def test_deleting_leaves_no_key(store: RedisStore) -> None:
    for number in range(3):
        await store.append("c", f"t{number}", turn(number))
        await store.append("c", f"t{number}", turn(number), branch="b")
    client = await store._connections.client()
    assert await client.keys(f"{store.prefix}*".replace("[", "\\[").replace("]", "\\]"))
    await store.delete("c")
    assert await client.keys(f"{store.prefix}*".replace("[", "\\[").replace("]", "\\]")) == []


def append_in_process(url: str, prefix: str, process: int) -> None:
    async def run() -> None:
        store = RedisStore(url, prefix=prefix)
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(store.append, "c", f"{process}-{number}", turn(f"{process}-{number}"))
        await store.aclose()

    asyncio.run(run())


async def test_50_tasks_in_each_of_4_processes(store: RedisStore, server: Any) -> None:
    context = multiprocessing.get_context("spawn")
    work = [context.Process(target=append_in_process, args=(server.url, store.prefix, n)) for n in range(4)]
    for process in work:
        process.start()
    for process in work:
        await anyio.to_thread.run_sync(process.join, 60)
        assert process.exitcode == 0
        process.close()
    found = await store.load("c")
    assert sorted(t.id for t in found.turns) == sorted(f"{p}-{n}" for p in range(4) for n in range(50))
    assert all([m.text for m in t.messages] == [f"question {t.id}", f"answer {t.id}"] for t in found.turns)


async def test_the_server_is_killed_and_restarted(store: RedisStore, server: Any, run: Any) -> None:
    client = ChatClient(ScriptedModel(["one", "two", "three"]), advisors=[MemoryAdvisor(store)])
    await run(client, "1?", conversation_id="c")
    server.kill()
    try:
        start = time.monotonic()
        for work in (store.load("c"), store.append("c", "t", turn()), store.delete("c"), store.conversations()):
            with pytest.raises(MemoryStoreError, match=r"in Redis: .*Check that the server runs"):
                await work
        with pytest.raises(MemoryStoreError):
            await run(client, "2?", conversation_id="c")
        assert time.monotonic() - start < 10
    finally:
        server.start()
    await run(client, "3?", conversation_id="c")
    assert [message.text for message in await store.load("c")][:3] == ["1?", "one", "3?"]


async def test_a_server_that_does_not_answer() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        port = silent.extra(anyio.abc.SocketAttribute.local_port)
        store = RedisStore(f"redis://:hunter2@127.0.0.1:{port}", timeout=0.2)
        start = time.monotonic()
        with pytest.raises(MemoryStoreError) as caught:
            await store.load("c")
        assert time.monotonic() - start < 10
        assert "hunter2" not in str(caught.value) + repr(store)
        await store.aclose()


async def test_a_server_that_falls_silent(server: Any) -> None:
    store = RedisStore(server.url, prefix="silent", timeout=1.5)
    await store.append("c", "t1", turn(1))
    server.freeze()
    try:
        start = time.monotonic()
        for _ in range(2):  # with a connection from before, and with a new one
            with pytest.raises(MemoryStoreError, match=r"'c' in Redis: no answer within 1\.5 s\. Check"):
                await store.load("c")
        assert time.monotonic() - start < 10
    finally:
        server.thaw()
    assert len(await store.load("c")) == 2
    await store.aclose()


class Batches:
    """Takes the place of a store's connections: appends go to the server by the thousand."""

    def __init__(self, client: Any) -> None:
        self.batch = client.pipeline(transaction=False)
        self.size = 0

    async def eval(self, *arguments: Any) -> None:
        self.batch.eval(*arguments)
        self.size += 1
        if self.size % 1000 == 0:
            await self.batch.execute()


async def test_the_last_of_many_cost_what_the_last_of_few_cost(store: RedisStore) -> None:
    for number in range(50):
        await store.append("short", f"t{number}", turn(number))
    connections = store._connections
    store._connections = Batches(await connections.client())  # type: ignore[assignment]
    for number in range(50_000):
        await store.append("long", f"t{number}", turn(number))
    store._connections = connections
    client = await connections.client()
    assert await client.llen(store._base("long") + ":turns") == 50_000

    async def best(name: str) -> float:
        times: list[float] = []
        for _ in range(100):
            start = time.perf_counter()
            found = await store.load(name, last_messages=20)
            times.append(time.perf_counter() - start)
            assert len(found) == 20
        return min(times)

    await best("short")
    short, long = await best("short"), await best("long")
    print(f"of 100: {short * 1e3:.3f} ms, of 100,000: {long * 1e3:.3f} ms, {long / short:.2f} times")
    assert long < 2 * short


@pytest.mark.parametrize("wrong", ["localhost", "", None, "http://localhost"])
def test_the_url_is_checked(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="redis://localhost"):
        RedisStore(wrong)


async def test_bounds_and_timeout_are_checked(store: RedisStore) -> None:
    with pytest.raises(ConfigurationError, match="at least 0"):
        await store.load("c", last_turns=-1)
    with pytest.raises(ConfigurationError, match="timeout"):
        RedisStore("redis://localhost", timeout=0)


def test_on_trio() -> None:
    with pytest.raises(ConfigurationError, match="needs asyncio"):
        anyio.run(RedisStore("redis://localhost").load, "c", backend="trio")


def test_on_one_event_loop_after_the_other(server: Any) -> None:
    store = RedisStore(server.url, prefix="loops")
    for number in range(2):
        asyncio.run(store.append("c", f"t{number}", turn(number)))  # the loop's end closes its connections
    found: Any = asyncio.run(store.load("c"))
    assert len(found.turns) == 2


def test_event_loops_that_have_ended_are_forgotten(server: Any) -> None:
    store = RedisStore(server.url, prefix="ended")
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def load() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await store.load("c")

    for _ in range(5):
        asyncio.run(load())
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1


async def test_a_message_that_is_no_json(store: RedisStore) -> None:
    with pytest.raises(MemoryStoreError, match="cannot be written as JSON"):
        await store.append("c", "t", [UserMessage(content="a", metadata={"x": object()})])


@pytest.mark.parametrize("make", [RedisStore, RedisState])
@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter/2@localhost:6379/0",
        "redis://user:hunter#2@localhost:6379/0",
        "redis://user:hunter?2@localhost:6379/0",
        "redis://hunter:12/2@localhost:6379/0",
        "redis://hunter:12?2@localhost:6379/0",
        "redis://:hunter2@localhost:99999/0",
        "redis://:hunter2@localhost:6379/chat",
        "redis://:hunter2@[::1",
        "redis://:hunter2@localhost:6379/0?db=chat",
        "redis://:hunter2@localhost:6379/0?retries=3",
        "hunter2",
    ],
)
def test_a_url_that_is_none_is_refused_and_not_repeated(make: Any, url: str) -> None:
    with pytest.raises(ConfigurationError, match="localhost:6379/0") as caught:
        make(url)
    assert "hunter" not in str(caught.value) and caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://localhost",
        "redis://localhost:6379/",
        "redis://[::1]:6379/3",
        "rediss://user:p%40ss%2F@localhost:6379/0?ssl_cert_reqs=none",
        "redis://localhost?db=2&protocol=3",
        "unix:///var/run/redis.sock?db=1",
        "unix://user:secret@/var/run/redis.sock",
    ],
)
async def test_urls_are_taken(url: str) -> None:
    store = RedisStore(url)
    await store.aclose()
