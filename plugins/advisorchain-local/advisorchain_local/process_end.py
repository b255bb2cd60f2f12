"""The engine's threads and the process: nothing is cut off in the middle of C++ code when Python ends, or forks."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

LONGEST_WAIT = 30.0
"""Seconds that the end of the process waits for the engine at most."""


class InFlight:
    """Counts the threads that are inside the engine.

    Trio's worker threads do not live to the end of the process: Python kills them when they come back from C++ after
    that, and C++ answers by aborting the process. So the end waits until all of them are back.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0
        self.is_ending = False
        """Whether whoever is inside must come back."""

    @contextmanager
    def inside(self) -> Generator[None]:
        """Around a call of the engine."""
        with self._condition:
            self._count += 1
        try:
            yield
        finally:
            with self._condition:
                self._count -= 1
                self._condition.notify_all()

    def end(self) -> None:
        """Wait until nobody is inside."""
        self.is_ending = True
        with self._condition:
            self._condition.wait_for(lambda: self._count == 0, timeout=LONGEST_WAIT)

    def forget(self) -> None:
        """In the child after a fork: the threads that were inside are not here."""
        self._condition = threading.Condition()
        self._count = 0


in_flight = InFlight()
"""Of this process."""

atexit.register(in_flight.end)


def keep_for_ever(engine: Any) -> None:
    """Never free an object, not even at the end of the process: in a forked child, freeing an engine of the parent
    would wait for threads that are not there."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=in_flight.forget)
