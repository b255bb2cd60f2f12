"""Timeouts: async tools are cancelled, threads are abandoned, counted and said so in the log."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import ChatClient, ToolCall, ToolMessage, tool
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel
from advisorchain.tools import abandoned_threads


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; at most 10 s."""
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - threads set it
            await anyio.sleep(0.005)


async def ask(run: Any, tools: list[Any], *calls: ToolCall, **settings: Any) -> list[Any]:
    """What the model reads of the calls."""
    model = ScriptedModel([list(calls), "done"])
    response = await run(ChatClient(model, tools=tools, **settings), "go")
    assert response.text == "done"
    return [message for message in model.requests[1].messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("beside", [True, False])
async def test_an_async_tool_that_never_returns(run: Any, beside: bool) -> None:
    state: list[str] = []

    @tool(timeout=0.03)
    async def never() -> str:
        """Never."""
        try:
            await anyio.sleep_forever()
        finally:
            state.append("cancelled")
        return ""

    @tool
    async def good() -> str:
        """Good."""
        await anyio.sleep(0.06)
        return "good"

    calls = [ToolCall("never"), *([ToolCall("good"), ToolCall("never")] if beside else [])]
    start = time.monotonic()
    found = await ask(run, [never, good], *calls)
    assert time.monotonic() - start < 10
    assert found[0].is_error and found[0].text == "The tool 'never' did not answer within 0.03 seconds."
    if beside:
        assert found[1].text == "good" and found[2].is_error
    assert state == ["cancelled"] * sum(call.name == "never" for call in calls)


async def test_without_a_timeout(run: Any) -> None:
    @tool(timeout=None)
    async def slow() -> str:
        """Slow."""
        await anyio.sleep(0.05)
        return "slow"

    assert slow.timeout is None
    assert [m.text for m in await ask(run, [slow], ToolCall("slow"))] == ["slow"]
    limited = slow.replace(timeout=0.01)
    assert (await ask(run, [limited], ToolCall("slow")))[0].is_error


async def test_a_tool_that_does_not_suspend_costs_no_timer_and_passes(run: Any) -> None:
    @tool(timeout=0.001)
    async def busy() -> str:
        """Busy, without a suspension."""
        time.sleep(0.02)  # noqa: ASYNC251
        return "done"

    assert [m.text for m in await ask(run, [busy], ToolCall("busy"))] == ["done"]


async def test_a_tool_that_swallows_its_cancellation(run: Any) -> None:
    @tool(timeout=0.01)
    async def stubborn() -> str:
        """Swallows."""
        with contextlib.suppress(BaseException):
            await anyio.sleep_forever()
        return "too late"

    @tool(timeout=0.01)
    async def changing() -> str:
        """Turns it into an error of its own."""
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise ValueError("own") from None
        return ""

    found = await ask(run, [stubborn, changing], ToolCall("stubborn"), ToolCall("changing"), ToolCall("stubborn"))
    assert len(found) == 3 and found[1].is_error
    alone = await ask(run, [stubborn], ToolCall("stubborn"))
    assert len(alone) == 1


@pytest.mark.parametrize("beside", [True, False])
async def test_a_shielded_cleanup_is_not_interrupted(run: Any, beside: bool) -> None:
    state: list[str] = []

    @tool(timeout=0.02)
    async def tidy() -> str:
        """Never ends by itself, and tidies up."""
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.25)
                state.append("tidied")
        return ""

    found = await ask(run, [tidy], *[ToolCall("tidy") for _ in range(1 + beside)])
    assert state == ["tidied"] * (1 + beside)
    assert all(m.is_error and "did not answer within" in m.text for m in found)


async def test_a_timeout_and_a_cancellation_at_the_same_time(run: Any) -> None:
    @tool(timeout=0.03)
    async def never() -> str:
        """Never."""
        await anyio.sleep_forever()
        return ""

    for seconds in (0.02, 0.028, 0.03, 0.03001, 0.032):
        model = ScriptedModel([[ToolCall("never"), ToolCall("never")], "done"])
        with anyio.move_on_after(seconds):
            assert (await run(ChatClient(model, tools=[never]), "go")).text == "done"
        await anyio.lowlevel.checkpoint()  # nothing of it is left to cancel what follows
    await anyio.sleep(0.2)  # nor is a timer that would cancel it later


async def test_the_turn_goes_on_uncancelled_after_a_timeout(run: Any) -> None:
    @tool(timeout=0.01)
    async def never() -> str:
        """Never."""
        await anyio.sleep_forever()
        return ""

    async def slow_model_answer(request: Any) -> str:
        await anyio.sleep(0.02)
        return "answer"

    model = ScriptedModel([[ToolCall("never")], slow_model_answer])
    assert (await run(ChatClient(model, tools=[never]), "go")).text == "answer"


async def test_a_sync_tool_is_abandoned_counted_and_logged(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    release, finished = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def stuck() -> str:
        """Stuck."""
        release.wait(10)
        finished.set()
        return "too late"

    before = abandoned_threads()
    try:
        with caplog.at_level(logging.WARNING, "advisorchain"):
            found = await ask(run, [stuck], ToolCall("stuck"))
        assert found[0].is_error and "did not answer within 0.05 seconds" in found[0].text
        assert abandoned_threads() == before + 1
        (record,) = [r for r in caplog.records if "abandoned" in r.getMessage()]
        assert "'stuck'" in record.getMessage() and record.levelno == logging.WARNING
    finally:
        release.set()
    await until(finished.is_set)
    await until(lambda: abandoned_threads() == before)


async def test_a_sync_tool_of_a_cancelled_call_is_abandoned(run: Any) -> None:
    release, started = threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        """Stuck."""
        started.set()
        release.wait(10)
        return ""

    before = abandoned_threads()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run, ChatClient(ScriptedModel([[ToolCall("stuck")]]), tools=[stuck]), "go")
            await until(started.is_set)
            group.cancel_scope.cancel()
        assert abandoned_threads() == before + 1
    finally:
        release.set()
    await until(lambda: abandoned_threads() == before)


async def test_calls_that_wait_for_a_thread_are_not_counted_for_ever(run: Any) -> None:
    release = threading.Event()
    started: list[int] = []

    @tool(timeout=0.15)
    def stuck() -> str:
        """Stuck."""
        started.append(1)
        release.wait(10)
        return ""

    before = abandoned_threads()
    try:
        loop = ToolCallingAdvisor(concurrency=100)
        found = await ask(run, [stuck], *[ToolCall("stuck") for _ in range(60)], advisors=[loop])
        assert all(m.is_error for m in found)
        ran = len(started)
    finally:
        release.set()
    await until(lambda: abandoned_threads() == before)
    assert len(started) == ran, "a call that timed out while it waited must not run later"


async def test_too_many_abandoned_threads(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisorchain.tools import threads

    release = threading.Event()

    @tool(timeout=0.05)
    def stuck() -> str:
        """Stuck."""
        release.wait(10)
        return ""

    before = abandoned_threads()
    monkeypatch.setattr(threads, "MAX_ABANDONED_THREADS", before + 2)
    try:
        await ask(run, [stuck], ToolCall("stuck"), ToolCall("stuck"))
        assert abandoned_threads() == before + 2
        found = await ask(run, [stuck], ToolCall("stuck"))
        assert found[0].is_error and "too many of its earlier calls have not returned" in found[0].text
        assert abandoned_threads() == before + 2, "it was not started"
    finally:
        release.set()
    await until(lambda: abandoned_threads() == before)
