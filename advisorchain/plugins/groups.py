"""The groups of plugins, what one plugin is, and how a name that is not there is answered."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import PluginError
from .built_in import BUILT_IN, DISTRIBUTION

PREFIX = "advisorchain."
GROUPS = tuple(BUILT_IN)
"""The groups, without ``advisorchain.``: advisors, models, memory_stores, tool_indexes, tools, audit_sinks."""
KINDS = {
    "advisors": "advisor",
    "models": "model",
    "memory_stores": "memory store",
    "tool_indexes": "tool index",
    "tools": "tools plugin",
    "audit_sinks": "audit sink",
}
"""What one plugin of a group is called."""


class PluginInfo(NamedTuple):
    """One plugin, as its distribution's metadata describes it."""

    group: str
    """Without ``advisorchain.``"""
    name: str
    distribution: str
    """``advisorchain`` for the built-ins."""
    version: str
    """The distribution's."""
    value: str
    """``module:object``"""
    problem: str | None = None
    """Why it cannot be loaded, as far as that is known without importing it; None: nothing is known."""

    @property
    def built_in(self) -> bool:
        """Whether it is part of advisorchain itself."""
        return self.distribution == DISTRIBUTION

    def __str__(self) -> str:
        return f"{self.group}/{self.name} of {self.distribution} {self.version}"


def checked_group(group: str, where: str = "") -> str:
    """The group without its prefix.

    Raises:
        PluginError: there is none; ``where`` is what its text begins with.
    """
    if not isinstance(group, str):
        raise PluginError(f"{where}A group of plugins is a text, not {group!r}; the groups are {', '.join(GROUPS)}.")
    short = group.removeprefix(PREFIX)
    if short not in GROUPS:
        raise PluginError(f"{where}There is no group of plugins {group!r}; {hint(short, GROUPS, 'the groups are')}")
    return short


def near(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like it; None: none is."""
    return next(iter(difflib.get_close_matches(name, list(names), 1)), None)


def hint(name: str, names: Iterable[str], otherwise: str) -> str:
    """The end of a sentence: the nearest name, or else ``otherwise`` and all names."""
    nearest = near(name, names)
    return f"did you mean {nearest!r}?" if nearest is not None else f"{otherwise} {', '.join(names) or 'none'}."
