"""The text of a streamed turn, piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from .events import Event, Restarted, RoundStarted, TextDelta


class TextPieces:
    """What `ChatStream.text` gives: an iterator and no generator, so that to leave it early is nothing special.

    A generator that is dropped before its end has to be closed by somebody; trio warns when nobody does.
    """

    def __init__(self, events: AsyncIterator[Event], *, final: bool) -> None:
        self._events = events
        self._final = final
        self._answer: deque[str] = deque()

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        async for event in self._events:
            kind = type(event)
            if kind is TextDelta and not event.path:
                if not self._final:
                    return event.text  # type: ignore[attr-defined, no-any-return]
                self._answer.append(event.text)  # type: ignore[attr-defined]
            elif (kind is RoundStarted or kind is Restarted) and not event.path:
                self._answer.clear()
        if self._answer:
            return self._answer.popleft()
        raise StopAsyncIteration
