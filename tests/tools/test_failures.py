"""Tools that fail: one result per call, siblings keep theirs, and only what ends the turn ends it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    ConfigurationError,
    Tool,
    ToolCall,
    ToolError,
    ToolMessage,
    TurnAbortedError,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


@tool
async def good() -> str:
    """Succeeds, a little later."""
    await anyio.sleep(0.01)
    return "good result"


def failing(error: Any, *, sync: bool = False, name: str = "bad") -> Tool:
    """A tool that raises the error."""

    def fail() -> str:
        raise error

    async def fail_later() -> str:
        await anyio.lowlevel.checkpoint()
        raise error

    return Tool.from_function(fail if sync else fail_later, name=name, description="Fails.")


async def results(run: Any, tools: list[Tool], *calls: ToolCall, **settings: Any) -> list[Any]:
    """What the model reads of the calls."""
    model = ScriptedModel([list(calls), "done"])
    response = await run(ChatClient(model, tools=tools, **settings), "go")
    assert response.text == "done"
    return [message for message in model.requests[1].messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("beside", [True, False])
async def test_only_the_type_of_an_exception_reaches_the_model(
    run: Any, sync: bool, beside: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [failing(KeyError("password=hunter2"), sync=sync), good]
    calls = [ToolCall("bad"), *([ToolCall("good")] if beside else [])]
    found = await results(run, tools, *calls)
    assert found[0].is_error and "KeyError" in found[0].text and "hunter2" not in found[0].text
    if beside:
        assert (found[1].is_error, found[1].text) == (False, "good result")
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1 and warnings[0].exc_info, "the full detail goes to the log"


async def test_error_detail_shows_the_message(run: Any) -> None:
    loop = ToolCallingAdvisor(error_detail="message")
    found = await results(run, [failing(KeyError("no such user"))], ToolCall("bad"), advisors=[loop])
    assert found[0].is_error and "KeyError" in found[0].text and "no such user" in found[0].text
    with pytest.raises(ConfigurationError, match="error_detail"):
        ToolCallingAdvisor(error_detail="all")  # type: ignore[arg-type]


class NotFound(ToolError):
    """Of an application."""


@pytest.mark.parametrize("error", [ToolError("Ask for the id first."), NotFound("Ask for the id first.")])
async def test_a_tool_error_reaches_the_model_verbatim(
    run: Any, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    found = await results(run, [failing(error)], ToolCall("bad"))
    assert (found[0].is_error, found[0].text) == (True, "Ask for the id first.")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_tool_error_without_a_text(run: Any) -> None:
    found = await results(run, [failing(ToolError())], ToolCall("bad"))
    assert found[0].is_error and "bad" in found[0].text


class Unprintable(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnprintableToolError(ToolError):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("kind", [Unprintable, UnprintableToolError])
@pytest.mark.parametrize("detail", ["type", "message"])
async def test_an_error_whose_text_cannot_be_made(run: Any, kind: type[Exception], detail: Any) -> None:
    loop = ToolCallingAdvisor(error_detail=detail)
    found = await results(run, [failing(kind()), good], ToolCall("bad"), ToolCall("good"), advisors=[loop])
    assert found[0].is_error and "bad" in found[0].text and found[1].text == "good result"


class Inner(BaseModel):
    """Validated in a body."""

    x: int


async def test_a_validation_error_in_the_body_is_the_tools_failure(run: Any) -> None:
    @tool
    async def bad(x: str) -> int:
        """Validates something else."""
        return Inner.model_validate({"x": "secret"}).x

    found = await results(run, [bad], ToolCall("bad", {"x": "a"}))
    assert found[0].is_error and "failed (ValidationError)" in found[0].text
    assert "Invalid arguments" not in found[0].text and "secret" not in found[0].text


LEAKS = [
    asyncio.CancelledError("stray"),
    SystemExit(1),
    BaseExceptionGroup("one", [SystemExit(2)]),
    ExceptionGroup("one", [ExceptionGroup("leaf", [KeyError("x")])]),
    ExceptionGroup("two", [KeyError("x"), ValueError("y")]),
    StopIteration("x"),
    StopAsyncIteration("x"),
    TimeoutError("its own"),
    MemoryError(),
    RecursionError(),
    AssertionError("no"),
]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("error", LEAKS, ids=repr)
async def test_what_leaks_from_a_tool_is_its_failure(
    run: Any, error: BaseException, sync: bool, beside: bool, anyio_backend: str
) -> None:
    calls = [ToolCall("good"), ToolCall("bad"), ToolCall("good")] if beside else [ToolCall("bad")]
    found = await results(run, [failing(error, sync=sync), good], *calls)
    assert [m.is_error for m in found] == ([False, True, False] if beside else [True])
    leaf = error.exceptions[0] if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1 else error
    while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
        leaf = leaf.exceptions[0]
    if not isinstance(leaf, StopIteration):  # Python makes it a RuntimeError
        assert type(leaf).__name__ in found[1 if beside else 0].text


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_a_keyboard_interrupt_propagates(beside: bool, sync: bool) -> None:
    calls = [ToolCall("bad"), *([ToolCall("good")] if beside else [])]
    client = ChatClient(ScriptedModel([calls, "done"]), tools=[failing(KeyboardInterrupt(), sync=sync), good])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(client.call("go"))


class Guard(TurnAbortedError):
    """A guard's own."""


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        TurnAbortedError("stop"),
        Guard("stop"),
        ConfigurationError("stop"),
        ExceptionGroup("g", [Guard("stop")]),
        ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [Guard("stop")])]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("beside", [True, False])
async def test_what_ends_the_turn(run: Any, error: Exception, sync: bool, beside: bool) -> None:
    state: list[str] = []

    @tool
    async def slow() -> str:
        """Never ends by itself."""
        state.append("started")
        try:
            await anyio.sleep_forever()
        finally:
            state.append("cancelled")
        return ""

    calls = [*([ToolCall("slow"), ToolCall("slow")] if beside else []), ToolCall("bad")]
    model = ScriptedModel([calls])
    expected = error
    while isinstance(expected, ExceptionGroup):
        expected = expected.exceptions[-1]
    with pytest.raises(type(expected), match="stop") as caught:
        await run(ChatClient(model, tools=[failing(error, sync=sync), slow]), "go")
    assert caught.value is expected, "as itself, not in a group"
    assert state.count("started") == state.count("cancelled")
    if run.mode == "stream":
        from advisorchain import ToolFinished, ToolStarted

        kinds = [type(event) for event in run.events]
        assert kinds.count(ToolStarted) == kinds.count(ToolFinished)


@pytest.mark.parametrize("count", [1, 2])
async def test_cancelling_the_call_cancels_its_tools(run: Any, count: int) -> None:
    state: list[str] = []
    reached = anyio.Event()

    @tool
    async def slow() -> str:
        """Never ends by itself."""
        state.append("started")
        if state.count("started") == count:
            reached.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            state.append("cancelled")
            raise
        return ""

    client = ChatClient(ScriptedModel([[ToolCall("slow")] * 1 + [ToolCall("slow")] * (count - 1)]), tools=[slow])
    seen: list[BaseException] = []

    async def ask() -> None:
        try:
            await run(client, "go")
        except BaseException as error:
            seen.append(error)
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        with anyio.fail_after(10):
            await reached.wait()
        group.cancel_scope.cancel()
    assert state == ["started"] * count + ["cancelled"] * count
    assert isinstance(seen[0], anyio.get_cancelled_exc_class()), "the error is the cancellation"


def test_a_native_task_cancel(run: Any) -> None:
    state: list[str] = []

    async def main() -> None:
        both = asyncio.Event()

        @tool
        async def slow() -> str:
            """Never ends by itself."""
            state.append("started")
            if len(state) == 2:
                both.set()
            try:
                await asyncio.sleep(3600)
            finally:
                state.append("cancelled")
            return ""

        client = ChatClient(ScriptedModel([[ToolCall("slow"), ToolCall("slow")]]), tools=[slow])
        before = asyncio.all_tasks()
        task = asyncio.create_task(run(client, "go"))
        await asyncio.wait_for(both.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state.count("cancelled") == 2
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before, "nothing is left running"

    asyncio.run(main())


async def test_tools_may_open_scopes_and_groups_of_their_own(run: Any, anyio_backend: str) -> None:
    @tool
    async def groups() -> str:
        """Opens a task group."""
        found: list[int] = []

        async def work(n: int) -> None:
            await anyio.sleep(0.001)
            found.append(n)

        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(work, n)
        with anyio.move_on_after(0.001) as scope:
            await anyio.sleep(10)
        return f"{sorted(found)} {scope.cancelled_caught}"

    @tool
    async def fails() -> str:
        """Fails in a task group, with its own deadline."""
        with anyio.fail_after(0.001):
            await anyio.sleep(10)
        return ""

    @tool
    async def native() -> str:
        """Uses the event loop's own means."""
        if anyio_backend == "trio":
            return "timed out"
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(10)
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None and task.cancelling() == 0
            return "timed out"
        return ""

    calls = [ToolCall("groups"), ToolCall("fails"), ToolCall("native"), ToolCall("groups")]
    found = await results(run, [groups, fails, native], *calls)
    assert [m.text for m in found[:1]] == ["[0, 1, 2] True"]
    assert found[1].is_error and "TimeoutError" in found[1].text
    assert found[2].text == "timed out" and not found[3].is_error
    for call in calls[:3]:  # and alone, in the turn's own task
        assert len(await results(run, [groups, fails, native], call.replace(id="again"))) == 1
