"""What ``advisorchain mcp list`` prints: what servers are, what they offer, what they do not, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..mcp.remote_tool import RemoteTool
from ..mcp.status import ServerStatus
from .display import one_line, packed, print_wrapped, shortened

MARKS = {"connected": ("●", "green"), "failed": ("✗", "red"), "lost": ("○", "yellow"), "idle": ("○", "dim")}
HINTS = {"read_only": "read-only", "destructive": "destructive", "idempotent": "idempotent", "open_world": "open world"}
NARROW = 72
"""Below this many columns, the table becomes a list."""


def print_server(console: Console, status: ServerStatus, tools: Iterable[RemoteTool]) -> None:
    """Print one server and its tools."""
    tools = list(tools)
    mark, style = MARKS[status.state]
    console.print(Text(f"{mark} ", style=style) + Text(status.name, style="bold"), soft_wrap=True)
    lines = packed(_about(status, len(tools)), console.width - 2) if console.is_terminal else None
    for line in lines or [" · ".join(_about(status, len(tools)))]:
        print_wrapped(console, line, indent=2, hanging=2)
    if status.error is not None:
        print_wrapped(console, f"failed: {one_line(status.error)}", indent=2, hanging=2)
    if tools:
        _print_tools(console, tools)
    for tool in tools:
        for note in status.notes.get(tool.listed.name, ()):
            print_wrapped(console, f"note    {tool.name}: {one_line(note)}", indent=2, hanging=8)
    for name, why in status.left_out.items():
        print_wrapped(console, f"left out  {shortened(name, 64)}: {one_line(why)}", indent=2, hanging=8)


def _about(status: ServerStatus, count: int) -> Iterable[str]:
    yield status.transport.replace("_", " ")
    if status.transport != "in_process":
        yield one_line(status.place)
    yield "trusted" if status.trusted else "not trusted"
    yield status.state
    if status.protocol is not None:
        yield f"protocol {one_line(status.protocol)}"
    if status.state == "connected":
        yield f"{count} tool{'' if count == 1 else 's'}"


def _print_tools(console: Console, tools: Sequence[RemoteTool]) -> None:
    columns = ["tool", "on the server", "title", "hints", "return direct"]
    rows = [[tool.name, _original(tool), _title(tool), hints_of(tool), direct_of(tool)] for tool in tools]
    kept = [number for number in range(len(columns)) if number == 0 or any(row[number] for row in rows)]
    columns, rows = [columns[number] for number in kept], [[row[number] for number in kept] for row in rows]
    if (
        console.width < NARROW
        or sum(max(cell_len(row[i]) for row in rows) for i in range(len(kept))) > 2 * console.width
    ):
        for row in rows:
            print_wrapped(console, row[0], indent=2, hanging=2)
            about = [f"{name}: {cell}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell]
            for line in packed(about, console.width - 4):
                print_wrapped(console, line, indent=4, hanging=2)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name == "tool" and max(len(row[0]) for row in rows) < 40)
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")
    console.file.flush()


def _original(tool: RemoteTool) -> str:
    return "" if tool.listed.name == tool.name else shortened(tool.listed.name, 64)


def _title(tool: RemoteTool) -> str:
    return "" if tool.title in (tool.name, tool.listed.name) else shortened(tool.title, 40)


def hints_of(tool: RemoteTool) -> str:
    """The hints that are known, in words."""
    known = ((text, getattr(tool, name)) for name, text in HINTS.items())
    return ", ".join(text if value else f"not {text}" for text, value in known if value is not None)


def direct_of(tool: RemoteTool) -> str:
    """Whether the tool returns directly, and who says so; empty when nobody says anything."""
    if not tool.return_direct and tool.direct.source == "default":
        return ""
    return f"{'yes' if tool.return_direct else 'no'} ({tool.direct.source})"


def as_data(status: ServerStatus, tools: Iterable[RemoteTool]) -> dict[str, Any]:
    """One server and its tools as JSON data."""
    return {
        "name": status.name,
        "transport": status.transport,
        "place": status.place,
        "trusted": status.trusted,
        "state": status.state,
        "error": status.error,
        "protocol": status.protocol,
        "tools": [_tool_data(tool, status.notes) for tool in tools],
        "left_out": status.left_out,
    }


def _tool_data(tool: RemoteTool, notes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "original": tool.listed.name,
        "title": tool.title,
        "description": tool.description,
        "hints": {name: getattr(tool, name) for name in HINTS},
        "tags": sorted(tool.tags),
        "return_direct": tool.return_direct,
        "return_direct_from": tool.direct.source,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "notes": list(notes.get(tool.listed.name, ())),
    }
