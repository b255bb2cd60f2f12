"""`RedisState` against a real server."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc
import pytest

from advisorchain import ChatClient, ConfigurationError, RateLimitError, SharedStateError, Tool, ToolCall
from advisorchain.advisors import CircuitBreakerAdvisor, RateLimitAdvisor
from advisorchain.testing import ScriptedModel, check_shared_state
from advisorchain_redis import RedisState


async def test_the_contract(server: Any) -> None:
    numbers = itertools.count()
    await check_shared_state(lambda: RedisState(server.url, prefix=f"contract{next(numbers)}", timeout=10))


async def test_two_states_with_one_prefix_are_one(state: RedisState, server: Any) -> None:
    other = RedisState(server.url, prefix=state.prefix)
    assert await state.save("k", {"a": 1}, 0)
    value, version = await other.load("k")
    assert value == {"a": 1}
    assert await other.save("k", {"a": 2}, version) and not await state.save("k", {"a": 3}, version)
    apart = RedisState(server.url, prefix=f"{state.prefix}2")
    assert await apart.load("k") == (None, 0)
    await other.aclose()
    await apart.aclose()


async def test_what_nobody_saves_is_forgotten(server: Any) -> None:
    state = RedisState(server.url, prefix="forgotten", ttl=60)
    client = await state._connections.client()

    async def left() -> list[float]:
        """Of everything that is kept: in how many seconds it is forgotten."""
        return [await client.pttl(key) / 1000 for key in await client.keys("forgotten*")]

    async def time_passes() -> None:
        for key in await client.keys("forgotten*"):
            await client.pexpire(key, 1)
        await anyio.sleep(0.05)

    assert await state.save("k", {"a": 1}, 0)
    assert all(30 < seconds <= 60 for seconds in await left())
    _, version = await state.load("k")
    for key in await client.keys("forgotten*"):
        await client.pexpire(key, 20_000)
    assert await state.save("k", {"a": 2}, version)  # begins the time again
    assert max(await left()) > 30
    value, version = await state.load("k")
    assert value == {"a": 2}
    await time_passes()
    assert await state.load("k") == (None, 0)
    assert not await state.save("k", {"a": 3}, version)  # of what was forgotten
    assert await state.save("k", {"a": 3}, 0)
    assert not await state.save("k", {"a": 4}, version)  # a version does not come again
    assert await left()
    await time_passes()
    assert await left() == []
    await state.aclose()


@asynccontextmanager
async def losing_answers(port: int) -> AsyncIterator[tuple[int, list[bool]]]:
    """A way to the server that forwards every request, and cuts the line instead of the answer while told to."""
    lose: list[bool] = []

    async def forward(here: anyio.abc.SocketStream) -> None:
        async with here, await anyio.connect_tcp("127.0.0.1", port) as there, anyio.create_task_group() as group:

            async def answers() -> None:
                async for data in there:
                    if lose:
                        lose.pop()
                        break
                    await here.send(data)
                group.cancel_scope.cancel()

            group.start_soon(answers)
            async for data in here:
                await there.send(data)
            group.cancel_scope.cancel()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, forward)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), lose
        group.cancel_scope.cancel()


async def test_a_save_whose_answer_is_lost_was_done_once(server: Any) -> None:
    async with losing_answers(server.port) as (port, lose):
        state = RedisState(f"redis://127.0.0.1:{port}", prefix="lost")
        assert await state.save("k", {"a": 1}, 0)
        _, version = await state.load("k")
        lose.append(True)
        assert await state.save("k", {"a": 2}, version)
        assert not lose
        value, after = await state.load("k")
        assert value == {"a": 2} and after != version
        await state.aclose()


# Errors --------------------------------------------------------------------------------------------------------------


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


async def test_no_server_and_a_silent_one() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        port = silent.extra(anyio.abc.SocketAttribute.local_port)
        states = [RedisState(f"redis://me:hunter2@127.0.0.1:{port}", timeout=0.3)]
        states.append(RedisState("redis://me:hunter2@127.0.0.1:1", timeout=0.3))
        texts = []
        for state in states:
            for work in (state.load("k"), state.save("k", {}, 0)):
                with (
                    within(10),
                    pytest.raises(SharedStateError, match=r"Could not .* 'k' in Redis.*Check that") as caught,
                ):
                    await work
                texts.append(str(caught.value))
            await state.aclose()
        assert "no answer within 0.3 s" in texts[0]
        assert "hunter2" not in "".join(texts) + repr(states)


async def test_a_wrong_password(server: Any) -> None:
    state = RedisState(f"redis://me:hunter2@127.0.0.1:{server.port}")
    with pytest.raises(SharedStateError) as caught:
        await state.load("k")
    assert "hunter2" not in str(caught.value)
    await state.aclose()


@pytest.mark.parametrize("value", ["", "x", "5", "5 ", "5 [1]", "5 {", "x {}", b"\xff\xfe"])
async def test_a_damaged_value(state: RedisState, value: Any) -> None:
    client = await state._connections.client()
    await client.set(f"{state.prefix}:k", value)
    with pytest.raises(SharedStateError, match="Could not load 'k'"):
        await state.load("k")
    assert not await state.save("k", {}, 0)
    breaker = CircuitBreakerAdvisor(state=state)
    model = ScriptedModel([ToolCall("k"), "done"])
    assert (await ChatClient(model, tools=[source(None)], advisors=[breaker]).call("Go")).text == "done"


async def test_a_key_of_another_kind(state: RedisState) -> None:
    await (await state._connections.client()).rpush(f"{state.prefix}:k", "x")
    for work in (state.load("k"), state.save("k", {}, 0)):
        with pytest.raises(SharedStateError, match="WRONGTYPE"):
            await work


async def test_a_value_that_is_no_json(state: RedisState) -> None:
    with pytest.raises(SharedStateError, match="'k' in Redis: the value is no JSON data"):
        await state.save("k", {"x": object()}, 0)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"url": "localhost"}, "redis://localhost"),
        ({"url": None}, "redis://localhost"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": float("inf")}, "ttl"),
        ({"ttl": None}, "ttl"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        RedisState(**{"url": "redis://localhost", **settings})


def test_the_advisors_refuse_a_state_that_forgets_too_early() -> None:
    state = RedisState("redis://localhost", ttl=600)
    with pytest.raises(ConfigurationError, match="longer ttl="):
        CircuitBreakerAdvisor(reset_after=601, state=state)
    with pytest.raises(ConfigurationError, match="longer ttl="):
        RateLimitAdvisor(calls=5, per=3600, state=state)


@pytest.mark.parametrize(
    "advisor", [lambda state: CircuitBreakerAdvisor(state=state), lambda state: RateLimitAdvisor(calls=1, state=state)]
)
def test_on_trio(advisor: Any) -> None:
    state = RedisState("redis://localhost")
    with pytest.raises(ConfigurationError, match="RedisState needs asyncio; on trio leave state= out"):
        anyio.run(state.load, "k", backend="trio")
    client = ChatClient(ScriptedModel([ToolCall("k"), "done"]), tools=[source(None)], advisors=[advisor(state)])
    with pytest.raises(ConfigurationError, match="RedisState needs asyncio"):
        anyio.run(client.call, "Go", backend="trio")


def test_in_threads_and_on_one_event_loop_after_the_other(server: Any) -> None:
    state = RedisState(server.url, prefix="loops")
    client = ChatClient(ScriptedModel(["ok"] * 8), advisors=[RateLimitAdvisor(calls=6, per=3600, state=state)])
    asyncio.run(client.call("Go"))
    asyncio.run(client.call("Go"))
    refused: list[RateLimitError] = []

    def one() -> None:
        try:
            asyncio.run(client.call("Go"))
        except RateLimitError as exc:
            refused.append(exc)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2


# The server goes away ------------------------------------------------------------------------------------------------


def source(error: BaseException | None, name: str = "k") -> Tool:
    async def handle(arguments: dict[str, Any]) -> str:
        if error is not None:
            raise error
        return "fine"

    return Tool.from_schema(name, handle, description=name)


async def go(run: Any, *advisors: Any, error: BaseException | None = None) -> Any:
    """One turn with a model call and a tool call."""
    model = ScriptedModel([ToolCall("k"), "done"])
    await run(ChatClient(model, tools=[source(error)], advisors=advisors), "Go")
    return model.requests[-1].tool_results[0]


async def test_the_server_is_killed_and_restarted(
    state: RedisState, server: Any, run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("advisorchain.state_access.AWAY_SECONDS", 0.1)
    breaker = CircuitBreakerAdvisor(failures=3, state=state)
    limit = RateLimitAdvisor(calls=4, per=3600, by="tool", state=state)
    await go(run, breaker, limit, error=TimeoutError())
    server.kill()
    try:
        with within(10):
            await go(run, breaker, limit, error=TimeoutError())
            result = await go(run, breaker, limit)
        assert result.content == "fine" and breaker.states() == {"k": "closed"}
    finally:
        server.start()
    await anyio.sleep(0.1)
    await go(run, breaker, limit, error=TimeoutError())
    await go(run, breaker, limit, error=TimeoutError())
    assert breaker.states() == {"k": "open"}  # with the failure from before: the server has kept it
    value, _ = await state.load("circuit_breaker|circuit|k")
    assert value is not None and value["state"] == "open"
    bucket, _ = await state.load("rate_limit|tool|local/k|calls")
    assert bucket is not None and bucket["level"] == pytest.approx(1, abs=0.1)
    messages = [record.message for record in caplog.records if "shared state" in record.message]
    assert len(messages) == len(set(messages)) == 4, messages


async def test_a_frozen_server(state: RedisState, server: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    breaker = CircuitBreakerAdvisor(failures=3, state=state)
    limit = RateLimitAdvisor(calls=4, per=3600, by="tool", state=state)
    assert (await go(run, breaker, limit)).content == "fine"
    asked: list[str] = []
    load = state.load

    async def noted(key: str) -> Any:
        asked.append(key)
        return await load(key)

    monkeypatch.setattr(state, "load", noted)
    server.freeze()
    try:
        assert (await go(run, breaker, limit)).content == "fine"
        assert len(asked) == 2, "each advisor waits once"
        assert (await go(run, breaker, limit)).content == "fine"
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(go, type(run)(run.mode), breaker)
        assert len(asked) == 2, "and then nobody waits"
    finally:
        server.thaw()
    for advisor in (breaker._state, limit._buckets._state):  # type: ignore[attr-defined]
        advisor._ask_at = 0.0
    await go(run, breaker, limit)
    assert breaker._state._ask_at is None  # type: ignore[union-attr]
