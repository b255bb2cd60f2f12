"""A shared state that can be made to fail."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

from advisorchain.shared_state import InMemorySharedState


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
