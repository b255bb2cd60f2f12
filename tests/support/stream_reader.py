"""A strict reader of streams: keeps what the documentation tells a reader to keep, and checks every rule on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from advisorchain import (
    ChatClient,
    ChatResponse,
    Event,
    Finished,
    Restarted,
    RoundFinished,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
)


def round_texts(events: Iterable[Event], path: tuple[str, ...] = ()) -> dict[int, str]:
    """The text of every round, as the documentation of `Restarted` tells a reader to keep it, and nothing else."""
    texts: dict[int, str] = {}
    for event in events:
        if event.path != path:
            continue
        assert event.round >= 1, f"{event} belongs to no round"
        if isinstance(event, Restarted):
            texts = {round: text for round, text in texts.items() if round < event.round}
        elif isinstance(event, TextDelta):
            assert event.text, "an empty delta says nothing"
            texts[event.round] = texts.get(event.round, "") + event.text
    return texts


def check(events: list[Event], response: ChatResponse[Any]) -> dict[int, str]:
    """Every rule that holds for every stream; gives the text by round."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert finished == events[-1:] and finished[0].response is response
    texts = round_texts(events)
    assert texts.get(max(texts, default=0), "") == response.text
    check_tools(events)
    last: dict[int, str] = {}
    for event in events:
        if isinstance(event, RoundFinished) and event.path == ():
            last[event.round] = event.text
        elif isinstance(event, Restarted) and event.path == ():
            last = {round: text for round, text in last.items() if round < event.round}
    for round, text in last.items():
        assert texts.get(round, "") == text, f"round {round}"
    return texts


def check_tools(events: Iterable[Event]) -> None:
    started = [event.call.id for event in events if isinstance(event, ToolStarted)]
    finished = [event.result.call_id for event in events if isinstance(event, ToolFinished)]
    assert sorted(started) == sorted(finished)


async def collect(client: ChatClient, **settings: Any) -> tuple[list[Event], ChatResponse[Any]]:
    async with client.stream("?", **settings) as stream:
        events = [event async for event in stream]
        return events, await stream.response()


def restarts(events: Iterable[Event]) -> int:
    return sum(isinstance(event, Restarted) for event in events)


def call(number: int = 1) -> ToolCall:
    return ToolCall("add", {"a": number, "b": 2})
