"""Whatever comes and goes: the index is as a new one would be."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisorchain import Tool
from advisorchain.tool_index import Bm25Index, HybridIndex, RegexIndex, ToolIndex

WORDS = ["get", "weather", "city", "users", "user", "天气", "预报", "calculate", "calculation", "الطقس", "a", "7"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
names = st.sampled_from(["getWeather", "list_users", "calc", "天气", "x", "y.z", "get_city"])
steps = st.lists(st.tuples(names, st.none() | texts), max_size=25)
"""What happens: a tool is added with a text, or removed."""


async def handle(arguments: dict[str, Any]) -> None:
    return None


def hybrid() -> ToolIndex:
    return HybridIndex([Bm25Index(), RegexIndex()])


@pytest.mark.parametrize("make", [Bm25Index, RegexIndex, hybrid])
@settings(max_examples=60, deadline=None)
@given(steps=steps, query=texts, k=st.integers(0, 9))
def test_as_a_new_index(make: Any, steps: list[tuple[str, str | None]], query: str, k: int) -> None:
    async def check() -> None:
        lived, kept = make(), dict[str, Tool]()
        for name, text in steps:
            if text is None:
                await lived.remove([name])
                kept.pop(name, None)
            else:
                kept[name] = Tool.from_schema(name, handle, description=text)
                await lived.add([kept[name]])
        new = make()
        await new.add(reversed(list(kept.values())))
        hits = await lived.search(query, k)
        assert hits == await new.search(query, k)
        assert len(hits) <= k
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert {hit.name for hit in hits} <= kept.keys()
        assert all(hit.score > 0 for hit in hits)
        everything = await lived.search(query, 100)
        assert hits == everything[:k]
        assert await lived.search(query, k, lambda tool: True) == hits

    anyio.run(check)


@settings(max_examples=30, deadline=None)
@given(query=st.text(max_size=300))
def test_any_query(query: str) -> None:
    async def check() -> None:
        index = Bm25Index()
        await index.add([Tool.from_schema(name, handle, description="Get the weather") for name in ("a", "b")])
        assert len(await index.search(query)) <= 2

    anyio.run(check)
