"""What keeps a turn from failing because its recording does: providers, samplers, processors may raise."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("advisorchain.telemetry")

_told: set[str] = set()


def ignored(error: Exception) -> None:
    """Log an error of the recording; one of each type as a warning, without its text, which may be content."""
    kind = type(error).__qualname__
    if kind not in _told:
        _told.add(kind)
        logger.warning("Telemetry failed (%s): turns go on, with less recorded. Log at DEBUG for more.", kind)
    logger.debug("Telemetry failed", exc_info=error)


class Guarded:
    """An instrument that never raises."""

    __slots__ = ("_instrument",)

    def __init__(self, instrument: Any) -> None:
        self._instrument = instrument

    def record(self, amount: float, attributes: dict[str, Any]) -> None:
        """Of a histogram."""
        try:
            self._instrument.record(amount, attributes)
        except Exception as error:
            ignored(error)

    def add(self, amount: int, attributes: dict[str, Any]) -> None:
        """Of a counter."""
        try:
            self._instrument.add(amount, attributes)
        except Exception as error:
            ignored(error)

    def set(self, amount: float, attributes: dict[str, Any]) -> None:
        """Of a gauge."""
        try:
            self._instrument.set(amount, attributes)
        except Exception as error:
            ignored(error)
