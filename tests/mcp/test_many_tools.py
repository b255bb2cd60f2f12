"""Many tools and many servers: listed at the same time, and without keeping the event loop from other work."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from advisorchain import ChatClient, ToolCall, ToolMessage
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

DELAY = 0.3


def schema(properties: int) -> dict[str, Any]:
    each = {"type": "string", "description": "One of two things.", "enum": ["a", "b"]}
    return {"type": "object", "properties": {f"p{number}": each for number in range(properties)}}


def serving(tools: list[Tool], *, page: int = 10_000, delay: float = 0.0) -> Server[Any]:
    async def on_list(context: Any, params: Any) -> ListToolsResult:
        await anyio.sleep(delay)
        at = int(params.cursor) if params is not None and params.cursor else 0
        cursor = str(at + page) if at + page < len(tools) else None
        return ListToolsResult(tools=tools[at : at + page], next_cursor=cursor)

    async def on_call(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=f"{params.name} was called")])

    return Server("many", version="1", on_list_tools=on_list, on_call_tool=on_call)


def numbered(count: int, start: str, properties: int = 4) -> list[Tool]:
    arguments = schema(properties)
    return [Tool(name=f"{start}_{number}", description="Do it.", input_schema=arguments) for number in range(count)]


async def seconds_to_list(servers: list[McpServer]) -> tuple[float, int]:
    tools = McpTools(servers)
    start = time.perf_counter()
    found = len(await tools.listed())
    seconds = time.perf_counter() - start
    await tools.aclose()
    return seconds, found


async def test_ten_servers_are_listed_in_the_time_of_one() -> None:
    servers = [
        McpServer.in_process(serving(numbered(30, f"s{number}"), delay=DELAY), name=f"s{number}")
        for number in range(10)
    ]
    await seconds_to_list(servers[:1])  # whatever is imported on the way is
    one, of_one = await seconds_to_list(servers[:1])
    # One after the other, they would take ten times as long, every time; other work on the machine only adds.
    measured = [await seconds_to_list(servers) for _ in range(3)]

    assert of_one == 30 and {number for _, number in measured} == {300}
    assert one >= DELAY
    assert min(seconds for seconds, _ in measured) < 2 * one


class Blocks:
    """How long this thread worked, in CPU seconds, while a task waited for its turn that wanted one all the time."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A full collection stops everything for as long as the program's memory is large, whoever causes it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def longest_block(server: McpServer, count: int) -> float:
    blocks = Blocks()
    async with McpTools([McpServer.in_process(serving([]), name="warm")]):
        pass
    with no_garbage_collection():
        watching = asyncio.create_task(blocks.watch())
        async with McpTools([server]) as tools:
            assert len(await tools.listed()) == count
        watching.cancel()
    return blocks.longest


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_five_thousand_tools_leave_the_event_loop_its_turns(anyio_backend: str) -> None:
    server = McpServer.in_process(serving(numbered(5_000, "t"), page=200), name="many", era="legacy")
    start = time.thread_time()
    longest = await longest_block(server, 5_000)
    seconds = time.thread_time() - start

    assert longest < 0.15  # 0.07 is usual, for giving 5,000 tools their names
    assert seconds < 15  # of which most is the SDK's, on both sides


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_huge_schema_is_checked_on_a_thread(anyio_backend: str) -> None:
    """Checking it takes a second; the loop goes on meanwhile."""
    slow = {"type": "object", "properties": {f"p{number}": {"anyOf": [{}], "enum": ["a"]} for number in range(2_000)}}
    huge = [Tool(name="huge", description="Do it.", input_schema=slow)]
    longest = await longest_block(McpServer.in_process(serving(huge), name="huge", era="legacy"), 1)

    assert longest < 0.15


async def test_the_last_of_many_tools_can_be_called(run: Any) -> None:
    server = McpServer.in_process(serving(numbered(1_000, "t"), page=99), name="many")
    model = ScriptedModel([[ToolCall("t_999", {"p0": "a"})], "Done."])
    async with McpTools([server]) as tools:
        response = await run(ChatClient(model, tools=[tools]), "Do it.")

    (message,) = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    assert message.text == "t_999 was called"


async def test_more_tools_than_are_allowed_are_refused() -> None:
    server = McpServer.in_process(serving(numbered(50, "t"), page=10), name="many", max_tools=30)
    async with McpTools([server]) as tools:
        assert list(await tools.listed()) == []
        (status,) = tools.status()

    assert status.error is not None
    assert "more than 30 tools (max_tools)" in status.error
