"""The stores of the package keep the contract; and the contract finds those that do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import Message, ToolMessage
from advisorchain.memory import History, InMemoryStore, SqliteStore, StoredTurn
from advisorchain.testing import check_memory_store


async def test_in_memory() -> None:
    await check_memory_store(InMemoryStore)


async def test_sqlite(tmp_path: Path) -> None:
    numbers = itertools.count()
    await check_memory_store(lambda: SqliteStore(tmp_path / f"{next(numbers)}.db"))


async def test_an_async_factory() -> None:
    async def make() -> InMemoryStore:
        return InMemoryStore()

    await check_memory_store(make)


class TakesTwice(InMemoryStore):
    async def append(self, conversation_id: str, turn_id: str, messages: Sequence[Message], **more: Any) -> None:
        stored = self._conversations.setdefault(conversation_id, {}).setdefault(more.get("branch", ""), {})
        known = stored[turn_id].messages if turn_id in stored else ()
        stored[turn_id] = StoredTurn(turn_id, (*known, *messages))


class LosesToolMessages(InMemoryStore):
    async def append(self, conversation_id: str, turn_id: str, messages: Sequence[Message], **more: Any) -> None:
        kept = [message for message in messages if not isinstance(message, ToolMessage)]
        await super().append(conversation_id, turn_id, kept, **more)


class IgnoresBounds(InMemoryStore):
    async def load(self, conversation_id: str, **more: Any) -> History:
        return await super().load(conversation_id, branch=more.get("branch", ""), before=more.get("before"))


class CutsTurns(InMemoryStore):
    async def load(self, conversation_id: str, **more: Any) -> History:
        count = more.pop("last_messages", None)
        found = await super().load(conversation_id, **more)
        return found if count is None else History([StoredTurn("t", tuple(found)[len(found) - count :])])


class IgnoresBranches(InMemoryStore):
    async def append(self, conversation_id: str, turn_id: str, messages: Sequence[Message], **more: Any) -> None:
        await super().append(conversation_id, turn_id, messages)


class IgnoresBefore(InMemoryStore):
    async def load(self, conversation_id: str, **more: Any) -> History:
        more.pop("before", None)
        return await super().load(conversation_id, **more)


class Interleaves(InMemoryStore):
    async def append(self, conversation_id: str, turn_id: str, messages: Sequence[Message], **more: Any) -> None:
        for message in messages:
            await super().append(conversation_id, turn_id, [message], **more)
            await anyio.lowlevel.checkpoint()


class GivesTuples(InMemoryStore):
    async def load(self, conversation_id: str, **more: Any) -> Any:
        return tuple(await super().load(conversation_id, **more))


class KeepsDeleted(InMemoryStore):
    async def delete(self, conversation_id: str) -> None:
        self._conversations.get(conversation_id, {}).pop("", None)


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (TakesTwice, "stored once in a turn"),
        (LosesToolMessages, "loses nothing"),
        (IgnoresBounds, "last_turns=0"),
        (CutsTurns, "last_messages="),
        (IgnoresBranches, "branch"),
        (IgnoresBefore, "before="),
        (Interleaves, "sees all of the append or nothing"),
        (GivesTuples, "not a History"),
        (KeepsDeleted, "branch 'b'"),
    ],
)
async def test_a_store_that_breaks_a_rule(broken: Callable[[], Any], text: str) -> None:
    with pytest.raises(AssertionError, match=text) as caught:
        await check_memory_store(broken)
    assert str(caught.value).startswith(broken.__name__ + ": ")  # type: ignore[attr-defined]
