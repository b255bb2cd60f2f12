"""Real MCP servers as child processes, most of them with bad habits, and what their tests look at."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from advisorchain import ChatClient, ToolCall, ToolMessage
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

SERVERS = Path(__file__).parent.parent / "mcp" / "servers"


def raw(name: str = "raw", *, settings: dict[str, Any] | None = None, **habits: Any) -> McpServer:
    """A server of ``servers/raw.py`` with these habits; ``settings`` are those of the `McpServer`."""
    script = json.dumps({"name": name, "habits": habits})
    return McpServer.stdio(sys.executable, ["-S", "-E", str(SERVERS / "raw.py"), script], name=name, **(settings or {}))


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def children() -> set[int]:
    """The processes that this one has started and that still live."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state != "Z":
                found.add(int(entry.name))
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """For sync code: whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)
        return True
    return False


async def result_of(tools: McpTools, name: str, arguments: Any = None) -> ToolMessage:
    """As ``call``, without a parameter for streaming."""
    model = ScriptedModel([[ToolCall(name, arguments or {})], "done"])
    await ChatClient(model, tools=[tools]).call("go")
    (message,) = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    return message
