"""What a line of the console tree says about a span: name, outcome, tokens; cleaned, never read as markup."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from .display import one_line, shortened
from .trace_spans import TraceEvent, TraceSpan

NAMES = {
    "invoke_agent": "bold magenta", "advisor": "bold", "chat": "bold blue", "execute_tool": "bold yellow",
    "retrieval": "bold cyan", "search_memory": "bold cyan", "upsert_memory": "bold cyan", "tools/call": "bold yellow",
}  # fmt: skip
"""The style of what follows the first word of a name."""

_ARGUMENTS, _STATUS, _NOTE = 60, 160, 120
_LONGEST = 1e9
"""Seconds; what is longer, or not a number, is no time."""
_CALL_NEXT = "advisorchain.call_next"
_NO_FAILURES = ("returned", "running")
"""How a call before may have ended, besides with an error: the type of that is told."""
_USUAL_ENDS = ("stop", "tool_call", "tool_calls", "tool_use", "end_turn", "final")


def span_label(span: TraceSpan) -> list[Text]:
    """The name of a span, and after it what is to be known of it."""
    return [_name(span), *_parts(span)]


def _name(span: TraceSpan) -> Text:
    name = one_line(span.name) or "?"
    first, _, rest = name.partition(" ")
    label = Text()
    if first in NAMES and rest:
        label.append(f"{first} ", "dim").append(rest, NAMES[first])
    else:
        label.append(name, NAMES.get(first, "bold"))
    order = span.attributes.get("advisorchain.advisor.order")
    if isinstance(order, int):
        label.append(f" {order}", "dim")
    arguments = span.attributes.get("gen_ai.tool.call.arguments")
    if isinstance(arguments, str):
        label.append(f"({_arguments(arguments)})", "dim")
    return label


def _arguments(captured: str) -> str:
    try:
        found = json.loads(captured)
    except ValueError:
        return shortened(captured, _ARGUMENTS)
    if not isinstance(found, dict):
        return shortened(captured, _ARGUMENTS)
    pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in found.items())
    return shortened(", ".join(pairs), _ARGUMENTS)


def _parts(span: TraceSpan) -> Iterator[Text]:
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    outcome = attributes.get("advisorchain.advisor.outcome")
    if span.end is None:
        yield Text("not finished", "yellow")
    if outcome == "short_circuited":
        yield Text("⊘ short-circuited", "yellow")
    if outcome == "cancelled" or attributes.get("advisorchain.cancelled") is True:
        yield Text("cancelled", "yellow")
    if again := _again(span):
        yield Text(again, "yellow")
    if outcome == "error" or span.status == "error":
        yield _failure(span)
    if operation == "invoke_agent":
        yield from _totals(attributes)
    elif operation == "chat":
        if tokens := _tokens(attributes, "gen_ai.usage"):
            yield Text(tokens, "green")
        first = attributes.get("gen_ai.response.time_to_first_chunk")
        if isinstance(first, int | float) and 0 <= first < _LONGEST:
            yield Text(f"first chunk {duration(first)}", "dim")
        ends = attributes.get("gen_ai.response.finish_reasons")
        unusual = [one_line(str(end)) for end in ends if end not in _USUAL_ENDS] if isinstance(ends, list) else []
        if unusual:
            yield Text(", ".join(unusual), "yellow")
    if attributes.get("advisorchain.tool.direct") is True:
        yield Text("direct", "dim")
    for name, word in (
        ("gen_ai.memory.record.count", "records"),
        ("advisorchain.retrieval.hits", "hits"),
    ):
        if isinstance(attributes.get(name), int):
            yield Text(f"{attributes[name]} {word}", "dim")


def _again(span: TraceSpan) -> str:
    """How often an advisor called next, when that is more than once and it is not the loop, whose rounds are seen."""
    calls = span.attributes.get("advisorchain.advisor.next_calls")
    if span.attributes.get("advisorchain.tool_loop") is True or not isinstance(calls, int) or calls < 2:
        return ""
    ends = [event.attributes.get(f"{_CALL_NEXT}.previous") for event in span.events if event.name == _CALL_NEXT]
    kinds = dict.fromkeys(one_line(end) for end in ends if isinstance(end, str) and end not in _NO_FAILURES)
    return f"↻ {calls} calls" + (f" after {', '.join(kinds)}" if kinds else "")


def _failure(span: TraceSpan) -> Text:
    kind = one_line(str(span.attributes.get("error.type") or ""))
    said = shortened(span.status_text, _STATUS)
    return Text("✗ " + (f"{kind}: {said}" if kind and said else kind or said or "error"), "red")


def _totals(attributes: Mapping[str, Any]) -> Iterator[Text]:
    if tokens := _tokens(attributes, "gen_ai.aggregated_usage"):
        yield Text(tokens, "green")
    for name, word in (("model_calls", "model call"), ("tool_calls", "tool call")):
        count = attributes.get(f"advisorchain.{name}")
        if isinstance(count, int):
            yield Text(f"{count} {word}{'' if count == 1 else 's'}", "dim")
    reason = attributes.get("advisorchain.stop_reason")
    if isinstance(reason, str):
        yield Text(one_line(reason), "dim" if reason in ("final", "return_direct") else "yellow")


def _tokens(attributes: Mapping[str, Any], prefix: str) -> str:
    """Tokens in and out; nothing about what the provider did not say."""
    read, written = (attributes.get(f"{prefix}.{kind}_tokens") for kind in ("input", "output"))
    if not isinstance(read, int) and not isinstance(written, int):
        return ""
    text = f"{read if isinstance(read, int) else '?'} → {written if isinstance(written, int) else '?'} tokens"
    cached = attributes.get(f"{prefix}.cache_read.input_tokens")
    return f"{text} ({cached} cached)" if isinstance(cached, int) and cached else text


def event_label(event: TraceEvent) -> Text | None:
    """What an event says, for a line of its own; None for those that the line of their span tells."""
    if event.name == _CALL_NEXT or event.name.startswith("gen_ai."):
        return None
    name = one_line(event.name.removeprefix("advisorchain."))
    said = ", ".join(
        f"{one_line(key.removeprefix('advisorchain.').removeprefix(f'{name}.'))} {_value(value)}"
        for key, value in event.attributes.items()
        if key != "exception.stacktrace"
    )
    return Text(shortened(f"{name}: {said}" if said else name, _NOTE), "dim")


def _value(value: Any) -> str:
    return one_line(f"{value:.4g}" if isinstance(value, float) else str(value))


def duration(seconds: float) -> str:
    """Seconds as printed: microseconds, milliseconds, seconds or minutes, three digits of each."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.{2 if milliseconds < 9.995 else 1 if milliseconds < 99.95 else 0}f} ms"
    if seconds < 59.95:
        return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"
