"""Standard input, which a parent process may have closed."""

from __future__ import annotations

import sys
from typing import TextIO


def is_terminal() -> bool:
    """Whether a person types there."""
    stdin = _stdin()
    return stdin is not None and stdin.isatty()


def read_line() -> str:
    """The next line with its end; "" when there is none."""
    stdin = _stdin()
    return "" if stdin is None else stdin.readline()


def read_all() -> str:
    """All that stands there."""
    stdin = _stdin()
    return "" if stdin is None else stdin.read()


def _stdin() -> TextIO | None:
    return sys.stdin  # None in a process that was started without, whatever its type says
