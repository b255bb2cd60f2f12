"""Any sequence of appends, loads and deletions gives on both stores what a plain list would give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisorchain import AssistantMessage, Message, UserMessage
from advisorchain.memory import InMemoryStore, SqliteStore

CONVERSATIONS = st.sampled_from(["a", "b"])
BRANCHES = st.sampled_from(["", "x"])
TURNS = st.sampled_from(["t1", "t2", "t3", "t4"])
BOUNDS = st.none() | st.integers(0, 8)


@st.composite
def messages(draw: Any) -> list[Message]:
    """Messages whose content follows from their id, so that an id is one message."""
    ids = draw(st.lists(st.integers(0, 9), max_size=5))
    return [
        AssistantMessage(content=f"m{number}", id=f"m{number}")
        if number % 2
        else UserMessage(content=f"m{number}", id=f"m{number}")
        for number in ids
    ]


APPEND = st.tuples(st.just("append"), CONVERSATIONS, BRANCHES, TURNS, messages())
LOAD = st.tuples(st.just("load"), CONVERSATIONS, BRANCHES, BOUNDS, BOUNDS)
BEFORE = st.tuples(st.just("before"), CONVERSATIONS, BRANCHES, st.integers(0, 9), BOUNDS)
DELETE = st.tuples(st.just("delete"), CONVERSATIONS)
STEPS = st.lists(APPEND | APPEND | LOAD | BEFORE | DELETE, max_size=25)


class Plain:
    """What must happen, said plainly."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], dict[str, list[Message]]] = {}

    def append(self, conversation: str, branch: str, turn: str, new: list[Message]) -> None:
        if not new:
            return
        known = self.logs.setdefault((conversation, branch), {}).setdefault(turn, [])
        for message in new:
            if message not in known:
                known.append(message)

    def load(
        self, conversation: str, branch: str, last_turns: int | None, last_messages: int | None, end: int | None = None
    ) -> list[list[Message]]:
        turns = list(self.logs.get((conversation, branch), {}).values())[:end]
        if last_turns is not None:
            turns = turns[max(0, len(turns) - last_turns) :]
        while last_messages is not None and sum(map(len, turns)) > last_messages:
            turns = turns[1:]
        return turns

    def turn_of(self, conversation: str, branch: str, number: int) -> int | None:
        turns = list(self.logs.get((conversation, branch), {}).values())
        found = [index for index, turn in enumerate(turns) if any(m.text == f"m{number}" for m in turn)]
        return found[-1] if found else None

    def delete(self, conversation: str) -> None:
        for key in [key for key in self.logs if key[0] == conversation]:
            del self.logs[key]


async def follow(make: Callable[[], Any], steps: list[tuple[Any, ...]]) -> None:
    store, plain = make(), Plain()
    try:
        for step in steps:
            match step:
                case ("append", conversation, branch, turn, new):
                    await store.append(conversation, turn, new, branch=branch)
                    plain.append(conversation, branch, turn, new)
                case ("load", conversation, branch, turns, count):
                    found = await store.load(conversation, branch=branch, last_turns=turns, last_messages=count)
                    expected = plain.load(conversation, branch, turns, count)
                    assert [list(turn.messages) for turn in found.turns] == expected
                    assert list(found) == [message for turn in expected for message in turn]
                case ("before", conversation, branch, number, count):
                    end = plain.turn_of(conversation, branch, number)
                    if end is not None:
                        more = {"branch": branch, "last_messages": count, "before": f"m{number}"}
                        found = await store.load(conversation, **more)
                        expected = plain.load(conversation, branch, None, count, end)
                        assert [list(turn.messages) for turn in found.turns] == expected
                case ("delete", conversation):
                    await store.delete(conversation)
                    plain.delete(conversation)
            assert await store.conversations() == tuple(sorted({key[0] for key in plain.logs}))
    finally:
        if isinstance(store, SqliteStore):
            store.close()


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_in_memory(steps: list[tuple[Any, ...]]) -> None:
    anyio.run(follow, InMemoryStore, steps)


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sqlite(tmp_path: Path, steps: list[tuple[Any, ...]]) -> None:
    path = tmp_path / "memory.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    anyio.run(follow, partial(SqliteStore, path), steps)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_sqlite_loses_nothing(tmp_path: Path, backend: str, contents: list[tuple[str, dict[str, Any]]]) -> None:
    sent = [UserMessage(content=text, metadata=metadata) for text, metadata in contents]
    store = SqliteStore(tmp_path / "memory.db")

    async def there_and_back() -> None:
        await store.delete(sent[0].text)
        await store.append(sent[0].text, sent[0].text, sent)
        assert await store.load(sent[0].text) == tuple(sent)

    anyio.run(there_and_back, backend=backend)
    store.close()
