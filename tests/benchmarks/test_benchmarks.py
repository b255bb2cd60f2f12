"""The workloads under pytest-benchmark: ``pytest tests/benchmarks --benchmark-only``.

A group has a line for the bare loop and one for advisorchain. Times are CPU times of a whole batch; the group's title
says how many requests that is. `gate` compares the two sides with more care, and decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from measurement import batch, concurrently, growth, import_seconds, peak_megabytes
from workloads import SIDES, WORKLOADS, Side, Workload, check

Benchmark: TypeAlias = Any
"""pytest-benchmark's fixture, which has no types."""

BATCHES = {"W1": 200, "W2": 50, "W3": 50, "W4": 50, "W5a": 50, "W5b": 50, "W7a": 2, "W7b": 50, "W8": 100}
"""Requests per measurement: milliseconds of work, so that starting the event loop does not count."""
ROUNDS = 20

pytestmark = [pytest.mark.parametrize("side", SIDES), pytest.mark.benchmark(timer=time.process_time)]


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def run_batches(
    benchmark: Benchmark, runner: asyncio.Runner, work: Callable[[], Coroutine[Any, Any, Any]], rounds: int
) -> None:
    benchmark.pedantic(lambda: runner.run(work()), rounds=rounds, iterations=1, warmup_rounds=2)


def checked(side: str, workload: Workload, runner: asyncio.Runner) -> Side:
    built = SIDES[side](workload)
    runner.run(check(built, workload))
    return built


@pytest.mark.parametrize("name", BATCHES)
def test_requests(benchmark: Benchmark, runner: asyncio.Runner, name: str, side: str) -> None:
    workload, count = WORKLOADS[name], BATCHES[name]
    built = checked(side, workload, runner)
    benchmark.group = f"{name}: {workload.title} (x{count})"
    run_batches(benchmark, runner, lambda: batch(built, count), ROUNDS)


def test_requests_at_once(benchmark: Benchmark, runner: asyncio.Runner, side: str) -> None:
    workload = WORKLOADS["W6"]
    built = checked(side, workload, runner)
    benchmark.group = f"W6: {workload.title}"
    walls: list[float] = []

    async def all_at_once() -> None:
        start = time.perf_counter()
        await concurrently(built, workload.concurrent)
        walls.append(time.perf_counter() - start)

    run_batches(benchmark, runner, all_at_once, 5)
    benchmark.extra_info["wall_seconds"] = min(walls)
    benchmark.extra_info["ideal_wall_seconds"] = workload.delay * workload.model_calls
    benchmark.extra_info["peak_megabytes"] = peak_megabytes(side)


@pytest.mark.parametrize("rounds", [50, 200])
def test_rounds(benchmark: Benchmark, runner: asyncio.Runner, rounds: int, side: str) -> None:
    workload = replace(WORKLOADS["W7a"], rounds=rounds)
    built = checked(side, workload, runner)
    count = 200 // rounds
    benchmark.group = f"W7a: 200 tool rounds, {rounds} in each turn"
    run_batches(benchmark, runner, lambda: batch(built, count), ROUNDS)
    if side == "advisorchain":
        benchmark.extra_info["growth_exponent"] = runner.run(growth(WORKLOADS["W7a"], 50, 200)).value


@pytest.mark.benchmark(timer=time.perf_counter)
def test_import(benchmark: Benchmark, side: str) -> None:
    """Wall time of a whole interpreter; the CPU time of the import alone is in extra_info."""
    benchmark.group = "W9: a fresh interpreter and the import"
    seconds: list[float] = []
    benchmark.pedantic(lambda: seconds.append(import_seconds(side)), rounds=5, iterations=1, warmup_rounds=1)
    benchmark.extra_info["import_cpu_seconds"] = min(seconds)
