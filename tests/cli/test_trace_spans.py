"""Reading trace files: the SDK's form and OTLP's, what is wrong with a file, and the trees of the spans."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_traces import many_spans, travel_turn, write_sdk_file
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from advisorchain.cli import trace_spans
from advisorchain.cli.trace_page import count_turns
from advisorchain.cli.trace_spans import (
    TraceEvent,
    TraceFileError,
    TraceSpan,
    read_spans,
    span_of,
    span_trees,
    walk_trees,
)

MICROSECOND = 1_000
TIMES = st.integers(0, 4_000_000_000_000_000).map(lambda microseconds: microseconds * MICROSECOND)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXTS)
VALUES = st.one_of(
    SCALARS,
    st.lists(TEXTS, max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.dictionaries(TEXTS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=2),
)
ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=4)
NOT_ZERO = st.integers(1, 2**64 - 1)


def context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(1))


@st.composite
def sdk_spans(draw: st.DrawFn) -> ReadableSpan:
    trace_id = draw(NOT_ZERO)
    status = draw(st.sampled_from(StatusCode))
    return ReadableSpan(
        name=draw(TEXTS),
        context=context(trace_id, draw(NOT_ZERO)),
        parent=draw(st.one_of(st.none(), NOT_ZERO.map(lambda span_id: context(trace_id, span_id)))),
        attributes=draw(ATTRIBUTES),
        events=draw(st.lists(st.builds(Event, TEXTS, attributes=ATTRIBUTES, timestamp=TIMES), max_size=2)),
        kind=draw(st.sampled_from(SpanKind)),
        status=Status(status, draw(TEXTS) if status is StatusCode.ERROR else None),
        start_time=draw(TIMES),
        end_time=draw(TIMES),
        instrumentation_scope=InstrumentationScope(draw(TEXTS)),
    )


def otlp_line(spans: list[ReadableSpan], *, numbers: bool) -> str:
    """The spans as OTLP JSON: ids in hexadecimal (OTLP's exception to the JSON of protobuf)."""
    message = MessageToDict(encode_spans(spans), use_integers_for_enums=numbers)
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(message) + "\n"


def without_scope(span: TraceSpan) -> tuple[Any, ...]:
    return tuple(getattr(span, name) for name in TraceSpan.__slots__ if name != "scope")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=st.lists(sdk_spans(), min_size=1, max_size=3), numbers=st.booleans())
def test_both_forms_and_the_spans_in_memory_are_equal(tmp_path: Path, spans: list[ReadableSpan], numbers: bool) -> None:
    from_sdk = read_spans(write_sdk_file(tmp_path / "sdk.jsonl", spans))
    path = tmp_path / "otlp.jsonl"
    path.write_text("".join(otlp_line([span], numbers=numbers) for span in spans))
    from_otlp = read_spans(path)
    in_memory = [span_of(span) for span in spans]
    assert in_memory == from_otlp
    assert [*map(without_scope, in_memory)] == [*map(without_scope, from_sdk)]
    assert all(type(a.start) is int and a.scope == "" for a in from_sdk)


def test_a_turn_in_both_forms(tmp_path: Path) -> None:
    spans = travel_turn()
    from_sdk = read_spans(write_sdk_file(tmp_path / "sdk.jsonl", spans))
    path = tmp_path / "otlp.jsonl"
    path.write_text("\n" + otlp_line(spans, numbers=True) + '{"resourceLogs": []}\n{"resourceMetrics": []}\n\n')
    from_otlp = read_spans(path)
    key = {span.span_id: span for span in from_otlp}
    assert len(from_sdk) == len(from_otlp) == len(spans)
    assert all(without_scope(span) == without_scope(key[span.span_id]) for span in from_sdk)
    assert {span.scope for span in from_otlp} == {"advisorchain", "opentelemetry.instrumentation.httpx"}
    weather = next(span for span in from_sdk if span.name == "execute_tool weather")
    assert (weather.kind, weather.status, weather.status_text) == (
        "internal",
        "error",
        "weather did not return within 0.1 s",
    )
    assert weather.attributes["error.type"] == "ToolTimeoutError"
    retry = next(span for span in from_sdk if span.events)
    assert [event.name for event in retry.events] == ["advisorchain.retry", "advisorchain.call_next"]
    assert count_turns(from_sdk) == 1


def otlp_span(**fields: Any) -> str:
    span = {"traceId": "AB" * 16, "spanId": "cd" * 8, "name": "n", "startTimeUnixNano": "5", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def test_values_of_otlp(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    values = {
        "bytes": {"bytesValue": "aGk="},
        "nan": {"doubleValue": "NaN"},
        "whole": {"doubleValue": 3},
        "big": {"intValue": "9223372036854775807"},
        "number": {"intValue": 7},
        "nothing": {},
        "null": None,
        "list": {"arrayValue": {"values": [{"stringValue": "a"}, {"kvlistValue": {"values": []}}]}},
        "empty": {"arrayValue": {}},
        "__proto__": {"stringValue": "kept"},
        "later": {"someNewValue": 1},
    }
    attributes = [{"key": key, "value": value} for key, value in values.items()]
    path.write_text(
        "\ufeff" + otlp_span(attributes=attributes, endTimeUnixNano="0", kind=0, status={}), encoding="utf-8"
    )
    (span,) = read_spans(path)
    assert (span.trace_id, span.parent_id, span.start, span.end, span.kind, span.status) == (
        "ab" * 16,
        None,
        5,
        None,
        "internal",
        "unset",
    )
    assert str(span.attributes.pop("nan")) == "nan"
    assert span.attributes == {
        "bytes": "aGk=",
        "whole": 3.0,
        "big": 9223372036854775807,
        "number": 7,
        "nothing": None,
        "null": None,
        "list": ["a", {}],
        "empty": [],
        "__proto__": "kept",
        "later": None,
    }


def test_a_span_that_is_not_over_and_strange_values(tmp_path: Path) -> None:
    span = ReadableSpan("n\ud800", context(1, 2), attributes={"half": "\udfff", "b": b"hi"}, start_time=0)
    assert span_of(span) == TraceSpan(
        f"{1:032x}", f"{2:016x}", None, "n\ud800", "internal", 0, None, attributes={"half": "\udfff", "b": "aGk="}
    )
    path = write_sdk_file(tmp_path / "t.jsonl", [ReadableSpan("n\ud800", context(1, 2), attributes={"half": "\udfff"})])
    assert read_spans(path) == [
        TraceSpan(f"{1:032x}", f"{2:016x}", None, "n\ud800", "internal", 0, None, attributes={"half": "\udfff"})
    ]


def test_deep_values_are_cut(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"stringValue": "end"}
    for _ in range(100):
        deep = {"arrayValue": {"values": [deep]}}
    path = tmp_path / "t.jsonl"
    path.write_text(otlp_span(attributes=[{"key": "deep", "value": deep}]))
    (span,) = read_spans(path)
    assert json.dumps(span.attributes["deep"], ensure_ascii=False).strip("[]") == '"…"'


SDK_LINE = json.loads(travel_turn()[0].to_json(indent=None))

BAD_LINES = {
    "{": "this is not JSON (",
    "[]": "this is no JSON object",
    "null": "this is no JSON object",
    "{}": "this is no span: it has neither 'name' and 'context' nor 'resourceSpans'",
    "[" * 100_000: "this is nested too deeply",
    '{"n": ' + "9" * 5_000 + "}": "this has a number that is too long",
    json.dumps({**SDK_LINE, "context": None}): "'context' is not an object",
    json.dumps({**SDK_LINE, "name": 5}): "'name' is not text",
    json.dumps({**SDK_LINE, "context": {"trace_id": "0x", "span_id": "0x1"}}): "'trace_id' is empty",
    json.dumps(
        {**SDK_LINE, "start_time": "yesterday"}
    ): "'start_time' is not a time such as 2026-01-31T12:00:00.000000Z",
    json.dumps({**SDK_LINE, "end_time": "2026-02-30T00:00:00Z"}): "'end_time' is not a time such as",
    json.dumps({**SDK_LINE, "start_time": "1901-01-01T00:00:00Z"}): "'start_time' is before 1970",
    json.dumps({**SDK_LINE, "kind": "SpanKind.SIDEWAYS"}): "'kind' is unknown: 'SpanKind.SIDEWAYS'",
    json.dumps({**SDK_LINE, "status": {"status_code": "FINE"}}): "'status_code' is unknown: 'FINE'",
    json.dumps({**SDK_LINE, "events": {}}): None,
    json.dumps({**SDK_LINE, "events": [1]}): "'an item of events' is not an object",
    json.dumps({**SDK_LINE, "attributes": [1]}): "'attributes' is not an object",
    json.dumps({"resourceSpans": 1}): "'resourceSpans' is not a list",
    otlp_span(startTimeUnixNano="x"): "'startTimeUnixNano' is not a whole number",
    otlp_span(startTimeUnixNano=-1): "'startTimeUnixNano' is not a time",
    otlp_span(startTimeUnixNano=True): "'startTimeUnixNano' is not a whole number",
    otlp_span(spanId=""): "'spanId' is empty",
    otlp_span(kind=9): "'kind' is unknown: '9'",
    otlp_span(attributes=[{"key": 5}]): "'key' is not text",
    otlp_span(attributes=[{"key": "k", "value": {"stringValue": 1}}]): "'stringValue' is not text",
    otlp_span(attributes=[{"key": "k", "value": {"boolValue": 1}}]): "'boolValue' is not true or false",
    otlp_span(attributes=[{"key": "k", "value": {"doubleValue": "x"}}]): "'doubleValue' is not a number",
    otlp_span(attributes=[{"key": "k", "value": {"doubleValue": 10**400}}]): "'doubleValue' is not a number",
}


@pytest.mark.parametrize(("line", "why"), [*BAD_LINES.items()], ids=range(len(BAD_LINES)))
def test_a_bad_line_is_named(tmp_path: Path, line: str, why: str | None) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(otlp_span() + "\n" + line + "\n")
    if why is None:
        assert len(read_spans(path)) == 2
        return
    with pytest.raises(TraceFileError) as caught:
        read_spans(path)
    assert str(caught.value).startswith(f"{path}, line 2: {why}")
    assert str(caught.value).endswith(
        ". A trace file has one span per line, as --trace-file writes it, or one OTLP JSON export per line."
    )


@pytest.mark.parametrize("whole", [otlp_span(), json.dumps({**SDK_LINE, "name": "Größe"}, ensure_ascii=False)])
def test_a_last_line_that_is_not_whole_is_left_out(
    tmp_path: Path, whole: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, line = tmp_path / "t.jsonl", whole.encode()
    for end in range(1, len(line)):
        path.write_bytes(line + b"\n" + line[:end])
        assert len(read_spans(path)) == 1
        assert f"The last line of {path} is not whole, and is left out: this is not" in caplog.text
        caplog.clear()
    path.write_bytes(line + b"\n" + line)
    assert len(read_spans(path)) == 2 and not caplog.text
    path.write_bytes(line[:-1])
    with pytest.raises(TraceFileError, match="line 1"):
        read_spans(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\xff\xfe\x00")
    empty = tmp_path / "empty"
    empty.write_text("\n \n")
    with pytest.raises(TraceFileError, match=r"Cannot read the trace file .*missing: No such file or directory\."):
        read_spans(tmp_path / "missing")
    with pytest.raises(TraceFileError, match=r"Cannot read the trace file .*: Is a directory\."):
        read_spans(tmp_path)
    with pytest.raises(TraceFileError, match=r"binary, line 1: this is not text in UTF-8\."):
        read_spans(binary)
    with pytest.raises(TraceFileError, match=r"empty has no spans: write one with --trace-file"):
        read_spans(empty)


def test_a_file_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_spans, "LONGEST_LINE", 1 << 20)
    if Path("/dev/zero").exists():
        with pytest.raises(TraceFileError, match=r"zero, line 1: this is longer than 1 MiB\."):
            read_spans("/dev/zero")
    path = tmp_path / "t.jsonl"
    path.write_text(otlp_span(name="x" * (1 << 20)))
    with pytest.raises(TraceFileError, match="line 1: this is longer than 1 MiB"):
        read_spans(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(
                        [
                            *SDK_LINE,
                            "resourceSpans",
                            "scopeSpans",
                            "spans",
                            "spanId",
                            "traceId",
                            "key",
                            "value",
                            "kvlistValue",
                        ]
                    ),
                    inner,
                    max_size=5,
                ),
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_bytes_give_spans_or_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    try:
        assert read_spans(path)
    except TraceFileError as exc:
        assert str(exc).startswith((f"{path}, line ", f"{path} has no spans"))


def span(span_id: str, parent_id: str | None = None, start: int = 0, trace_id: str = "t", name: str = "") -> TraceSpan:
    return TraceSpan(trace_id, span_id, parent_id, name or span_id, "internal", start, start + 1)


def drawn(spans: list[TraceSpan]) -> list[str]:
    return ["-" * depth + node.span.name for node, depth in walk_trees(span_trees(spans))]


def test_trees_are_in_the_order_of_start() -> None:
    assert drawn([span("c", "a", 3), span("b", "a", 2), span("a", None, 1), span("r", None, 0), span("d", "b", 2)]) == [
        "r",
        "a",
        "-b",
        "--d",
        "-c",
    ]


def test_orphans_are_roots_and_traces_do_not_mix() -> None:
    assert drawn([span("a"), span("x", "gone", 1), span("y", "a", 2, trace_id="other")]) == ["a", "x", "y"]


def test_cycles_are_cut_at_their_first_start() -> None:
    assert drawn([span("a", "a")]) == ["a"]
    assert drawn([span("a", "c", 2), span("b", "a", 1), span("c", "b", 3), span("tail", "c", 4)]) == [
        "b",
        "-c",
        "--a",
        "--tail",
    ]


def test_ids_that_come_twice() -> None:
    assert drawn([span("a"), span("a"), span("b", "a")]) == ["a", "-b"]
    assert drawn([span("a"), span("a", name="other"), span("b", "a")]) == ["a", "-b", "other"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 5)), max_size=12))
def test_every_span_is_in_exactly_one_place(edges: list[tuple[int, int | None, int]]) -> None:
    spans = [
        span(str(own), None if parent is None else str(parent), start, name=f"{index}")
        for index, (own, parent, start) in enumerate(edges)
    ]
    names = [node.span.name for node, _ in walk_trees(span_trees(spans))]
    assert sorted(names) == sorted(each.name for each in spans)


def test_depth_costs_no_recursion() -> None:
    deep = 20 * sys.getrecursionlimit()
    spans = [span(str(index), str(index - 1) if index else None, index) for index in range(deep)]
    walked = [depth for _, depth in walk_trees(span_trees(spans))]
    assert walked == list(range(deep))
    ring = [span(str(index), str((index + 1) % deep), index) for index in range(deep)]
    assert len(list(walk_trees(span_trees(ring)))) == deep


def test_ten_thousand_spans_are_read(tmp_path: Path) -> None:
    path = write_sdk_file(tmp_path / "many.jsonl", many_spans())
    spans = read_spans(path)
    assert len(spans) == 10_000
    assert len(span_trees(spans)) == 1


def test_an_event_keeps_its_time(tmp_path: Path) -> None:
    event = Event("e", attributes={"k": [1, 2]}, timestamp=1_790_000_000_000_001_000)
    path = write_sdk_file(tmp_path / "t.jsonl", [ReadableSpan("n", context(1, 2), events=[event], start_time=1_000)])
    (found,) = read_spans(path)
    assert found.events == (TraceEvent("e", 1_790_000_000_000_001_000, {"k": [1, 2]}),)
