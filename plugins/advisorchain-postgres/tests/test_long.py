"""The end of a long conversation costs what that of a short one costs.

``pytest plugins/advisorchain-postgres/tests/test_long.py -s`` prints the measured numbers.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from advisorchain import AssistantMessage, UserMessage, dump_messages
from advisorchain.memory import MemoryStore
from advisorchain_postgres import PostgresStore

TURNS = {"short": 50, "long": 50_000, "other": 20_000}
ROUNDS, LOADS = 12, 25


async def fill(store: PostgresStore, dsn: str, schema: str) -> None:
    """Two messages a turn: 100 in the short conversation, 100,000 in the long one, and many turns of others between."""
    for name in TURNS:
        await store.append(name, "first", [UserMessage(content="question"), AssistantMessage(content="answer " * 10)])
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.cursor() as cursor:
        await cursor.execute(f"SELECT conversation, id FROM {schema}.memory_lines".encode())
        lines = dict(await cursor.fetchall())
        places = [
            (name, place) for place in range(2, max(TURNS.values()) + 1) for name in TURNS if place <= TURNS[name]
        ]
        async with cursor.copy(f"COPY {schema}.memory_turns (line, place, turn, size) FROM STDIN".encode()) as copy:
            for name, place in places:
                await copy.write_row((lines[name], place, f"t{place}", 2))
        into = f"COPY {schema}.memory_messages (line, place, position, id, body) FROM STDIN"
        async with cursor.copy(into.encode()) as copy:
            for name, place in places:
                for position, message in enumerate((UserMessage(content="q"), AssistantMessage(content="a " * 30)), 1):
                    body = dump_messages((message,))[1:-1]
                    await copy.write_row((lines[name], place, position, message.id, body))
        for name, turns in TURNS.items():
            set_turns = f"UPDATE {schema}.memory_lines SET turns = %s WHERE id = %s"
            await cursor.execute(set_turns.encode(), (turns, lines[name]))


async def best(store: MemoryStore, name: str) -> tuple[float, float]:
    """Seconds of a load by the wall and of this process's CPU, at best."""
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(LOADS):
        start, cpu_start = time.perf_counter(), time.process_time()
        found = await store.load(name, last_messages=20)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
        assert len(found) == 20
    return min(wall), min(cpu)


@pytest.mark.parametrize("analyzed", [False, True])
async def test_the_last_of_100_000_cost_what_the_last_of_100_cost(
    store: PostgresStore, server: Any, schema: str, query: Any, analyzed: bool
) -> None:
    await fill(store, server.dsn, schema)
    assert query(
        f"SELECT count(*) FROM {schema}.memory_messages WHERE line = (SELECT id FROM {schema}.memory_lines "
        "WHERE conversation = 'long')"
    ) == [(100_000,)]
    if analyzed:
        query("ANALYZE")
    measured = {name: [await best(store, name)] for name in ("short", "long")}
    for _ in range(ROUNDS):
        for name in measured:
            measured[name].append(await best(store, name))
    wall, cpu = ({name: min(each[index] for each in found) for name, found in measured.items()} for index in (0, 1))
    print(
        f"\nlast 20 of 100 and of 100,000 messages, analyzed={analyzed}: wall {wall['short'] * 1e3:.3f} and "
        f"{wall['long'] * 1e3:.3f} ms, CPU {cpu['short'] * 1e3:.3f} and {cpu['long'] * 1e3:.3f} ms"
    )
    assert wall["long"] < 2 * wall["short"]
    assert cpu["long"] < 2 * cpu["short"]
