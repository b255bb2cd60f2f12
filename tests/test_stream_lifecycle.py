"""What a stream leaves behind when it is left early, abandoned, closed elsewhere, or overtaken by the loop's end."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Emit,
    Event,
    TextDelta,
    ToolCall,
    ToolFinished,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


class Slow:
    """A model that says something and then waits for ever; with advisors around it that clean up."""

    def __init__(self, error: Exception | None = None) -> None:
        self.log: list[str] = []
        self.error = error

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(TextDelta("first "))
        try:
            await anyio.sleep_forever()
        except BaseException as exc:
            self.log.append("model cancelled" if isinstance(exc, anyio.get_cancelled_exc_class()) else repr(exc))
            raise
        raise AssertionError("never")

    def advisor(self, name: str, order: int, *, seconds: float = 0.0) -> Any:
        @chat_advisor(order=order, name=name)
        async def cleaning(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            try:
                return await call_next(request)
            finally:
                if seconds:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(seconds)
                self.log.append(name)
                if self.error is not None:
                    raise self.error

        return cleaning

    def client(self) -> ChatClient:
        inner, outer = self.advisor("inner", 600), self.advisor("outer", 300, seconds=0.05)
        return ChatClient(self, advisors=[inner, outer])


ALL_CLEAN = ["model cancelled", "inner", "outer"]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test here may leave a word of asyncio's or trio's ("Task exception was never retrieved", ...)."""
    caplog.set_level(logging.DEBUG, logger="asyncio")
    yield
    gc.collect()
    noise = [record for record in caplog.records if record.name.startswith(("asyncio", "trio", "anyio"))]
    assert not [record for record in noise if record.levelno > logging.DEBUG]


def no_tasks_left() -> bool:
    try:
        return {task for task in asyncio.all_tasks() if task.get_name() == "advisorchain turn"} == set()
    except RuntimeError:
        import trio

        return not [task for task in _trio_tasks(trio.lowlevel.current_root_task()) if "advisorchain" in task.name]


def _trio_tasks(task: Any) -> Iterator[Any]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _trio_tasks(child)


async def first_text(stream: Any) -> str:
    async for event in stream:
        if isinstance(event, TextDelta):
            return event.text
    raise AssertionError("no text")


# Leaving early -------------------------------------------------------------------------------------------------------


async def test_leaving_early_cancels_and_waits_for_every_finally() -> None:
    slow = Slow()
    async with slow.client().stream("?") as stream:
        assert await first_text(stream) == "first "
        assert not slow.log
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_leaving_without_reading() -> None:
    slow = Slow()
    async with slow.client().stream("?"):
        await anyio.sleep(0.01)
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_leaving_at_once() -> None:
    async with Slow().client().stream("?"):
        pass
    assert no_tasks_left()


async def test_leaving_by_an_error_of_the_reader() -> None:
    slow = Slow()
    with pytest.raises(KeyError, match="mine"):
        async with slow.client().stream("?") as stream:
            await first_text(stream)
            raise KeyError("mine")
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_leaving_by_cancellation_of_the_reader() -> None:
    slow = Slow()
    with anyio.CancelScope() as scope:
        async with slow.client().stream("?") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    scope.cancel()
    assert scope.cancelled_caught
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_leaving_early_cancels_running_tools() -> None:
    ended: list[str] = []
    both = anyio.Event()
    running = 0

    @tool
    async def wait(name: str) -> str:
        """Wait for ever."""
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)
        raise AssertionError

    model = ScriptedModel([[ToolCall("wait", {"name": "a"}), ToolCall("wait", {"name": "b"})]])
    async with ChatClient(model, tools=[wait]).stream("?"):
        await both.wait()
    assert sorted(ended) == ["a", "b"] and no_tasks_left()


@pytest.mark.timeout(30)
async def test_a_tap_that_hangs_does_not_keep_the_stream_open() -> None:
    """It sends events to a socket whose other end has gone, say."""
    hanging = anyio.Event()

    async def send(event: Event, emit: Emit) -> None:
        if isinstance(event, ToolFinished):
            hanging.set()
            await anyio.sleep_forever()
        await emit(event)

    @chat_advisor(order=300)
    async def forward(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(send))

    @tool
    async def quick() -> str:
        """Be quick."""
        return "done"

    model = ScriptedModel([[ToolCall("quick", {})]])
    async with ChatClient(model, tools=[quick], advisors=[forward]).stream("?"):
        await hanging.wait()
    assert no_tasks_left()


@pytest.mark.parametrize("way", ["break", "exception", "aclose"])
async def test_an_error_after_an_early_exit_is_logged(way: str, caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow(error=ValueError("cleaning failed"))
    client = ChatClient(slow, advisors=[slow.advisor("outer", 300)])

    async def read() -> AsyncIterator[str]:
        async with client.stream("?") as stream:
            yield await first_text(stream)
            if way == "exception":
                raise KeyError("mine")

    reader: Any = read()
    assert await anext(reader) == "first "
    if way == "exception":
        with pytest.raises(KeyError, match="mine"):
            await anext(reader)
    elif way == "break":
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
    else:
        await reader.aclose()
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.name == "advisorchain" and record.exc_info is not None and record.exc_info[1] is slow.error


async def test_an_unread_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with ChatClient(ScriptedModel([ValueError("unseen")])).stream("?"):
        await anyio.sleep(0.01)
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == ["advisorchain"]


# Slow readers --------------------------------------------------------------------------------------------------------


async def test_a_slow_reader_is_not_charged_to_an_advisors_timeout() -> None:
    answered = anyio.Event()

    @chat_advisor(order=600)
    async def deadline(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        answered.set()
        return response

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        for _ in range(600):
            await request.emit(TextDelta("x"))
            await anyio.lowlevel.checkpoint()
        return ChatResponse(AssistantMessage(content="x" * 600))

    async with ChatClient(model, advisors=[deadline]).stream("?") as stream:
        count = 0
        async for _ in stream:
            count += 1
            if count == 10:
                with anyio.fail_after(10):
                    await answered.wait()
        assert (await stream.response()).text == "x" * 600


# Async generators ----------------------------------------------------------------------------------------------------


def sse(slow: Slow) -> Any:
    async def generate() -> AsyncIterator[str]:
        async with slow.client().stream("?") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    yield event.text

    return generate()


async def test_a_generator_closed_by_its_reader() -> None:
    slow = Slow()
    events = sse(slow)
    assert await anext(events) == "first "
    await events.aclose()
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_a_generator_closed_from_another_task() -> None:
    slow = Slow()
    events = sse(slow)
    assert await anext(events) == "first "
    async with anyio.create_task_group() as group:
        group.start_soon(events.aclose)
    assert slow.log == ALL_CLEAN and no_tasks_left()


async def test_a_generator_read_from_several_tasks() -> None:
    client = ChatClient(ScriptedModel(["abcdef"], chunk_size=2))
    got: list[str] = []

    async def generate() -> AsyncIterator[str]:
        async with client.stream("?") as stream:
            async for piece in stream.text():
                yield piece

    events: Any = generate()

    async def one() -> None:
        got.append(await anext(events, "end"))

    for _ in range(4):
        async with anyio.create_task_group() as group:
            group.start_soon(one)
    assert got == ["ab", "cd", "ef", "end"] and no_tasks_left()


async def test_a_generator_whose_reader_is_cancelled_while_it_waits() -> None:
    slow = Slow()
    events = sse(slow)
    assert await anext(events) == "first "
    with anyio.move_on_after(0.05) as scope:
        await anext(events)
    assert scope.cancelled_caught and slow.log == ALL_CLEAN and no_tasks_left()


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # trio says so of every generator left to gc
async def test_an_abandoned_generator() -> None:
    slow = Slow()
    events = sse(slow)
    assert await anext(events) == "first "
    del events
    gc.collect()
    with anyio.fail_after(10):
        while slow.log != ALL_CLEAN or not no_tasks_left():  # noqa: ASYNC110  (nothing to wait for but the collector)
            await anyio.sleep(0.01)


# Context variables ---------------------------------------------------------------------------------------------------


@chat_advisor(order=300)
async def setting(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    assert VAR.get() == "callers"
    VAR.set("advisors")
    return await call_next(request)


async def test_a_context_variable_of_an_advisor() -> None:
    """It does not reach the reader of a stream; it does reach the caller of `call`: the documented exception."""
    VAR.set("callers")
    async with ChatClient(ScriptedModel(["hi"]), advisors=[setting]).stream("?") as stream:
        async for _ in stream:
            assert VAR.get() == "callers"
        assert (await stream.response()).text == "hi"
    assert VAR.get() == "callers"
    await ChatClient(ScriptedModel(["hi"]), advisors=[setting]).call("?")
    assert VAR.get() == "advisors"
    VAR.set("unset")


async def test_a_context_variable_of_the_caller_is_seen_by_sync_tools(run: Any) -> None:
    @tool
    def read() -> str:
        """Read it."""
        return VAR.get()

    VAR.set("callers")
    step = [ToolCall("read", {}), ToolCall("read", {})]
    response = await run(ChatClient(ScriptedModel([step, "ok"]), tools=[read]), "?")
    VAR.set("unset")
    assert [message.text for message in response.new_messages[1:3]] == ["callers", "callers"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_context_variable_is_reset_where_it_was_set(early: bool) -> None:
    """As a tracer does it: a reset in another context would be a ValueError."""
    log: list[str] = []

    @chat_advisor(order=300)
    async def tracing(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        token = VAR.set("span")
        try:
            return await call_next(request)
        finally:
            VAR.reset(token)
            log.append(VAR.get())

    model: Any = Slow() if early else ScriptedModel(["hi"])
    async with ChatClient(model, advisors=[tracing]).stream("?") as stream:
        await first_text(stream)
        if not early:
            await stream.response()
    assert log == ["unset"]
