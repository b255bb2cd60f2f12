"""The tree of a trace on the terminal: times, outcomes, rounds; narrow, without colours, and with hostile names."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from made_traces import MILLISECOND, TraceMaker, many_spans, travel_turn
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Status, StatusCode
from rich.cells import cell_len
from rich.console import Console
from traced import Traced
from traced_scenarios import retried_model

import advisorchain
from advisorchain.cli.trace_labels import duration
from advisorchain.cli.trace_spans import TraceEvent, TraceSpan, span_of
from advisorchain.cli.trace_tree import MOST_LINES, print_trace

PACKAGE = Path(advisorchain.__file__).parent


def printed(
    spans: Iterable[ReadableSpan | TraceSpan], width: int = 100, *, terminal: bool = False, encoding: str = "utf-8"
) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    console = Console(
        file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None,
        markup=False, emoji=False, highlight=False,
    )  # fmt: skip
    print_trace(console, [span_of(span) if isinstance(span, ReadableSpan) else span for span in spans])
    raw = file.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(encoding)


def line_of(text: str, part: str) -> str:
    (line,) = [line for line in text.splitlines() if part in line]
    return line


def made(name: str, begin: float = 0, end: float | None = 10, parent: str | None = None, **more: Any) -> TraceSpan:
    more.setdefault("span_id", f"{name:>016}")
    return TraceSpan(
        "t1", parent_id=parent, name=name, kind="internal", start=int(begin * MILLISECOND),
        end=None if end is None else int(end * MILLISECOND), **more,
    )  # fmt: skip


def test_the_tree_tells_the_turn() -> None:
    text = printed(travel_turn(content=False), 140)
    lines = text.splitlines()
    assert lines[0].split() == ["trace", "00000000000000ac0000000000000001"]
    totals = "3390 → 162 tokens (768 cached) · 4 model calls · 3 tool calls · return_direct"
    assert lines[1] == f"   1.49 s  ━━━━━━━━━━━━  invoke_agent travel desk · {totals}"
    assert line_of(text, "search_memory").startswith("  9.00 ms  ")
    assert "search_memory · 6 records" in text and "retrieval tools · 4 hits" in text
    assert line_of(text, "812").endswith("└ chat gpt-4o-mini · 812 → 46 tokens")
    assert "execute_tool research · direct" in text
    assert line_of(text, "short-circuited").endswith("advisor return_direct 650 · ⊘ short-circuited")
    assert "execute_tool weather · ✗ ToolTimeoutError: weather did not return within 0.1 s" in text
    assert "chat gpt-4o-mini · ✗ 503: The provider is overloaded." in text
    assert text.count("└ POST") == 3, "spans of other libraries too"
    assert "(train=" not in text
    assert 'execute_tool train_status(train="TR001")' in printed(travel_turn(content=True), 140)


def test_retries_are_marked_where_they_happened() -> None:
    lines = printed(travel_turn(content=False), 140).splitlines()
    (retry,) = [number for number, line in enumerate(lines) if "↻ 2 calls after ModelError" in line]
    below = [line.rpartition("│ │     ")[2].strip("├└│ ") for line in lines[retry + 1 : retry + 5]]
    assert [line.split(" · ")[0] for line in below] == [
        "advisor budget 950", "chat gpt-4o-mini", "retry: what model, attempt 2", "advisor budget 950",
    ]  # fmt: skip


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_why_a_turn_was_asked_again_is_told(anyio_backend: str) -> None:
    """Of a turn as it is traced, not as it is made for these tests."""
    traced = Traced()
    await retried_model(traced.telemetry()).client.call("Go.")
    assert "advisor retry 850 · ↻ 3 calls after ModelError" in printed(traced.spans, 140)


def test_made_traces_have_names_that_are_written() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
    spans = [span_of(span) for span in travel_turn(content=True)]
    names = {name for span in spans for name in (*span.attributes, *(n for e in span.events for n in e.attributes))}
    ours = {name for name in names if name.startswith("advisorchain.")}
    assert len(ours) > 12 and not {name for name in ours if name not in sources}


def test_rounds_are_groups_of_the_loop_whose_rounds_they_are() -> None:
    text = printed(travel_turn(content=False), 140)
    found = [(line.index("round"), line.split()[-1]) for line in text.splitlines() if re.search(r"round \d+$", line)]
    outer, inner = found[0][0], found[2][0]
    assert [number for column, number in found if column == outer] == ["1", "2", "3"]
    assert [number for column, number in found if column == inner] == ["1"] and inner > outer
    lines = text.splitlines()
    first, second = (number for number, line in enumerate(lines) if re.search(r"[├└] round [12]$", line[: outer + 8]))
    inside = "\n".join(lines[first:second])
    assert (
        "execute_tool train_status" in inside and "execute_tool weather" in inside and "advisor tool_search" in inside
    )


def test_the_bar_is_where_the_span_was() -> None:
    spans = [
        made("root", 0, 120),
        made("first", 0, 60, "root".rjust(16, "0")),
        made("last", 60, 120, "root".rjust(16, "0"), status="error"),
        made("short", 119.99, 120, "root".rjust(16, "0")),
        made("half", 5, 15, "root".rjust(16, "0")),
    ]
    text = printed(spans)
    assert line_of(text, "first")[11:23] == "━━━━━━      "
    assert line_of(text, "last")[11:23] == "      ━━━━━━"
    assert line_of(text, "short")[11:23] == "           ╺"
    assert line_of(text, "half")[11:23] == "╺╸          "


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_on_a_terminal_no_line_is_longer_than_it_is(width: int) -> None:
    spans = travel_turn(content=True)
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(spans, width, terminal=True))
    assert max(map(cell_len, text.splitlines()[1:])) <= width
    flat = re.sub(r"[\s│├└…·]+", "", text)
    assert "ToolTimeoutError:weatherdidnotreturnwithin0.1s" in flat and "short-circuited" in flat
    assert ("━" in text) == (width >= 76), "no bars when it is narrow"


def test_elsewhere_there_are_no_colours_and_every_span_is_one_line() -> None:
    spans = travel_turn(content=True)
    text = printed(spans, 40)
    assert "\x1b" not in text
    assert len(re.findall(r"^ *[\d.]+ (?:µs|ms|s) ", text, re.M)) == len(spans)


def test_without_unicode_it_is_ascii() -> None:
    text = printed(travel_turn(content=False), 140, encoding="ascii")
    assert "|-round 1" in text and "3390 -> 162 tokens" in text and "x ToolTimeoutError" in text and "===" in text
    assert "?" not in text
    assert "   200 us  " in printed([made("quick", 0, 0.2)], encoding="ascii")


def test_a_span_of_an_encoding_s_own_cannot_break_it() -> None:
    spans = [made("旅行 ✗ é", attributes={"advisorchain.advisor.outcome": "short_circuited"})]
    assert "?? x ? - o short-circuited" in printed(spans, encoding="ascii")


@pytest.mark.parametrize(
    "name",
    ["[bold red]A[/] :smile:", "\x1b[31mred\x1b]0;title\x07", "two\nlines\r\n", "\u202egnol", "\x9b2J", "", "\ud800"],
)
def test_hostile_names_and_attributes_are_text(name: str) -> None:
    spans = [
        made("root", 0, 10, attributes={"gen_ai.operation.name": "invoke_agent", "advisorchain.stop_reason": name}),
        made(
            name, 1, 9, "root".rjust(16, "0"), span_id="1", status="error", status_text=name,
            attributes={"error.type": name, "gen_ai.tool.call.arguments": name, "advisorchain.advisor.outcome": name},
            events=(TraceEvent(f"advisorchain.{name}", 2, {name: name}),),
        ),
        made("chat x", 2, 3, "1", attributes={
            "gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": [name, 3],
            "gen_ai.usage.input_tokens": name,
            "advisorchain.round": name, "advisorchain.advisor.order": [name], "advisorchain.advisor.next_calls": name,
            "gen_ai.response.time_to_first_chunk": name,
        }),
    ]  # fmt: skip
    for text in (printed(spans), re.sub(r"\x1b\[[\d;]*m", "", printed(spans, terminal=True))):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert len(re.findall("^ *[\\d.]+ (?:µs|ms)", text, re.M)) == 3
    if name.startswith("[bold"):
        assert "[bold red]A[/] :smile:" in printed(spans)


def test_cancelled_unfinished_and_roots_without_a_parent() -> None:
    spans = [
        made("one", 0, None, span_id="1"),
        made("advisor slow", 1, 3, "1", span_id="2", attributes={"advisorchain.advisor.outcome": "cancelled"}),
        made("other", 5, 6, "gone", span_id="3"),
    ]
    text = printed(spans)
    assert line_of(text, "one").endswith("one · not finished")
    assert line_of(text, "advisor slow").endswith("└ advisor slow · cancelled")
    assert text.count("trace  t1") == 2 and "\n\n" in text


def test_missing_usage_is_missing() -> None:
    chat = {"gen_ai.operation.name": "chat"}
    assert "tokens" not in printed([made("chat m", attributes=chat)])
    assert "· 0 → 0 tokens" in printed([made("chat m", attributes={
        **chat, "gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0,
    })])  # fmt: skip
    assert "· 7 → ? tokens" in printed([made("chat m", attributes={**chat, "gen_ai.usage.input_tokens": 7})])


def test_an_unusual_end_of_an_answer_is_told() -> None:
    chat: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": 0.0123}
    assert "· first chunk 12.3 ms · length" in printed([
        made("chat m", attributes={**chat, "gen_ai.response.finish_reasons": ["stop", "length"]})
    ])  # fmt: skip


def test_a_huge_turn_ends_with_what_was_left_out() -> None:
    spans = many_spans(5_000)
    text = printed(spans)
    lines = text.splitlines()
    assert len(lines) == MOST_LINES + 2
    shown = len(re.findall(r"^ *[\d.]+ (?:µs|ms|s) ", text, re.M))
    assert lines[-1].split()[0] == str(5_000 - shown)


def test_depth_costs_no_recursion_and_leaves_room_for_names() -> None:
    maker = TraceMaker()
    open_spans = [maker.span(f"level {number}") for number in range(3_000)]
    for span in open_spans:
        span.__enter__()
    for span in reversed(open_spans):
        maker.wait(0.01)
        span.__exit__(None, None, None)
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(maker.spans(), 80, terminal=True))
    assert max(map(cell_len, text.splitlines())) <= 80 and "level 499" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"), (0.000_000_4, "0 µs"), (0.000_999, "999 µs"), (0.0012, "1.20 ms"), (0.009_996, "10.0 ms"),
        (0.0999, "99.9 ms"), (0.099_96, "100 ms"), (0.999, "999 ms"), (0.9996, "1.00 s"), (9.996, "10.0 s"),
        (59.9, "59.9 s"), (59.96, "1 min 0 s"), (3723, "62 min 3 s"),
    ],
)  # fmt: skip
def test_durations_have_three_digits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_status_of_an_error_without_a_kind() -> None:
    maker = TraceMaker()
    with maker.span("one") as span:
        span.set_status(Status(StatusCode.ERROR))
    assert "one · ✗ error" in printed(maker.spans())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, 10**400])
def test_a_time_that_is_none_is_not_told(seconds: float) -> None:
    about = {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": seconds}
    assert "first chunk" not in line_of(printed([made("chat x", attributes=about)]), "chat x")
