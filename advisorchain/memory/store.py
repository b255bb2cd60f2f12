"""What a memory store is: an append-only log of turns for each conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from ..errors import ConfigurationError
from ..messages import AssistantMessage, Message, ToolMessage, check_pairing, dump_messages


class StoredTurn:
    """One turn as a store keeps it. Not to be changed: a store may give the same object again and again.

    Args:
        id: the turn's id.
        messages: its messages, calls and results complete.
    """

    __slots__ = ("id", "messages", "_call_ids")

    def __init__(self, id: str, messages: tuple[Message, ...]) -> None:
        self.id = id
        self.messages = messages
        self._call_ids: set[str] | None = None

    @property
    def call_ids(self) -> set[str]:
        """The ids of its tool calls; looked up once.

        Raises:
            TranscriptError: calls and results do not pair.
        """
        found = self._call_ids
        if found is None:
            found = self._call_ids = _ids_of_pairs(self.messages)
        return found

    def __repr__(self) -> str:
        return f"StoredTurn({self.id!r}, {len(self.messages)} messages)"


def _ids_of_pairs(messages: tuple[Message, ...]) -> set[str]:
    """What `check_pairing` returns, faster where one result follows one call."""
    ids: set[str] = set()
    opened = None
    for message in messages:
        kind = type(message)
        if kind is ToolMessage:
            if message.call_id != opened:  # type: ignore[union-attr]
                return check_pairing(messages)
            opened = None
        elif opened is not None:
            return check_pairing(messages)
        elif kind is AssistantMessage:
            for call in message.tool_calls:  # type: ignore[union-attr]
                if opened is not None or call.executed_by != "client":
                    return check_pairing(messages)
                opened = call.id
                ids.add(opened)
    return ids if opened is None else check_pairing(messages)


class History(tuple[Message, ...]):
    """The messages of whole turns, oldest first: what a store loads. A tuple that also knows its turns.

    Attributes:
        turns: the same messages, turn by turn.
    """

    turns: tuple[StoredTurn, ...]

    def __new__(cls, turns: Iterable[StoredTurn] = ()) -> History:
        """The history of these turns."""
        turns = tuple(turns)
        messages: list[Message] = []
        for turn in turns:
            messages += turn.messages
        history = super().__new__(cls, messages)
        history.turns = turns
        return history


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps conversations. `check_memory_store` in ``advisorchain.testing`` is the test that every store passes.

    A conversation has a main line (``branch=""``) and branches, for sub-agents. Each is a log of turns in the order in
    which they were first appended. A store raises `MemoryStoreError` when it cannot do what it is asked.

    Attributes:
        lossless: every message of every kind comes back equal. A store that cannot keep tool messages says False.
    """

    @property
    def lossless(self) -> bool:
        """Whether every message of every kind comes back equal."""
        ...

    async def load(
        self,
        conversation_id: str,
        *,
        branch: str = "",
        last_turns: int | None = None,
        last_messages: int | None = None,
        before: str | None = None,
    ) -> History:
        """The conversation's messages: whole turns, oldest first; empty when there are none.

        Args:
            conversation_id: which conversation.
            branch: which branch of it.
            last_turns: at most so many turns, the latest. The cost depends on this bound, not on the conversation.
            last_messages: at most so many messages, as many of the latest turns as fit whole.
            before: an earlier state: only the turns before the one that holds the message of this id (before the
                latest such turn, when there are several).

        Raises:
            MemoryStoreError: the store failed, or there is no message of the id ``before``.
        """
        ...

    async def append(
        self, conversation_id: str, turn_id: str, messages: Sequence[Message], *, branch: str = ""
    ) -> None:
        """Append a turn's messages: all of them or none; a message that the turn has already is not stored again.

        Messages for a turn that exists are added to it, in its place.

        Raises:
            MemoryStoreError: the store failed; nothing was stored.
        """
        ...

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with all its branches; one that does not exist is no error."""
        ...

    async def conversations(self) -> tuple[str, ...]:
        """The ids of all conversations, sorted."""
        ...


def message_key(message: Message) -> str:
    """What tells a message from the others of its turn: its id; for a message of an unknown role, its content."""
    key: Any = getattr(message, "id", None)
    if isinstance(key, str) and key:
        return key
    return "sha256:" + hashlib.sha256(dump_messages((message,)).encode()).hexdigest()


def have_distinct_ids(messages: Sequence[Message]) -> bool:
    """Whether every message has an id of its own; False also when one has none."""
    try:
        return len(set(map(_id_of, messages))) == len(messages)
    except (AttributeError, TypeError):  # one of an unknown role
        return False


_id_of = attrgetter("id")


def check_bounds(last_turns: int | None, last_messages: int | None) -> None:
    """Check the bounds of a load.

    Raises:
        ConfigurationError: one is no int from 0 on.
    """
    for name, bound in (("last_turns", last_turns), ("last_messages", last_messages)):
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or bound < 0):
            raise ConfigurationError(f"{name} must be None or an int of at least 0, not {bound!r}.")
