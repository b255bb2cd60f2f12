"""Servers stream the Responses API each in their own way: with other ids, without some events, without places."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from advisorchain import ChatClient, ReasoningDelta, ReasoningPart, TextDelta, ToolCallDelta, tool
from advisorchain_openai.response_answer import ResponseAnswer

THOUGHT = {
    "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAAABo", "status": "completed",
    "summary": [{"type": "summary_text", "text": "Shall I look it up?"}, {"type": "summary_text", "text": "I shall."}],
}  # fmt: skip


def says(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def calls(call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "look", "status": "completed"}
    return {**item, "arguments": '{"city":"Paris"}', **more}


@tool
def look(city: str) -> str:
    """Look it up."""
    return f"18 degrees in {city}"


def without(events: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [event for event in events if not event["type"].endswith(kinds)]


def emptied(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    *started, last = events
    return [*started, {**last, "response": {**last["response"], "output": []}}]


def other_ids(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    changed = []
    for number, event in enumerate(events):
        more = {"item_id": f"id_{number}"} if "item_id" in event else {}
        if "item" in event:
            more["item"] = {**event["item"], "id": f"id_{number}"}
        changed.append({**event, **more})
    return changed


def one_place(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "output_index": 0} if "output_index" in event else event for event in events]


def no_place(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "output_index"} for event in events]


@pytest.mark.parametrize(
    "habit",
    [
        lambda events: events,
        emptied,
        other_ids,
        one_place,
        no_place,
        lambda events: without(events, ".delta"),
        lambda events: without(events, "output_item.done"),
        lambda events: without(events, "output_item.added"),
        lambda events: without(events, "output_item.added", "output_item.done", ".delta"),
        lambda events: [{"type": "response.weather_report", "sunny": True, "delta": "x"}, {"type": "ping"}, *events],
    ],
    ids=[
        "plain",
        "emptied",
        "other_ids",
        "one_place",
        "no_place",
        "no_deltas",
        "no_done",
        "no_added",
        "only_the_end",
        "unknown",
    ],
)
async def test_however_a_server_streams(
    recorded: Any, gpt: Any, response: Any, events: Any, as_bytes: Any, habit: Any
) -> None:
    items = [THOUGHT, says("Let me see."), calls(), calls("call_2", arguments='{"city":"Rome"}')]
    recorded.load(as_bytes(*habit(events(response(*items)))), as_bytes(*habit(events(response(says("Done."))))))
    seen: list[Any] = []
    async with gpt() as model, ChatClient(model, tools=[look]).stream("Weather?") as stream:
        async for event in stream:
            seen.append(event)
        answer = await stream.response()
    first = answer.new_messages[0]
    assert answer.text == "Done." and first.text == "Let me see."
    assert [message.text for message in answer.new_messages[1:3]] == ["18 degrees in Paris", "18 degrees in Rome"]
    kinds = [item["type"] for item in recorded.bodies[1]["input"]]
    assert kinds == ["message", "reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2]
    said = [event.text for event in seen if isinstance(event, TextDelta)]
    assert "".join(said) == "Let me see.Done."
    thoughts = "".join(event.text for event in seen if isinstance(event, ReasoningDelta))
    assert thoughts == "Shall I look it up?\n\nI shall."
    written: dict[int, str] = {}
    for event in seen:
        if isinstance(event, ToolCallDelta):
            written[event.index] = written.get(event.index, "") + event.arguments
    assert [json.loads(text) for text in written.values()] == [{"city": "Paris"}, {"city": "Rome"}]


async def test_pieces_make_the_items_of_a_server_that_sends_no_whole_ones(
    recorded: Any, gpt: Any, response: Any, events: Any, as_bytes: Any
) -> None:
    items = [THOUGHT, {**says(""), "content": [{"type": "refusal", "refusal": "No, never."}]}]
    recorded.load(as_bytes(*without(emptied(events(response(*items))), "output_item.done")))
    async with gpt() as model, ChatClient(model).stream("hello") as stream:
        answer = await stream.response()
    assert answer.text == "No, never." and answer.stop_reason == "refused"
    assert answer.message.content[0] == ReasoningPart(text="Shall I look it up?\n\nI shall.")


async def test_a_server_that_cannot_stream(recorded: Any, gpt: Any, response: Any) -> None:
    recorded.load(response(THOUGHT, says("Hi."), calls()), response(says("Done.")))
    recorded.can_stream = False
    seen: list[Any] = []
    async with gpt() as model, ChatClient(model, tools=[look]).stream("hello") as stream:
        async for event in stream:
            seen.append(event)
        assert (await stream.response()).text == "Done."
    deltas = [event for event in seen if isinstance(event, ToolCallDelta)]
    assert json.loads("".join(delta.arguments for delta in deltas)) == {"city": "Paris"}
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Hi.Done."


def test_a_long_answer_costs_no_more_than_its_length() -> None:
    answer = ResponseAnswer("openai.responses")
    where = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1"}
    started = time.process_time()
    for _ in range(200_000):
        answer.add({**where, "delta": "word "})
    answer.add({"type": "response.completed", "response": {"status": "completed", "output": []}})
    assert len(answer.response().text) == 1_000_000
    assert time.process_time() - started < 4, "copying what was there with every piece takes three times as long"
