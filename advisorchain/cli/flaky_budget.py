"""A budget service that fails or hangs when it is told to, and a clock that can be turned: for the demo."""

from __future__ import annotations

import time
from typing import Literal

import anyio

from .travel_desk import BudgetService, Totals

Mode = Literal["works", "fails", "hangs"]


class FlakyBudgetService(BudgetService):
    """Answers, refuses every connection, or never answers.

    Attributes:
        mode: what it does from now on.
        reached: how many calls have reached it.
    """

    def __init__(self) -> None:
        self.mode: Mode = "works"
        self.reached = 0

    async def totals(self, department: str | None = None) -> Totals:
        """The budget, if it answers.

        Raises:
            ConnectionRefusedError: it fails.
        """
        self.reached += 1
        if self.mode == "fails":
            raise ConnectionRefusedError("budget.internal:8443 refused the connection")
        if self.mode == "hangs":
            await anyio.sleep_forever()
        return await super().totals(department)


class TurnedClock:
    """Monotonic seconds, and those by which it was turned forward."""

    def __init__(self) -> None:
        self._turned = 0.0

    def __call__(self) -> float:
        """The time."""
        return time.monotonic() + self._turned

    def turn(self, seconds: float) -> None:
        """Turn it forward."""
        self._turned += seconds
