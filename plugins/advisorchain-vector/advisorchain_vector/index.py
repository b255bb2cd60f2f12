"""`VectorIndex`: finds the tools whose texts mean what a query means."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import anyio.to_thread
import numpy as np
import numpy.typing as npt

from advisorchain import ConfigurationError, Tool
from advisorchain.tool_index import ToolHit, ToolPredicate, check_search, fields_of, split_words

from .cache import Vector, VectorCache, default_cache_dir
from .minilm import MiniLmEmbedder

BATCH = 32
"""Texts that an embedder gets at once."""

MAX_TEXT = 1_500
"""Characters of a tool's text that are embedded."""

MAX_QUERY = 4_000
"""Characters of a query that are embedded."""


class Embedder(Protocol):
    """Turns texts into vectors of one length. A ``name`` (str) on it says which model it is, and allows the cache."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order."""
        ...


class _Snapshot(NamedTuple):
    tools: tuple[Tool, ...]
    matrix: npt.NDArray[np.float32]  # a row of length 1 for each tool


class VectorIndex:
    """Exact nearest neighbours by cosine similarity, in a numpy matrix: 20,000 tools need no approximation.

    Args:
        embedder: an object with ``async embed(texts)``, or such a function. Default: `MiniLmEmbedder`.
        cache_dir: where vectors are kept between runs, by the hash of the text; default: the user's cache directory;
            False: nowhere. An embedder without a ``name`` is not cached.
        min_score: hits have a similarity over this; from -1 to 1.

    Raises:
        ConfigurationError: the embedder is none.
    """

    def __init__(
        self,
        embedder: Embedder | Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]] | None = None,
        cache_dir: str | Path | Literal[False] | None = None,
        *,
        min_score: float = 0.0,
    ) -> None:
        chosen: Any = MiniLmEmbedder() if embedder is None else embedder
        self._embed: Any = getattr(chosen, "embed", chosen)
        if isinstance(chosen, type) or not callable(self._embed):
            raise ConfigurationError(f"embedder= must have async embed(texts), not be {embedder!r}.")
        name = getattr(chosen, "name", None)
        directory = default_cache_dir() if cache_dir is None else cache_dir
        self._cache: VectorCache | None = None
        if directory is not None and directory is not False and isinstance(name, str):
            self._cache = VectorCache(Path(directory), name)
        self._min_score = min_score
        self._lock = threading.Lock()
        self._snapshot = _Snapshot((), np.empty((0, 0), np.float32))

    async def add(self, tools: Iterable[Tool]) -> None:
        """Add tools; see `ToolIndex.add`.

        Raises:
            ConfigurationError: the embedder gave something else than one vector of the same length for each text.
        """
        added = {tool.name: tool for tool in tools}
        if not added:
            return
        texts = {name: _text(tool) for name, tool in added.items()}
        vectors = await self._vectors(list(dict.fromkeys(texts.values())))
        rows = np.stack([vectors[text] for text in texts.values()])
        with self._lock:
            tools_left, matrix = self._without(added.keys())
            if len(tools_left) and matrix.shape[1] != rows.shape[1]:
                raise ConfigurationError(
                    f"The embedder gave vectors of {rows.shape[1]} numbers; those in the index have {matrix.shape[1]}."
                )
            joined = np.concatenate([matrix, rows]) if len(tools_left) else rows
            self._snapshot = _Snapshot((*tools_left, *added.values()), joined)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove tools; see `ToolIndex.remove`."""
        gone = set(names)
        with self._lock:
            self._snapshot = self._without(gone)

    def _without(self, names: Iterable[str]) -> _Snapshot:
        gone, (tools, matrix) = set(names), self._snapshot
        kept = [at for at, tool in enumerate(tools) if tool.name not in gone]
        if len(kept) == len(tools):
            return self._snapshot
        return _Snapshot(tuple(tools[at] for at in kept), matrix[kept])

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        """The nearest tools; see `ToolIndex.search`. Scores are cosine similarities."""
        check_search(query, k)
        if k == 0 or not query.strip() or not self._snapshot.tools:
            return []
        text = query[:MAX_QUERY]
        vector = (await self._embedded([text]))[text]
        snapshot = self._snapshot
        if snapshot.tools and snapshot.matrix.shape[1] != len(vector):
            raise ConfigurationError(
                f"The embedder gave a vector of {len(vector)} numbers; those in the index have "
                f"{snapshot.matrix.shape[1]}. Another model needs another name, or the cache mixes them."
            )
        ranked = await anyio.to_thread.run_sync(self._ranked, snapshot, vector, k if filters is None else None)
        hits = (ToolHit(tool.name, score) for tool, score in ranked if filters is None or filters(tool))
        return list(itertools.islice(hits, k))

    def _ranked(self, snapshot: _Snapshot, vector: Vector, k: int | None) -> list[tuple[Tool, float]]:
        """The tools by their scores; with ``k``, at least the best ``k``."""
        if not snapshot.tools:
            return []
        # Rounded, and row by row: the same tool has the same score whatever else is in the matrix.
        scores = np.round(np.einsum("ij,j->i", snapshot.matrix, vector), 6)
        candidates = np.flatnonzero(scores > self._min_score)
        if k is not None and len(candidates) > k:
            at = len(candidates) - k
            candidates = candidates[scores[candidates] >= np.partition(scores[candidates], at)[at]]
        ranked = [(snapshot.tools[at], float(scores[at])) for at in candidates]
        ranked.sort(key=lambda pair: (-pair[1], pair[0].name))
        return ranked

    async def _vectors(self, texts: list[str]) -> dict[str, Vector]:
        """The vectors of the texts, from the cache where they are known."""
        known = await anyio.to_thread.run_sync(self._cache.load, texts) if self._cache is not None else {}
        missing = [text for text in texts if text not in known]
        for at in range(0, len(missing), BATCH):
            made = await self._embedded(missing[at : at + BATCH])
            known.update(made)
            if self._cache is not None:
                await anyio.to_thread.run_sync(self._cache.save, made)
        if known.keys() - missing and len({len(vector) for vector in known.values()}) > 1:
            # What is cached is of another model, or damaged.
            for at in range(0, len(texts), BATCH):
                known.update(await self._embedded(texts[at : at + BATCH]))
        return known

    async def _embedded(self, texts: list[str]) -> dict[str, Vector]:
        made: Any = self._embed(texts)
        if not inspect.isawaitable(made):
            raise ConfigurationError("The embedder's embed(texts) must be async.")
        found: Any = await made
        try:
            rows = np.asarray(found, np.float32)
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f"The embedder gave no vectors of one length: {exc}.") from exc
        if rows.ndim != 2 or len(rows) != len(texts) or rows.shape[1] == 0:
            raise ConfigurationError(f"The embedder gave {rows.shape} numbers for {len(texts)} texts.")
        if not np.isfinite(rows).all():
            raise ConfigurationError("The embedder gave a vector with NaN or infinity in it.")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return dict(zip(texts, rows / np.where(lengths > 0, lengths, 1), strict=True))


def _text(tool: Tool) -> str:
    """What of a tool is embedded, the most telling first."""
    fields = fields_of(tool)
    words = " ".join(split_words(tool.name))
    names = " ".join(split_words(fields.get("argument_names", "")))
    parts = [
        f"{words}: {fields.get('title', '')} {tool.description}",
        f"Arguments: {names}." if names else "",
        fields.get("tags", ""),
        fields.get("argument_texts", ""),
        fields.get("values", ""),
    ]
    return " ".join(" ".join(parts).split())[:MAX_TEXT]
