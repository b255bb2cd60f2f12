"""Streams and the end of their event loop; and asyncio's own cancellation, which no shield of anyio's holds back."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
import trio

from advisorchain import AssistantMessage, ChatClient, ChatNext, ChatRequest, ChatResponse, TextDelta, chat_advisor
from advisorchain.testing import ScriptedModel


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing may be logged here, by asyncio or by anybody else."""
    caplog.set_level(logging.INFO)
    yield
    gc.collect()
    said = [record.getMessage() for record in caplog.records]
    assert not [text for text in said if not text.startswith("Executing ")]  # "... took 0.1 seconds": a busy machine


class Waiting:
    """A client whose model says something and then waits for ever."""

    def __init__(self, clean_up_seconds: float = 0.0) -> None:
        self.log: list[str] = []
        self.clean_up_seconds = clean_up_seconds
        self.client = ChatClient(self._model, advisors=[chat_advisor(order=300, name="outer")(self._outer)])

    async def _model(self, request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(TextDelta("first "))
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("model")
        raise AssertionError("never")

    async def _outer(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        try:
            return await call_next(request)
        finally:
            if self.clean_up_seconds:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(self.clean_up_seconds)
            self.log.append("outer")

    async def texts(self) -> AsyncIterator[str]:
        async with self.client.stream("?") as stream:
            async for piece in stream.text():
                yield piece


def run_loop(backend: str, main: Any) -> Any:
    if backend == "trio":
        return trio.run(main)
    return asyncio.run(main(), debug=True)


backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@backends
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # trio says so of every generator left open
def test_the_loop_ends_while_a_generator_is_open(backend: str) -> None:
    waiting = Waiting()
    held: list[Any] = []

    async def main() -> None:
        events: Any = waiting.texts()
        held.append(events)
        assert await anext(events) == "first "

    run_loop(backend, main)
    assert waiting.log == ["model", "outer"]


@backends
def test_the_loop_ends_while_a_stream_is_entered_and_never_left(backend: str) -> None:
    waiting = Waiting()
    held: list[Any] = []

    async def main() -> None:
        stream = waiting.client.stream("?")
        held.append(stream)
        await stream.__aenter__()
        assert [piece async for piece in _one(stream)] == ["first "]

    run_loop(backend, main)
    assert waiting.log == ["model", "outer"]


async def _one(stream: Any) -> AsyncIterator[str]:
    async for event in stream:
        if isinstance(event, TextDelta):
            yield event.text
            return


def test_the_loop_ends_while_another_task_reads() -> None:
    waiting = Waiting()
    readers: list[Any] = []

    async def read() -> None:
        async for _ in waiting.texts():
            pass

    async def main() -> None:
        readers.append(asyncio.create_task(read()))
        await asyncio.sleep(0.05)

    asyncio.run(main(), debug=True)
    assert waiting.log == ["model", "outer"] and readers[0].cancelled()


def test_an_error_in_main_while_a_stream_is_open() -> None:
    waiting = Waiting()

    async def main() -> None:
        async with waiting.client.stream("?") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main(), debug=True)
    assert waiting.log == ["model", "outer"]


def test_one_client_in_several_loops() -> None:
    client = ChatClient(ScriptedModel(["a", "b", "c"]))

    async def main() -> str:
        async with client.stream("?") as stream:
            return (await stream.response()).text

    assert [asyncio.run(main()), trio.run(main), asyncio.run(main())] == ["a", "b", "c"]


# asyncio's own cancellation ------------------------------------------------------------------------------------------


def test_task_cancel_ends_the_turn_before_the_block_is_left() -> None:
    waiting = Waiting(clean_up_seconds=0.1)
    after: list[list[str]] = []

    async def read() -> None:
        try:
            async with waiting.client.stream("?") as stream:
                async for _ in stream:
                    pass
        finally:
            after.append(list(waiting.log))

    async def main() -> None:
        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [left for left in asyncio.all_tasks() if left is not asyncio.current_task()]

    asyncio.run(main(), debug=True)
    assert after == [["model", "outer"]]


def test_a_second_task_cancel_leaves_no_task_behind() -> None:
    """Impatient shutdown: cancelled again while the first cancellation is being served."""
    waiting = Waiting(clean_up_seconds=0.1)

    async def read() -> None:
        async with waiting.client.stream("?") as stream:
            async for _ in stream:
                pass

    async def main() -> None:
        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert not [left for left in asyncio.all_tasks() if left is not asyncio.current_task()]

    asyncio.run(main(), debug=True)
    assert waiting.log == ["model", "outer"]


@pytest.mark.parametrize("mode", ["call", "stream"])
def test_asyncio_timeout_around_a_turn(mode: str) -> None:
    waiting = Waiting()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                if mode == "call":
                    await waiting.client.call("?")
                else:
                    async with waiting.client.stream("?") as stream:
                        await stream.response()
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        await asyncio.sleep(0)  # nothing is left of the cancellation

    asyncio.run(main(), debug=True)
    assert waiting.log == ["model", "outer"]


def test_streams_side_by_side_in_a_task_group() -> None:
    """One fails, asyncio's group cancels the others."""
    waiting = [Waiting(), Waiting()]

    async def read(client: ChatClient) -> None:
        async with client.stream("?") as stream:
            await stream.response()

    async def main() -> None:
        broken = ChatClient(ScriptedModel([ValueError("broken")]))
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                for each in waiting:
                    group.create_task(read(each.client))
                await asyncio.sleep(0.05)
                group.create_task(read(broken))
        assert [repr(error) for error in caught.value.exceptions] == ["ValueError('broken')"]

    asyncio.run(main(), debug=True)
    assert [each.log for each in waiting] == [["model", "outer"]] * 2


@pytest.mark.parametrize("mode", ["call", "stream"])
def test_the_callbacks_at_the_end_of_a_turn_survive_task_cancel(mode: str) -> None:
    """What was answered is committed, although the caller has just been cancelled: by timeout, by disconnect."""
    log: list[str] = []
    committing: list[asyncio.Event] = []

    @chat_advisor(order=300)
    async def storing(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        async def commit(end: Any) -> None:
            committing[0].set()
            await asyncio.sleep(0.1)
            log.append("second registered")

        async def commit_first(end: Any) -> None:
            await asyncio.sleep(0.01)
            log.append("first registered")

        request.context.at_turn_end(commit_first)
        request.context.at_turn_end(commit)
        return await call_next(request)

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="done"))

    client = ChatClient(model, advisors=[storing])

    async def turn() -> None:
        if mode == "call":
            await client.call("?")
        else:
            async with client.stream("?") as stream:
                await stream.response()

    async def main() -> None:
        committing.append(asyncio.Event())
        task = asyncio.create_task(turn())
        await committing[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["second registered", "first registered"]

    asyncio.run(main(), debug=True)
