"""The workload of tool search does what it is said to do, and so do the tasks whose tokens are counted."""

from __future__ import annotations

from typing import Any

from search_workload import TOOLS, TWO_SHOWN, Searching
from tool_search_tokens import Task, measure, words
from workloads import check

from advisorchain import Tool


async def test_the_model_sees_two_of_the_tools() -> None:
    side = Searching()
    await check(side, TWO_SHOWN)  # also counts the tools that the model saw
    assert len(side.client._sources.tools) == TOOLS


async def done(arguments: dict[str, Any]) -> str:
    return "Done: 42."


async def test_a_task_is_done_with_and_without_search() -> None:
    names = ["get_weather", "math.gcd", *(f"entry_{number}" for number in range(40))]
    texts = ["Current weather in a city.", "Greatest common divisor.", *(f"Ledger entry {n}." for n in range(40))]
    tools = {name: Tool.from_schema(name, done, description=text) for name, text in zip(names, texts, strict=True)}
    tasks = [Task("Weather in Rome, and the divisor of 4 and 6?", ("get_weather", "math.gcd"))]
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    row = await measure(30, tools, tasks, count)
    assert (row.calls, row.found) == (3, 100)
    assert row.saved > 50
    assert row.plain + row.searched == sum(map(len, counted))
    assert sum(text.startswith('{"type": "function"') for text in counted) == 2 * 30 + 1 + 3 + 3


def test_a_name_as_somebody_would_say_it() -> None:
    assert words("math_toolkit.sumOfMultiples") == "math toolkit sum Of Multiples"
