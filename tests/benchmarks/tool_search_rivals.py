"""What others do, written anew from their documentation and source, to run on the same data.

None of it is their program: a ranking may differ where their texts leave something open. In doubt the form that finds
more was taken.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable

from advisorchain import Tool
from advisorchain.tool_index import ToolHit, ToolPredicate, split_words
from advisorchain.tool_index.words import STOP_WORDS


class SpringRegex:
    """Spring AI 2.0, regex strategy (its default): the query's words without stop words as one pattern of alternatives
    of at most 200 characters; a hit in the name counts 2, in the description 1, an early one a little more."""

    def __init__(self) -> None:
        self._tools: list[Tool] = []

    async def add(self, tools: Iterable[Tool]) -> None:
        self._tools += tools

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        words = [word for word in re.findall(r"\w+", query.lower()) if word not in STOP_WORDS and len(word) > 1]
        parts: list[str] = []
        for word in dict.fromkeys(words):
            if len("|".join([*parts, word])) > 200:
                break
            parts.append(re.escape(word))
        if not parts:
            return []
        pattern = re.compile("|".join(parts), re.IGNORECASE)
        scores: list[tuple[float, str]] = []
        for tool in self._tools:
            score = 0.0
            for text, weight in ((tool.name, 2.0), (tool.description, 1.0)):
                for match in pattern.finditer(text):
                    score += weight + 0.1 * (1 - match.start() / len(text))
            if score:
                scores.append((-score, tool.name))
        return [ToolHit(name, -score) for score, name in heapq.nsmallest(k, scores)]


class SpringLucene:
    """Spring AI 2.0, Lucene strategy: BM25 (k1 1.2, b 0.75) over whole names (boost 4), names in words (boost 2) and
    descriptions, tokens as Lucene's standard analyser makes them (letters, digits and ``_`` together, no stemming)."""

    FIELDS = (("name", 4.0), ("words", 2.0), ("description", 1.0))

    def __init__(self) -> None:
        self._tools: list[Tool] = []
        self._tokens: list[dict[str, list[str]]] = []
        self._holders: dict[str, dict[str, dict[int, int]]] = {field: {} for field, _ in self.FIELDS}

    async def add(self, tools: Iterable[Tool]) -> None:
        for number, tool in enumerate(tools, len(self._tools)):
            tokens = {
                "name": _standard(tool.name),
                "words": split_words(tool.name),
                "description": _standard(tool.description),
            }
            self._tools.append(tool)
            self._tokens.append(tokens)
            for field, found in tokens.items():
                for token, count in Counter(found).items():
                    self._holders[field].setdefault(token, {})[number] = count

    async def search(self, query: str, k: int = 8, filters: ToolPredicate | None = None) -> list[ToolHit]:
        scores: dict[int, float] = {}
        for field, boost in self.FIELDS:
            mean = sum(len(tokens[field]) for tokens in self._tokens) / len(self._tokens)
            for token in set(_standard(query)):
                holders = self._holders[field].get(token, {})
                idf = math.log(1 + (len(self._tools) - len(holders) + 0.5) / (len(holders) + 0.5))
                for number, count in holders.items():
                    length = len(self._tokens[number][field]) / mean
                    score = boost * idf * count / (count + 1.2 * (0.25 + 0.75 * length))
                    scores[number] = scores.get(number, 0.0) + score
        ranked = [(-score, self._tools[number].name) for number, score in scores.items() if score >= 0.25]
        return [ToolHit(name, -score) for score, name in heapq.nsmallest(k, ranked)]


def _standard(text: str) -> list[str]:
    return re.findall(r"\w+(?:\.\w+)*", text.lower())


def without_arguments(tools: Iterable[Tool]) -> list[Tool]:
    """Name and description only: what LangChain's langgraph-bigtool embeds."""

    async def nothing(arguments: dict[str, object]) -> None:
        return None

    return [Tool.from_schema(tool.name, nothing, description=tool.description) for tool in tools]
