"""`RegexIndex`: finds tools by a pattern that a model wrote."""

from __future__ import annotations

import importlib
import itertools
import math
import threading
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

import anyio.lowlevel
import anyio.to_thread

from ..errors import ToolError
from ..tools import Tool
from .fields import fields_of
from .index import ToolHit, ToolPredicate, best_hits, check_search
from .pattern import Pattern
from .words import split_words

MAX_PATTERN = 200
"""Characters of a pattern."""

MAX_PROGRAM = 2_000
"""Instructions that a pattern may be compiled to: ``\\w{1000}`` is too large."""

MAX_SECONDS = 0.08
"""CPU seconds that matching 2,000 tools may take (fewer tools the same, more tools in proportion)."""

MAX_TEXT = 1_000
"""Bytes of a tool's texts that are matched, after its name."""

MAX_MATCHES = 32
MAX_ALL_MATCHES = 4_000
"""Matches that are counted in one tool, and in all: a pattern that is found everywhere says little anyway."""

NAME_WEIGHT = 4.0
"""How much a match in a name counts, beside one elsewhere."""

BATCH = 50
"""How many tools are read before other tasks may run."""


class _Entry(NamedTuple):
    tool: Tool
    text: bytes  # the name, its words, then the other texts, in lines
    name_end: int
    words: dict[str, float]  # the words with their weights


class RegexIndex:
    """Finds the tools whose name or texts match a regular expression; capitals do not matter.

    For patterns that a model writes, such as ``weather|forecast`` or ``get_.*_user``. Raw messages of users are poor
    patterns: take `Bm25Index` for those. Hits are ranked by how many different texts matched, how rare these are, and
    whether they stand in the name.

    With google-re2 installed (``pip install 'advisorchain[search]'``), patterns are RE2's: everything but
    back-references and look-around. Without it, a small language is understood; see `Pattern`. Python's own ``re`` is
    never used: a hostile pattern keeps it busy for hours, and nothing can stop it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._re2 = _load_re2()

    async def add(self, tools: Iterable[Tool]) -> None:
        """Add tools; see `ToolIndex.add`."""
        read: dict[str, _Entry] = {}
        for count, tool in enumerate(tools, 1):
            read[tool.name] = _entry(tool)
            if count % BATCH == 0:
                await anyio.lowlevel.checkpoint()
        with self._lock:
            self._entries = {**self._entries, **read}  # a search goes on with what it began with

    async def remove(self, names: Iterable[str]) -> None:
        """Remove tools; see `ToolIndex.remove`."""
        gone = set(names)
        with self._lock:
            self._entries = {name: entry for name, entry in self._entries.items() if name not in gone}

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        """The best tools that match the pattern ``query``; see `ToolIndex.search`.

        Raises:
            ToolError: the pattern is malformed, too long or too slow, or needs google-re2; the text is for the model.
        """
        check_search(query, k)
        if len(query) > MAX_PATTERN:
            raise ToolError(f"The pattern has {len(query)} characters; at most {MAX_PATTERN} are taken. Shorten it.")
        entries = self._entries
        if not query.strip() or not entries:
            return []
        match = self._match_re2 if self._re2 is not None else _match_words
        found = await anyio.to_thread.run_sync(match, query, entries)
        if filters is not None:
            found = {name: matches for name, matches in found.items() if filters(entries[name].tool)}
        counts: dict[Any, int] = {}
        for matches in found.values():
            for matched in matches:
                counts[matched] = counts.get(matched, 0) + 1
        rarity = {matched: math.log(1 + len(entries) / count) for matched, count in counts.items()}
        scores = {
            name: sum(weight * rarity[matched] for matched, weight in matches.items())
            for name, matches in found.items()
        }
        return best_hits(scores, k)

    def _match_re2(self, query: str, entries: dict[str, _Entry]) -> dict[str, dict[Any, float]]:
        """What matches in each tool, with its weight."""
        pattern = _compile(self._re2, query)
        clock = _Clock(MAX_SECONDS * max(1.0, len(entries) / 2_000))
        matching: list[_Entry] = []
        for entry in entries.values():
            clock.check()
            if pattern.search(entry.text):
                matching.append(entry)
        most = max(1, min(MAX_MATCHES, MAX_ALL_MATCHES // max(1, len(matching))))
        found: dict[str, dict[Any, float]] = {}
        for entry in matching:
            clock.check()
            matches: dict[Any, float] = {}
            for match in itertools.islice(pattern.finditer(entry.text), most):
                matched = match.group().strip().lower()
                weight = NAME_WEIGHT if match.start() < entry.name_end else 1.0
                if matched and weight > matches.get(matched, 0.0):
                    matches[matched] = weight
            if matches:
                found[entry.tool.name] = matches
        return found


class _Clock:
    """The CPU time of one match, asked before each tool, whose text is short.

    The longest step does not count: a slow pattern is slow in every tool, a garbage collection falls into one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start = self._last = time.thread_time()
        self._longest = 0.0

    def check(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if now - self._start - self._longest > self._seconds:
            raise ToolError("The pattern takes too long. Write a simpler one, without large repetitions.")


def _match_words(query: str, entries: dict[str, _Entry]) -> dict[str, dict[Any, float]]:
    """What matches in each tool, with its weight, by the small language of `Pattern`."""
    pattern = Pattern(query)
    vocabulary = {word for entry in entries.values() for word in entry.words}
    return pattern.match({name: entry.words for name, entry in entries.items()}, vocabulary)


def _load_re2() -> ModuleType | None:
    """google-re2, if it is installed."""
    try:
        return importlib.import_module("re2")
    except ImportError:
        return None


def _compile(re2: Any, query: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        pattern = re2.compile(query.encode("utf-8", "replace"), options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ToolError(f"The pattern is malformed: {reason}. Write for example weather|forecast.") from None
    if pattern.programsize > MAX_PROGRAM:
        raise ToolError("The pattern is too large. Write a simpler one, without large repetitions.")
    return pattern


def _entry(tool: Tool) -> _Entry:
    fields = fields_of(tool)
    name = f"{tool.name}\n{' '.join(split_words(tool.name))}\n".encode("utf-8", "replace")
    rest = "\n".join(text for field, text in fields.items() if field != "name")
    words = dict.fromkeys(split_words(rest[:MAX_TEXT]), 1.0)
    words.update(dict.fromkeys(split_words(tool.name), NAME_WEIGHT))
    return _Entry(tool, name + rest.encode("utf-8", "replace")[:MAX_TEXT], len(name), words)
