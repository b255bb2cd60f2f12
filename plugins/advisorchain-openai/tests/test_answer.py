"""Answers put together from chunks, the odd forms of compatible servers included."""

from __future__ import annotations

import time
from typing import Any

import pytest

from advisorchain import (
    PartDelta,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    Usage,
)
from advisorchain_openai.answer import Answer, arguments_of, usage_of
from advisorchain_openai.schema import read_wrapped


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int | None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    piece: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        piece["index"] = index
    if id is not None:
        piece["id"] = id
    return piece


def collect(*chunks: dict[str, Any], read: Any = None) -> tuple[Any, list[Any]]:
    answer = Answer("openai", read=read)
    events = [event for one in chunks for event in answer.add(one)] + answer.finish()
    return answer.response(), events


def calls_of(*chunks: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, call.arguments) for call in collect(*chunks)[0].tool_calls]


def test_text() -> None:
    response, events = collect(
        chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk("stop")
    )
    assert events == [TextDelta("Hel"), TextDelta("lo")]
    assert response.message.content == "Hello" and response.stop_reason == "final"
    assert response.metadata == {"response_id": "r1", "response_model": "m1", "finish_reason": "stop"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning(field: str) -> None:
    response, events = collect(chunk(**{field: "hm"}), chunk(**{field: "m"}), chunk(content="Yes"), chunk("stop"))
    assert events == [ReasoningDelta("hm"), ReasoningDelta("m"), TextDelta("Yes")]
    assert response.message.content == (ReasoningPart(text="hmm"), TextPart(text="Yes"))
    assert response.text == "Yes"


def test_typed_blocks() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    response, _ = collect(chunk(content=[thinking]), chunk("stop", content=[{"type": "text", "text": "Yes"}]))
    assert response.message.content == (ReasoningPart(text="hm"), TextPart(text="Yes"))


def test_parallel_calls_in_pieces() -> None:
    chunks = [
        chunk(tool_calls=[call(0, "c1", "f", "")]),
        chunk(tool_calls=[call(0, arguments='{"a"')]),
        chunk(tool_calls=[call(1, "c2", "g", '{"b": '), call(0, arguments=": 1}")]),
        chunk("tool_calls", tool_calls=[call(1, arguments="2}")]),
    ]
    assert calls_of(*chunks) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]
    deltas = [event for event in collect(*chunks)[1] if isinstance(event, ToolCallDelta)]
    assert [(delta.index, delta.id, delta.name, delta.arguments) for delta in deltas] == [
        (0, "c1", "f", ""),
        (0, None, None, '{"a"'),
        (1, "c2", "g", '{"b": '),
        (0, None, None, ": 1}"),
        (1, None, None, "2}"),
    ]


def test_calls_without_an_index() -> None:
    assert calls_of(
        chunk(tool_calls=[call(None, "c1", "f", '{"a": 1}'), call(None, "c2", "g", '{"b"')]),
        chunk("tool_calls", tool_calls=[call(None, arguments=": 2}")]),
    ) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]


def test_calls_that_all_have_index_0() -> None:
    assert calls_of(
        chunk(tool_calls=[call(0, "c1", "f", "{}")]),
        chunk(tool_calls=[call(0, "c2", "g", '{"b"')]),
        chunk("tool_calls", tool_calls=[call(0, arguments=": 2}")]),
    ) == [("c1", "f", {}), ("c2", "g", {"b": 2})]


def test_a_repeated_name_and_id_and_a_name_in_pieces() -> None:
    assert calls_of(
        chunk(tool_calls=[call(0, "c1", "f", '{"a"')]), chunk(tool_calls=[call(0, "c1", "f", ": 1}")]), chunk("stop")
    ) == [("c1", "f", {"a": 1})]
    assert calls_of(chunk(tool_calls=[call(0, "c1", "get_")]), chunk(tool_calls=[call(0, name="time")])) == [
        ("c1", "get_time", {})
    ]


def test_arguments_that_are_an_object_already_and_calls_without_an_id() -> None:
    ((made_id, name, arguments),) = calls_of(chunk("tool_calls", tool_calls=[call(0, "", "f", {"a": 1})]))
    assert made_id and (name, arguments) == ("f", {"a": 1})


def test_what_the_provider_wants_back_with_a_call_is_kept() -> None:
    piece = {**call(0, "c1", "f", "{}"), "type": "function", "extra_content": {"google": {"signature": "s"}}}
    response, _ = collect(chunk("tool_calls", tool_calls=[piece]))
    assert response.tool_calls[0].metadata == {"openai": {"extra_content": {"google": {"signature": "s"}}}}


def test_refusal() -> None:
    response, events = collect(chunk(refusal="I can"), chunk(refusal="not."), chunk("stop"))
    assert response.stop_reason == "refused" and response.text == "I cannot."
    assert events == [TextDelta("I can"), TextDelta("not.")]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "final"), ("tool_calls", "final"), ("length", "length"), ("content_filter", "filtered")],
)
def test_stop_reasons(finish: str, reason: str) -> None:
    assert collect(chunk(finish, content="x"))[0].stop_reason == reason


def test_a_wrapped_answer_is_emitted_once_and_unwrapped() -> None:
    response, events = collect(chunk(content='{"value": [1'), chunk("stop", content=", 2]}"), read=read_wrapped)
    assert response.text == "[1, 2]" and events == [TextDelta("[1, 2]")]


def test_citations_and_signed_reasoning_are_kept_as_they_came() -> None:
    response, events = collect(
        chunk(content="See.", annotations=[{"url": "a"}]), chunk(reasoning_details=[{"data": 1}]),
        chunk("stop", reasoning_details=[{"data": 2}]),
    )  # fmt: skip
    kept = (
        ProviderPart(provider="openai", type="annotations", data=[{"url": "a"}]),
        ProviderPart(provider="openai", type="reasoning_details", data=[{"data": 1}, {"data": 2}]),
    )
    assert response.message.content == (*kept, TextPart(text="See."))
    assert [event for event in events if isinstance(event, PartDelta)] == [PartDelta(part) for part in kept]


def test_chunks_without_choices_and_other_choices_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    response, _ = collect({"choices": []}, {"choices": None}, other, chunk("stop", content="yes"))
    assert response.text == "yes" and response.stop_reason == "final"


def test_usage() -> None:
    assert collect(chunk("stop", content="x"))[0].usage == Usage()
    chunks = [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": n}} for n in (1, 2)]
    assert collect(*chunks)[0].usage == Usage(3, 2)
    assert usage_of({}) == Usage()
    assert usage_of({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}) == Usage(9, cache_read_tokens=4)
    assert usage_of({
        "prompt_tokens": 9, "completion_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }) == Usage(9, 8, 0, 2, 5)  # fmt: skip


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "null", "NaN", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '"x"'])
def test_arguments_that_are_no_json_object_stay_text(text: str) -> None:
    assert arguments_of(text) == text


def test_empty_arguments_are_no_arguments() -> None:
    assert arguments_of("") == arguments_of("  ") == {}


def test_a_long_answer_costs_no_more_than_its_length() -> None:
    answer = Answer("openai")
    started = time.process_time()
    for _ in range(80_000):
        answer.add({"choices": [{"delta": {"reasoning": "hm ", "reasoning_details": [{"text": "hm "}]}}]})
    [_, details] = answer.response().message.content
    assert isinstance(details, ProviderPart) and len(details.data) == 80_000
    assert time.process_time() - started < 4, "copying what was there with every chunk takes three times as long"
