"""`Bm25Index`: finds tools by the words of a query, weighted by how rare they are and where they stand."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Iterable

import anyio.lowlevel

from ..tools import Tool
from .fields import fields_of
from .index import ToolHit, ToolPredicate, best_hits, check_search
from .words import searched_words, split_words, stem_of

# The numbers were chosen on the queries of BFCL with an even CRC-32 of their id; docs/tool-search.md has the results on
# the odd half. Each of them may change by a third without moving recall by more than a point.

WEIGHTS = {
    "name": 6.0,
    "title": 1.0,
    "description": 1.0,
    "argument_names": 1.5,
    "argument_texts": 0.75,
    "tags": 1.5,
    "values": 1.0,
}
"""How much a word counts, by where in a tool it stands."""

LENGTHS = {
    "name": 3.6,
    "title": 3.6,
    "description": 17.0,
    "argument_names": 4.2,
    "argument_texts": 31.0,
    "tags": 2.0,
    "values": 2.0,
}
"""Usual numbers of words, the means of BFCL's tools. They are constants, not the means of what this index holds: what a
tool counts does not change when others come and go."""

LENGTH_EFFECT = 0.2
"""How much less a word counts in a text that is longer than usual; 0: not at all. BM25's ``b``."""

SATURATION = 1.0
"""How soon more of the same word counts no more. BM25's ``k1``."""

PREFIX = 5
PREFIX_WEIGHT = 0.7
"""Words that agree in so many characters ("calculate", "calculation") count so much beside the words themselves."""

PAIR_WEIGHT = 0.15
"""How much two words in a row count, in names and descriptions."""

MAX_TERMS = 32
"""Terms of a query that are searched, those that can count the most: more make a search slower and no better."""

MAX_QUERY = 8_000
"""Characters of a query that are read."""

BATCH = 50
"""How many tools are read before other tasks may run."""

_ROUNDING = 1e-9  # sums in another order differ by less

_MARK = "~"  # begins the term of a prefix: no word has it

# An impact is one of so many shared floats: half the memory, and far fewer cache misses than a float object for each.
_STEPS = 128
_IMPACTS = [step / _STEPS for step in range(int((SATURATION + 1) * _STEPS) + 1)]


class _Forms(dict[str, tuple[str, str]]):
    """From a word to what is indexed for it: its stem, and the term of its prefix; each is worked out once."""

    LIMIT = 100_000
    """How many are remembered."""

    def __missing__(self, word: str) -> tuple[str, str]:
        stem = stem_of(word)
        forms = stem, _MARK + stem[:PREFIX]
        if len(self) < self.LIMIT:
            self[word] = forms
        return forms


def _lowest(scores: dict[str, float], k: int) -> float:
    """The ``k``-th best score."""
    return heapq.nlargest(k, scores.values())[-1]


class Bm25Index:
    """BM25F over a tool's name, title, description, arguments, tags and enum values.

    In memory, without dependencies; tools come and go without a rebuild. It needs no model's help: the user's own
    message is a good query, in any language that the tools' texts are in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms = _Forms()
        self._tools: dict[str, Tool] = {}
        self._terms: dict[str, tuple[str, ...]] = {}
        self._postings: dict[str, dict[str, float]] = {}
        self._peaks: dict[str, float] = {}  # the highest impact of a term, where it is known

    async def add(self, tools: Iterable[Tool]) -> None:
        """Add tools; see `ToolIndex.add`."""
        read: list[tuple[Tool, dict[str, float]]] = []
        for tool in tools:
            read.append((tool, self._impacts(tool)))
            if len(read) % BATCH == 0:
                await anyio.lowlevel.checkpoint()
        all_postings, peaks = self._postings, self._peaks
        with self._lock:
            for tool, impacts in read:
                name = tool.name
                self._remove(name)
                self._tools[name] = tool
                self._terms[name] = tuple(impacts)
                for term, impact in impacts.items():
                    postings = all_postings.get(term)
                    if postings is None:
                        all_postings[term] = {name: impact}
                    else:
                        postings[name] = impact
                        if peaks and impact > peaks.get(term, math.inf):
                            peaks[term] = impact

    async def remove(self, names: Iterable[str]) -> None:
        """Remove tools; see `ToolIndex.remove`."""
        with self._lock:
            for name in names:
                self._remove(name)

    def _remove(self, name: str) -> None:
        if self._tools.pop(name, None) is None:
            return
        for term in self._terms.pop(name):
            postings = self._postings[term]
            del postings[name]
            self._peaks.pop(term, None)
            if not postings:
                del self._postings[term]

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        """The best tools for a query in words; see `ToolIndex.search`."""
        check_search(query, k)
        terms = self._query_terms(query[:MAX_QUERY])
        with self._lock:
            scores = self._scores(terms, k if filters is None else None)
            tools = {} if filters is None else {name: self._tools[name] for name in scores}
        if filters is not None:
            scores = {name: score for name, score in scores.items() if filters(tools[name])}
        return best_hits(scores, k)

    def _query_terms(self, query: str) -> set[str]:
        forms = [self._forms[word] for word in searched_words(split_words(query))]
        terms = {term for form in forms for term in form}
        terms.update(f"{one} {two}" for (one, _), (two, _) in itertools.pairwise(forms))
        return terms

    def _scores(self, terms: Iterable[str], k: int | None) -> dict[str, float]:
        """Scores of all tools that have one of the terms; with ``k``, of enough of them to find the best ``k``.

        The terms that can count the most come first. As soon as all that is left cannot lift a new tool among the best,
        only the tools that are there are looked up (the "max score" method), and the long lists of common words are
        not walked through.
        """
        count = len(self._tools)
        lists: list[tuple[float, str, float, dict[str, float]]] = []
        for term in terms:
            postings = self._postings.get(term)
            if postings is None:
                continue
            weight = math.log(1 + (count - len(postings) + 0.5) / (len(postings) + 0.5))
            if term[0] == _MARK:
                weight *= PREFIX_WEIGHT
            peak = self._peaks.get(term)
            if peak is None:
                peak = self._peaks[term] = max(postings.values())
            lists.append((-weight * peak, term, weight, postings))
        lists.sort()
        del lists[MAX_TERMS:]

        rest = -sum(entry[0] for entry in lists)
        scores: dict[str, float] = {}
        score_of = scores.get
        done = 0
        for bound, _, weight, postings in lists:
            if k and len(scores) >= k and len(postings) * 2 > len(scores) and _lowest(scores, k) > rest + _ROUNDING:
                break
            for name, impact in postings.items():
                scores[name] = score_of(name, 0.0) + weight * impact
            rest += bound
            done += 1
        for bound, _, weight, postings in lists[done:]:
            floor = _lowest(scores, k or 1) - rest - _ROUNDING
            scores = {name: score for name, score in scores.items() if score >= floor}
            for name in scores:
                found = postings.get(name)
                if found is not None:
                    scores[name] += weight * found
            rest += bound
        return scores

    def _impacts(self, tool: Tool) -> dict[str, float]:
        """How much each term says about a tool, apart from how rare it is."""
        counts: dict[str, float] = {}
        forms_of, count_of = self._forms, counts.get
        for field, text in fields_of(tool).items():
            words = split_words(text)
            if not words:
                continue
            weight = WEIGHTS[field] / (1 - LENGTH_EFFECT + LENGTH_EFFECT * len(words) / LENGTHS[field])
            forms = [forms_of[word] for word in words]
            for stem, prefix in forms:
                counts[stem] = count_of(stem, 0.0) + weight
                counts[prefix] = count_of(prefix, 0.0) + weight
            if field in ("name", "description"):
                for pair in {f"{one} {two}" for (one, _), (two, _) in itertools.pairwise(forms)}:
                    counts[pair] = count_of(pair, 0.0) + weight * PAIR_WEIGHT
        most = (SATURATION + 1) * _STEPS
        return {term: _IMPACTS[round(most * count / (count + SATURATION))] for term, count in counts.items()}
