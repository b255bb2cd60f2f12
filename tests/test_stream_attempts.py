"""Streams whose text is produced more than once or changed on its way: attempts, taps, the advisors' own events."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from stream_reader import call, check, check_tools, collect, restarts, round_texts

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Emit,
    Event,
    Finished,
    ModelError,
    Restarted,
    RoundFinished,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

OUTSIDE, INSIDE = 300, 600
both_sides = pytest.mark.parametrize("order", [OUTSIDE, INSIDE])


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# Several attempts ----------------------------------------------------------------------------------------------------


@chat_advisor(order=OUTSIDE, name="twice_outside")
async def twice_outside(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    await call_next(request)
    return await call_next(request)


@chat_advisor(order=INSIDE, name="twice_inside")
async def twice_inside(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    await call_next(request)
    return await call_next(request)


async def test_progress_knows_its_attempt() -> None:
    @tool
    async def count(context: ToolContext) -> str:
        """Count."""
        await context.progress(1)
        return "1"

    steps = [["a ", ToolCall("count")], "a.", ["b ", ToolCall("count")], "b."]
    events, _ = await collect(ChatClient(ScriptedModel(steps), tools=[count], advisors=[twice_outside]))
    found = [event for event in events if isinstance(event, ToolStarted | ToolProgress | ToolFinished)]
    assert [(type(event).__name__, event.attempt) for event in found] == [
        ("ToolStarted", 0), ("ToolProgress", 0), ("ToolFinished", 0),
        ("ToolStarted", 1), ("ToolProgress", 1), ("ToolFinished", 1),
    ]  # fmt: skip


async def test_the_second_of_two_attempts_outside() -> None:
    steps = [["a1 ", call(1)], ["a2 ", call(2)], "a3", ["b1 ", call(3)], "b2"]
    events, response = await collect(ChatClient(ScriptedModel(steps), tools=[add], advisors=[twice_outside]))
    assert check(events, response) == {1: "b1 ", 2: "b2"}
    assert restarts(events) == 1


async def test_the_second_of_two_attempts_inside() -> None:
    steps = [["a1 ", call(1)], ["b1 ", call(2)], "a2", "b2"]
    events, response = await collect(ChatClient(ScriptedModel(steps), tools=[add], advisors=[twice_inside]))
    assert check(events, response) == {1: "b1 ", 2: "b2"}
    assert restarts(events) == 2


async def test_a_second_attempt_that_a_cache_answers() -> None:
    """The first attempt reached round 2; the second is answered in round 1 by an advisor, not by the model."""
    rounds: list[int] = []

    @chat_advisor(order=INSIDE)
    async def cached(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        rounds.append(request.round)
        if rounds == [1, 2, 1]:
            return ChatResponse(AssistantMessage(content="from the cache"))
        return await call_next(request)

    model = ScriptedModel([["a1 ", call()], "a2"])
    events, response = await collect(ChatClient(model, tools=[add], advisors=[twice_outside, cached]))
    assert rounds == [1, 2, 1]
    assert check(events, response) == {1: "from the cache"}


@both_sides
async def test_the_first_of_two_attempts(order: int, caplog: pytest.LogCaptureFixture) -> None:
    @chat_advisor(order=order)
    async def best_of_two(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        first = await call_next(request)
        await call_next(request)
        return first

    events, response = await collect(ChatClient(ScriptedModel(["first", "second"]), advisors=[best_of_two]))
    assert check(events, response) == {1: "first"}
    assert len(caplog.records) == 1


@both_sides
async def test_concurrent_attempts_that_are_not_muted(order: int) -> None:
    @chat_advisor(order=order)
    async def race(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        found: list[ChatResponse[Any]] = []

        async def one() -> None:
            found.append(await call_next(request.fork()))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
        return found[0]

    async def slow(request: ChatRequest) -> ChatResponse[Any]:
        text = f"answer {next(count)}"
        for letter in text:
            await request.emit(TextDelta(letter))
            await anyio.lowlevel.checkpoint()
        return ChatResponse(AssistantMessage(content=text))

    count = iter(range(100))
    events, response = await collect(ChatClient(slow, advisors=[race]))
    check(events, response)


async def test_concurrent_loops_that_are_not_muted() -> None:
    @chat_advisor(order=OUTSIDE)
    async def race(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        found: list[ChatResponse[Any]] = []

        async def one() -> None:
            found.append(await call_next(request.fork()))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            group.start_soon(one)
        return found[0]

    async def slow(request: ChatRequest) -> ChatResponse[Any]:
        number = next(count)
        text = f"text {number} "
        for letter in text:
            await request.emit(TextDelta(letter))
            await anyio.lowlevel.checkpoint()
        calls = (call(number),) if request.messages[-1].role == "user" else ()
        return ChatResponse(AssistantMessage(content=text, tool_calls=calls))

    count = iter(range(100))
    events, response = await collect(ChatClient(slow, tools=[add], advisors=[race]))
    texts = round_texts(events)
    assert texts[max(texts)] == response.text
    check_tools(events)


@pytest.mark.parametrize("fail_in_round", [1, 2])
async def test_a_retry_outside_the_loop(fail_in_round: int) -> None:
    @chat_advisor(order=OUTSIDE)
    async def retry(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        try:
            return await call_next(request)
        except ModelError:
            return await call_next(request)

    async def breaks(request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(TextDelta("half an ans"))
        raise ModelError("connection lost", transient=True)

    failing: list[Any] = [breaks] if fail_in_round == 1 else [["a1 ", call()], breaks]
    model = ScriptedModel([*failing, ["b1 ", call()], "b2"])
    events, response = await collect(ChatClient(model, tools=[add], advisors=[retry]))
    assert check(events, response) == {1: "b1 ", 2: "b2"}
    assert restarts(events) == 1


async def test_an_advisor_that_changes_the_answer_without_saying_so(caplog: pytest.LogCaptureFixture) -> None:
    @chat_advisor(order=OUTSIDE)
    async def shout(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        return response.replace(message=AssistantMessage(content=response.text.upper()))

    model = ScriptedModel([["See. ", call()], "three"])
    events, response = await collect(ChatClient(model, tools=[add], advisors=[shout]))
    assert check(events, response) == {1: "See. ", 2: "THREE"}
    assert [type(event) for event in events[-3:]] == [Restarted, TextDelta, Finished]
    assert [(record.name, record.levelno) for record in caplog.records] == [("advisorchain", logging.WARNING)]
    assert "THREE" not in caplog.text


# Taps ----------------------------------------------------------------------------------------------------------------


@both_sides
async def test_a_tap_and_an_answer_that_agree(order: int, caplog: pytest.LogCaptureFixture) -> None:
    async def upper(event: Event, emit: Emit) -> None:
        if isinstance(event, TextDelta):
            event = TextDelta(event.text.upper(), path=event.path, round=event.round, attempt=event.attempt)
        elif isinstance(event, RoundFinished):  # it carries the round's whole text
            event = dataclasses.replace(event, text=event.text.upper())
        await emit(event)

    @chat_advisor(order=order)
    async def shout(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request.tap(upper))
        message = response.message.model_copy(update={"content": response.text.upper()})
        return response.replace(message=message)

    model = ScriptedModel(["all of it"])
    events, response = await collect(ChatClient(model, advisors=[shout]))
    assert check(events, response) == {1: "ALL OF IT"}
    assert restarts(events) == 0 and not caplog.records


@both_sides
async def test_a_tap_that_changes_text_which_the_answer_keeps(order: int, caplog: pytest.LogCaptureFixture) -> None:
    async def upper(event: Event, emit: Emit) -> None:
        await emit(dataclasses.replace(event, text=event.text.upper()) if isinstance(event, TextDelta) else event)

    @chat_advisor(order=order)
    async def shout(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(upper))

    events, response = await collect(ChatClient(ScriptedModel(["all of it"]), advisors=[shout]))
    assert check(events, response) == {1: "all of it"}
    assert restarts(events) == 1 and len(caplog.records) == 1


@both_sides
async def test_a_tap_that_drops_text(order: int) -> None:
    async def drop(event: Event, emit: Emit) -> None:
        if not isinstance(event, TextDelta):
            await emit(event)

    @chat_advisor(order=order)
    async def quiet(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(drop))

    events, response = await collect(ChatClient(ScriptedModel(["all of it"]), advisors=[quiet]))
    assert check(events, response) == {1: "all of it"}


async def test_taps_see_events_in_order_and_stamped() -> None:
    seen: list[tuple[str, int, int]] = []

    async def watch(event: Event, emit: Emit) -> None:
        seen.append((type(event).__name__, event.round, event.attempt))
        await emit(event)

    @chat_advisor(order=OUTSIDE)
    async def watcher(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(watch))

    model = ScriptedModel([["a ", call()], "b"], chunk_size=100)
    await collect(ChatClient(model, tools=[add], advisors=[watcher]))
    assert seen == [
        ("RoundStarted", 1, 0), ("TextDelta", 1, 0), ("ToolCallDelta", 1, 0), ("ToolStarted", 1, 0),
        ("ToolFinished", 1, 0), ("RoundFinished", 1, 0), ("RoundStarted", 2, 0), ("TextDelta", 2, 0),
        ("RoundFinished", 2, 0),
    ]  # fmt: skip


@both_sides
async def test_an_advisors_own_events(order: int) -> None:
    class Note(Event):
        pass

    @chat_advisor(order=order)
    async def noting(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await request.emit(Note())
        response = await call_next(request)
        await request.emit(Note())
        return response

    events, response = await collect(ChatClient(ScriptedModel([["a ", call()], "b"]), tools=[add], advisors=[noting]))
    assert check(events, response) == {1: "a ", 2: "b"}
    notes = [event.round for event in events if isinstance(event, Note)]
    assert notes == ([1, 2] if order == OUTSIDE else [1, 1, 2, 2])


async def test_a_tools_progress_is_streamed() -> None:
    @tool
    async def slow(context: ToolContext) -> str:
        """Take a while."""
        await context.progress(1, 2, "half")
        return "done"

    events, response = await collect(ChatClient(ScriptedModel([[ToolCall("slow", {})], "ok"]), tools=[slow]))
    check(events, response)
    kinds = [type(event).__name__ for event in events]
    assert kinds.index("ToolStarted") < kinds.index("ToolProgress") < kinds.index("ToolFinished")
