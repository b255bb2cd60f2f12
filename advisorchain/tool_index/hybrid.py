"""`HybridIndex`: one ranking out of those of several indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import anyio

from ..errors import ConfigurationError, ToolError
from ..tools import Tool
from .index import ToolHit, ToolIndex, ToolPredicate, best_hits, check_search

RANK_OFFSET = 5
"""Added to every rank: RRF's constant, 60 in the paper. A tool is mostly in the first few ranks or not found at all, so
these count more here: 1.1 points of recall@5 on the even half of BFCL's queries."""

DEPTH = 100
"""How many hits of each index are fused; more only for a larger ``k``."""


class HybridIndex:
    """Reciprocal-rank fusion of any indexes: a tool's score is the sum of ``weight / (RANK_OFFSET + its rank)``.

    Scores of different indexes cannot be compared, ranks can. (Cormack, Clarke and Büttcher: "Reciprocal rank fusion
    outperforms Condorcet and individual rank learning methods", SIGIR 2009.)

    Args:
        indexes: at least one. They are searched at once, and all of them get all tools.
        weights: one number over 0 for each index; default: all count the same.

    Raises:
        ConfigurationError: no index, one that is none, or weights that do not fit.
    """

    def __init__(self, indexes: Iterable[ToolIndex], weights: Iterable[float] | None = None) -> None:
        listed: tuple[Any, ...] = tuple(indexes) if isinstance(indexes, Iterable) else ()
        if not listed or not all(isinstance(index, ToolIndex) and not isinstance(index, type) for index in listed):
            raise ConfigurationError(
                f"HybridIndex takes a list of indexes, for example [Bm25Index(), VectorIndex()], not {indexes!r}."
            )
        chosen = tuple(weights) if weights is not None else (1.0,) * len(listed)
        if len(chosen) != len(listed) or not all(_is_weight(weight) for weight in chosen):
            raise ConfigurationError(
                f"HybridIndex takes weights=, a number over 0 for each of its {len(listed)} indexes, not {chosen!r}."
            )
        self._indexes: tuple[ToolIndex, ...] = listed
        self._weights = chosen

    async def add(self, tools: Iterable[Tool]) -> None:
        """Add tools to all indexes; see `ToolIndex.add`."""
        listed = list(tools)
        for index in self._indexes:
            await index.add(listed)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove tools from all indexes; see `ToolIndex.remove`."""
        listed = list(names)
        for index in self._indexes:
            await index.remove(listed)

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        """The best tools by all rankings together; see `ToolIndex.search`.

        Raises:
            ToolError: an index refuses the query (words may be no pattern), and the others find nothing by it.
        """
        check_search(query, k)
        rankings: list[list[ToolHit]] = [[] for _ in self._indexes]
        refusals: list[ToolError] = []

        async def search(at: int, index: ToolIndex) -> None:
            try:
                rankings[at] = await index.search(query, max(k, DEPTH), filters)
            except ToolError as refusal:
                refusals.append(refusal)

        if len(self._indexes) == 1:
            await search(0, self._indexes[0])
        else:
            await _all_at_once(search, self._indexes)
        if refusals and not any(rankings):
            raise refusals[0]
        scores: dict[str, float] = {}
        for ranking, weight in zip(rankings, self._weights, strict=True):
            for rank, hit in enumerate(ranking, 1):
                scores[hit.name] = scores.get(hit.name, 0.0) + weight / (RANK_OFFSET + rank)
        return best_hits(scores, k)


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


async def _all_at_once(search: Any, indexes: Iterable[ToolIndex]) -> None:
    """Search every index in a task of its own; the first error is raised as it is, not in a group."""
    try:
        async with anyio.create_task_group() as group:
            for at, index in enumerate(indexes):
                group.start_soon(search, at, index)
    except BaseExceptionGroup as errors:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def hybrid_index(
    indexes: Sequence[ToolIndex | str] = ("bm25", "vector"), weights: Iterable[float] | None = None
) -> HybridIndex:
    """A `HybridIndex` of indexes that may be named as plugins; what the plugin ``hybrid`` makes.

    Args:
        indexes: indexes, or their plugins' names. ``vector`` is in the distribution ``advisorchain-vector``.
        weights: see `HybridIndex`.

    Raises:
        PluginError: an index is not installed, or broken.
        ConfigurationError: see `HybridIndex`.
    """
    from ..plugins import load  # here, for those who name none

    return HybridIndex([load("tool_indexes", each) if isinstance(each, str) else each for each in indexes], weights)
