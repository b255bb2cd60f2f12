"""What ``explain()`` gives: the chain as a structure that prints as a readable onion."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from .errors import ConfigurationError
from .explain_names import columns, padded, plain
from .model_call import model_name
from .order import Order

if TYPE_CHECKING:
    from .chain import AdvisorChain
    from .tools.definition import Tool

ExplainFormat = Literal["text", "mermaid", "svg", "json"]
"""What `explain()` can give."""


@dataclass(frozen=True)
class AdvisorRow:
    """One advisor of a chain: where it stands and which calls it wraps."""

    name: str
    order: int
    type: str
    position: Literal["outside", "loop", "inside", "no loop"]
    wraps: str
    streams: str


@dataclass(frozen=True)
class ToolRow:
    """One tool: where it comes from, whether it returns directly, and who says so."""

    name: str
    origin: str
    return_direct: bool
    return_direct_from: str


@dataclass(frozen=True)
class ChainExplanation:
    """A chain from the outermost advisor to the model, and the client's tools."""

    rows: tuple[AdvisorRow, ...]
    model: str
    tools: tuple[ToolRow, ...] = ()
    providers: tuple[str, ...] = ()

    @property
    def loop(self) -> AdvisorRow | None:
        """The tool loop's row, or None."""
        return next((row for row in self.rows if row.position == "loop"), None)

    def format(self, format: ExplainFormat = "text") -> str:
        """The explanation as text, as JSON, or as a picture: a flowchart for Mermaid, or an SVG file.

        Raises:
            ConfigurationError: the format is unknown.
        """
        if format == "text":
            return str(self)
        if format == "json":
            return json.dumps(asdict(self), indent=2, ensure_ascii=False)
        if format == "mermaid":
            from .explain_mermaid import mermaid

            return mermaid(self)
        if format == "svg":
            from .explain_svg import svg

            return svg(self)
        raise ConfigurationError(f"Unknown format {format!r}; use 'text', 'mermaid', 'svg' or 'json'.")

    def __str__(self) -> str:
        width = max([columns(plain(row.name)) for row in self.rows] + [columns(plain(self.model)), 5])
        kinds = {"chat": "chat", "tool": "tool", "both": "chat + tool"}
        lines = ["order  " + "advisor".ljust(width + 4) + "where    wraps"]
        depth = "  "
        for row in self.rows:
            mark = {"loop": "↻ ", "inside": "│ "}.get(row.position, "")
            where = {"loop": "loop", "no loop": "-"}.get(row.position, row.position)
            hold = "  holds streamed text" if row.streams == "hold" else ""
            name = f"{mark}{plain(row.name)}"
            lines.append(f"{row.order:>5}{depth}{padded(name, width + 4)}{where.ljust(9)}{kinds[row.wraps]}{hold}")
        mark = "│ " if self.loop else ""
        lines.append(f"{int(Order.MODEL):>5}{depth}{padded(mark + plain(self.model), width + 4)}{'model'.ljust(9)}-")
        if self.tools or self.providers:
            lines.append("")
            lines.append("tools")
            tool_width = max((columns(plain(tool.name)) for tool in self.tools), default=0)
            for tool in self.tools:
                direct = f"  return direct ({plain(tool.return_direct_from)})" if tool.return_direct else ""
                lines.append(f"  {padded(plain(tool.name), tool_width)}  {plain(tool.origin)}{direct}")
        lines += [f"  {plain(provider)} is asked once per turn" for provider in self.providers]
        return "\n".join(lines)


def explain_chain(chain: AdvisorChain) -> ChainExplanation:
    """The rows of a chain, outermost first."""
    rows: list[AdvisorRow] = []
    loop = chain.tool_loop
    position: Literal["outside", "loop", "inside", "no loop"] = "outside" if loop else "no loop"
    for entry in chain.entries:
        if entry is loop:
            position = "loop"
        advisor = entry.advisor
        streams = getattr(advisor, "streams", "pass")
        rows.append(AdvisorRow(entry.name, entry.order, type(advisor).__name__, position, entry.wraps, streams))
        if entry is loop:
            position = "inside"
    return ChainExplanation(tuple(rows), model_name(chain.model))


def with_tools(
    explanation: ChainExplanation,
    tools: Iterable[Tool],
    return_direct: Mapping[str, bool],
    providers: Iterable[object],
) -> ChainExplanation:
    """The explanation with a client's tools: those that it has, its overrides of them, and whom it asks per turn."""
    rows: list[ToolRow] = []
    for tool in tools:
        flag = return_direct.get(tool.policy_name)
        direct_from = tool.return_direct_from if flag is None else "client"
        rows.append(ToolRow(tool.name, tool.origin, tool.return_direct if flag is None else flag, direct_from))
    asked = tuple(type(provider).__name__ for provider in providers)
    return replace(explanation, tools=tuple(rows), providers=asked)
