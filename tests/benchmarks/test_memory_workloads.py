"""The benchmarks of memory really remember, and notice when something does not. Quick: part of every test run."""

from __future__ import annotations

import asyncio

import memory_workloads
import pytest
from measurement import overhead
from memory_workloads import Remembered, load_sample, memory_overhead

from advisorchain import Order
from advisorchain.memory import InMemoryStore


@pytest.mark.parametrize(("order", "messages"), [(Order.MEMORY, 2), (Order.MEMORY_INSIDE, 12)])
def test_the_turns_are_remembered(order: int, messages: int) -> None:
    asyncio.run(Remembered(order).check(messages))
    with pytest.raises(AssertionError, match="The turns of a conversation have"):
        asyncio.run(Remembered(order).check(messages + 1))


def test_a_memory_that_forgets_is_noticed() -> None:
    with pytest.raises(AssertionError, match="The turns of a conversation have"):
        asyncio.run(Remembered(None).check(2))


def test_the_overhead_is_the_difference_in_bare_units() -> None:
    async def take(seconds: float) -> float:
        return seconds

    found = asyncio.run(overhead(lambda: take(7.0), lambda: take(4.0), lambda: take(2.0), 3))
    assert (found.value, found.seconds, found.bare_seconds, found.best) == (1.5, 3.0, 2.0, 3.0)


def test_the_overhead_can_be_measured() -> None:
    async def measure() -> float:
        return (await (await memory_overhead(Order.MEMORY, 2, 1))()).value

    assert asyncio.run(measure()) < 100


@pytest.mark.parametrize("store", memory_workloads.STORES)
def test_the_last_messages_are_loaded(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_workloads, "LONG", 2000)

    async def sample() -> float:
        filled = await memory_workloads.STORES[store]()
        assert await (await load_sample(filled, "short"))() > 0
        return await (await load_sample(filled, "long"))()

    assert asyncio.run(sample()) > 0


def test_other_messages_are_noticed() -> None:
    with pytest.raises(AssertionError, match="not the last 20 messages"):
        asyncio.run(load_sample(InMemoryStore(), "long"))
