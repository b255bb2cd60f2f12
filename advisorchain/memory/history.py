"""What must hold of a history before a model reads it: calls and results paired, no call id twice."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection

from ..errors import TranscriptError
from ..messages import AssistantMessage, Message, ToolMessage
from .store import History, StoredTurn

logger = logging.getLogger("advisorchain")


def merged(outer: History, inner: History) -> History:
    """Two histories of one conversation as one: of a turn that both have, the inner one's messages are taken."""
    turns: list[StoredTurn] = []
    ends = {turn.id: end for end, turn in enumerate(inner.turns, 1)}
    taken = 0
    for turn in outer.turns:
        end = ends.get(turn.id)
        if end is None:
            turns.append(turn)
        elif end > taken:
            turns.extend(inner.turns[taken:end])
            taken = end
    return History([*turns, *inner.turns[taken:]])


def with_distinct_calls(history: History, used: set[str]) -> History:
    """The history with calls renamed, results with them, whose id is in ``used`` or occurs in a later turn too.

    Providers that count their calls from 0 give one id in every turn. The new name depends on the turn alone, so that
    it stays the same from turn to turn. Adds all ids to ``used``. A turn whose calls and results do not pair (written
    by another program) is left out, with a warning.
    """
    turns: list[StoredTurn] = []
    changed = False
    for turn in reversed(history.turns):
        try:
            ids = turn.call_ids
        except TranscriptError as exc:
            logger.warning("Memory: turn %s is left out of the history: %s", turn.id, exc)
            changed = True
            continue
        if ids:
            if not used.isdisjoint(ids):
                turn = _renamed(turn, ids & used)
                ids = turn.call_ids
                changed = True
            used |= ids
        turns.append(turn)
    if not changed:
        return history
    turns.reverse()
    return History(turns)


def _renamed(turn: StoredTurn, clashing: Collection[str]) -> StoredTurn:
    names = {call_id: f"{_short(call_id)}_{_short(turn.id)}" for call_id in clashing}
    return StoredTurn(turn.id, tuple([_with_names(message, names) for message in turn.messages]))


def _short(id: str) -> str:
    """At most 31 characters, and others for every other id: providers take call ids of at most 64."""
    return id if len(id) <= 31 else hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:31]


def _with_names(message: Message, names: dict[str, str]) -> Message:
    if isinstance(message, ToolMessage) and message.call_id in names:
        return message.model_copy(update={"call_id": names[message.call_id]})
    if isinstance(message, AssistantMessage) and any(call.id in names for call in message.tool_calls):
        calls = tuple(
            [
                call.replace(id=names[call.id]) if call.executed_by == "client" and call.id in names else call
                for call in message.tool_calls
            ]
        )
        return message.model_copy(update={"tool_calls": calls})
    return message
