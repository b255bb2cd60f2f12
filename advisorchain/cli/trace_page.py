"""A trace as one HTML file: the onion, the timeline and the details of every span; no network, no other file.

Everything in a trace is untrusted. It stands in the page as JSON in which no character can end the element, the script
makes text nodes of it and nothing else, and the page's own policy forbids any script or style but the page's, any
request, and any markup made from text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ..errors import AdvisorChainError
from .display import one_line
from .trace_spans import SpanNode, TraceSpan, span_trees, walk_trees

GENERATOR = b'<meta name="generator" content="advisorchain trace view">'
"""What a page of ours has in its head, and by which it is known."""

_SCRIPTS = ("text.js", "model.js", "onion.js", "messages.js", "details.js", "rows.js", "page.js", "keys.js")
_STYLES = ("page.css", "timeline.css")
_EXACT = 2**53  # above, a number of JavaScript is not exact
_LONGEST_TITLE = 200


class TracePageError(AdvisorChainError):
    """A page cannot be written."""


def is_turn(span: TraceSpan) -> bool:
    """Whether the span is an agent at work: a turn, if it stands in no other one."""
    return span.attributes.get("gen_ai.operation.name") == "invoke_agent"


def count_turns(spans: Iterable[TraceSpan]) -> int:
    """How many turns there are; those of sub-agents belong to the turn that they are part of."""
    count, inside = 0, -1
    for node, depth in walk_trees(span_trees(spans)):
        if inside >= 0 and depth > inside:
            continue
        inside = depth if is_turn(node.span) else -1
        count += is_turn(node.span)
    return count


def write_trace_page(spans: Iterable[TraceSpan], path: str | Path, title: str) -> None:
    """Write the page; a file that is there is replaced.

    Raises:
        TracePageError: the file cannot be written.
    """
    text = trace_page(spans, title)
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as exc:
        raise TracePageError(f"Cannot write the page {path}: {exc.strerror or exc}.") from exc


def is_trace_page(path: Path) -> bool:
    """Whether the file begins as a page of ours does.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return GENERATOR in file.read(2_000)


def trace_page(spans: Iterable[TraceSpan], title: str) -> str:
    """The text of the page."""
    style = "".join(_asset(name) for name in _STYLES)
    script = '"use strict";\n(() => {\n' + "".join(_asset(name) for name in _SCRIPTS) + "})();\n"
    data = {"title": one_line(title), "entries": [_entry(roots) for roots in _entries(span_trees(spans))]}
    return Template(_asset("page.html")).substitute(
        generator=GENERATOR.decode(),
        title=html.escape(one_line(title)[:_LONGEST_TITLE]),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=embedded(data),
    )


def embedded(data: Any) -> str:
    """JSON in ASCII that can stand in an HTML element: ``<``, ``>``, ``&`` and all that is not ASCII are escaped."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files("advisorchain.cli").joinpath("trace_assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _entries(roots: list[SpanNode]) -> list[list[SpanNode]]:
    """What the reader chooses from: every tree with a turn in it; then the other trees, those of one trace together."""
    turns: list[list[SpanNode]] = []
    others: dict[str, list[SpanNode]] = {}
    for root in roots:
        if any(is_turn(node.span) for node, _ in walk_trees([root])):
            turns.append([root])
        else:
            others.setdefault(root.span.trace_id, []).append(root)
    return [*turns, *others.values()]


def _entry(roots: list[SpanNode]) -> dict[str, Any]:
    """Its spans, parents before children; times in nanoseconds after the first start."""
    begin = roots[0].span.start  # roots are sorted by start
    begin = min(begin, *(node.span.start for node, _ in walk_trees(roots)))
    parents: list[int] = []  # the way to the current span, as indices by depth
    rows: list[list[Any]] = []
    for node, depth in walk_trees(roots):
        span = node.span
        parent = parents[depth - 1] if depth else -1
        parents[depth:] = [len(rows)]
        rows.append(
            [
                parent,
                span.name,
                span.start - begin,
                None if span.end is None else span.end - begin,
                span.kind,
                span.status,
                span.status_text,
                span.scope,
                span.span_id,
                _pairs(span.attributes),
                [[event.name, event.time - begin, _pairs(event.attributes)] for event in span.events],
            ]
        )
    return {"trace": roots[0].span.trace_id, "began": begin / 1e6, "spans": rows}


def _pairs(attributes: dict[str, Any]) -> list[list[Any]]:
    """Pairs, so that no name of an attribute is a name of JavaScript's own (``__proto__``)."""
    return [[name, _exact(value)] for name, value in attributes.items()]


def _exact(value: Any) -> Any:
    """The value with numbers as text where JSON or JavaScript has no such number."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -_EXACT <= value <= _EXACT:
        return str(value)
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {name: _exact(item) for name, item in value.items()}
    return value
