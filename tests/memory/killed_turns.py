"""Runs turns in child processes that are killed, and checks after each what is in the store.

``python killed_turns.py STORE TIMES SEED``: prints a line per kill and fails on the first broken conversation. Half of
the children are killed after a random time, half right before a random SQL statement. STORE is the file of a
`SqliteStore`, or the ``postgresql://`` URL of a `PostgresStore`.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel

from advisorchain import AssistantMessage, ChatClient, Order, ToolCall, ToolMessage, UserMessage, tool
from advisorchain.advisors import MemoryAdvisor
from advisorchain.memory import SqliteStore
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel

ROUNDS = 2
MESSAGES_OF_A_TURN = 2 + ROUNDS * 3


@tool
async def look(at: int) -> str:
    """Look."""
    await anyio.lowlevel.checkpoint()
    return "seen"


def open_store(where: str) -> Any:
    if not where.startswith("postgresql://"):
        return SqliteStore(where)
    from advisorchain_postgres import PostgresStore

    return PostgresStore(where)


def client_of(store: Any, turns: int) -> ChatClient:
    calls: Any = [[ToolCall("look", {"at": 1}, "c0"), ToolCall("look", {"at": 2}, "c1")]] * ROUNDS
    model = ScriptedModel([*calls, "done"] * turns)
    return ChatClient(model, tools=[look], advisors=[MemoryAdvisor(store, order=Order.MEMORY_INSIDE)])


def run_turns(where: str, conversations: list[str]) -> None:
    """The child: turns, until it is killed."""
    store = open_store(where)

    async def run() -> None:
        client = client_of(store, 1000)
        for number in range(1000):
            await client.call(f"question {number}", conversation_id=conversations[number % len(conversations)])

    anyio.run(run)


def kill_at_statement(where: str, count: int) -> None:
    """Have this process killed right before its ``count``-th SQL statement."""
    left = count

    def trace(statement: Any) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if where.startswith("postgresql://"):
        import psycopg

        wait = psycopg.AsyncConnection.wait

        async def traced(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
            trace(generator)  # nothing has been sent yet
            return await wait(self, generator, *args, **kwargs)

        psycopg.AsyncConnection.wait = traced  # type: ignore[method-assign]
        return
    connect = sqlite3.connect

    def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(trace)
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]


async def check(where: str, conversations: list[str]) -> int:
    """Every conversation loads, is whole, and takes another turn; returns how many turns there are."""
    store = open_store(where)
    turns = 0
    try:
        for conversation in conversations:
            history = await store.load(conversation)
            turns += len(history.turns)
            for turn in history.turns:
                check_pairing(turn.messages)
                assert len(turn.messages) == MESSAGES_OF_A_TURN, f"turn {turn.id} has {len(turn.messages)} messages"
                assert isinstance(turn.messages[0], UserMessage)
                assert isinstance(turn.messages[-1], AssistantMessage) and not turn.messages[-1].tool_calls
                results = Counter(m.call_id for m in turn.messages if isinstance(m, ToolMessage))
                assert len(results) == 2 * ROUNDS and set(results.values()) == {1}
            ids = Counter(message.id for message in history)  # type: ignore[union-attr]
            assert all(count == 1 for count in ids.values()), f"stored twice: {ids.most_common(1)}"
            response = await client_of(store, 1).call("next?", conversation_id=conversation)
            assert response.text == "done"
            check_pairing(response.request.messages)  # type: ignore[union-attr]
            assert len(await store.load(conversation)) == len(history) + MESSAGES_OF_A_TURN
    finally:
        await store.aclose() if hasattr(store, "aclose") else store.close()
    return turns


def main(where: str, times: int, seed: int) -> None:
    """Kill ``times`` children."""
    chance = random.Random(seed)
    conversations = ["a", "b"]
    longest = 0.15 if "://" in where else 0.06  # seconds: connecting takes a while
    for number in range(times):
        by_statement = number % 2 == 1
        count, seconds = chance.randint(1, 60), chance.uniform(0.0, longest)
        child = os.fork()
        if child == 0:
            if by_statement:
                kill_at_statement(where, count)
            try:
                run_turns(where, conversations)
            finally:
                os._exit(1)
        if not by_statement:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"the child ended by itself: {status}"
        print(number, anyio.run(check, where, conversations), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
