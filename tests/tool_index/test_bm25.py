"""`Bm25Index`: what counts how much, and that pruning changes nothing."""

from __future__ import annotations

import random
import threading
from typing import Any

import anyio
import anyio.to_thread

from advisorchain import Tool
from advisorchain.tool_index import Bm25Index
from advisorchain.tool_index.bm25 import MAX_TERMS


async def found(index: Bm25Index, query: str, k: int = 8) -> list[str]:
    return [hit.name for hit in await index.search(query, k)]


async def test_every_field_is_searched(make_tool: Any) -> None:
    index = Bm25Index()
    schema = {
        "type": "object",
        "properties": {
            "latitude": {"type": "number", "description": "degrees northwards"},
            "units": {"enum": ["kelvin", 1, None]},
            "filter": {"type": "object", "properties": {"azimuth": {"anyOf": [{"const": "zenith"}]}}},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        },
        "$defs": {"Row": {"type": "object", "properties": {"pressure": {"type": "number"}}}},
    }
    await index.add([
        make_tool("readSensor", "Ask the station", title="Barometer", tags={"meteorology"}, input_schema=schema),
        make_tool("other", "Something else"),
    ])  # fmt: skip
    words = "sensor station barometer meteorology latitude northwards kelvin azimuth zenith pressure"
    for word in words.split():
        assert await found(index, word) == ["readSensor"], word


async def test_a_name_counts_more_than_a_description_and_that_more_than_an_arguments_text(make_tool: Any) -> None:
    index = Bm25Index()
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "an invoice"}}}
    await index.add([
        make_tool("third", "does it", input_schema=schema),
        make_tool("second", "an invoice"),
        make_tool("invoice", "does it"),
    ])  # fmt: skip
    assert await found(index, "invoice") == ["invoice", "second", "third"]


async def test_words_of_one_origin_are_found_behind_the_word_itself(make_tool: Any) -> None:
    index = Bm25Index()
    await index.add([make_tool("a_calculation"), make_tool("calculate"), make_tool("call")])
    assert await found(index, "calculate") == ["calculate", "a_calculation"]


async def test_two_words_in_a_row_count(make_tool: Any) -> None:
    index = Bm25Index()
    await index.add([make_tool("a", "square of the root"), make_tool("b", "of the square root")])
    assert await found(index, "square root") == ["b", "a"]


async def test_small_talk_finds_no_tool_that_is_named_like_it(make_tool: Any) -> None:
    index = Bm25Index()
    await index.add([make_tool("help_me", "my own function"), make_tool("book_flight", "Book a flight")])
    assert (await found(index, "Please help me, can you book my flight?"))[0] == "book_flight"
    assert await found(index, "help me") == ["help_me"]


async def test_pruning_changes_nothing(make_tool: Any) -> None:
    words = [f"w{letter}{other}" for letter in "abcdefghij" for other in "abcdefghij"]
    random.seed(7)
    weights = [1 / (rank + 1) for rank in range(len(words))]
    index = Bm25Index()
    await index.add(
        make_tool(f"tool_{number}", " ".join(random.choices(words, weights, k=12))) for number in range(1_500)
    )
    for _ in range(60):
        query = " ".join(random.choices(words, k=random.randint(1, MAX_TERMS * 2)))
        whole = await index.search(query, 2_000)
        for k in (1, 5, 10, 200):
            assert await index.search(query, k) == whole[:k]
            assert await index.search(query, k, lambda tool: True) == whole[:k]


async def test_no_tool_and_ten_thousand(make_tool: Any) -> None:
    index = Bm25Index()
    assert await index.search("weather") == []
    tool: Tool = make_tool("tool", "Give the weather of a city", input_schema={"type": "object"})
    await index.add(tool.replace(name=f"tool_{number}") for number in range(10_000))
    assert await found(index, "weather") == sorted(f"tool_{number}" for number in range(10_000))[:8]
    assert await found(index, "the weather of tool 1234", 1)
    await index.remove(f"tool_{number}" for number in range(9_999))
    assert await found(index, "weather") == ["tool_9999"]


async def test_other_tasks_run_while_many_tools_are_added(make_tool: Any) -> None:
    index, turns = Bm25Index(), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await index.add(make_tool(f"tool_{number}", "Give the weather") for number in range(1_000))
        group.cancel_scope.cancel()
    assert turns >= 10


async def test_threads_may_share_an_index(make_tool: Any) -> None:
    index = Bm25Index()
    tools = [make_tool(f"tool_{number}", f"Give the weather of city {number}") for number in range(300)]
    await index.add(tools)
    stop = threading.Event()

    def change() -> None:
        async def again() -> None:
            while not stop.is_set():
                await index.remove([tool.name for tool in tools[:150]])
                await index.add(tools[:150])

        anyio.run(again)

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, change)
        try:
            for _ in range(200):
                assert len(await index.search("weather", 300)) in (150, 300)
        finally:
            stop.set()
