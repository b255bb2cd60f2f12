"""When a streamed answer begins, measured without a cost for the chunks that follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from ..events import Event
from ..exchange import ChatRequest


class FirstChunk:
    """A request that notes when its answer begins; then it stands aside, so that later chunks cost nothing more."""

    __slots__ = ("request", "seconds", "_began", "_gap", "_last")

    def __init__(self, request: ChatRequest, gap: Callable[[float], None] | None) -> None:
        self.seconds: float | None = None
        self._gap = gap
        self._began = self._last = perf_counter()
        emit = request.emit
        self.request = own = request.replace()

        def noting(event: Event) -> Awaitable[None]:
            now = perf_counter()
            if self.seconds is None:
                self.seconds = now - self._began
                if gap is None:
                    own.emit = emit  # our own copy, which nobody else has seen whole
            elif gap is not None:
                gap(now - self._last)
            self._last = now
            return emit(event)

        own.emit = noting
