"""The timeout of one tool attempt, which costs nothing until the tool first suspends."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

from ..errors import ToolTimeoutError
from ..shield import in_trio

T = TypeVar("T")

CANCEL_AGAIN_SECONDS = 0.1
"""A tool that swallows its cancellation is cancelled again after this time, until it ends."""


def run_within(running: Coroutine[Any, Any, T], seconds: float, tool: str) -> Awaitable[T]:
    """Await ``running`` for at most ``seconds``.

    On asyncio it is driven up to its first suspension without any timer, because most cheap tools never suspend and a
    cancel scope costs 6 µs. A cancel scope cannot be entered later (scopes must nest), so trio gets one at once.

    Raises:
        ToolTimeoutError: the time is over.
    """
    return _scoped(running, seconds, tool) if in_trio() else _driven(running, seconds, tool)


async def _scoped(running: Coroutine[Any, Any, T], seconds: float, tool: str) -> T:
    import anyio

    with anyio.move_on_after(seconds):
        return await running
    raise _timeout_error(tool, seconds)


def _timeout_error(tool: str, seconds: float) -> ToolTimeoutError:
    return ToolTimeoutError(f"The tool {tool!r} did not answer within {seconds:g} seconds.")


@types.coroutine
def _driven(running: Coroutine[Any, Any, T], seconds: float, tool: str) -> Generator[Any, Any, T]:
    try:
        yielded = running.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    with _Deadline(seconds) as deadline:
        try:
            while True:
                try:
                    yield yielded
                except GeneratorExit:
                    running.close()
                    raise
                except BaseException as exc:
                    yielded = running.throw(exc)
                else:
                    yielded = running.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            if deadline.is_only_cancellation():
                raise _timeout_error(tool, seconds) from None
            raise


class _Deadline:
    """Cancels the current asyncio task when the time is over, and takes its cancellations back at the end."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancellations = 0
        self._timer = self._loop.call_later(seconds, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancellations += 1
            self._task.cancel()
            self._timer = self._loop.call_later(CANCEL_AGAIN_SECONDS, self._cancel)

    def is_only_cancellation(self) -> bool:
        """Whether nobody else has cancelled the task."""
        return self._cancellations > 0 and self._task is not None and self._task.cancelling() <= self._cancellations

    def __enter__(self) -> _Deadline:
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        if self._task is not None:
            for _ in range(self._cancellations):
                self._task.uncancel()
