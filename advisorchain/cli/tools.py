"""``advisorchain tools``: search tools as a model would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import anyio
import typer
from rich.cells import cell_len

from ..client import ChatClient
from ..exchange import ChatRequest, ChatResponse
from ..messages import AssistantMessage
from ..tool_index import ToolHit
from ..tool_index.catalogue import indexes_for
from ..tool_set import ToolSet
from ..tools import Tool
from .choice import UsageProblem, load_tools
from .display import one_line, open_console, print_wrapped, shortened
from .problems import one_line_errors

tools_app = typer.Typer(
    name="tools",
    help="Look into tools: search them as a model would.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WIDTH = 100
"""Columns of a description that are shown."""


@tools_app.callback()
def tools() -> None:
    """Look into tools: search them as a model would."""


@tools_app.command("search")
def search_tools(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for: words, or a pattern for regex.")],
    source: Annotated[
        list[str],
        typer.Option(
            "--from", "-f", help="module:object with tools; may be repeated. The current directory is importable."
        ),
    ],
    index: Annotated[
        str, typer.Option("--index", "-i", help="bm25, regex, hybrid or vector (the plugin advisorchain-vector).")
    ] = "bm25",
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many tools to print.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print the tools that a search finds, best first: score, name, description."""
    with one_line_errors():
        if not query.strip():
            raise UsageProblem("The query is empty: write what the tool should do, for example 'weather forecast'.")
        found, hits = anyio.run(
            _search, query.encode("utf-8", "replace").decode(), load_tools(source, "--from"), index, count
        )
        if as_json:
            rows = [
                {"name": hit.name, "score": round(hit.score, 4), "description": found[hit.name].description}
                for hit in hits
            ]
            typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        elif hits:
            _print(found, hits)
        else:
            typer.echo(f"None of the {len(found)} tools fits.")


async def _search(query: str, items: list[object], index: str, count: int) -> tuple[dict[str, Tool], list[ToolHit]]:
    found = await _offered(items, query)
    searched = await indexes_for(index, keep=1).index_of(found, b"")
    return {tool.name: tool for tool in found}, await searched.search(query, count)


async def _offered(items: Iterable[object], query: str) -> ToolSet:
    """The tools that a model would be offered: providers are asked as in a turn."""
    seen: list[ToolSet] = []

    async def model(request: ChatRequest) -> ChatResponse:
        seen.append(request.tools)
        return ChatResponse(AssistantMessage(content=""))

    await ChatClient(model, tools=items).call(query)
    return seen[0]


def _print(found: dict[str, Tool], hits: list[ToolHit]) -> None:
    console = open_console()
    names = [one_line(hit.name) for hit in hits]
    width = max(cell_len(name) for name in names)
    for name, hit in zip(names, hits, strict=True):
        description = shortened(one_line(found[hit.name].description), WIDTH)
        gap = " " * (width - cell_len(name) + 2)
        print_wrapped(console, f"{hit.score:7.2f}  {name}{gap}{description}", hanging=9)
