"""A shared state that can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from advisorchain.shared_state import InMemorySharedState
from advisorchain.shield import in_trio


class FailingState(InMemorySharedState):
    """``fault``: what goes wrong at the moment; ``asked`` counts loads and saves."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.asked = 0

    async def load(self, key: str) -> Any:
        await self._fail()
        return None if self.fault == "no answer" else await super().load(key)

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        await self._fail()
        return self.fault != "never saves" and await super().save(key, value, version)

    async def _fail(self) -> None:
        self.asked += 1
        if self.fault == "raises":
            raise ConnectionError("Connection refused")
        if self.fault == "group":
            raise ExceptionGroup("several", [OSError("one"), OSError("two")])
        if self.fault == "cancelled":  # as connections do that are closed meanwhile
            raise asyncio.CancelledError
        if self.fault == "hangs":
            await anyio.sleep_forever()


FAULTS = ["raises", "group", "cancelled", "hangs", "no answer", "never saves"]


class SlowToSave(InMemorySharedState):
    """Has a save that others can come into: ``begun`` is set when the save number ``slow`` has begun.

    Args:
        slow: which one, from 1.
        stored: whether it stores before it waits, or afterwards.
    """

    def __init__(self, slow: int, *, stored: bool) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self._left = slow
        self._stored = stored

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        self._left -= 1
        if self._left:
            return await super().save(key, value, version)
        if self._stored:
            saved = await super().save(key, value, version)
        self.begun.set()
        await anyio.sleep(0.02)
        return saved if self._stored else await super().save(key, value, version)


async def cancelled_in(state: SlowToSave, work: Callable[[], Awaitable[object]], how: str) -> None:
    """Run the work, and cancel it while the state saves: by its scope, or on asyncio also by its ``"task"``."""
    if how == "task" and not in_trio():

        async def run() -> None:
            await work()

        task = asyncio.create_task(run())
        await state.begun.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        return
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await state.begun.wait()
        group.cancel_scope.cancel()
