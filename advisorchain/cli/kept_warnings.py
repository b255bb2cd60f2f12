"""Warnings that a demonstration shows in its own place."""

from __future__ import annotations

import logging


class KeptWarnings(logging.Filter):
    """Keeps the warnings of the framework while it is entered; with ``drop`` nobody else gets them."""

    _NAMES = ("advisorchain", "advisorchain.mcp")

    def __init__(self, drop: bool) -> None:
        super().__init__()
        self._drop = drop
        self._lines: list[str] = []

    def __enter__(self) -> list[str]:
        self._lines = []
        for name in self._NAMES:
            logging.getLogger(name).addFilter(self)
        return self._lines

    def __exit__(self, *exc: object) -> None:
        for name in self._NAMES:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a warning."""
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[1] if record.exc_info else None
        self._lines.append(record.getMessage() + (f": {type(error).__name__}: {error}" if error else ""))
        return not self._drop
