"""How well and how fast tools are found: ``python tests/benchmarks/tool_search.py [--vector]`` prints one table.

Recall at 5 and 10: the part of a query's tools that is among the first 5 or 10 hits, the mean over all queries. A query
is a user's message as it is. Of BFCL's queries that half is reported on which nothing was tuned. Times are CPU times.
Exit code 1 when a number is worse than it must be.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import anyio
from tool_search_data import Corpus, Query, bfcl, many, mcp_servers
from tool_search_rivals import SpringLucene, SpringRegex, without_arguments

from advisorchain import Tool
from advisorchain.tool_index import Bm25Index, HybridIndex, RegexIndex, ToolIndex

BUILDS = 5
LARGE = 20_000


@dataclass
class Must:
    """A number that is reported, with what it must and should be."""

    what: str
    value: float
    must: float
    aim: float
    more_is_better: bool

    @property
    def holds(self) -> bool:
        return self.value >= self.must if self.more_is_better else self.value <= self.must

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "WORSE THAN IT MUST BE"
        return f"{self.what:<46} {self.value:8.3f}   must {self.must:<6} aim {self.aim:<6} {verdict}"


@dataclass
class Quality:
    """What an index finds of a corpus, at 1, 5 and 10 hits, and the CPU milliseconds of a query."""

    recall: tuple[float, float, float]
    p50: float
    p95: float


async def quality(index: ToolIndex, queries: list[Query], pattern: Any = None) -> Quality:
    """Ask everything once."""
    sums, times = [0.0, 0.0, 0.0], []
    for query in queries:
        text = pattern(query.text) if pattern else query.text
        start = time.process_time()
        hits = await index.search(text, 10)
        times.append((time.process_time() - start) * 1_000)
        names = [hit.name for hit in hits]
        for at, k in enumerate((1, 5, 10)):
            sums[at] += query.recall(names[:k])
    times.sort()
    one, five, ten = (total / len(queries) for total in sums)
    return Quality((one, five, ten), times[len(times) // 2], times[int(len(times) * 0.95)])


async def built(index: ToolIndex, tools: list[Tool]) -> ToolIndex:
    await index.add(tools)
    return index


async def build_seconds(tools: list[Tool]) -> float:
    times = []
    for _ in range(BUILDS):
        index = Bm25Index()
        gc.collect()
        start = time.process_time()
        await index.add(tools)
        times.append(time.process_time() - start)
    return median(times)


async def large(corpus: Corpus) -> Quality:
    index = await built(Bm25Index(), many(corpus.tools, LARGE))
    gc.collect()
    gc.freeze()  # a collection of millions of objects of this program is not the index's
    try:
        return await quality(index, corpus.reported)
    finally:
        gc.unfreeze()


def keywords(text: str) -> str:
    """A pattern such as a model would write: the words that say something."""
    from advisorchain.tool_index.words import searched_words, split_words

    pattern = ""
    for word in dict.fromkeys(searched_words(split_words(text))):
        if len(pattern) + len(word) < 190:
            pattern += f"|{word}" if pattern else word
    return pattern


def show(name: str, first: Quality, second: Quality) -> None:
    numbers = "  ".join(f"{value:.3f}" for value in (*first.recall, *second.recall))
    print(f"{name:<52} {numbers}  {first.p50:7.2f} {first.p95:7.2f}", flush=True)


async def run(with_vectors: bool) -> list[Must]:
    corpus, servers = bfcl(), mcp_servers()
    print(f"BFCL: {len(corpus.tools)} tools, {len(corpus.reported)} queries (the half that nothing was tuned on)")
    print(f"MCP servers: {len(servers.tools)} tools, {len(servers.reported)} queries\n")
    print(f"{'':<52} {'BFCL @1, @5, @10':<21}  {'MCP @1, @5, @10':<21}     p50     p95 ms CPU")

    async def row(name: str, make: Any, change: Any = list, pattern: Any = None) -> Quality:
        first = await quality(await built(make(), change(corpus.tools)), corpus.reported, pattern)
        second = await quality(await built(make(), change(servers.tools)), servers.reported, pattern)
        show(name, first, second)
        return first

    bm25 = await row("Bm25Index", Bm25Index)
    await row("RegexIndex, words of the message as alternatives", RegexIndex, pattern=keywords)
    found: list[Must] = []
    if with_vectors:
        from advisorchain_vector import VectorIndex

        await row("VectorIndex (MiniLM)", VectorIndex)
        hybrid = await row(
            "HybridIndex of Bm25Index and VectorIndex", lambda: HybridIndex([Bm25Index(), VectorIndex()])
        )
        await row("* langgraph-bigtool (LangChain), MiniLM", VectorIndex, without_arguments)
        found += [
            Must("HybridIndex recall@5", hybrid.recall[1], 0.84, 0.90, True),
            Must("HybridIndex recall@10", hybrid.recall[2], 0.89, 0.95, True),
        ]
    await row("* Spring AI, Lucene strategy", SpringLucene)
    await row("* Spring AI, regex strategy", SpringRegex)
    print("* their algorithm, written anew from its description\n")
    at_large = await large(corpus)
    return [
        Must("Bm25Index recall@5", bm25.recall[1], 0.79, 0.84, True),
        Must("Bm25Index recall@10", bm25.recall[2], 0.85, 0.90, True),
        *found,
        Must("Bm25Index query p50, 2,070 tools, ms CPU", bm25.p50, 0.3, 0.1, False),
        Must("Bm25Index query p95, 20,000 tools, ms CPU", at_large.p95, 8, 2, False),
        Must("Bm25Index build, 2,070 tools, s CPU", await build_seconds(corpus.tools), 0.3, 0.1, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vector", action="store_true", help="with embeddings too; minutes the first time")
    numbers = anyio.run(run, parser.parse_args().vector)
    for number in numbers:
        print(number)
    return 0 if all(number.holds for number in numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
