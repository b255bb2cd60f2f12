"""Sync tools run in threads, under a limiter of their own, with their context variables.

A thread cannot be cancelled. When its call times out it is abandoned: counted, said so in the log, and above
`MAX_ABANDONED_THREADS` no further sync tool is started until some of them have returned.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ToolError

if TYPE_CHECKING:
    import anyio
    from anyio.lowlevel import RunVar

logger = logging.getLogger("advisorchain.tools")

TOOL_THREADS = 40
"""How many sync tools run at once in one event loop."""
MAX_ABANDONED_THREADS = 32
"""How many abandoned threads are tolerated in one process."""

_lock = threading.Lock()
_abandoned = 0
_limiter: RunVar[anyio.CapacityLimiter] | None = None


def abandoned_threads() -> int:
    """How many threads of timed-out or cancelled sync tools are still running."""
    return _abandoned


async def run_in_thread(tool: str, fn: Callable[[], Any]) -> Any:
    """Run a sync tool in a thread; when the caller is cancelled the thread is abandoned.

    Raises:
        ToolError: too many threads are abandoned.
    """
    import anyio.to_thread

    global _abandoned
    _check_abandoned(tool)
    state = "waiting"

    def call() -> Any:
        nonlocal state
        global _abandoned
        with _lock:
            if state == "cancelled":  # before the thread got to it
                return None
            _check_abandoned(tool)
            state = "running"
        try:
            value = fn()
            # A generator runs here too, not on the loop; a tuple, as trio takes no coroutine as a thread's value.
            return (list(value) if inspect.isgenerator(value) else value,)
        finally:
            with _lock:
                if state == "abandoned":
                    _abandoned -= 1
                state = "returned"

    try:
        (value,) = await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=_limiter_of_loop())
        return value
    except anyio.get_cancelled_exc_class():
        with _lock:
            if state == "waiting":
                state = "cancelled"
            elif state == "running":
                state = "abandoned"
                _abandoned += 1
                logger.warning(
                    "The thread of sync tool %r was abandoned (timeout or cancellation); it cannot be stopped and "
                    "runs on. Abandoned threads now: %d. Make the tool async, or give it a timeout of its own.",
                    tool,
                    _abandoned,
                )
        raise


def _check_abandoned(tool: str) -> None:
    if _abandoned >= MAX_ABANDONED_THREADS:
        logger.error("Tool %r was not started: %d threads of earlier calls are stuck.", tool, _abandoned)
        raise ToolError("The tool is not available: too many of its earlier calls have not returned.")


def _limiter_of_loop() -> anyio.CapacityLimiter:
    import anyio
    from anyio.lowlevel import RunVar

    global _limiter
    if _limiter is None:
        _limiter = RunVar("advisorchain_tool_threads")
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(TOOL_THREADS)
        _limiter.set(limiter)
        return limiter
