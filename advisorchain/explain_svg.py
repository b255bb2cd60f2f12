"""A chain as a picture: one box inside the other, and the two lines on which calls go through them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from .explain_names import columns, cut, plain
from .order import Order

if TYPE_CHECKING:
    from .explain import AdvisorRow, ChainExplanation

_MARGIN = 20
_HEADER = 36
"""Height of a box's own strip, in which its name stands."""
_LOOP_LANE = 46
"""Room at the right of the loop's box, for the arrow of the next round."""
_MOST_TOOLS = 6
_NAME, _SHORT = 34, 22
"""Longest names, in columns: of an advisor, and in the boxes of model and tools."""
_COLUMN, _BOLD = 7.8, 8.6
"""Width of a character at 13 pixels, in the widest of the usual fonts."""

_STYLE = """
.card{fill:#fff;stroke:#d8dee6}
.box{fill:#f6f8fa;stroke:#c3ccd6}.loop{fill:#f1ecff;stroke:#7c5cdb;stroke-width:1.6}.in{fill:#faf8ff;stroke:#cfc3f2}
.core{fill:#fff;stroke:#7b8794;stroke-width:1.4}
text{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif;
fill:#1f2933}
.name{font-weight:600}.dim{fill:#5d6b7a;font-size:12px}.order{fill:#5d6b7a;font-size:12px;
font-variant-numeric:tabular-nums}.loop-text{fill:#5b3cc4;font-size:12px}
.line{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.chat{stroke:#2563c9}.tool{stroke:#c2560c}.round{stroke:#7c5cdb}
.dot{stroke-width:2}.dot.chat{fill:#2563c9}.dot.tool{fill:#c2560c}
.tip{stroke:none}.tip.chat{fill:#2563c9}.tip.tool{fill:#c2560c}.tip.round{fill:#7c5cdb}
.badge{fill:#fff4d6;stroke:#d9a514}.badge-text{fill:#7a5600;font-size:11px}
@media (prefers-color-scheme:dark){
.card{fill:#12171d;stroke:#2c3640}.box{fill:#1a2129;stroke:#3a4653}.loop{fill:#251d3d;stroke:#9d83f0}
.in{fill:#1d1a2b;stroke:#4b4170}.core{fill:#12171d;stroke:#8b98a6}text{fill:#e4e9ee}
.dim,.order{fill:#9aa7b4}.loop-text{fill:#b9a5f7}
.chat{stroke:#6ba4ff}.tool{stroke:#f59a4c}.round{stroke:#9d83f0}.dot.chat{fill:#6ba4ff}.dot.tool{fill:#f59a4c}
.tip.chat{fill:#6ba4ff}.tip.tool{fill:#f59a4c}.tip.round{fill:#9d83f0}
.badge{fill:#3a2f10;stroke:#a8821c}.badge-text{fill:#f0cf73}}
""".replace("\n", "")


class _Layout(NamedTuple):
    """Where everything is, in pixels."""

    left: tuple[float, ...]
    right: tuple[float, ...]
    top: tuple[float, ...]
    bottom: tuple[float, ...]
    chat_x: float
    tool_x: float
    model_width: float
    tools_width: float
    core_top: float
    core_height: float
    width: float
    height: float


def svg(explanation: ChainExplanation) -> str:
    """The chain as an SVG file: boxes from the outermost advisor to the model, the loop and its arrow, the tools.

    A dot on the blue line says that the advisor wraps chat calls, one on the orange line that it wraps tool calls. The
    file has no script, loads nothing, and is light or dark as its reader prefers. Names are escaped; long ones are cut,
    and whole in the box's title. It is ASCII: no encoding can break it.
    """
    tool_lines = _tool_lines(explanation)
    shape = _layout(explanation, tool_lines)
    body = [
        *_boxes(explanation, shape),
        *_lines(explanation, shape, bool(tool_lines)),
        *_core(explanation, shape, tool_lines),
        *_legend(explanation, shape, bool(tool_lines)),
    ]
    width, height = f"{shape.width:.0f}", f"{shape.height:.0f}"
    drawn = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="chain-title chain-desc">',
            f'<title id="chain-title">The chain of advisors around {_text(explanation.model)}</title>',
            f'<desc id="chain-desc">{_told(explanation)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="card" x=".5" y=".5" width="{shape.width - 1:.0f}" height="{shape.height - 1:.0f}" rx="14"/>',
            *body,
            "</svg>\n",
        ]
    )
    return drawn.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _text(name: str, most: int | None = None) -> str:
    return escape(plain(name) if most is None else cut(name, most)) or "?"


def _told(explanation: ChainExplanation) -> str:
    """The picture in words."""
    kinds = {"chat": "chat calls", "tool": "tool calls", "both": "chat calls and tool calls"}
    where = {"outside": "outside the loop", "loop": "the tool loop", "inside": "inside the loop", "no loop": "no loop"}
    parts = [
        f"{plain(row.name)}, order {row.order}, {where[row.position]}, wraps {kinds[row.wraps]}"
        + (", holds streamed text" if row.streams == "hold" else "")
        for row in explanation.rows
    ]
    parts.append(f"{plain(explanation.model)}, order {int(Order.MODEL)}, the model")
    told = "From the outermost to the innermost: " + "; ".join(parts) + "."
    if explanation.tools:
        told += " Tools: " + ", ".join(plain(tool.name) for tool in explanation.tools) + "."
    return escape(told)


def _tool_lines(explanation: ChainExplanation) -> list[str]:
    """What stands in the box of the tools; nothing when no tool call can happen."""
    lines = [cut(tool.name, _SHORT) + (" ↩" if tool.return_direct else "") for tool in explanation.tools]
    if len(lines) > _MOST_TOOLS:
        lines[_MOST_TOOLS - 1 :] = [f"and {len(lines) - _MOST_TOOLS + 1} more"]
    lines += [f"{cut(provider, _SHORT)} …" for provider in explanation.providers]
    wraps_tools = explanation.loop is not None or any(row.wraps != "chat" for row in explanation.rows)
    return lines or (["none given"] if wraps_tools else [])


def _layout(explanation: ChainExplanation, tool_lines: list[str]) -> _Layout:
    rows = explanation.rows
    inset = 12 if len(rows) <= 14 else 7
    left = [_MARGIN + number * inset for number in range(len(rows))]
    label_end = max(
        (edge + 62 + _wide(row) + (104 if row.streams == "hold" else 0) for edge, row in zip(left, rows, strict=True)),
        default=0.0,
    )
    model_width = max(112.0, columns(cut(explanation.model, _SHORT)) * _BOLD + 28)
    tools_width = max([96.0, *(columns(line) * _COLUMN + 28 for line in tool_lines)]) if tool_lines else 0.0
    core_left = _MARGIN + len(rows) * inset
    chat_x = max(label_end + 22, core_left + model_width / 2)
    tool_x = chat_x + model_width / 2 + 84 + tools_width / 2
    core_right = tool_x + tools_width / 2 if tool_lines else chat_x + model_width / 2
    first_inside = next((i for i, row in enumerate(rows) if row.position == "loop"), len(rows)) + 1
    lane = _LOOP_LANE if explanation.loop is not None else 0
    right = [
        core_right + (len(rows) - number) * inset + (0 if number >= first_inside else lane)
        for number in range(len(rows))
    ]
    first_top = _MARGIN + 50
    top = [float(first_top + number * _HEADER) for number in range(len(rows))]
    core_top = first_top + len(rows) * _HEADER + 10.0
    core_height = max(54.0, 34 + 18.0 * len(tool_lines))
    bottom = [core_top + core_height + (len(rows) - number) * inset for number in range(len(rows))]
    floor = bottom[0] if rows else core_top + core_height
    width = max((right[0] if rows else core_right) + _MARGIN, 430.0 if tool_lines else 170.0)
    return _Layout(
        tuple(map(float, left)), tuple(right), tuple(top), tuple(bottom), chat_x, tool_x, model_width, tools_width,
        core_top, core_height, width, floor + 62,
    )  # fmt: skip


def _wide(row: AdvisorRow) -> float:
    about = 80.0 if row.position == "loop" else 0
    return columns(cut(row.name, _NAME)) * _BOLD + about


def _middle(x: float, y: float, text: str, kind: str = "") -> str:
    """Text with its middle at x; the text is escaped already."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{text}</text>'


def _rect(kind: str, x: float, y: float, width: float, height: float, round: float = 9) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round:g}"/>'


def _boxes(explanation: ChainExplanation, shape: _Layout) -> Iterator[str]:
    for row, left, right, top, bottom in zip(
        explanation.rows, shape.left, shape.right, shape.top, shape.bottom, strict=True
    ):
        kind = {"loop": "loop", "inside": "in"}.get(row.position, "box")
        name = _text(row.name, _NAME)
        base = top + 23
        yield f"<g><title>{_text(row.name)} ({_text(row.type)})</title>"
        yield _rect(kind, left, top, right - left, bottom - top)
        yield f'<text class="order" x="{left + 38:.1f}" y="{base}" text-anchor="end">{row.order}</text>'
        again = '<tspan class="loop-text" font-weight="400" dx="8">each round</tspan>' if kind == "loop" else ""
        yield f'<text class="name" x="{left + 50:.1f}" y="{base}">{name}{again}</text>'
        if row.streams == "hold":
            x = left + 60 + _wide(row)
            yield _rect("badge", x, top + 9, 92, 19, 9.5)
            yield _middle(x + 46, base - 1, "holds the text", "badge-text")
        yield "</g>"


def _lines(explanation: ChainExplanation, shape: _Layout, tools: bool) -> Iterator[str]:
    """The two lines with a dot for each advisor that wraps the calls on it, and the arrows between model and tools."""
    x = shape.chat_x
    yield from _line("chat", "caller", x, shape)
    for row, top in zip(explanation.rows, shape.top, strict=True):
        if row.wraps != "tool":
            yield f'<circle class="dot chat" cx="{x:.1f}" cy="{top + 18.5}" r="4.5"/>'
    wrapping = [top for row, top in zip(explanation.rows, shape.top, strict=True) if row.wraps != "chat"]
    if tools:
        yield from _line("tool", "tool call", shape.tool_x, shape)
        for top in wrapping:
            yield f'<circle class="dot tool" cx="{shape.tool_x:.1f}" cy="{top + 18.5}" r="4.5"/>'
    if not tools or explanation.loop is None:
        return
    middle = shape.core_top + shape.core_height / 2
    start, end = x + shape.model_width / 2, shape.tool_x - shape.tools_width / 2
    yield f'<path class="line tool" d="M{start + 2:.1f} {middle:.1f}H{end - 6:.1f}" stroke-dasharray="1 5"/>'
    yield _tip("tool", end - 1, middle, "right")
    yield _middle((start + end) / 2 - 2, middle - 9, "tool calls", "dim")
    number = explanation.rows.index(explanation.loop)
    lane = shape.right[number] - 30
    target = shape.top[number] + 18.5
    edge = shape.tool_x + shape.tools_width / 2
    yield (
        f'<path class="line round" d="M{edge + 2:.1f} {middle:.1f}H{lane - 10:.1f}Q{lane:.1f} {middle:.1f} {lane:.1f} '
        f'{middle - 10:.1f}V{target + 10:.1f}Q{lane:.1f} {target:.1f} {lane - 10:.1f} {target:.1f}H{lane - 16:.1f}"/>'
    )
    yield _tip("round", lane - 22, target, "left")
    mid = (middle + target) / 2
    yield (
        f'<text class="loop-text" x="{lane + 16:.1f}" y="{mid:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 {lane + 16:.1f} {mid:.1f})">next round</text>'
    )


def _line(kind: str, begins: str, x: float, shape: _Layout) -> Iterator[str]:
    """The way of one kind of calls, from the outside to the model or to the tools."""
    yield _rect("core", x - 40, _MARGIN, 80, 26, 13)
    yield _middle(x, _MARGIN + 17.5, begins)
    yield f'<path class="line {kind}" d="M{x:.1f} {_MARGIN + 26}V{shape.core_top - 5:.1f}"/>'
    yield _tip(kind, x, shape.core_top, "down")


def _tip(kind: str, x: float, y: float, to: str) -> str:
    """The head of an arrow, its point at (x, y)."""
    wings = {"down": "l-4.5 -8h9", "right": "l-8 -4.5v9", "left": "l8 -4.5v9"}[to]
    return f'<path class="tip {kind}" d="M{x:.1f} {y:.1f}{wings}z"/>'


def _core(explanation: ChainExplanation, shape: _Layout, tool_lines: list[str]) -> Iterator[str]:
    top, height, x = shape.core_top, shape.core_height, shape.chat_x
    left = x - shape.model_width / 2
    middle = top + height / 2
    yield f"<g><title>{_text(explanation.model)} (the model)</title>"
    yield _rect("core", left, top, shape.model_width, height)
    yield _middle(x, middle - 4, _text(explanation.model, _SHORT), "name")
    yield _middle(x, middle + 14, f"model · {int(Order.MODEL)}", "dim") + "</g>"
    if not tool_lines:
        return
    x, left = shape.tool_x, shape.tool_x - shape.tools_width / 2
    yield "<g>" + _rect("core", left, top, shape.tools_width, height)
    first = middle - 9 * (len(tool_lines) - 1) + 13
    yield _middle(x, first - 19, "tools", "dim")
    for number, line in enumerate(tool_lines):
        yield _middle(x, first + 18 * number, escape(line))
    yield "</g>"


def _legend(explanation: ChainExplanation, shape: _Layout, tools: bool) -> Iterator[str]:
    y = shape.height - 24
    x = float(_MARGIN + 8)
    entries = [("chat", "wraps chat calls", 128)]
    if tools:
        entries.append(("tool", "wraps tool calls", 126))
    for kind, text, width in entries:
        yield f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y - 4:.1f}" r="4"/>'
        yield f'<text class="dim" x="{x + 11:.1f}" y="{y}">{text}</text>'
        x += width
    if any(tool.return_direct for tool in explanation.tools):
        yield f'<text class="dim" x="{x:.1f}" y="{y}">↩ returns directly</text>'
