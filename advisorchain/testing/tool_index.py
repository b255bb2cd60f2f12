"""`check_tool_index`: the contract that every tool index keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel

from ..errors import ConfigurationError, ToolError
from ..tool_index import ToolHit, ToolIndex
from ..tools import Tool
from .contract import check_rule

MakeIndex = Callable[[], ToolIndex | Awaitable[ToolIndex]]

MANY = 500
"""How many tools the check with many tools has."""

_TEXTS = {
    "get_weather": "Give the weather forecast of a city",
    "sendEmail": "Send an email to a person",
    "calendar.createEvent": "Create an event in the calendar",
    "convert_currency": "Convert money between currencies",
    "查询天气": "查询一个城市的天气预报",
    "ترجمة": "ترجمة النص إلى لغة أخرى",
    "ホテル予約": "東京のホテルを予約する",
}


async def check_tool_index(make_index: MakeIndex) -> None:
    """Check a tool index against the contract of `ToolIndex`.

    Args:
        make_index: gives an empty index; called once for each check, may be async. An index with ``aclose()`` or
            ``close()`` is closed after its check.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in _CHECKS:
        await check_rule(rule, make_index)


def _tool(name: str, description: str, **settings: Any) -> Tool:
    async def handle(arguments: dict[str, Any]) -> None:
        return None

    return Tool.from_schema(name, handle, description=description, **settings)


def _tools() -> list[Tool]:
    return [_tool(name, description) for name, description in _TEXTS.items()]


def _that(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _well_formed(hits: Any, k: int, names: Iterable[str]) -> None:
    _that(isinstance(hits, list), f"search gives {type(hits).__name__}, not a list.")
    _that(all(isinstance(hit, ToolHit) for hit in hits), f"search gives {hits}, not hits.")
    _that(len(hits) <= k, f"search with k={k} gives {len(hits)} hits.")
    found, scores = [hit.name for hit in hits], [hit.score for hit in hits]
    _that(len(set(found)) == len(found), f"a tool is found twice: {found}.")
    _that(set(found) <= set(names), f"tools that are not in the index are found: {sorted(set(found) - set(names))}.")
    _that(scores == sorted(scores, reverse=True), f"the scores are not in order: {scores}.")
    _that(found == [hit.name for hit in sorted(hits, key=lambda hit: (-hit.score, hit.name))], "equal scores: by name.")


async def _empty(index: ToolIndex) -> None:
    """An empty index finds nothing."""
    _that(await index.search("weather") == [], "search of an empty index found something.")
    await index.add([])
    await index.remove(["nothing"])
    _that(await index.search("weather") == [], "search of an empty index found something.")


async def _finds(index: ToolIndex) -> None:
    """A word of a tool's name finds the tool; so in scripts without spaces."""
    await index.add(_tools())
    for query, expected in [
        ("weather", "get_weather"),
        ("email", "sendEmail"),
        ("calendar", "calendar.createEvent"),
        ("currency", "convert_currency"),
        ("天气", "查询天气"),
        ("ترجمة", "ترجمة"),
        ("ホテル", "ホテル予約"),
    ]:
        hits = await index.search(query, k=3)
        _well_formed(hits, 3, _TEXTS)
        _that(expected in [hit.name for hit in hits], f"{query!r} finds {hits}, not {expected!r}.")


async def _k(index: ToolIndex) -> None:
    """k bounds the hits, and a smaller k gives the beginning of the same list."""
    await index.add([_tool(f"report_{number:03}", f"Write the report number {number}") for number in range(60)])
    names = {f"report_{number:03}" for number in range(60)}
    whole = await index.search("report", k=60)
    _that(len(whole) > 0, "'report' finds nothing.")
    for k in (0, 1, 2, 8, 59, 60, 1000):
        hits = await index.search("report", k=k)
        _well_formed(hits, k, names)
        _that(hits == whole[:k], f"with k={k} the hits are {hits[:5]}, not the first of {whole[:5]}.")
    _that(await index.search("report") == whole[:8], "the default of k is not 8.")


async def _refuses(index: ToolIndex) -> None:
    """A k that is no int of at least 0 is refused, and a query that is no text; any text is a query."""
    await index.add(_tools())
    for arguments in [("weather", -1), ("weather", 1.5), ("weather", True), ("weather", None), (None, 8), (b"x", 8)]:
        try:
            await index.search(*arguments)  # type: ignore[arg-type]
        except ConfigurationError:
            continue
        raise AssertionError(f"search{arguments} raised no ConfigurationError.")
    for query in ["", " ", "\n\x00", "(", "\\", "[", "*", "?" * 50, "🙂", "\ud800", "x" * 100_000, "a " * 5_000]:
        try:
            _well_formed(await index.search(query), 8, _TEXTS)
        except ToolError as exc:  # an index may say that it does not understand the query
            _that(bool(str(exc)), f"the error for {query[:20]!r} has no text.")


async def _changes(index: ToolIndex) -> None:
    """A tool takes the place of the one of its name; one that was removed is not found."""
    await index.add([_tool("helper_one", "Give the weather"), _tool("helper_two", "Give the weather")])
    _that({hit.name for hit in await index.search("weather")} == {"helper_one", "helper_two"}, "both say 'weather'.")
    await index.add([_tool("helper_one", "Translate a sentence")])
    hits = await index.search("weather", k=1)
    _that([hit.name for hit in hits] == ["helper_two"], f"after the change of the other, 'weather' finds {hits}.")
    hits = await index.search("translate", k=1)
    _that([hit.name for hit in hits] == ["helper_one"], f"'translate' finds {hits}, not the changed tool.")
    await index.remove(["helper_two", "nothing", "helper_two"])
    _well_formed(await index.search("weather"), 8, ["helper_one"])
    await index.remove(["helper_one"])
    _that(await index.search("translate") == [], "a removed tool is found.")
    await index.add([_tool("helper_two", "Give the weather")])
    _well_formed(hits := await index.search("weather"), 8, ["helper_two"])
    _that(len(hits) == 1, "a tool that is added again is not found.")


async def _same_as_new(index: ToolIndex) -> None:
    """Equal searches agree, and what was removed leaves no trace."""
    others = [_tool(f"get_other_{number}", "Give the other weather of an email") for number in range(20)]
    await index.add(_tools())
    before = await index.search("weather email", k=20)
    _that(before == await index.search("weather email", k=20), "the same search gives another list.")
    await index.add(others)
    await index.remove([tool.name for tool in others])
    after = await index.search("weather email", k=20)
    _that(before == after, f"after other tools came and went: {after}, not {before}.")


async def _filtered(index: ToolIndex) -> None:
    """With a filter only tools that pass are found, and they fill all k places."""
    await index.add(
        [_tool(f"report_{number:03}", "Write the report", tags={"odd"} if number % 2 else ()) for number in range(200)]
    )
    whole = [hit.name for hit in await index.search("report", k=200)]
    hits = await index.search("report", 8, lambda tool: "odd" in tool.tags)
    _well_formed(hits, 8, [name for name in whole if int(name[-3:]) % 2])
    _that(len(hits) == 8, f"100 tools pass the filter, and {len(hits)} are found.")
    _that(await index.search("report", 8, lambda tool: False) == [], "a filter that takes nothing finds something.")


async def _twins(index: ToolIndex) -> None:
    """Two tools with one description are both found."""
    await index.add([_tool("alpha", "Print the invoice"), _tool("beta", "Print the invoice")])
    found = {hit.name for hit in await index.search("invoice")}
    _that(found == {"alpha", "beta"}, f"'invoice' finds {found}.")


async def _concurrent(index: ToolIndex) -> None:
    """Searches beside changes see whole changes, and lose none."""
    await index.add([_tool(f"report_{number}", "Write the report") for number in range(10)])
    seen: set[int] = set()

    async def search() -> None:
        for _ in range(20):
            hits = await index.search("report", k=MANY)
            seen.add(len(hits))
            await anyio.lowlevel.checkpoint()

    async def change(part: int) -> None:
        tools = [_tool(f"report_{part}_{number}", "Write the report") for number in range(100)]
        await index.add(tools)
        await index.remove([tool.name for tool in tools])
        await index.add(tools)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(search)
        for part in range(3):
            group.start_soon(change, part)
    _that(seen <= {10, 110, 210, 310}, f"{sorted(seen)} tools were seen while hundreds were added at once.")
    left = len(await index.search("report", k=MANY))
    _that(left == 310, f"{left} tools are left, not 310.")


async def _many(index: ToolIndex) -> None:
    """Many tools with long texts and odd schemas are taken."""
    deep: dict[str, Any] = {"type": "object", "properties": {"x": {"enum": ["a", 1, None], "description": "d " * 2000}}}
    for _ in range(20):
        deep = {"type": "object", "properties": {"list": {"type": "array", "items": {"anyOf": [deep]}}}}
    tools = [_tool(f"tool_{number}", f"Does thing {number} " * 20) for number in range(MANY)]
    await index.add([*tools, _tool("deep_thing", "Goes deep", input_schema=deep), _tool("x" * 128, "y" * 100_000)])
    hits = await index.search("deep", k=5)
    _that("deep_thing" in [hit.name for hit in hits], f"'deep' finds {hits}.")


_CHECKS = (_empty, _finds, _k, _refuses, _changes, _same_as_new, _filtered, _twins, _concurrent, _many)
