"""An MCP server behind streamable HTTP, on the SDK and uvicorn: ``python web.py NAME PORT``."""

from __future__ import annotations

import os
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

name, port = sys.argv[1], int(sys.argv[2])
server = MCPServer(name)


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "waited"


@server.tool()
def pid() -> int:
    """The id of the server's process."""
    return os.getpid()


uvicorn.run(
    server.streamable_http_app(), host="127.0.0.1", port=port, log_level="critical", timeout_graceful_shutdown=1
)
