"""`ToolIndex`: what every index of tools can do, and `ToolHit`: what a search gives."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ..errors import ConfigurationError
from ..tools import Tool

ToolPredicate: TypeAlias = Callable[[Tool], bool]
"""Says of a tool whether a search may find it."""


class ToolHit(NamedTuple):
    """A tool that a search found.

    Attributes:
        name: the tool's name.
        score: how well it fits, over 0; only scores of one search of one index can be compared.
    """

    name: str
    score: float


@runtime_checkable
class ToolIndex(Protocol):
    """Finds tools by a query. One index may be used by many tasks and threads at once."""

    async def add(self, tools: Iterable[Tool]) -> None:
        """Add tools, all at once for whoever searches; a tool takes the place of the one of its name."""
        ...

    async def remove(self, names: Iterable[str]) -> None:
        """Remove tools by name; names that are not in the index are passed over."""
        ...

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        """The best ``k`` tools for the query, best first; equal scores by name, so that equal searches agree.

        Only tools that match at all are found: the list may be shorter, or empty. With ``filters``, only tools of
        which it says True are found, and they fill all ``k`` places.

        Raises:
            ConfigurationError: ``k`` is no int of at least 0, or the query no text.
        """
        ...


def check_search(query: Any, k: Any) -> None:
    """Check what a search was asked.

    Raises:
        ConfigurationError: ``k`` is no int of at least 0, or the query no text.
    """
    if not isinstance(query, str):
        raise ConfigurationError(f"A search takes a query of type str, not {query!r}.")
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise ConfigurationError(f"A search takes k, an int of at least 0 (is {k!r}).")


def best_hits(scores: Mapping[str, float], k: int) -> list[ToolHit]:
    """The ``k`` names with the highest scores, best first; equal scores by name."""
    if k == 0 or not scores:
        return []
    floor = heapq.nlargest(k, scores.values())[-1]
    best = sorted((-score, name) for name, score in scores.items() if score >= floor)[:k]
    return [ToolHit(name, -score) for score, name in best]
