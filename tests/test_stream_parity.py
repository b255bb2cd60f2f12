"""What is streamed equals what is answered: text per round, tool events in pairs, whatever the advisors do."""

from __future__ import annotations

from typing import Any

import pytest
from stream_reader import call, check, check_tools, collect, restarts, round_texts

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Event,
    Finished,
    RoundFinished,
    RoundStarted,
    TextDelta,
    ToolCall,
    ToolLoopLimitError,
    ToolStarted,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel

OUTSIDE, INSIDE = 300, 600
both_sides = pytest.mark.parametrize("order", [OUTSIDE, INSIDE])


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(return_direct=True)
async def status(id: str) -> str:
    """The status."""
    return f"{id} is approved, and this is a long sentence."


# Rounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1, 4, 1000])
async def test_a_plain_answer(chunk_size: int) -> None:
    events, response = await collect(ChatClient(ScriptedModel(["Hello, 世界!"], chunk_size=chunk_size)))
    assert check(events, response) == {1: "Hello, 世界!"}
    assert [type(event) for event in events][:2] == [RoundStarted, TextDelta]
    assert restarts(events) == 0


async def test_an_empty_answer() -> None:
    events, response = await collect(ChatClient(ScriptedModel([""])))
    assert check(events, response) == {}


async def test_text_before_tool_calls_and_after_them() -> None:
    model = ScriptedModel([["Let me see. ", call()], ["Once more. ", call(2), " and ", call(3)], [call(4)], "7."])
    events, response = await collect(ChatClient(model, tools=[add]))
    assert check(events, response) == {1: "Let me see. ", 2: "Once more.  and ", 4: "7."}
    assert [event.round for event in events if isinstance(event, RoundStarted)] == [1, 2, 3, 4]
    assert [(e.round, e.calls) for e in events if isinstance(e, RoundFinished)] == [(1, 1), (2, 2), (3, 1), (4, 0)]
    assert restarts(events) == 0


@both_sides
async def test_a_short_circuit(order: int) -> None:
    @chat_advisor(order=order)
    async def cached(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="from the cache"))

    events, response = await collect(ChatClient(ScriptedModel([]), advisors=[cached]))
    assert check(events, response) == {1: "from the cache"}
    assert restarts(events) == 0


@both_sides
async def test_a_short_circuit_that_streams_its_own_text(order: int, caplog: pytest.LogCaptureFixture) -> None:
    """A cache that plays an answer back piece by piece: once, without a restart."""

    @chat_advisor(order=order)
    async def playback(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        for piece in ("from ", "the ", "cache"):
            await request.emit(TextDelta(piece))
        return ChatResponse(AssistantMessage(content="from the cache"))

    events, response = await collect(ChatClient(ScriptedModel([]), advisors=[playback]))
    assert check(events, response) == {1: "from the cache"}
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["from ", "the ", "cache"]
    assert restarts(events) == 0 and not caplog.records


async def test_a_model_that_does_not_stream() -> None:
    async def model(request: ChatRequest) -> ChatResponse[Any]:
        if request.messages[-1].role == "tool":
            return ChatResponse(AssistantMessage(content="3"))
        return ChatResponse(AssistantMessage(content="Let me see. ", tool_calls=(call(),)))

    events, response = await collect(ChatClient(model, tools=[add]))
    assert check(events, response) == {1: "Let me see. ", 2: "3"}
    assert restarts(events) == 0


async def test_return_direct() -> None:
    model = ScriptedModel([["Looking. ", ToolCall("status", {"id": "TR001"})]])
    events, response = await collect(ChatClient(model, tools=[status]))
    assert check(events, response) == {1: "Looking. ", 2: "TR001 is approved, and this is a long sentence."}
    assert response.stop_reason == "return_direct"
    assert [event.direct for event in events if isinstance(event, ToolStarted)] == [True]
    assert restarts(events) == 0


async def test_calls_in_the_callers_hands() -> None:
    events, response = await collect(
        ChatClient(ScriptedModel([["Let me see. ", call()]]), tools=[add]), tool_loop=False
    )
    assert check(events, response) == {1: "Let me see. "}
    assert len(response.tool_calls) == 1 and restarts(events) == 0


# Limits --------------------------------------------------------------------------------------------------------------


def limited(outcome: Any, last: list[Any]) -> ChatClient:
    model = ScriptedModel([["One. ", call(1)], ["Two. ", call(2)], *last])
    return ChatClient(model, tools=[add], advisors=[ToolCallingAdvisor(max_rounds=1, on_limit=outcome)])


async def test_a_limit_answered() -> None:
    events, response = await collect(limited("answer", ["That is all."]))
    assert check(events, response) == {1: "One. ", 2: "Two. ", 3: "That is all."}
    assert response.stop_reason == "limit"


async def test_a_limit_answered_with_another_call() -> None:
    events, response = await collect(limited("answer", [[call(3)]]))
    texts = check(events, response)
    assert texts == {1: "One. ", 2: "Two. ", 3: response.text} and "limit" in response.text


async def test_a_limit_answered_with_text_and_another_call() -> None:
    events, response = await collect(limited("answer", [["Almost. ", call(3)]]))
    assert check(events, response) == {1: "One. ", 2: "Two. ", 3: "Almost. "}
    assert response.tool_calls == ()


async def test_a_limit_that_stops() -> None:
    events, response = await collect(limited("stop", []))
    assert check(events, response) == {1: "One. ", 2: "Two. ", 3: response.text}
    assert "limit" in response.text
    assert [type(event) for event in events[-4:]] == [RoundStarted, TextDelta, RoundFinished, Finished]


async def test_a_limit_that_raises() -> None:
    events: list[Event] = []
    async with limited("raise", []).stream("?") as stream:
        with pytest.raises(ToolLoopLimitError):
            async for event in stream:
                events.append(event)
    assert round_texts(events) == {1: "One. ", 2: "Two. "}
    assert not any(isinstance(event, Finished) for event in events)
    check_tools(events)


async def test_answers_cut_at_their_length() -> None:
    def cut(text: str, *calls: ToolCall) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content=text, tool_calls=calls), stop_reason="length")

    events, response = await collect(ChatClient(ScriptedModel([cut("It is a long")]), tools=[add]))
    assert check(events, response) == {1: "It is a long"} and response.stop_reason == "length"

    events, response = await collect(ChatClient(ScriptedModel([cut("One ", call()), "Whole."]), tools=[add]))
    assert check(events, response) == {1: "One ", 2: "Whole."} and response.stop_reason == "final"
    assert not any(isinstance(event, ToolStarted) for event in events)

    model = ScriptedModel([cut("One ", call()), cut("Two ", call())])
    events, response = await collect(ChatClient(model, tools=[add]))
    assert check(events, response) == {1: "One ", 2: "Two "} and response.stop_reason == "length"
