"""A finished turn on the terminal: its spans as a tree, each with its time, its place in the turn, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .display import one_line
from .trace_labels import duration, event_label, span_label
from .trace_spans import SpanNode, TraceEvent, TraceSpan, span_trees

MOST_LINES = 500
"""So many lines of one turn are printed."""
_TIME, _BAR, _NARROW = 9, 12, 76
"""Columns of the times and of the bars; below so many columns of the terminal there are no bars."""
_LEAST_ROOM = 12
"""With fewer columns than that for a name, its line is not broken."""


class _Marks(NamedTuple):
    child: str
    last: str
    through: str
    cut: str
    bar: str
    begins: str
    ends: str
    between: str


_UNICODE = _Marks("├ ", "└ ", "│ ", "… ", "━", "╺", "╸", "·")
_ASCII = _Marks("|-", "`-", "| ", "..", "=", "=", "=", "-")


@dataclass(slots=True)
class _Round:
    """The spans of one round of a tool loop."""

    number: int
    children: list[SpanNode]


_Item = SpanNode | TraceEvent | _Round


class _Line(NamedTuple):
    lead: str
    """What joins it to its parent."""
    below: str
    """The lead of a second line of the same item."""
    item: _Item


def print_trace(console: Console, spans: Iterable[TraceSpan]) -> None:
    """Print the spans as trees, one for each root. Names and attributes are cleaned, and never read as markup.

    On a terminal a line that is too long goes on below itself; elsewhere it stays one line, and there are no colours.
    """
    for number, root in enumerate(span_trees(spans)):
        if number:
            console.print()
        _print_tree(console, root)


def _print_tree(console: Console, root: SpanNode) -> None:
    marks = _ASCII if console.options.ascii_only else _UNICODE
    begin = root.span.start
    whole = max(_latest(root) - begin, 1)
    bars = console.width >= _NARROW or not console.is_terminal
    lead_width = _TIME + (_BAR + 2 if bars else 0) + 2
    deepest = max((console.width if console.is_terminal else 200) - lead_width, 20) // 2
    console.print(Text(f"{'trace':>{_TIME}}  {one_line(root.span.trace_id)}", "dim"), soft_wrap=True)
    left_out = 0
    for count, line in enumerate(_lines(root, marks)):
        if count >= MOST_LINES:
            left_out += isinstance(line.item, SpanNode)
            continue
        text = Text()
        span = line.item.span if isinstance(line.item, SpanNode) else None
        took = duration((span.end - span.start) / 1e9) if span is not None and span.end is not None else ""
        text.append(f"{took if marks is _UNICODE else took.translate(_IN_ASCII):>{_TIME}}  ")
        if bars:
            text.append_text(_bar(span, begin, whole, marks) if span is not None else Text(" " * _BAR)).append("  ")
        lead, below = (_short(part, deepest, marks) for part in (line.lead, line.below))
        _print_line(console, text, lead, below, _label(line.item), marks)
    if left_out:
        told = f"{left_out} more spans are not printed here; --trace-html and --trace-file have them all."
        _print_line(console, Text(" " * lead_width), "", "", [Text().append(told, "dim")], marks)


_IN_ASCII = str.maketrans(
    {"→": "->", "↻": "again:", "✗": "x", "⊘": "o", "·": "-", "µ": "u", "…": "..."}
)  # fmt: skip


def _print_line(console: Console, begins: Text, lead: str, below: str, parts: list[Text], marks: _Marks) -> None:
    if marks is _ASCII:
        parts = [Text(part.plain.translate(_IN_ASCII)) for part in parts]
    room = console.width - begins.cell_len - cell_len(lead) if console.is_terminal else 0
    blank = " " * begins.cell_len + below
    for number, line in enumerate(
        _broken(console, parts, marks.between, room, room - cell_len(below) + cell_len(lead))
    ):
        out = begins.append(lead, "dim") if not number else Text().append(blank, "dim")
        console.print(out.append_text(line), soft_wrap=True)


def _broken(console: Console, parts: list[Text], between: str, room: int, further: int) -> list[Text]:
    """The parts in lines, the first of ``room`` columns, others of ``further``; broken between parts if they can be.

    Without room for a name it is one line.
    """
    lines = [Text()]
    for number, part in enumerate(parts):
        piece = Text().append(f"{between} ", "dim").append_text(part) if number else part
        used = lines[-1].cell_len
        if further < _LEAST_ROOM or used + bool(used) + piece.cell_len <= (room if len(lines) == 1 else further):
            lines[-1].append(" " * bool(used)).append_text(piece)
            continue
        wrapped = piece.wrap(console, further, overflow="fold") if piece.cell_len > further else [piece]
        if not used:
            lines.pop()
        for each in wrapped:
            each.rstrip()
            lines.append(each)
    return lines


def _label(item: _Item) -> list[Text]:
    if isinstance(item, SpanNode):
        return span_label(item.span)
    if isinstance(item, _Round):
        return [Text().append(f"round {item.number}", "dim")]
    return [event_label(item) or Text()]


def _short(lead: str, deepest: int, marks: _Marks) -> str:
    """A lead that leaves room for the name: of a deep one, the end."""
    return lead if len(lead) <= deepest else marks.cut + lead[len(lead) - deepest + len(marks.cut) :]


def _bar(span: TraceSpan, begin: int, whole: int, marks: _Marks) -> Text:
    """Where in the turn the span was, in half columns; what is too short to be seen is seen as half a column."""
    halves = 2 * _BAR
    end = span.end if span.end is not None else begin + whole
    first = min(max(round((span.start - begin) * halves / whole), 0), halves - 1)
    last = min(max(round((end - begin) * halves / whole), first + 1), halves)
    cells = ""
    for cell in range(_BAR):
        left, right = first <= 2 * cell < last, first <= 2 * cell + 1 < last
        cells += marks.bar if left and right else marks.ends if left else marks.begins if right else " "
    failed = span.status == "error" or span.attributes.get("advisorchain.advisor.outcome") == "error"
    return Text(cells, "red" if failed else "cyan")


def _latest(root: SpanNode) -> int:
    latest, waiting = root.span.start, [root]
    while waiting:
        node = waiting.pop()
        latest = max(latest, node.span.end or 0, node.span.start)
        waiting += node.children
    return latest


def _lines(root: SpanNode, marks: _Marks) -> Iterator[_Line]:
    """The root and everything below it, in the order of start; depth costs no recursion."""
    waiting: list[tuple[str, str, _Item]] = [("", "", root)]
    while waiting:
        lead, below, item = waiting.pop()
        inside = _inside(item)
        yield _Line(lead, below + (marks.through if inside else "  "), item)
        joined = [(marks.child, marks.through)] * (len(inside) - 1) + [(marks.last, "  ")]
        for (joint, gap), child in reversed(list(zip(joined, inside, strict=False))):
            waiting.append((below + joint, below + gap, child))


def _inside(item: _Item) -> Sequence[_Item]:
    """What is drawn below an item: children and events by their time, the children of one round together."""
    if isinstance(item, TraceEvent):
        return ()
    if isinstance(item, _Round):
        return item.children
    own = _round_of(item.span)
    found: list[_Item] = []
    rounds: dict[int, _Round] = {}
    events = [event for event in item.span.events if event_label(event) is not None]
    both: list[SpanNode | TraceEvent] = [*events, *item.children]
    for each in sorted(both, key=_time):
        number = _round_of(each.span) if isinstance(each, SpanNode) else None
        if number is None or number == own:
            found.append(each)
            continue
        if number not in rounds:
            rounds[number] = _Round(number, [])
            found.append(rounds[number])
        assert isinstance(each, SpanNode)
        rounds[number].children.append(each)
    return found


def _time(item: SpanNode | TraceEvent) -> int:
    return item.time if isinstance(item, TraceEvent) else item.span.start


def _round_of(span: TraceSpan) -> int | None:
    number = span.attributes.get("advisorchain.round")
    return number if isinstance(number, int) else None
