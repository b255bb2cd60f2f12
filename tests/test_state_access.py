"""`StateAccess`: a shared state that fails, hangs, comes back, or that many change at once."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import pytest
from failing_state import FAULTS, FailingState, SlowToSave, cancelled_in

from advisorchain import AdvisorChainError, ConfigurationError
from advisorchain.shared_state import InMemorySharedState
from advisorchain.state_access import AWAY_SECONDS, StateAccess, StateAwayError, check_state


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.state_access.ANSWER_SECONDS", 0.05)


@pytest.fixture
def patient(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a state that answers, on a machine that is busy."""
    monkeypatch.setattr("advisorchain.state_access.ANSWER_SECONDS", 5.0)


def access(state: Any, clock: Clock | None = None) -> StateAccess:
    return StateAccess(state, "Advisor 'x'", "goes on alone", clock=clock or Clock())


def add(value: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
    count = (value or {"count": 0})["count"] + 1
    return {"count": count}, count


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_state_that_fails_is_left_alone_and_comes_back(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    state, clock = FailingState(), Clock()
    shared = access(state, clock)
    assert await shared.change("k", add) == 1
    state.fault = fault
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("advisorchain.state_access.CONTENTION_SECONDS", -1)
        with pytest.raises(StateAwayError, match="shared state of Advisor 'x'") as caught:
            await shared.change("k", add)
        assert isinstance(caught.value, AdvisorChainError)
        asked = state.asked
        for _ in range(10):
            with pytest.raises(StateAwayError):
                await shared.change("k", add)
        assert state.asked == asked
        clock.now += AWAY_SECONDS
        with pytest.raises(StateAwayError):
            await shared.change("k", add)
        assert state.asked > asked
    state.fault = ""
    clock.now += AWAY_SECONDS
    assert await shared.change("k", add) == 2
    assert await shared.load("k") == ({"count": 2}, 2)
    assert [(r.levelno, "works again" in r.message) for r in caplog.records] == [
        (logging.WARNING, False),
        (logging.WARNING, True),
    ]


async def test_one_asks_whether_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    state, clock = FailingState("hangs"), Clock()
    shared = access(state, clock)
    with pytest.raises(StateAwayError):
        await shared.load("k")
    clock.now += AWAY_SECONDS
    away = 0

    async def load() -> None:
        nonlocal away
        with pytest.raises(StateAwayError):
            await shared.load("k")
        away += 1

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(load)
    assert (away, state.asked) == (50, 2)
    assert [record.message for record in caplog.records] == [
        "Advisor 'x': its shared state failed (TimeoutError). It goes on alone, and asks again every 10 s."
    ]


async def test_what_will_not_go_away_is_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    class NotHere(InMemorySharedState):
        async def load(self, key: str) -> Any:
            raise ConfigurationError("needs another event loop")

    shared = access(NotHere())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="another event loop"):
            await shared.change("k", add)
    assert not caplog.records


class Slow(InMemorySharedState):
    """Has a way to its server; counts the saves."""

    saves = 0

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        self.saves += 1
        await anyio.sleep(0.005)
        return await super().save(key, value, version)


async def test_changes_that_come_at_once_are_saved_together(patient: None) -> None:
    shared, counts = access(state := Slow()), list[int]()

    async def change(key: str) -> None:
        counts.append(await shared.change(key, add))

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(change, "k")
            group.start_soon(change, "other")
    assert sorted(counts) == sorted([*range(1, 101)] * 2)
    assert (await shared.load("k"))[0] == (await shared.load("other"))[0] == {"count": 100}
    assert state.saves <= 6, "the first one of a key alone, then all that waited for it"
    assert shared._queues == {}


async def test_processes_that_change_at_once_share_their_saves(patient: None) -> None:
    counts = list[int]()
    state = Slow()

    async def change(shared: StateAccess) -> None:
        counts.append(await shared.change("k", add))

    async with anyio.create_task_group() as group:
        for shared in [access(state), access(state), access(state)]:
            for _ in range(40):
                group.start_soon(change, shared)
    assert sorted(counts) == [*range(1, 121)]
    assert state.saves < 60


async def test_of_changes_that_are_made_together_each_has_its_own_outcome(patient: None) -> None:
    shared, outcomes = access(Slow()), dict[str, Any]()

    def fails(value: Any) -> Any:
        raise ZeroDivisionError

    async def change(name: str, how: Any) -> None:
        try:
            outcomes[name] = await shared.change("k", how)
        except ZeroDivisionError as error:
            outcomes[name] = type(error)

    changes = {
        "first": add,
        "fails": fails,
        "reads": lambda value: (None, value),
        "empties": lambda value: ({}, "empty"),
    }
    async with anyio.create_task_group() as group:
        for name, how in changes.items():
            group.start_soon(change, name, how)
            await anyio.sleep(0.001)
    assert outcomes == {"first": 1, "fails": ZeroDivisionError, "reads": {"count": 1}, "empties": "empty"}
    assert (await shared.load("k"))[0] == {}


@pytest.mark.parametrize("fault", ["hangs", "raises"])
async def test_who_waits_for_a_change_that_fails_does_not_ask_again(fault: str) -> None:
    shared, away = access(state := FailingState(fault)), list[Exception]()

    async def change() -> None:
        try:
            await shared.change("k", add)
        except StateAwayError as error:
            away.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(change)
    assert (len(away), state.asked) == (200, 1)
    assert shared._queues == {}


async def test_who_is_cancelled_in_the_queue_changes_nothing(patient: None) -> None:
    shared = access(Slow())

    async def change() -> None:
        with anyio.move_on_after(0.001):
            await shared.change("k", add, lambda count: lambda value: ({"count": (value or {})["count"] - 1}, None))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(change)
    assert (await shared.load("k"))[0] == {"count": 0}
    assert shared._queues == {}


def test_event_loops_do_not_wait_for_each_other(patient: None) -> None:
    shared, counts = access(Slow()), list[int]()

    async def change() -> None:
        counts.append(await shared.change("k", add))

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(change)

    threads = [threading.Thread(target=anyio.run, args=(many,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(counts) == [*range(1, 61)]
    assert shared._queues == {}


async def test_an_error_of_the_change_is_not_the_states() -> None:
    def change(value: Any) -> Any:
        raise ZeroDivisionError

    shared = access(InMemorySharedState())
    with pytest.raises(ZeroDivisionError):
        await shared.change("k", change)
    assert await shared.change("k", add) == 1


async def test_a_cancellation_is_not_the_states(caplog: pytest.LogCaptureFixture) -> None:
    state = FailingState("hangs")
    shared = access(state)
    with anyio.move_on_after(0.01) as scope:
        await shared.load("k")
    assert scope.cancelled_caught
    state.fault = ""
    assert await shared.change("k", add) == 1
    assert not caplog.records


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["scope", "task"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not yet stored"])
@pytest.mark.parametrize("undone", [True, False], ids=["undone", "kept"])
async def test_a_change_whose_caller_is_cancelled_is_whole(how: str, stored: bool, undone: bool) -> None:
    state = SlowToSave(2, stored=stored)
    shared = access(state)
    assert await shared.change("k", add) == 1

    def undo(count: int) -> Any:
        assert count == 2
        return lambda value: ({"count": value["count"] - 1}, None)

    found: list[int] = []

    async def change() -> None:
        found.append(await shared.change("k", add, undo if undone else None))

    await cancelled_in(state, change, how)
    assert not (found and undone), "who has left gets nothing"
    assert (await state.load("k"))[0] == {"count": 1 if undone else 2}
    assert await shared.change("k", add) == (2 if undone else 3)


@pytest.mark.usefixtures("patient")
async def test_many_values_are_loaded_some_at_a_time() -> None:
    class Slow(InMemorySharedState):
        now = most = 0

        async def load(self, key: str) -> Any:
            self.now += 1
            self.most = max(self.most, self.now)
            await anyio.sleep(0.001)
            self.now -= 1
            return await super().load(key)

    state = Slow()
    shared = access(state)
    for number in range(30):
        assert await state.save(f"k{number}", {"number": number}, 0)
    found = await shared.load_each([f"k{number}" for number in range(31)])
    assert found == {f"k{number}": {"number": number} for number in range(30)} | {"k30": None}
    assert 1 < state.most <= 8
    assert await shared.load_each(["k7"]) == {"k7": {"number": 7}}
    assert await shared.load_each([]) == {}


async def test_values_of_a_state_that_fails_are_absent() -> None:
    state = FailingState("raises")
    assert await access(state).load_each([f"k{number}" for number in range(30)]) == {}
    assert state.asked <= 8

    class NotHere(InMemorySharedState):
        async def load(self, key: str) -> Any:
            raise ConfigurationError("needs another event loop")

    for keys in (["a"], ["a", "b"]):
        with pytest.raises(ConfigurationError, match="another event loop"):
            await access(NotHere()).load_each(keys)


@pytest.mark.usefixtures("patient")
async def test_100_at_once_lose_nothing() -> None:
    class Slow(InMemorySharedState):
        saves = 0

        async def load(self, key: str) -> Any:
            await anyio.sleep(0.001)
            return await super().load(key)

        async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
            self.saves += 1
            return await super().save(key, value, version)

    state = Slow()
    shared = access(state)
    found: list[int] = []

    async def one() -> None:
        found.append(await shared.change("k", add))

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(one)
    assert sorted(found) == list(range(1, 101))
    assert state.saves < 100 * 20


def test_a_state_that_forgets_too_early_is_refused() -> None:
    class Forgets(InMemorySharedState):
        ttl = 60.0

    check_state(Forgets(), 60, "this limit")
    check_state(InMemorySharedState(), 1e9, "this limit")
    with pytest.raises(ConfigurationError, match=r"after 60 s, but this limit needs them for 61 s.* longer ttl="):
        check_state(Forgets(), 61, "this limit")
