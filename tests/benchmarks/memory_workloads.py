"""What memory costs: a turn with it to one without it, and the end of a long conversation to that of a short one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

from measurement import Measured, Sample, overhead, paired, request_sample
from workloads import PROMPT, SCRIPT, WORKLOADS, Advised, Script, check, scratch_directory, tool_functions

from advisorchain import AssistantMessage, ChatClient, ChatRequest, ChatResponse, Message, ToolCall, UserMessage
from advisorchain.advisors import MemoryAdvisor, ToolCallingAdvisor
from advisorchain.memory import InMemoryStore, LastTurns, MemoryStore, SqliteStore

TURNS = 6
"""How many turns a conversation has before it is deleted and the next one begins."""
LAST = 20
"""How many messages are loaded of a conversation."""
SHORT, LONG = 100, 100_000
"""Messages of a short and of a long conversation."""
LOADS = 50
"""Loads in one batch."""


class Remembered(Advised):
    """W2 as a turn of a conversation, with a memory of this order in this process, or (None) without."""

    def __init__(self, order: int | None) -> None:
        super().__init__(WORKLOADS["W2"])
        self.store = InMemoryStore()
        self.turns = 0
        advisors: list[Any] = [ToolCallingAdvisor(max_rounds=None)]
        if order is not None:
            advisors.append(MemoryAdvisor(self.store, order=order, window=LastTurns(TURNS)))
        self.client = ChatClient(self._model, tools=tool_functions(1), advisors=advisors)

    async def request(self) -> str:
        """Do one turn; the answer's text."""
        SCRIPT.set(Script(self.workload))
        self.turns += 1
        if self.turns % TURNS == 0:
            await self.store.delete("c")
        return (await self.client.call(PROMPT, conversation_id="c")).text

    async def _model(self, request: ChatRequest) -> ChatResponse[Any]:
        """The same model, whose call ids are unique, as those of the large providers are."""
        response = await super()._model(request)
        message = response.message
        if not message.tool_calls:
            return response
        calls = tuple([ToolCall(c.name, c.arguments, f"{c.id}_{self.turns}") for c in message.tool_calls])
        return ChatResponse(AssistantMessage(tool_calls=calls))

    async def check(self, messages_of_a_turn: int) -> None:
        """Do some turns, and see that they are remembered.

        Raises:
            AssertionError: says what differs.
        """
        for _ in range(TURNS * 2 - 1):
            await check(self, self.workload)
        sizes = [len(turn.messages) for turn in (await self.store.load("c")).turns]
        if sizes != [messages_of_a_turn] * TURNS:
            raise AssertionError(f"The turns of a conversation have {sizes} messages, not {messages_of_a_turn} each.")


async def memory_overhead(order: int, messages_of_a_turn: int, pairs: int) -> Callable[[], Awaitable[Measured]]:
    """Measures what a memory of this order adds to W2, in units of the bare W2."""
    side = Remembered(order)
    await side.check(messages_of_a_turn)
    ours = await request_sample(side, side.workload)
    without = await request_sample(Remembered(None), side.workload)
    bare = await request_sample("bare", side.workload)
    return lambda: overhead(ours, without, bare, pairs)


# The end of a long conversation --------------------------------------------------------------------------------------


def conversation(messages: int) -> list[tuple[str, tuple[Message, ...]]]:
    """The turns of a conversation, two messages each."""
    return [
        (f"t{number}", (UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")))
        for number in range(messages // 2)
    ]


async def filled_in_memory() -> MemoryStore:
    """A store with a short and a long conversation."""
    store = InMemoryStore()
    for name, messages in (("short", SHORT), ("long", LONG)):
        for turn_id, turn in conversation(messages):
            await store.append(name, turn_id, turn)
    return store


async def filled_sqlite() -> MemoryStore:
    """The same in a file; the long conversation is written in one transaction, or it would take a minute."""
    store = SqliteStore(scratch_directory() / "memory.db")
    for turn_id, turn in conversation(SHORT):
        await store.append("short", turn_id, turn)
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        for turn_id, turn in conversation(LONG):
            row: Any = db.execute(
                "INSERT INTO memory_turns (conversation, branch, turn, size) VALUES ('long', '', ?, 2)", (turn_id,)
            )
            rows = [(row.lastrowid, at, getattr(m, "id", ""), m.model_dump_json()) for at, m in enumerate(turn)]
            db.executemany("INSERT INTO memory_messages (turn, position, id, body) VALUES (?, ?, ?, ?)", rows)
        db.commit()
    return store


STORES: dict[str, Callable[[], Awaitable[MemoryStore]]] = {"in memory": filled_in_memory, "SQLite": filled_sqlite}


async def load_sample(store: MemoryStore, name: str) -> Sample:
    """A sample of loading the last messages of a conversation, checked once."""
    found = await store.load(name, last_messages=LAST)
    messages = SHORT if name == "short" else LONG
    if [message.text for message in found[-1:]] != [f"answer {messages // 2 - 1}"] or len(found) != LAST:
        raise AssertionError(f"{type(store).__name__}: these are not the last {LAST} messages of {name!r}: {found}")

    async def sample() -> float:
        start = time.process_time()
        for _ in range(LOADS):
            await store.load(name, last_messages=LAST)
        return (time.process_time() - start) / LOADS

    return sample


async def long_to_short(store_name: str, pairs: int) -> Callable[[], Awaitable[Measured]]:
    """Measures the load of the end of a long conversation, to that of a short one."""
    store = await STORES[store_name]()
    long, short = await load_sample(store, "long"), await load_sample(store, "short")
    return lambda: paired(long, short, pairs)
