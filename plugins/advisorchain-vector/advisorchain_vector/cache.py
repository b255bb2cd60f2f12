"""`VectorCache`: embeddings on disk, by the hash of what was embedded."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

T = TypeVar("T")

logger = logging.getLogger("advisorchain.vector")

MAX_ROWS = 100_000
"""Vectors that are kept for one embedder; the oldest go first. 384 numbers each: 150 MB."""

TIMEOUT = 5.0
"""Seconds to wait for another process that is writing."""


def default_cache_dir() -> Path | None:
    """The user's own directory for what can be made again: ``$XDG_CACHE_HOME``, ``%LOCALAPPDATA%`` or ``~/.cache``.

    None, and a line in the log: the user has none, as in some containers.
    """
    if sys.platform == "win32":
        top = os.environ.get("LOCALAPPDATA")
    else:
        top = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(top) if top else Path.home() / ".cache") / "advisorchain" / "vectors"
    except RuntimeError as exc:
        logger.warning("There is no place for a cache of vectors; vectors are made anew (%s)", exc)
        return None


class VectorCache:
    """The vectors of one embedder, in an SQLite file that processes may share.

    A cache that cannot be read or written is logged once and left alone: everything works, only slower.
    """

    def __init__(self, directory: Path, embedder: str) -> None:
        self._path = directory / f"{hashlib.sha256(embedder.encode()).hexdigest()[:16]}.db"
        self._broken = False

    def load(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those texts that are known."""

        def read(connection: sqlite3.Connection) -> dict[str, Vector]:
            found: dict[str, Vector] = {}
            for text in texts:
                row = connection.execute("SELECT vector FROM vectors WHERE key = ?", (_key(text),)).fetchone()
                if row is not None and isinstance(row[0], bytes) and row[0] and len(row[0]) % 4 == 0:
                    found[text] = np.frombuffer(row[0], np.float32)
            return found

        return self._do("read", read) or {}

    def save(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors."""

        def write(connection: sqlite3.Connection) -> None:
            rows = [(_key(text), vector.astype(np.float32).tobytes()) for text, vector in vectors.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            connection.execute("DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?", (MAX_ROWS,))

        self._do("written", write)

    def _do(self, what: str, work: Callable[[sqlite3.Connection], T]) -> T | None:
        if self._broken:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self._path, timeout=TIMEOUT)) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB UNIQUE, vector BLOB)")
                return work(connection)
        except (OSError, sqlite3.Error) as exc:
            self._broken = True
            logger.warning("The cache of vectors cannot be %s; vectors are made anew (%s: %s).", what, self._path, exc)
            return None


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
