"""Where calls wait for other calls to end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import anyio

RECHECK_SECONDS = 0.05
"""How long one wait takes at most: calls that end in other event loops, threads or processes wake nobody here."""


class WaitingRoom:
    """Calls that wait until another one of the same source has ended."""

    __slots__ = ("_events", "_lock")

    def __init__(self) -> None:
        self._events: dict[tuple[str, Any], anyio.Event] = {}  # by source and event loop, while somebody waits
        self._lock = threading.Lock()

    async def wait(self, source: str, seconds: float) -> None:
        """Wait until a call has ended, or it is time to look again; at most ``seconds``."""
        import anyio
        from anyio.lowlevel import current_token

        place = (source, current_token())
        with self._lock:
            event = self._events.setdefault(place, anyio.Event())
        try:
            with anyio.move_on_after(min(seconds, RECHECK_SECONDS)):
                await event.wait()
        finally:
            self._wake(place)  # who shares the event looks again too; kept, it would keep a loop that has ended

    def left(self, source: str) -> None:
        """A call has ended: those who wait in this event loop look again."""
        if self._events:
            from anyio.lowlevel import current_token

            self._wake((source, current_token()))

    def _wake(self, place: tuple[str, Any]) -> None:
        with self._lock:
            event = self._events.pop(place, None)
        if event is not None:
            event.set()
