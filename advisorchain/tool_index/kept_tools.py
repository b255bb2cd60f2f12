"""`KeptTools`: which tools a conversation (or a user, a tenant) has found, from one turn to the next."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence

from ..context import Turn
from ..memory.store import MemoryStore
from ..messages import AssistantMessage

logger = logging.getLogger("advisorchain")

BRANCH = ":tool_search"
"""The branch of a conversation that holds the names; its messages are JSON lists of names."""
MAX_OWNERS = 10_000
"""How many conversations (users, ...) are kept in this process."""


class KeptTools:
    """Names of tools by owner, in the order in which they were found.

    They are a convenience: a store that fails costs a search, and a line in the log, not the turn.

    Args:
        most: so many names are loaded, the latest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._here: OrderedDict[str, list[str]] = OrderedDict()

    async def load(self, store: MemoryStore | None, owner: str) -> list[str]:
        """The names; ``store``: where they are, None: in this process."""
        if store is None:
            names = self._here.get(owner, [])
            return names[-self._most :]
        try:
            history = await store.load(owner, branch=BRANCH, last_turns=self._most)
        except Exception:
            logger.warning("Which tools %r has found could not be loaded", owner, exc_info=True)
            return []
        found: dict[str, None] = {}
        for message in history:
            for name in _names(message.text):
                found.pop(name, None)  # found once more: it is the latest again
                found[name] = None
        return list(found)[-self._most :]

    async def add(self, store: MemoryStore | None, owner: str, turn_id: str, names: Sequence[str]) -> None:
        """Keep more names."""
        if store is None:
            kept = self._here.setdefault(owner, [])
            kept.extend(name for name in names if name not in kept)
            del kept[: -self._most]
            self._here.move_to_end(owner)
            while len(self._here) > MAX_OWNERS:
                self._here.popitem(last=False)
            return
        message = AssistantMessage(content=json.dumps(list(names), ensure_ascii=False))
        try:
            await store.append(owner, turn_id, [message], branch=BRANCH)
        except Exception:
            logger.warning("Which tools %r has found could not be stored", owner, exc_info=True)


def store_of(turn: Turn) -> MemoryStore | None:
    """The store of the memory that stands in the turn's chain."""
    for entry in turn.chain.entries if turn.chain is not None else ():
        store = getattr(entry.advisor, "store", None)
        if store is not None and isinstance(store, MemoryStore):
            return store
    return None


def _names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
