"""Four processes share a circuit breaker, or a rate limit, in a real server."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from typing import Any

import anyio
import pytest
from redis import Redis

from advisorchain import ChatClient, RateLimitError, Tool, ToolCall, state_access
from advisorchain.advisors import CircuitBreakerAdvisor, RateLimitAdvisor
from advisorchain.testing import ScriptedModel
from advisorchain_redis import RedisState

PROCESSES = 4
TASKS = 20
PER = 80_000
"""Seconds: in a test, next to nothing comes back."""


class Counting(RedisState):
    """Counts how often a save was too late."""

    saves = late = 0

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        saved = await super().save(key, value, version)
        self.saves += 1
        self.late += not saved
        return saved


async def in_processes(work: Any, url: str, prefix: str, *arguments: Any) -> list[Any]:
    """Run ``work`` in each process, with an event for all to start at; what each returned."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=_run, args=(work, start, results, url, prefix, *arguments)) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    found = [await anyio.to_thread.run_sync(results.get, True, 60) for _ in processes]
    for process in processes:
        await anyio.to_thread.run_sync(process.join, 30)
        assert process.exitcode == 0
        process.close()
    return [json.loads(each) for each in found]


def _run(work: Any, start: Any, results: Any, *arguments: Any) -> None:
    results.put(json.dumps(asyncio.run(work(start, *arguments))))


def source(url: str, prefix: str, seconds: float) -> Tool:
    """Counts the calls that reach it, in all processes, and fails after a while."""
    redis = Redis.from_url(url)

    async def handle(arguments: dict[str, Any]) -> str:
        redis.incr(f"{prefix}:reached")
        await anyio.sleep(seconds)
        raise TimeoutError

    return Tool.from_schema("rates", handle, description="Rates.")


async def _break(start: Any, url: str, prefix: str, reset_after: float) -> list[Any]:
    state = Counting(url, prefix=prefix)
    breaker = CircuitBreakerAdvisor(failures=3, reset_after=reset_after, window=None, state=state, patience=30)
    tool = source(url, prefix, 0.05)

    async def turn() -> None:
        client = ChatClient(ScriptedModel([ToolCall("rates"), "done"]), tools=[tool], advisors=[breaker])
        await client.call("Rates?")

    async def turns() -> None:
        await anyio.to_thread.run_sync(start.wait, 30)
        async with anyio.create_task_group() as group:
            for _ in range(TASKS):
                group.start_soon(turn)

    redis = Redis.from_url(url)
    await turns()
    await anyio.to_thread.run_sync(start.wait, 30)
    first = int(redis.get(f"{prefix}:reached") or 0)  # type: ignore[arg-type]
    states = [((await state.load("circuit_breaker|circuit|rates"))[0] or {})["state"]]
    await anyio.sleep(max(0.0, breaker.circuit("rates").until - time.time()) + 0.05)
    await turns()
    await anyio.to_thread.run_sync(start.wait, 30)
    second = int(redis.get(f"{prefix}:reached") or 0)  # type: ignore[arg-type]
    states.append(((await state.load("circuit_breaker|circuit|rates"))[0] or {})["state"])
    await state.aclose()
    return [first, second, *states, state.saves, state.late]


async def test_one_breaker(server: Any, request: pytest.FixtureRequest) -> None:
    found = await in_processes(_break, server.url, request.node.name, 3.0)
    for first, second, before, after, *_ in found:
        assert (first, second) == (3, 4), "three failures open it, and one probe is made by all"
        assert (before, after) == ("open", "open")
    saves, late = (sum(each[at] for each in found) for at in (4, 5))
    print(f"{saves=} {late=}")
    assert late < 20 * PROCESSES * TASKS


async def _limit(start: Any, url: str, prefix: str, calls: int, max_wait: float) -> list[float]:
    state = Counting(url, prefix=prefix)
    limit = RateLimitAdvisor(calls=calls, per=PER, max_wait=max_wait, state=state)
    passed = 0

    async def turn() -> None:
        nonlocal passed
        try:
            await ChatClient(ScriptedModel(["ok"]), advisors=[limit]).call("Go")
            passed += 1
        except RateLimitError:
            pass

    await state.load("warm up")
    await anyio.to_thread.run_sync(start.wait, 30)
    begun = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(TASKS):
            group.start_soon(turn)
    await state.aclose()
    return [passed, state.saves, state.late, time.monotonic() - begun]


@pytest.mark.parametrize("calls", [10, 1000])
async def test_one_rate_limit(server: Any, request: pytest.FixtureRequest, calls: int) -> None:
    found = await in_processes(_limit, server.url, request.node.name, calls, 0.0)
    passed, saves, late = (sum(int(each[at]) for each in found) for at in range(3))
    assert passed == min(calls, PROCESSES * TASKS)
    state = RedisState(server.url, prefix=request.node.name)
    bucket, _ = await state.load("rate_limit|model|scripted|calls")
    await state.aclose()
    refilled = calls / PER * 60
    assert bucket is not None
    assert calls - passed <= bucket["level"] <= calls - passed + refilled < calls - passed + 1, "each is counted once"
    assert saves < PROCESSES * TASKS, "what comes at once in a process is saved together"
    assert max(each[3] for each in found) < 10
    print(f"{calls=} {passed=} {saves=} {late=} seconds={[round(each[3], 2) for each in found]}")


async def _outage(start: Any, url: str, prefix: str, seconds: float) -> list[Any]:
    state_access.AWAY_SECONDS = 0.2
    state = RedisState(url, prefix=prefix, timeout=0.5)
    breaker = CircuitBreakerAdvisor(failures=3, state=state, models=True)
    limit = RateLimitAdvisor(calls=10**6, per=3600, state=state)
    slowest, turns, alone = 0.0, 0, 0

    async def work() -> None:
        nonlocal slowest, turns, alone
        end = time.monotonic() + seconds
        while (begun := time.monotonic()) < end:
            await ChatClient(ScriptedModel(["ok"]), advisors=[breaker, limit]).call("Go")
            turns += 1
            alone += breaker._state._ask_at is not None  # type: ignore[union-attr]
            slowest = max(slowest, time.monotonic() - begun)
            await anyio.sleep(0.01)

    await anyio.to_thread.run_sync(start.wait, 30)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(work)
    back = breaker._state._ask_at is None  # type: ignore[union-attr]
    await state.aclose()
    return [turns, alone, slowest, back]


@pytest.mark.slow
async def test_the_server_is_killed_and_restarted_under_them(server: Any, request: pytest.FixtureRequest) -> None:
    found: list[list[Any]] = []

    async def work() -> None:
        found.extend(await in_processes(_outage, server.url, request.node.name, 3.0))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        with Redis.from_url(server.url) as redis:
            for _ in range(600):
                if redis.keys(f"{request.node.name}*"):  # they have begun
                    break
                await anyio.sleep(0.05)
        await anyio.sleep(0.5)
        server.kill()
        await anyio.sleep(1)
        server.start()
    for turns, alone, slowest, back in found:
        assert 0 < alone < turns and back, "all went on without it, and came back"
        assert slowest < 3
    print(f"turns, alone, slowest, back: {found}")
