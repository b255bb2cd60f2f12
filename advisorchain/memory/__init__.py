"""Memory: stores that keep conversations, and windows that say how much of one a turn reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .in_memory import InMemoryStore
from .store import History, MemoryStore, StoredTurn, check_bounds, message_key
from .windows import LastMessages, LastTurns, TokenCounter, TokenWindow, Window, estimated_tokens

if TYPE_CHECKING:
    from .sqlite import SqliteStore

__all__ = [
    "History",
    "InMemoryStore",
    "LastMessages",
    "LastTurns",
    "MemoryStore",
    "SqliteStore",
    "StoredTurn",
    "TokenCounter",
    "TokenWindow",
    "Window",
    "check_bounds",
    "estimated_tokens",
    "message_key",
]


def __getattr__(name: str) -> Any:
    # Imported when it is asked for: sqlite3 would make every import of the package slower.
    if name == "SqliteStore":
        from .sqlite import SqliteStore

        return SqliteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
