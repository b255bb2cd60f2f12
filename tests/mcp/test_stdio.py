"""A child process as a transport: its lines, and its end."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

import anyio
import pytest
from mcp_client import children, lives, raw, result_of, until

from advisorchain.mcp import McpServer, McpTools
from advisorchain.mcp.stdio import Lines


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_the_same_however_they_come(seed: int) -> None:
    rng = random.Random(seed)
    data = b"\n".join(bytes(rng.choices(b"abc{}", k=rng.randrange(300))) for _ in range(40)) + b"\n"
    lines, found, start = Lines(1000), [], 0
    while start < len(data):
        size = rng.choice([1, 2, 7, 100, 1000])
        found += lines.fed(data[start : start + size])
        start += size
    assert found == data.split(b"\n")[:-1]


@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.parametrize("form", ['{{"jsonrpc": "2.0", "id": 7, "result": "{0}"}}', '{{"result": "{0}", "id": 7}}'])
def test_an_answer_that_is_too_long_becomes_an_error_under_its_id(form: str, size: int) -> None:
    lines = Lines(500)
    data = form.format("x" * 5000).encode() + b'\n{"next": 1}\n'
    first, second = [line for start in range(0, len(data), size) for line in lines.fed(data[start : start + size])]
    answer = json.loads(first)
    assert (answer["id"], answer["error"]["code"]) == (7, -32000)
    assert "byte limit of 500" in answer["error"]["message"]
    assert second == b'{"next": 1}'


def test_a_line_without_an_end_is_not_kept_and_takes_linear_time() -> None:
    lines = Lines(1000)
    chunk = b"x" * 100_000
    start = time.perf_counter()
    for _ in range(1000):
        assert lines.fed(chunk) == []
    assert time.perf_counter() - start < 10
    assert len(lines._head) + len(lines._tail) + len(lines._parts) <= 400
    assert lines.fed(b"\nnext\n") == [b"", b"next"]


async def test_a_result_of_50_mb_is_refused_and_the_connection_stays(mcp: Any) -> None:
    tools = mcp(raw("huge"), raw("good", tools=[{"name": "hello", "inputSchema": {"type": "object"}}]))
    await tools.listed()
    slowest = 0.0

    async def other() -> None:
        nonlocal slowest
        while True:
            start = anyio.current_time()
            assert (await result_of(tools, "hello")).content == "good hello done"
            slowest = max(slowest, anyio.current_time() - start)

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        start = anyio.current_time()
        message = await result_of(tools, "big", {"size": 50_000_000})
        assert anyio.current_time() - start < 10
        group.cancel_scope.cancel()
    assert message.is_error and "larger than the connection takes" in message.content
    assert slowest < 2
    assert (await result_of(tools, "add", {"a": 1, "b": 2})).content == "3"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_children_of_a_server_end_with_it(stubborn: bool, quick_kill: None) -> None:
    tools = McpTools([raw(child=True, ignore_term=stubborn)])
    pids = [int(pid) for pid in str((await result_of(tools, "family")).content).split()]
    assert len(pids) == 2 and all(map(lives, pids))
    await tools.aclose()
    assert await until(lambda: not any(map(lives, pids)), 5)


async def test_children_of_a_server_that_has_died_end_too(mcp: Any, quick_kill: None) -> None:
    tools = mcp(raw(child=True))
    pids = [int(pid) for pid in str((await result_of(tools, "family")).content).split()]
    await result_of(tools, "die")
    await tools.listed()
    assert await until(lambda: not any(map(lives, pids)), 5)


async def test_a_server_that_cannot_be_started_leaves_nothing_open(anyio_backend: str) -> None:
    tools = McpTools([McpServer.stdio("nonesuch-program"), raw("other").replace(cwd="/nonesuch")])
    await tools.listed()
    await tools.aclose()
    before, files = children(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await tools.listed()
        await tools.aclose()
    assert not children() - before
    assert len(os.listdir("/proc/self/fd")) <= files


def test_a_start_that_is_cancelled_half_way_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does asyncio complain of a process whose end nobody has waited for."""

    async def start(seconds: float) -> None:
        tools = McpTools([raw(mute=["initialize", "server/discover"])])
        with anyio.move_on_after(seconds):
            await tools.listed()
        await tools.aclose()

    before = children()
    for number in range(40):
        anyio.run(start, number * 0.0005)
    assert not children() - before
    time.sleep(0.2)  # asyncio waits for processes in threads
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_an_event_loop_that_ends_while_a_server_starts_does_not_wait_for_ever() -> None:
    """asyncio cancels all tasks at the end, also those inside a subprocess that is being started."""

    async def main(delay: float) -> None:
        tools = McpTools([raw(mute=["initialize", "server/discover"])])
        with anyio.move_on_after(delay):
            await tools.listed()

    before = children()
    for number in range(25):
        anyio.run(main, number * 0.0004)
    assert children() == before
