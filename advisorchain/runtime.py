"""Clock, ids and jitter of a turn, from one injectable place, so that a replay can fix them."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"

_count = itertools.count()
_salt = ""


def _renew_salt() -> None:
    """Give this process its own salt; a forked child would otherwise repeat its parent's ids."""
    global _salt
    _salt = f"{int(time.time() * 1000):x}" + "".join(_ALPHABET[byte & 31] for byte in os.urandom(8))


_renew_salt()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_salt)


def new_id() -> str:
    """A unique id: when the process started, its salt, and a counter. Costs a tenth of a ``uuid4``."""
    return _salt + str(next(_count))


class Runtime:
    """Where a turn gets its time, ids and random numbers from.

    Args:
        clock: monotonic seconds, for limits and durations.
        ids: a function that returns a new unique id: of turns, and of calls that are renamed. Messages make their own.
        jitter: a function that returns a number in ``[0, 1)``.
    """

    __slots__ = ("clock", "ids", "jitter")

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] = new_id,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.jitter = jitter
