"""Spans as the trace commands use them, read from a file or from the SDK, and the trees that they form.

Two forms of a line are read: a span as ``ReadableSpan.to_json(indent=None)`` of the OpenTelemetry SDK writes it
(``--trace-file``), and an OTLP export request as JSON (the file exporter of the OpenTelemetry collector). The first has
microseconds and no instrumentation scope; the second has both, nanoseconds and scope.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import AdvisorChainError
from .trace_lines import LineProblem, plain_value, spans_of_line

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

logger = logging.getLogger("advisorchain")

LONGEST_LINE = 64 << 20
"""Bytes of a line that are read; also what ends the reading of a device that never ends."""


class TraceFileError(AdvisorChainError):
    """A trace file is missing, cannot be read, or has a line that is no span; names the file and the line."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that happened during a span; ``time`` in nanoseconds since 1970."""

    name: str
    time: int
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span.

    Ids are hexadecimal digits as the file has them, without ``0x``. ``kind`` is ``internal``, ``client``, ``server``,
    ``producer`` or ``consumer``; ``status`` is ``unset``, ``ok`` or ``error``. Times are nanoseconds since 1970;
    ``end`` is None for a span that was not over. Attribute values are what JSON has: text, numbers, booleans, None,
    lists and dictionaries; bytes are base64 text. ``scope`` is the name of the library that made the span, "" if
    unknown.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start: int
    end: int | None
    status: str = "unset"
    status_text: str = ""
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    events: tuple[TraceEvent, ...] = ()
    scope: str = ""


@dataclass(slots=True, eq=False, repr=False)
class SpanNode:
    """A span and what happened inside it, in the order of start."""

    span: TraceSpan
    children: list[SpanNode] = field(default_factory=list["SpanNode"])


def span_of(readable: ReadableSpan) -> TraceSpan:
    """A span of the OpenTelemetry SDK, ended or not."""
    context = cast("SpanContext", readable.get_span_context())  # only a span made by hand has none
    scope = readable.instrumentation_scope
    return TraceSpan(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{readable.parent.span_id:016x}" if readable.parent is not None else None,
        name=readable.name,
        kind=readable.kind.name.lower(),
        start=readable.start_time or 0,
        end=readable.end_time or None,
        status=readable.status.status_code.name.lower(),
        status_text=readable.status.description or "",
        attributes=plain_value(dict(readable.attributes or {})),
        events=tuple(
            TraceEvent(event.name, event.timestamp, plain_value(dict(event.attributes or {})))
            for event in readable.events
        ),
        scope=scope.name if scope is not None else "",
    )


def read_spans(path: str | Path) -> list[TraceSpan]:
    """The spans of a trace file, in its order; empty lines, and OTLP lines with logs or metrics, are passed over.

    A last line that is not whole, because it is still being written or its writer was killed, is left out, with a
    warning in the log.

    Raises:
        TraceFileError: there is no such file, it is a directory or no text, it has no span, or a line is wrong.
    """
    path = Path(path)
    spans: list[TraceSpan] = []
    number, line = 0, b""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
                if len(line) > LONGEST_LINE:
                    raise LineProblem(f"this is longer than {LONGEST_LINE >> 20} MiB")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")  # an editor's byte order mark
                if line.strip():
                    spans += [_span(fields) for fields in spans_of_line(line)]
    except LineProblem as exc:
        if not spans or line.endswith(b"\n") or len(line) > LONGEST_LINE:
            raise TraceFileError(
                f"{path}, line {number}: {exc}. A trace file has one span per line, as --trace-file writes it, "
                "or one OTLP JSON export per line."
            ) from None
        logger.warning("The last line of %s is not whole, and is left out: %s.", path, exc)
    except OSError as exc:
        raise TraceFileError(f"Cannot read the trace file {path}: {exc.strerror or exc}.") from exc
    if not spans:
        raise TraceFileError(f"{path} has no spans: write one with --trace-file, and let the turn come to its end.")
    return spans


def _span(fields: dict[str, Any]) -> TraceSpan:
    events = tuple(TraceEvent(**event) for event in fields.pop("events"))
    return TraceSpan(**fields, events=events)


def span_trees(spans: Iterable[TraceSpan]) -> list[SpanNode]:
    """The trees of the spans: roots, and the children of each span, in the order of start.

    A span whose parent is not among them is a root. A span that comes twice, the same in everything, counts once; a
    different span with an id that was there already stands beside it, and children belong to the first. Spans that
    are each other's parents hang below the one that started first. Depth costs no recursion.
    """
    nodes: list[SpanNode] = []
    first: dict[tuple[str, str], int] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        if key in first and nodes[first[key]].span == span:
            continue
        first.setdefault(key, len(nodes))
        nodes.append(SpanNode(span))
    parents = [
        first.get((node.span.trace_id, node.span.parent_id)) if node.span.parent_id is not None else None
        for node in nodes
    ]
    _cut_cycles(nodes, parents)
    roots: list[SpanNode] = []
    for index in sorted(range(len(nodes)), key=lambda index: nodes[index].span.start):
        parent = parents[index]
        (roots if parent is None else nodes[parent].children).append(nodes[index])
    return roots


def _cut_cycles(nodes: Sequence[SpanNode], parents: list[int | None]) -> None:
    """Make the span that started first in each cycle a root."""
    seen = [0] * len(nodes)  # the walk that came by
    for walk, begin in enumerate(range(len(nodes)), 1):
        index: int | None = begin
        while index is not None and not seen[index]:
            seen[index] = walk
            index = parents[index]
        if index is None or seen[index] != walk:
            continue
        cycle, around = [index], parents[index]
        while around is not None and around != index:
            cycle.append(around)
            around = parents[around]
        parents[min(cycle, key=lambda member: nodes[member].span.start)] = None


def walk_trees(roots: Iterable[SpanNode]) -> Iterator[tuple[SpanNode, int]]:
    """Every span with its depth (0 for roots), parents before children, in the order of start."""
    waiting = [(root, 0) for root in reversed(list(roots))]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in reversed(node.children)]
