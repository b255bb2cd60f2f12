"""A chain as a flowchart for Mermaid: Markdown of GitHub, GitLab and many wikis draws it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .explain_names import cut
from .order import Order

if TYPE_CHECKING:
    from .explain import AdvisorRow, ChainExplanation

_NAME = 60
_TOOLS = 12
"""So many tools are named; the rest is counted."""
# What is left as it is; every other character could be read as Mermaid, Markdown, HTML or an icon.
_SPECIAL = re.compile(r"[^\w ]|(?<![^\W_])_|_(?![^\W_])")
_APART = "#8288;"
"""A joiner of no width: icons (``fa:fa-x``), formulas (``$$x$$``) and a backslash's n are looked for after entities."""


def mermaid(explanation: ChainExplanation) -> str:
    """The chain as a flowchart: the way of a turn from the caller to the model, the tool loop, the way of a tool call.

    An advisor that wraps both kinds of calls stands on both ways. Names are escaped; long ones are cut.
    """
    rows, loop = explanation.rows, explanation.loop
    chat = [row for row in rows if row.wraps in ("chat", "both")]
    tool = [row for row in rows if row.wraps in ("tool", "both")]
    outside = [row for row in chat if row.position in ("outside", "no loop")]
    inside = [row for row in chat if row.position == "inside"]
    has_tools = bool(loop or tool or explanation.tools or explanation.providers)
    out = ["flowchart TB", '  caller(["caller"])']
    out += _nodes("c", outside, "  ")
    indent = "  "
    if loop is not None:
        out.append('  subgraph rounds["each round"]')
        indent = "    "
        out.append(f'{indent}loop{{{{"↻ {_label(loop.name)}<br/>{_about(loop)}"}}}}')
    out += _nodes("r", inside, indent)
    out.append(f'{indent}model[("{_label(explanation.model)}<br/>model · {int(Order.MODEL)}")]')
    if has_tools:
        out.append(f'{indent}subgraph calls["each tool call"]')
        out += _nodes("t", tool, indent + "  ")
        out.append(f'{indent}  tools[["{"<br/>".join(_tool_lines(explanation))}"]]')
        out.append(f"{indent}end")
    if loop is not None:
        out.append("  end")
    turn = ["caller", *_ids("c", outside), *(["loop"] if loop else []), *_ids("r", inside), "model"]
    out.append(f"  {' --> '.join(turn)}")
    if has_tools:
        call = [*_ids("t", tool), "tools"]
        if len(call) > 1:
            out.append(f"  {' --> '.join(call)}")
        if loop is not None:
            out.append(f'  model -.->|"tool calls"| {call[0]}')
            out.append('  tools -.->|"results, next round"| loop')
    out += _styles(outside, inside, tool, loop is not None, has_tools)
    return "\n".join(out)


def _label(name: str) -> str:
    return _escaped(cut(name, _NAME)) or "?"


def _escaped(text: str) -> str:
    """Entities of Mermaid for everything but letters, digits, spaces and underscores inside of words."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};" + _APART * (found[0] in ":$\\"), text)


def _about(row: AdvisorRow) -> str:
    return f"order {row.order}" + (" · holds streamed text" if row.streams == "hold" else "")


def _nodes(kind: str, rows: Sequence[AdvisorRow], indent: str) -> list[str]:
    return [
        f'{indent}{name}["{_label(row.name)}<br/>{_about(row)}"]'
        for name, row in zip(_ids(kind, rows), rows, strict=True)
    ]


def _ids(kind: str, rows: Sequence[AdvisorRow]) -> list[str]:
    return [f"{kind}{number}" for number, _ in enumerate(rows, 1)]


def _tool_lines(explanation: ChainExplanation) -> list[str]:
    lines = [_label(tool.name) + (" ↩ direct" if tool.return_direct else "") for tool in explanation.tools]
    if len(lines) > _TOOLS:
        lines[_TOOLS:] = [f"and {len(lines) - _TOOLS} more"]
    lines += [f"{_label(provider)}, asked per turn" for provider in explanation.providers]
    return lines or ["tools"]


def _styles(
    outside: Sequence[AdvisorRow], inside: Sequence[AdvisorRow], tool: Sequence[AdvisorRow], loop: bool, tools: bool
) -> Iterable[str]:
    """Colours of their own for text and box, so that they are readable on a light and on a dark page."""
    chat = [*_ids("c", outside), *_ids("r", inside)]
    yield "  classDef chat fill:#dbeafe,stroke:#3b82f6,color:#172554"
    yield "  classDef tool fill:#ffedd5,stroke:#f97316,color:#431407"
    yield "  classDef loop fill:#ede9fe,stroke:#8b5cf6,color:#2e1065"
    yield "  classDef end_ fill:#e5e7eb,stroke:#6b7280,color:#111827"
    if chat:
        yield f"  class {','.join(chat)} chat"
    if tool:
        yield f"  class {','.join(_ids('t', tool))} tool"
    if loop:
        yield "  class loop loop"
        yield "  style rounds fill:#8b5cf61a,stroke:#8b5cf6"
    if tools:
        yield "  style calls fill:#f973161a,stroke:#f97316"
    yield f"  class caller,model{',tools' if tools else ''} end_"
