"""What is found of real catalogues; `tests/benchmarks/tool_search.py` prints the whole table.

The floors are a little under what was measured, and above what must hold (.79 and .85 on BFCL).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain.tool_index import Bm25Index

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tool_search_data

    yield tool_search_data
    for name in ("tool_search_data", "mcp_queries", "mcp_corpus"):
        sys.modules.pop(name, None)


async def recall(corpus: Any) -> tuple[float, float]:
    """At 5 and at 10 hits."""
    index = Bm25Index()
    await index.add(corpus.tools)
    found = [[hit.name for hit in await index.search(query.text, 10)] for query in corpus.reported]
    pairs = list(zip(corpus.reported, found, strict=True))
    five = sum(query.recall(names[:5]) for query, names in pairs)
    ten = sum(query.recall(names) for query, names in pairs)
    return five / len(pairs), ten / len(pairs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tools_of_mcp_servers(data: Any) -> None:
    """Fetches the servers with npm and uv at the first time."""
    corpus = data.mcp_servers()
    assert (len(corpus.tools), len(corpus.reported)) == (117, 104)
    names = {tool.name for tool in corpus.tools}
    assert all(wanted <= names for query in corpus.reported for wanted in query.sets)
    five, ten = anyio.run(recall, corpus)
    assert five >= 0.64
    assert ten >= 0.70


@pytest.mark.slow
async def test_bfcl(data: Any) -> None:
    """Fetches the data with uv at the first time."""
    corpus = data.bfcl()
    assert (len(corpus.tools), len(corpus.tuned), len(corpus.reported)) == (2_070, 1_251, 1_250)
    five, ten = await recall(corpus)
    assert five >= 0.85
    assert ten >= 0.90
