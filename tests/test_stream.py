"""`ChatStream` as its reader sees it: entering, reading, merging, errors, ``text()`` and ``response()``."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import (
    AdvisorChainError,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    Event,
    Finished,
    ModelError,
    Restarted,
    TextDelta,
    ToolCall,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def client() -> ChatClient:
    return ChatClient(ScriptedModel([["See. ", ToolCall("add", {"a": 1, "b": 2})], "It is 3."]), tools=[add])


def talker(*texts: str, pause: Callable[[], Awaitable[None]] | None = None) -> ChatNext:
    """A model that says the texts one by one."""

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        for text in texts:
            await request.emit(TextDelta(text))
            if pause is not None:
                await pause()
        return ChatResponse(AssistantMessage(content="".join(texts)))

    return model


# Entering ------------------------------------------------------------------------------------------------------------


async def test_to_leave_the_text_by_break_is_nothing_special() -> None:
    client = ChatClient(ScriptedModel(["some words"], chunk_size=2))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        async with client.stream("?") as stream:
            async for piece in stream.text():
                assert piece == "so"
                break
        gc.collect()
        await anyio.lowlevel.checkpoint()
    assert [str(each.message) for each in found] == []


async def test_a_stream_is_entered_once() -> None:
    stream = client().stream("?")
    async with stream:
        with pytest.raises(ConfigurationError, match="again"):
            await stream.__aenter__()
    with pytest.raises(ConfigurationError, match="again"):
        await stream.__aenter__()


async def test_a_stream_that_was_not_entered_says_so() -> None:
    stream = client().stream("?")
    with pytest.raises(ConfigurationError, match="async with"):
        await stream.__anext__()
    with pytest.raises(ConfigurationError, match="async with"):
        await stream.response()
    with pytest.raises(ConfigurationError, match="async with"):
        async for _ in stream.text():
            pass


async def test_a_stream_that_was_not_entered_asks_no_model() -> None:
    model = ScriptedModel([])
    ChatClient(model).stream("?")
    await anyio.sleep(0.01)
    assert model.requests == []


# Reading -------------------------------------------------------------------------------------------------------------


async def test_the_response_without_reading() -> None:
    async with client().stream("?") as stream:
        response = await stream.response()
        assert response.text == "It is 3."
        assert await stream.response() is response
    assert await stream.response() is response, "it stays after the block"


async def test_reading_after_the_response() -> None:
    async with client().stream("?") as stream:
        response = await stream.response()
        events = [event async for event in stream]
        assert isinstance(events[-1], Finished) and events[-1].response is response
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "See. It is 3."
        assert [event async for event in stream] == [], "read to the end is read to the end"


async def test_reading_in_two_loops() -> None:
    async with client().stream("?") as stream:
        first: list[Event] = []
        async for event in stream:
            first.append(event)
            if isinstance(event, TextDelta):
                break
        rest = [event async for event in stream]
    assert [type(event) for event in first + rest].count(Finished) == 1
    assert "".join(event.text for event in first + rest if isinstance(event, TextDelta)) == "See. It is 3."


async def test_two_readers_share_the_events() -> None:
    got: list[str] = []

    async def read(stream: Any) -> None:
        async for event in stream:
            if isinstance(event, TextDelta):
                got.append(event.text)

    texts = [str(number) for number in range(50)]
    async with ChatClient(talker(*texts, pause=anyio.lowlevel.checkpoint)).stream("?") as stream:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(read, stream)
                group.start_soon(read, stream)
    assert sorted(got) == sorted(texts)


async def test_text() -> None:
    async with client().stream("?") as stream:
        assert "".join([piece async for piece in stream.text()]) == "See. It is 3."
    async with client().stream("?") as stream:
        assert "".join([piece async for piece in stream.text(final=True)]) == "It is 3."
        assert (await stream.response()).text == "It is 3."


async def test_final_text_after_a_restart() -> None:
    @chat_advisor(order=300)
    async def twice(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    async with ChatClient(ScriptedModel(["first", "second"]), advisors=[twice]).stream("?") as stream:
        assert "".join([piece async for piece in stream.text(final=True)]) == "second"


async def test_text_leaves_out_what_sub_agents_say() -> None:
    sub = ChatClient(ScriptedModel(["said by the sub-agent"])).as_tool("agent", "An agent.")
    main = ChatClient(ScriptedModel([[ToolCall("agent", {"prompt": "?"})], "the answer"]), tools=[sub])
    async with main.stream("?") as stream:
        assert "".join([piece async for piece in stream.text()]) == "the answer"


async def test_events_arrive_while_the_turn_runs() -> None:
    go_on = anyio.Event()

    async def wait() -> None:
        await go_on.wait()

    async with ChatClient(talker("first", "second", pause=wait)).stream("?") as stream:
        with anyio.fail_after(10):
            async for event in stream:
                if isinstance(event, TextDelta):
                    assert event.text == "first"
                    break
            go_on.set()
            assert (await stream.response()).text == "firstsecond"


# Merging -------------------------------------------------------------------------------------------------------------


async def test_unread_text_is_merged() -> None:
    texts = [f"{number} " for number in range(10_000)]
    async with ChatClient(talker(*texts)).stream("?") as stream:
        response = await stream.response()
        events = [event async for event in stream]
    assert len(events) < 400
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == response.text == "".join(texts)


async def test_merging_does_not_change_the_events_that_advisors_keep() -> None:
    kept: list[TextDelta] = []

    async def keep(event: Event, emit: Any) -> None:
        if isinstance(event, TextDelta):
            kept.append(event)
        await emit(event)

    @chat_advisor(order=300)
    async def record(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(keep))

    texts = [f"{number} " for number in range(2_000)]
    async with ChatClient(talker(*texts), advisors=[record]).stream("?") as stream:
        await stream.response()
    assert [event.text for event in kept] == texts


async def test_merging_keeps_paths_rounds_and_attempts_apart() -> None:
    asked = 0

    async def many(request: ChatRequest) -> ChatResponse[Any]:
        nonlocal asked
        asked += 1
        text = str(asked)
        for _ in range(500):
            await request.emit(TextDelta(text))
        calls = (ToolCall("add", {"a": 1, "b": 2}),) if asked < 3 else ()
        return ChatResponse(AssistantMessage(content=text * 500, tool_calls=calls))

    @chat_advisor(order=600)
    async def twice(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if request.round == 2:
            await call_next(request)
        return await call_next(request)

    async with ChatClient(many, tools=[add], advisors=[twice]).stream("?") as stream:
        await stream.response()
        texts: dict[tuple[int, int], str] = {}
        async for event in stream:
            if isinstance(event, TextDelta):
                key = (event.round, event.attempt)
                texts[key] = texts.get(key, "") + event.text
    assert texts == {(1, 0): "1" * 500, (2, 0): "2" * 500, (2, 1): "3" * 500}


async def test_a_reader_that_keeps_up_gets_every_delta() -> None:
    texts = [f"{number} " for number in range(1_000)]
    async with ChatClient(talker(*texts, pause=anyio.lowlevel.checkpoint)).stream("?") as stream:
        got = [event.text async for event in stream if isinstance(event, TextDelta)]
    assert len(got) > 500 and "".join(got) == "".join(texts)


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ModelError("no"), ValueError("x"), ExceptionGroup("g", [KeyError("k")])])
async def test_an_error_arrives_as_itself(error: Exception) -> None:
    async with ChatClient(ScriptedModel([["See. ", ToolCall("add", {"a": 1, "b": 2})], error]), tools=[add]).stream(
        "?"
    ) as stream:
        texts: list[str] = []
        with pytest.raises(type(error)) as caught:
            async for event in stream:
                if isinstance(event, TextDelta):
                    texts.append(event.text)
        assert caught.value is error and "".join(texts) == "See. "
        with pytest.raises(type(error)) as caught:
            await stream.response()
        assert caught.value is error
        with pytest.raises(type(error)) as caught:
            await stream.__anext__()
        assert caught.value is error


async def test_an_error_passes_through_the_block(caplog: pytest.LogCaptureFixture) -> None:
    error = ModelError("no")
    with pytest.raises(ModelError) as caught:
        async with ChatClient(ScriptedModel([error])).stream("?") as stream:
            async for _ in stream:
                pass
    assert caught.value is error and not caplog.records, "it was raised, so it is not logged too"


async def test_bad_arguments_fail_before_the_block() -> None:
    with pytest.raises(ConfigurationError):
        client().stream([])
    with pytest.raises(ConfigurationError):
        client().stream("?", options={"temprature": 1})


async def test_a_stream_left_early_has_no_response() -> None:
    async with ChatClient(talker("a", "b", pause=anyio.sleep_forever)).stream("?") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    with pytest.raises(AdvisorChainError, match="left"):
        await stream.response()


async def test_restarted_comes_before_the_text_of_the_next_attempt() -> None:
    @chat_advisor(order=600)
    async def twice(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    model = ScriptedModel(["first", "second"], chunk_size=100)
    async with ChatClient(model, advisors=[twice]).stream("?") as stream:
        found = [
            (type(event).__name__, event.attempt) async for event in stream if type(event) in (TextDelta, Restarted)
        ]
    assert found == [("TextDelta", 0), ("Restarted", 1), ("TextDelta", 1)]
