"""A holding advisor: what it withholds is in no event; and what happens to one that forgot to say that it holds."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Literal

import pytest

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Event,
    Finished,
    ReasoningDelta,
    Restarted,
    RoundFinished,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolInvocation,
    ToolNext,
    ToolProgress,
    ToolResult,
    ToolStarted,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

SECRET = "4111-1111"
OUTSIDE, INSIDE = 300, 600


class RedactAdvisor(Advisor):
    """Takes the secret out of answers; written with ``advise`` alone."""

    streams: Literal["pass", "hold"] = "hold"

    def __init__(self, order: int) -> None:
        self.order = order

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        text = response.text.replace(SECRET, "####")
        return response.replace(message=response.message.model_copy(update={"content": text}))


@tool
async def card(id: str, context: ToolContext) -> str:
    """The card of a customer."""
    await context.progress(1, 2, f"found {SECRET}")
    return f"card {SECRET}"


def said(events: list[Event]) -> str:
    """Everything that a stream has said, in whatever field; of the response only the answer."""
    parts: list[str] = []
    for event in events:
        if isinstance(event, Finished):
            parts.append(event.response.text)
        elif isinstance(event, ToolFinished):
            parts.append(f"{event.result.content} {event.result.artifact!r} {event.result.structured!r}")
        else:
            parts.append(repr([getattr(event, field.name) for field in dataclasses.fields(event)]))
    return "\n".join(parts)


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.path == ())


async def collect(client: ChatClient, **settings: Any) -> tuple[list[Event], ChatResponse[Any]]:
    async with client.stream("?", **settings) as stream:
        events = [event async for event in stream]
        return events, await stream.response()


def leaky_steps() -> list[Any]:
    return [[f"Looking for {SECRET}. ", ToolCall("card", {"id": SECRET})], f"It is {SECRET}, yes."]


async def test_outside_the_loop_nothing_of_the_inside_is_said() -> None:
    model = ScriptedModel(leaky_steps(), chunk_size=3)
    events, response = await collect(ChatClient(model, tools=[card], advisors=[RedactAdvisor(OUTSIDE)]))
    assert SECRET not in said(events)
    assert response.text == text_of(events) == "It is ####, yes."
    assert [type(event) for event in events] == [TextDelta, Finished], "tool events carry content too"


async def test_inside_the_loop_no_text_of_the_model_is_said() -> None:
    steps = [[f"Looking for {SECRET}. ", ToolCall("add", {"a": 1})], f"It is {SECRET}, yes."]

    @tool
    async def add(a: int) -> int:
        """Add."""
        return a

    events, response = await collect(
        ChatClient(ScriptedModel(steps, chunk_size=3), tools=[add], advisors=[RedactAdvisor(INSIDE)])
    )
    assert SECRET not in said(events)
    assert text_of(events) == "Looking for ####. It is ####, yes."
    assert response.text == "It is ####, yes."
    assert [event.text for event in events if isinstance(event, RoundFinished)] == [
        "Looking for ####. ", "It is ####, yes.",
    ]  # fmt: skip
    assert [type(event) for event in events if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted, ToolFinished,
    ]  # fmt: skip
    assert not any(isinstance(event, Restarted) for event in events)


class RedactToolsAdvisor(RedactAdvisor):
    """Takes the secret out of tool results too."""

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        result = await call_next(invocation)
        text = result.content.replace(SECRET, "####")
        return result.replace(content=text, artifact=text)


async def test_around_tool_calls_nothing_of_the_inside_is_said() -> None:
    """Progress reports carry content as well."""
    steps = [[ToolCall("card", {"id": "7"})], f"It is {SECRET}, yes."]
    events, response = await collect(
        ChatClient(ScriptedModel(steps), tools=[card], advisors=[RedactToolsAdvisor(INSIDE)])
    )
    assert SECRET not in said(events)
    assert not any(isinstance(event, ToolProgress) for event in events)
    assert response.text == "It is ####, yes."


async def test_around_a_sub_agents_tool_call_nothing_of_the_inside_is_said() -> None:
    sub = ChatClient(ScriptedModel([f"the card is {SECRET}"]))
    steps = [[ToolCall("agent", {"prompt": "card of 7"})], "It is ####, yes."]
    agent = sub.as_tool("agent", "Knows cards.")
    events, _ = await collect(ChatClient(ScriptedModel(steps), tools=[agent], advisors=[RedactToolsAdvisor(INSIDE)]))
    assert SECRET not in said(events)


async def test_inside_a_sub_agent() -> None:
    sub = ChatClient(ScriptedModel([f"the card is {SECRET}"], chunk_size=2), advisors=[RedactAdvisor(INSIDE)])
    steps = [[ToolCall("agent", {"prompt": "card of 7"})], "It is there."]
    events, _ = await collect(ChatClient(ScriptedModel(steps), tools=[sub.as_tool("agent", "Knows cards.")]))
    assert SECRET not in said(events)
    assert "".join(e.text for e in events if isinstance(e, TextDelta) and e.path == ("agent",)) == "the card is ####"


@pytest.mark.parametrize("order", [OUTSIDE, INSIDE])
async def test_when_the_turn_fails_nothing_was_said(order: int) -> None:
    async def breaks(request: ChatRequest) -> ChatResponse[Any]:
        await request.emit(ReasoningDelta(f"hm, {SECRET}"))
        await request.emit(TextDelta(f"It is {SECRET}"))
        raise ConnectionError("lost")

    events: list[Event] = []
    async with ChatClient(breaks, advisors=[RedactAdvisor(order)]).stream("?") as stream:
        with pytest.raises(ConnectionError):
            async for event in stream:
                events.append(event)
    assert SECRET not in said(events)


@pytest.mark.parametrize("order", [OUTSIDE, INSIDE])
async def test_an_advisor_outside_the_holding_one_sees_nothing_else(order: int) -> None:
    seen: list[Event] = []

    async def watch(event: Event, emit: Any) -> None:
        seen.append(event)
        await emit(event)

    @chat_advisor(order=100)
    async def watcher(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.tap(watch))

    model = ScriptedModel([f"It is {SECRET}"], chunk_size=1)
    await collect(ChatClient(model, advisors=[RedactAdvisor(order), watcher]))
    assert SECRET not in said(seen) and "".join(e.text for e in seen if isinstance(e, TextDelta)) == "It is ####"


@pytest.mark.parametrize("retry_order", [100, 400, 700])
async def test_two_attempts_and_a_holding_advisor(retry_order: int) -> None:
    """Outside it, between it and the loop, and inside both."""

    @chat_advisor(order=retry_order)
    async def twice(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    steps = [f"first {SECRET}", f"second {SECRET}"]
    events, response = await collect(ChatClient(ScriptedModel(steps), advisors=[RedactAdvisor(OUTSIDE), twice]))
    assert SECRET not in said(events)
    last = max(index for index, event in enumerate(events) if isinstance(event, Restarted)) if retry_order == 100 else 0
    assert text_of(events[last:]) == response.text == "second ####"


async def test_two_holding_advisors() -> None:
    class Second(RedactAdvisor):
        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            response = await call_next(request)
            assert SECRET not in response.text
            return response.replace(message=AssistantMessage(content=response.text + "!"))

    model = ScriptedModel([f"It is {SECRET}"])
    events, response = await collect(ChatClient(model, advisors=[RedactAdvisor(INSIDE), Second(OUTSIDE)]))
    assert [type(event) for event in events] == [TextDelta, Finished]
    assert text_of(events) == response.text == "It is ####!"


@pytest.mark.parametrize("order", [OUTSIDE, INSIDE])
async def test_a_redactor_that_passes_is_restarted_and_named_in_the_log(
    order: int, caplog: pytest.LogCaptureFixture
) -> None:
    advisor = RedactAdvisor(order)
    advisor.streams = "pass"
    events, response = await collect(ChatClient(ScriptedModel([f"It is {SECRET}"]), advisors=[advisor]))
    assert [type(event) for event in events[-3:]] == [Restarted, TextDelta, Finished]
    assert events[-2].text == response.text == "It is ####"  # type: ignore[attr-defined]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "hold" in record.getMessage() and SECRET not in record.getMessage()
