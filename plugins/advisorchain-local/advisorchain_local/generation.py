"""One answer of the engine, made in a thread and taken piece by piece in the task that asks."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token

from .engine import Engine, Json


async def generate(engine: Engine, body: Json, take: Callable[[Json], Awaitable[None]]) -> None:
    """Await ``take`` for every chunk of an answer, while the engine goes on.

    When the task is cancelled, or ``take`` raises, it returns at once and the engine stops at its next chunk.

    Raises:
        ModelError: the engine refuses the request.
    """
    chunks = _Chunks()
    failures: list[Exception] = []

    async def work() -> None:
        try:
            await anyio.to_thread.run_sync(
                engine.answer, body, chunks.put, abandon_on_cancel=True, limiter=engine.limiter()
            )
        except Exception as error:
            failures.append(error)
        finally:
            chunks.end()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            try:
                async for chunk in chunks.received:
                    await take(chunk)
            except Exception as error:  # raised below: a task group would put it into a group
                failures.append(error)
                group.cancel_scope.cancel()
    finally:
        chunks.stop()
    if failures:
        raise failures[0]


class _Chunks:
    """Chunks on their way from the engine's thread to the event loop.

    The thread never waits for the loop: a loop that has ended would leave it waiting for ever.
    """

    def __init__(self) -> None:
        native: Any = current_token().native_token
        self._soon = native.run_sync_soon if hasattr(native, "run_sync_soon") else native.call_soon_threadsafe
        self._sent, self.received = anyio.create_memory_object_stream[Json](math.inf)
        self._stopped = False

    def put(self, chunk: Json) -> bool:
        """In the thread: hand over a chunk; true when no more is wanted."""
        if not self._stopped:
            try:
                self._soon(self._deliver, chunk)
            except RuntimeError:  # the loop has ended
                self._stopped = True
        return self._stopped

    def _deliver(self, chunk: Json) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._sent.send_nowait(chunk)

    def end(self) -> None:
        """No chunk follows."""
        self._sent.close()

    def stop(self) -> None:
        """No chunk is wanted any more."""
        self._stopped = True
        self._sent.close()
        self.received.close()
