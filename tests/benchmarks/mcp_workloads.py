"""What our side of MCP adds to a call: a tool's `handle`, to the SDK's own ``Client.call_tool`` on the same connection.

The server is an ``MCPServer`` of the SDK with one typed function, in this process or as a child behind stdio
(``python mcp_workloads.py``). What any tool pays in the loop, the check of its arguments and its timeout, is not in it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import astuple
from pathlib import Path
from statistics import median
from typing import Any, Literal

from measurement import Measured, quick_imports

from advisorchain import ChatClient, ToolCall, ToolContext, ToolInvocation, ToolNext, ToolResult, tool_advisor
from advisorchain.mcp import McpServer, McpTools, RemoteTool
from advisorchain.testing import ScriptedModel

Kind = Literal["streams", "direct", "stdio"]
"""In this process through JSON-RPC messages, or handed over as the newest protocol allows; or a child process."""

ARGUMENTS = {"a": 1, "b": 2}
CALLS = 30
"""How many calls make a batch: some milliseconds, so that few are disturbed."""

Call = Callable[[], Awaitable[Any]]
Clock = Callable[[], float]


def server() -> Any:
    """The server: it adds two integers."""
    from mcp.server.mcpserver import MCPServer

    made = MCPServer("benchmark")

    @made.tool()
    async def add(a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    return made


class Served:
    """A connected server, and its tool called in both ways."""

    def __init__(self, tools: McpTools, pid: int | None) -> None:
        self.tools = tools
        self.pid = pid

    @classmethod
    async def start(cls, kind: Kind) -> Served:
        """Connect; call `stop` at the end."""
        if kind == "stdio":
            reached = McpServer.stdio(sys.executable, [__file__], name="benchmark")
        else:
            reached = McpServer.in_process(server(), era="legacy" if kind == "streams" else "auto")
        before = _children()
        tools = McpTools([reached])
        await tools.listed()
        new = _children() - before
        return cls(tools, new.pop() if kind == "stdio" and len(new) == 1 else None)

    async def calls(self) -> tuple[Call, Call]:
        """Our call, and the SDK's."""
        held: list[ToolInvocation] = []

        @tool_advisor(order=300, name="hold")
        async def hold(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
            held.append(invocation)
            return await call_next(invocation)

        model = ScriptedModel([[ToolCall("add", ARGUMENTS)], "done"])
        await ChatClient(model, tools=[self.tools], advisors=[hold]).call("Add.")
        tool, context = held[0].tool, ToolContext(held[0])
        client = self.tools._sources()[0].connection.client
        assert isinstance(tool, RemoteTool) and client is not None

        async def ours() -> ToolResult:
            return await tool.handle(ARGUMENTS, context)

        async def bare() -> Any:
            return await client.call_tool("add", ARGUMENTS)

        result, raw = await ours(), await bare()
        assert (result.content, raw.content[0].text) == ("3", "3")
        assert result.structured == raw.structured_content == {"result": "3"}
        return ours, bare

    def clock(self) -> Clock:
        """CPU seconds of this process and its server's; wall time where the system does not tell the server's."""
        if self.pid is None:
            return time.process_time
        path = Path(f"/proc/{self.pid}/schedstat")
        try:
            path.read_text()
        except OSError:
            return time.perf_counter
        return lambda: time.process_time() + int(path.read_text().split()[0]) / 1e9

    async def stop(self) -> None:
        """Close the connection, and with it the child process."""
        await self.tools.aclose()


def _children() -> set[int]:
    """The process ids of this process's children, where the system tells them."""
    try:
        return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}
    except OSError:
        return set()


async def overhead_of_a_call(kind: Kind, pairs: int) -> Measured:
    """Alternate batches of our calls and of the SDK's; the median of the ratios of neighbours."""
    served = await Served.start(kind)
    try:
        ours, bare = await served.calls()
        clock = served.clock()

        async def batch(call: Call) -> float:
            gc.collect(1)  # one comes every 40 calls: into some batches, and not into their neighbours
            start = clock()
            for _ in range(CALLS):
                await call()
            return (clock() - start) / CALLS

        await batch(bare), await batch(ours)
        gc.collect()
        times: list[tuple[float, float]] = []
        for _ in range(pairs):
            before = await batch(bare)
            with_ours = await batch(ours)
            # On both sides of it, so that a machine that becomes slower or faster does not count.
            times.append((with_ours, (before + await batch(bare)) / 2))
    finally:
        await served.stop()
    ratio = median(ours_s / bare_s for ours_s, bare_s in times)
    ours_times, bare_times = [pair[0] for pair in times], [pair[1] for pair in times]
    return Measured(ratio, median(ours_times), median(bare_times), min(ours_times), min(bare_times))


async def measured_apart(kind: Kind, pairs: int) -> Measured:
    """`overhead_of_a_call` in a process of its own: the SDK, once imported, makes every garbage collection longer."""
    command = [sys.executable, __file__, kind, str(pairs)]
    done = subprocess.run(command, env=quick_imports(), check=True, capture_output=True, text=True)  # noqa: ASYNC221
    return Measured(*json.loads(done.stdout))


if __name__ == "__main__":
    if sys.argv[1:]:
        name: Any = sys.argv[1]
        print(json.dumps(astuple(asyncio.run(overhead_of_a_call(name, int(sys.argv[2]))))))
    else:
        server().run()
