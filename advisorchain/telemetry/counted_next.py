"""The rest of a chain, as an advisor that is traced calls it: how often, and why again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import names

if TYPE_CHECKING:
    from .otel import Work


class CountedNext:
    """Calls the rest of the chain; every call after the first is an event of the advisor's span, but not a loop's."""

    __slots__ = ("calls", "_call_next", "_work", "_is_loop", "_previous")

    def __init__(self, call_next: Callable[[Any], Awaitable[Any]], work: Work, is_loop: bool) -> None:
        self.calls = 0
        self._call_next = call_next
        self._work = work
        self._is_loop = is_loop
        self._previous = "running"

    async def __call__(self, passed: Any) -> Any:
        """Call it."""
        self.calls += 1
        if self.calls > 1 and not self._is_loop:
            about = {names.CALL_NEXT_NUMBER: self.calls, names.CALL_NEXT_PREVIOUS: self._previous}
            self._work.event(names.CALL_NEXT, about)
        try:
            outcome = await self._call_next(passed)
        except BaseException as error:
            self._previous = type(error).__qualname__
            raise
        self._previous = "returned"
        return outcome
