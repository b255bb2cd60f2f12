"""`InMemoryStore`: conversations in this process, gone with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import MemoryStoreError
from ..messages import Message
from .store import History, StoredTurn, check_bounds, have_distinct_ids, message_key

_Turns = dict[str, StoredTurn]


class InMemoryStore:
    """Keeps conversations in a dict, without bound: for tests, scripts, and processes that may forget.

    Use it on one event loop at a time; its methods never wait.
    """

    lossless = True

    def __init__(self) -> None:
        self._conversations: dict[str, dict[str, _Turns]] = {}

    async def load(
        self,
        conversation_id: str,
        *,
        branch: str = "",
        last_turns: int | None = None,
        last_messages: int | None = None,
        before: str | None = None,
    ) -> History:
        """See `MemoryStore.load`."""
        check_bounds(last_turns, last_messages)
        turns = self._conversations.get(conversation_id, {}).get(branch, {})
        latest = reversed(turns.values())
        if before is not None:
            for turn in latest:
                if any(message_key(message) == before for message in turn.messages):
                    break
            else:
                raise MemoryStoreError(f"Conversation {conversation_id!r} has no message {before!r} to load before.")
        elif last_messages is None and (last_turns is None or last_turns >= len(turns)):
            return History(turns.values())
        chosen: list[StoredTurn] = []
        for turn in latest:
            if last_turns is not None and len(chosen) >= last_turns:
                break
            if last_messages is not None:
                last_messages -= len(turn.messages)
                if last_messages < 0:
                    break
            chosen.append(turn)
        chosen.reverse()
        return History(chosen)

    async def append(
        self, conversation_id: str, turn_id: str, messages: Sequence[Message], *, branch: str = ""
    ) -> None:
        """See `MemoryStore.append`."""
        if not messages:
            return
        turns = self._conversations.setdefault(conversation_id, {}).setdefault(branch, {})
        stored = turns.get(turn_id)
        if stored is None and have_distinct_ids(messages):
            turns[turn_id] = StoredTurn(turn_id, tuple(messages))
            return
        kept = {} if stored is None else {message_key(message): message for message in stored.messages}
        for message in messages:
            kept.setdefault(message_key(message), message)
        turns[turn_id] = StoredTurn(turn_id, tuple(kept.values()))

    async def delete(self, conversation_id: str) -> None:
        """See `MemoryStore.delete`."""
        self._conversations.pop(conversation_id, None)

    async def conversations(self) -> tuple[str, ...]:
        """See `MemoryStore.conversations`."""
        return tuple(sorted(self._conversations))
