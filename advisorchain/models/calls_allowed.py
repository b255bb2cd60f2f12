"""Whether real models may be called: a switch for tests, off by context manager or environment."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigurationError

FORBID_VARIABLE = "ADVISORCHAIN_FORBID_MODEL_CALLS"
"""The environment variable: ``1``, ``true``, ``yes`` or ``on`` forbids the calls of real models."""

_YES = frozenset({"1", "true", "yes", "on"})

# For the whole process, not by context variable: fixtures, event loops and threads of one test have contexts of their
# own. The last one counts; each is taken out by identity, because blocks of different tasks may end in any order.
_switches: list[_Switch] = []


class CallsForbiddenError(ConfigurationError):
    """A real model was called where that is forbidden."""


class _Switch:
    __slots__ = ("allowed",)

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed


def check_calls_allowed(model: Any) -> None:
    """Every adapter of a real model calls this first in its ``__call__``; costs less than a microsecond.

    Raises:
        ConfigurationError: the calls of real models are forbidden.
    """
    if last := _switches[-1:]:  # in one step: another thread may take it out
        allowed, by = last[0].allowed, "forbid_model_calls()"
    else:
        allowed, by = os.environ.get(FORBID_VARIABLE, "").strip().lower() not in _YES, FORBID_VARIABLE
    if not allowed:
        name = getattr(model, "name", None) or "?"
        raise CallsForbiddenError(
            f"{type(model).__name__} {name!r} was called, and calls of real models are forbidden here (by {by}): use a "
            "ScriptedModel or a ReplayModel, or allow_model_calls() around the call; all are in advisorchain.testing."
        )


@contextmanager
def forbid_model_calls() -> Generator[None]:
    """Inside the block, calling a real model is a `ConfigurationError`, in the whole process.

    `ScriptedModel`, `ReplayModel`, `KeywordModel` and your own functions go on working. The environment variable
    ``ADVISORCHAIN_FORBID_MODEL_CALLS=1`` does it for a whole run.
    """
    with _switched(False):
        yield


@contextmanager
def allow_model_calls() -> Generator[None]:
    """Inside the block, real models may be called, although a block around it or the environment forbids it."""
    with _switched(True):
        yield


@contextmanager
def _switched(allowed: bool) -> Generator[None]:
    switch = _Switch(allowed)
    _switches.append(switch)
    try:
        yield
    finally:
        _switches.remove(switch)
