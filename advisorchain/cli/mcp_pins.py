"""``advisorchain mcp pin`` and ``diff``: what tools were, and what they are now."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from ..mcp.listed_tool import ListedTool
from ..mcp.pin import Pin
from ..mcp.pin_difference import difference
from ..mcp.pin_file import PinFile
from ..mcp.pinning import Pinning
from ..mcp.tools import McpTools
from .choice import UsageProblem
from .display import one_line, open_console, print_wrapped, shortened
from .mcp_choice import ChosenServers
from .mcp_list import listed, quiet


@dataclass(slots=True)
class Comparison:
    """One server against its pins: names of tools; for changed ones what differs, for others why they have no pin."""

    server: str
    tools: int = 0
    error: str | None = None
    changed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    new: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    meta_changed: list[str] = field(default_factory=list[str])
    impossible: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def differs(self) -> bool:
        """Whether the definitions are not those that are pinned; ``_meta`` does not count."""
        return bool(self.changed or self.new or self.removed or self.impossible)


async def store_pins(chosen: ChosenServers, file: str, verbose: bool) -> int:
    """Pin every tool that the servers list, print what that changes; returns the exit code."""
    pins = PinFile(file)
    pinning, console, code = Pinning(pins), open_console(), 0
    for comparison, tools in await _compared(chosen, pins, verbose):
        if comparison.error is None:
            other = {*comparison.new, *comparison.changed, *comparison.meta_changed}  # the rest keeps its date
            await pinning.accept(comparison.server, [tool for tool in tools if tool.name in other])
            await pins.forget(comparison.server, comparison.removed)
            told = f"{_count(comparison.tools - len(comparison.impossible), 'tool')} pinned"
            _print(console, comparison, told, stored=True)
        else:
            _print(console, comparison, "")
        code = max(code, int(comparison.error is not None or bool(comparison.impossible)))
    return code


def existing(file: str) -> str:
    """The path of a file with pins.

    Raises:
        UsageProblem: there is no such file.
    """
    if not Path(file).is_file():
        raise UsageProblem(f"--file: there is no file {file}; advisorchain mcp pin makes it.")
    return file


async def compare_pins(chosen: ChosenServers, file: str, as_json: bool, verbose: bool) -> int:
    """Print how the servers differ from their pins; returns the exit code."""
    found = [comparison for comparison, _ in await _compared(chosen, PinFile(file), verbose)]
    if as_json:
        typer.echo(json.dumps([asdict(comparison) | {"differs": comparison.differs} for comparison in found], indent=1))
    else:
        console = open_console()
        for comparison in found:
            _print(console, comparison, f"{_count(comparison.tools, 'tool')}, as pinned")
    return int(any(comparison.differs or comparison.error is not None for comparison in found))


async def _compared(chosen: ChosenServers, pins: PinFile, verbose: bool) -> list[tuple[Comparison, list[ListedTool]]]:
    """Every server against its pins: all tools that it lists, also those that a filter leaves out."""
    servers = [server.replace(filter=None) for server in chosen.every_server]
    before = {server.name: await pins.load(server.name) for server in servers}  # a damaged file is told at once
    compared: list[tuple[Comparison, list[ListedTool]]] = []
    with quiet(verbose):
        async with listed([McpTools(servers, pinning=False)]) as found:
            for status, offered in found:
                tools = [tool.listed for tool in offered]
                comparison = Comparison(status.name, len(tools), status.error)
                if status.error is None:
                    _compare(comparison, before[status.name], tools)
                compared.append((comparison, tools))
    return compared


def _compare(comparison: Comparison, pins: dict[str, Pin], tools: list[ListedTool]) -> None:
    for tool in tools:
        old = pins.get(tool.name)
        try:
            now = Pin.of(tool)
        except ValueError as exc:
            comparison.impossible[tool.name] = str(exc)
            continue
        if old is None:
            comparison.new.append(tool.name)
        elif old.sha256 != now.sha256:
            comparison.changed[tool.name] = difference(old, now)
        elif old.meta_sha256 != now.meta_sha256:
            comparison.meta_changed.append(tool.name)
    comparison.removed += sorted(pins.keys() - {tool.name for tool in tools})


def _print(console: Console, comparison: Comparison, told: str, stored: bool = False) -> None:
    if comparison.error is not None:
        mark, style, told = "✗", "red", f"failed: {one_line(comparison.error)}"
    elif comparison.differs:
        mark, style = "≠", "yellow"
        counts = {
            "changed": len(comparison.changed), "new": len(comparison.new), "removed": len(comparison.removed),
            "cannot be pinned": len(comparison.impossible),
        }  # fmt: skip
        differs = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        told = f"{told}: {differs}" if stored else differs
    else:
        mark, style = "=", "green"
    console.print(Text(f"{mark} ", style=style) + Text(comparison.server, style="bold"), end="")
    print_wrapped(console, f"  {told}", hanging=2)
    for name, lines in comparison.changed.items():
        print_wrapped(console, f"changed  {_shown(name)}", indent=2)
        for line in lines:
            print_wrapped(console, one_line(line), indent=4, hanging=2)
    for what, names in (("new", comparison.new), ("removed", comparison.removed)):
        for name in names:
            print_wrapped(console, f"{what:7}  {_shown(name)}", indent=2)
    for name in comparison.meta_changed:
        print_wrapped(console, f"note     {_shown(name)}: only its _meta differs, which is not pinned", indent=2)
    for name, why in comparison.impossible.items():
        print_wrapped(console, f"no pin   {_shown(name)}: {one_line(why)}", indent=2, hanging=4)


def _shown(name: str) -> str:
    return shortened(name, 80)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
