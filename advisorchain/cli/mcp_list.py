"""``advisorchain mcp list``, and what all commands need of servers: connected, listed, and closed at the end."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import typer

from ..mcp.remote_tool import RemoteTool
from ..mcp.status import ServerStatus
from ..mcp.tools import McpTools
from ..tool_set import ToolSet
from .display import open_console
from .mcp_choice import ChosenServers
from .mcp_view import as_data, print_server


@asynccontextmanager
async def listed(fleets: Sequence[McpTools]) -> AsyncGenerator[list[tuple[ServerStatus, list[RemoteTool]]]]:
    """Every server with the tools that it offers; the connections are open until the block ends."""
    async with AsyncExitStack() as stack:
        tools = ToolSet()
        for fleet in fleets:
            stack.push_async_callback(fleet.aclose)
            tools = ToolSet([*tools, *await fleet.listed(tools)])
        remote = [tool for tool in tools if isinstance(tool, RemoteTool)]
        yield [
            (status, [tool for tool in remote if tool.source == status.name])
            for fleet in fleets
            for status in fleet.status()
        ]


@contextmanager
def quiet(verbose: bool) -> Generator[None]:
    """Keep warnings out of the log that the command prints in its own form anyway."""
    logger = logging.getLogger("advisorchain.mcp")
    level = logger.level
    if not verbose:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


async def list_servers(chosen: ChosenServers, as_json: bool, verbose: bool) -> int:
    """Print the servers; returns the exit code."""
    with quiet(verbose):
        async with listed(chosen.fleets) as found:
            if as_json:
                typer.echo(json.dumps([as_data(status, tools) for status, tools in found], indent=1, default=dict))
            else:
                console = open_console()
                for number, (status, tools) in enumerate(found):
                    if number:
                        console.print()
                    print_server(console, status, tools)
    return int(any(status.state != "connected" for status, _ in found))
