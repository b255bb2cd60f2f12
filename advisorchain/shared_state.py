"""State that several advisors or processes share: small JSON values with a version, compared and set."""

from __future__ import annotations

import copy
import threading
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class SharedState(Protocol):
    """Where circuit breakers and rate limits are kept when processes share them, for example Redis.

    A value is plain JSON data. Its version changes with every save, so that of two that read the same version only one
    can write. A key is any text. A state that forgets values which nobody has saved for a while says after how many
    seconds in an attribute ``ttl``. ``check_shared_state`` in ``advisorchain.testing`` tests all of this.

    A state may raise, or take long: who uses it goes on without it, and asks again later. It raises a
    `ConfigurationError` for what will not go away by itself: that one is passed on.
    """

    async def load(self, key: str) -> tuple[dict[str, Any] | None, int]:
        """The value and its version; ``(None, 0)`` when there is none.

        Raises:
            SharedStateError: it could not be loaded.
        """
        ...

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        """Store the value if the stored version still is ``version`` (0: there is none); whether it was stored.

        Raises:
            SharedStateError: it could not be stored.
        """
        ...


class InMemorySharedState:
    """A `SharedState` in this process: for several clients with one breaker each, and for tests."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[dict[str, Any], int]] = {}
        self._lock = threading.Lock()

    async def load(self, key: str) -> tuple[dict[str, Any] | None, int]:
        """A copy of the value, and its version."""
        value, version = self._values.get(key, (None, 0))
        return copy.deepcopy(value), version

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        """Store a copy of the value if nobody else has stored one meanwhile."""
        with self._lock:
            if self._values.get(key, (None, 0))[1] != version:
                return False
            self._values[key] = (copy.deepcopy(value), version + 1)
            return True
