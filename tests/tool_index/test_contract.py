"""The indexes of the package keep the contract; and the contract finds those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio.lowlevel
import pytest

from advisorchain import Tool
from advisorchain.testing import check_tool_index
from advisorchain.tool_index import Bm25Index, HybridIndex, RegexIndex, ToolHit, ToolIndex
from advisorchain.tool_index import regex as regex_module


async def test_bm25() -> None:
    await check_tool_index(Bm25Index)


async def test_regex() -> None:
    assert RegexIndex()._re2 is not None
    await check_tool_index(RegexIndex)


async def test_regex_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_module, "_load_re2", lambda: None)
    await check_tool_index(RegexIndex)


async def test_hybrid() -> None:
    await check_tool_index(lambda: HybridIndex([Bm25Index()]))
    await check_tool_index(lambda: HybridIndex([Bm25Index(), Bm25Index()], weights=[1, 0.5]))


async def test_an_async_factory() -> None:
    async def make() -> ToolIndex:
        return Bm25Index()

    await check_tool_index(make)


class WithoutChecks(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        return await super().search(query, k if isinstance(k, int) and k > 0 else 0, filters)


class OneTooMany(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        return await super().search(query, k + 1, filters)


class FiltersAfterwards(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        hits = await super().search(query, k)
        return [hit for hit in hits if filters is None or filters(self._tools[hit.name])]


class WorstFirst(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        return (await super().search(query, k, filters))[::-1]


class KeepsRemoved(Bm25Index):
    async def remove(self, names: Iterable[str]) -> None:
        return None


class KeepsOld(Bm25Index):
    async def add(self, tools: Iterable[Tool]) -> None:
        await super().add([tool for tool in tools if tool.name not in self._tools])


class Drifts(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        self.drift = getattr(self, "drift", 0) + 1
        return [ToolHit(hit.name, hit.score + self.drift) for hit in await super().search(query, k, filters)]


class OneByOne(Bm25Index):
    async def add(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            await super().add([tool])
            await anyio.lowlevel.checkpoint()


class NoTwins(Bm25Index):
    async def add(self, tools: Iterable[Tool]) -> None:
        await super().add({tool.description: tool for tool in tools}.values())


class Silent(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        await super().search(query, k)
        return []


class ForgetsOtherScripts(Bm25Index):
    async def search(self, query: str, k: int = 8, filters: Any = None) -> list[ToolHit]:
        return await super().search(query.encode("ascii", "ignore").decode() if isinstance(query, str) else query, k)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (WithoutChecks, "A k that is no int"),
        (OneTooMany, "k bounds|finds the tool"),
        (FiltersAfterwards, "fill all k places"),
        (WorstFirst, "beginning of the same list|not in order"),
        (KeepsRemoved, "removed"),
        (KeepsOld, "takes the place"),
        (Drifts, "agree|same list"),
        (OneByOne, "whole changes"),
        (NoTwins, "one description|both"),
        (Silent, "finds the tool"),
        (ForgetsOtherScripts, "scripts without spaces"),
    ],
)
async def test_the_contract_finds(make: Callable[[], ToolIndex], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_tool_index(make)
