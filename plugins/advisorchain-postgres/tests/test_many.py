"""Many tasks and processes at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from typing import Any

import anyio
import anyio.to_thread
import pytest

from advisorchain import AssistantMessage, Message, UserMessage
from advisorchain_postgres import PostgresStore


def turn(number: int | str = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")


def append_in_process(dsn: str, schema: str, process: int) -> None:
    """50 tasks append a turn twice, and then another one, to a conversation; they make the tables, too."""

    async def append(store: PostgresStore, number: int) -> None:
        for name in (f"{process}-{number}", f"{process}-{number}-later"):
            messages = turn(name)
            await store.append("c", name, messages[:1])
            await store.append("c", name, messages)

    async def run() -> None:
        store = PostgresStore(dsn, schema=schema, timeout=60)
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(append, store, number)
        await store.aclose()

    asyncio.run(run())


async def test_50_tasks_in_each_of_4_processes(server: Any, schema: str) -> None:
    context = multiprocessing.get_context("spawn")
    work = [context.Process(target=append_in_process, args=(server.dsn, schema, n)) for n in range(4)]
    store = PostgresStore(server.dsn, schema=schema, timeout=60)
    seen: list[list[str]] = []
    for process in work:
        process.start()
    while any(process.is_alive() for process in work):
        seen.append([each.id for each in (await store.load("c")).turns])
        await anyio.sleep(0.02)
    for process in work:
        await anyio.to_thread.run_sync(process.join, 60)
        assert process.exitcode == 0
        process.close()
    found = await store.load("c")
    order = [each.id for each in found.turns]
    names = [f"{p}-{n}{later}" for p in range(4) for n in range(50) for later in ("", "-later")]
    assert sorted(order) == sorted(names)
    assert all([m.text for m in t.messages] == [f"question {t.id}", f"answer {t.id}"] for t in found.turns)
    # What was seen on the way is how the end begins: no turn came before one that had been seen.
    assert len({len(early) for early in seen}) > 3
    assert all(early == order[: len(early)] for early in seen)
    place = {name: index for index, name in enumerate(order)}
    assert all(place[name] < place[f"{name}-later"] for name in names if not name.endswith("later"))
    for last in (1, 7, 399):
        assert [each.id for each in (await store.load("c", last_turns=last)).turns] == order[-last:]
    await store.aclose()


async def test_tables_are_made_once_by_many_at_once(server: Any, schema: str, query: Any) -> None:
    stores = [PostgresStore(server.dsn, schema=schema) for _ in range(30)]
    async with anyio.create_task_group() as group:
        for number, store in enumerate(stores):
            group.start_soon(store.append, "c", f"t{number}", turn(number))
    assert len((await stores[0].load("c")).turns) == 30
    assert query(f"SELECT version FROM {schema}.memory_schema") == [(1,)]
    for store in stores:
        await store.aclose()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_after_a_fork_parent_and_child_have_their_own_connections(store: PostgresStore) -> None:
    await store.append("c", "before", turn())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.set_event_loop(None)
            asyncio.events._set_running_loop(None)
            for number in range(3):
                asyncio.run(store.append("c", f"child {number}", turn(number)))
            code = 0
        finally:
            os._exit(code)
    for number in range(3):
        await store.append("c", f"parent {number}", turn(number))
    _, status = await anyio.to_thread.run_sync(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    for number in range(3, 6):
        await store.append("c", f"parent {number}", turn(number))
    names = sorted(each.id for each in (await store.load("c")).turns)
    assert names == ["before", *[f"child {n}" for n in range(3)], *[f"parent {n}" for n in range(6)]]


async def test_more_work_than_connections(server: Any, schema: str, query: Any) -> None:
    store = PostgresStore(server.dsn, schema=schema, max_connections=3)
    most = 0
    async with anyio.create_task_group() as group:
        for number in range(60):
            group.start_soon(store.append, f"c{number % 7}", f"t{number}", turn(number))
        for _ in range(10):
            ((count,),) = query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'advisorchain'")
            most = max(most, count)
            await anyio.sleep(0.005)
    assert 1 <= most <= 3
    assert sum([len(await store.load(f"c{number}")) for number in range(7)]) == 120
    await store.aclose()


async def test_cancelled_work_leaves_no_transaction(store: PostgresStore, query: Any) -> None:
    """Whoever is cancelled at any point, the next one goes on, and the turn is there as a whole or not at all."""
    await store.append("c", "first", turn())
    for number in range(60):
        with anyio.move_on_after(number * 0.0001):
            await store.append("c", f"t{number}", turn(number))
    task = asyncio.create_task(store.append("c", "native", turn()))
    await asyncio.sleep(0.0005)
    task.cancel()
    await asyncio.wait([task])
    await store.append("c", "last", turn())
    found = await store.load("c")
    assert all(len(each.messages) == 2 for each in found.turns)
    assert (found.turns[0].id, found.turns[-1].id) == ("first", "last")
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'advisorchain' AND state LIKE '%transaction%'"
    )
    assert query(idle) == [(0,)]
