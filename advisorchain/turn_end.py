"""The end of a turn: callbacks that run however it ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from .messages import Message
from .shield import run_shielded

if TYPE_CHECKING:
    from .exchange import ChatResponse

logger = logging.getLogger("advisorchain")

TURN_END_SECONDS = 5.0
"""How long the callbacks at the end of a turn may take together."""


class TurnEnd:
    """How a turn ended, as `Context.at_turn_end` callbacks see it.

    Attributes:
        response: the answer, or None when the turn failed or was cancelled.
        error: what ended the turn instead, or None.
        messages: the transcript: the caller's messages and every complete round.
    """

    __slots__ = ("response", "error", "messages")

    def __init__(
        self, response: ChatResponse[Any] | None, error: BaseException | None, messages: tuple[Message, ...]
    ) -> None:
        self.response = response
        self.error = error
        self.messages = messages


AtTurnEnd = Callable[[TurnEnd], Awaitable[None] | None]


async def run_callbacks(callbacks: list[AtTurnEnd], end: TurnEnd, turn_id: str) -> None:
    """Run the callbacks, last registered first, shielded from cancellation for 5 s; leaves the list empty.

    Raises:
        Exception: the first callback's error, when the turn itself had none; later ones are logged.
    """
    running = _Callbacks(callbacks, end, turn_id)
    waiting = running.next_waiting()
    if waiting is not None and not await run_shielded(partial(running.finish, waiting), TURN_END_SECONDS):
        running.time_is_over()
    if running.failure is not None:
        raise running.failure


class _Callbacks:
    """The callbacks that have not run yet, and how the turn has ended as they will see it."""

    __slots__ = ("_callbacks", "_end", "_turn_id", "failure")

    def __init__(self, callbacks: list[AtTurnEnd], end: TurnEnd, turn_id: str) -> None:
        self._callbacks = callbacks
        self._end = end
        self._turn_id = turn_id
        self.failure: Exception | None = None

    def next_waiting(self) -> Awaitable[None] | None:
        """Call one after the other, up to the first that has something to await: the others need no shield."""
        while self._callbacks:
            try:
                waiting = self._callbacks.pop()(self._end)
            except Exception as exc:
                self._failed(exc)
            else:
                if waiting is not None:
                    return waiting
        return None

    async def finish(self, waiting: Awaitable[None] | None) -> None:
        """Await what the last one has to await, then call the others."""
        while waiting is not None:
            try:
                await waiting
            except Exception as exc:
                self._failed(exc)
            waiting = self.next_waiting()

    def time_is_over(self) -> None:
        """Call the others all the same: those that have nothing to await still learn how the turn ended."""
        text = f"The callbacks at the end of turn {self._turn_id} took over {TURN_END_SECONDS:g} s and were cancelled."
        logger.error(text)
        if self._end.error is None:
            self._failed(TimeoutError(text))
        while (late := self.next_waiting()) is not None:
            if inspect.iscoroutine(late):
                late.close()

    def _failed(self, error: Exception) -> None:
        """The first failure is how the turn ends, for the callbacks that are left and for the caller."""
        if self._end.error is None:
            self.failure = error
            self._end = TurnEnd(None, error, self._end.messages)
        else:
            logger.error("A callback at the end of turn %s failed", self._turn_id, exc_info=error)
