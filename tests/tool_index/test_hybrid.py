"""`HybridIndex`: ranks are fused, errors come through."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest

from advisorchain import ConfigurationError, ToolError
from advisorchain.tool_index import Bm25Index, HybridIndex, RegexIndex, ToolHit
from advisorchain.tool_index.hybrid import RANK_OFFSET


class Fixed(Bm25Index):
    """Finds the same, whatever is asked."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        await anyio.lowlevel.checkpoint()
        return [ToolHit(name, 100.0 - at) for at, name in enumerate(self.names)][:k]


async def test_ranks_are_summed() -> None:
    index = HybridIndex([Fixed("a", "b", "c"), Fixed("b", "d")])
    hits = await index.search("x")
    assert [hit.name for hit in hits] == ["b", "a", "d", "c"]
    assert hits[0].score == pytest.approx(1 / (RANK_OFFSET + 2) + 1 / (RANK_OFFSET + 1))
    assert await index.search("x", k=2) == hits[:2]


async def test_weights() -> None:
    index = HybridIndex([Fixed("a"), Fixed("b")], weights=[1, 2])
    assert [hit.name for hit in await index.search("x")] == ["b", "a"]


async def test_all_get_all_tools_even_from_an_iterator(make_tool: Any) -> None:
    first, second = Bm25Index(), RegexIndex()
    index = HybridIndex([first, second])
    await index.add(make_tool(name) for name in ("alpha", "beta"))
    assert [hit.name for hit in await first.search("alpha")] == [hit.name for hit in await second.search("alpha")]
    await index.remove(name for name in ("alpha",))
    assert not await first.search("alpha")
    assert not await second.search("alpha")


async def test_words_that_are_no_pattern_are_found_by_the_other_index(make_tool: Any) -> None:
    index = HybridIndex([Bm25Index(), RegexIndex()])
    await index.add([make_tool("alpha")])
    for query in ("(alpha", "alpha " * 100):
        assert [hit.name for hit in await index.search(query)] == ["alpha"]
    with pytest.raises(ToolError, match="pattern"):
        await index.search("(beta")


async def test_an_error_of_one_index_is_raised_as_it_is(make_tool: Any) -> None:
    class Broken(Bm25Index):
        async def search(self, *arguments: Any, **more: Any) -> Any:
            raise OSError("no disk")

    index = HybridIndex([Bm25Index(), Broken()])
    await index.add([make_tool("alpha")])
    with pytest.raises(OSError, match="no disk"):
        await index.search("alpha")


@pytest.mark.parametrize(
    "arguments",
    [
        {"indexes": []},
        {"indexes": Bm25Index()},
        {"indexes": ["bm25"]},
        {"indexes": [Bm25Index]},
        {"indexes": [Bm25Index()], "weights": [1, 2]},
        {"indexes": [Bm25Index()], "weights": [0]},
        {"indexes": [Bm25Index()], "weights": ["1"]},
        {"indexes": [Bm25Index()], "weights": [float("nan")]},
    ],
)
def test_what_cannot_be_fused_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="HybridIndex takes"):
        HybridIndex(**arguments)
