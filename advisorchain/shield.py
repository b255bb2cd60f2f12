"""Finalisers that a cancellation must not interrupt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable


def in_trio() -> bool:
    """Whether the current task runs under trio; else it runs under asyncio."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


async def run_shielded(fn: Callable[[], Awaitable[object]], seconds: float = float("inf")) -> bool:
    """Await ``fn()`` to its end, whatever cancels the caller meanwhile; cancel it itself after ``seconds``.

    A cancel scope alone does not hold against asyncio's own ``task.cancel()``, so on asyncio ``fn`` runs in a task of
    its own. A cancellation that came meanwhile is raised afterwards.

    Returns:
        False when ``fn`` was cancelled because the time was over.
    """
    import anyio

    async def run() -> bool:
        with anyio.move_on_after(seconds):
            await fn()
            return True
        return False

    if in_trio():
        with anyio.CancelScope(shield=True):
            return await run()
    task = asyncio.create_task(run())
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()) is not None:
        raise cancelled from failure
    raise cancelled
