"""A fleet under load while things go wrong: no hang, no call of a healthy server lost, nothing left behind."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_client import SERVERS, children, lines, raw, until
from sdk_quirks import UNFINISHED_STREAMS

from advisorchain import ChatClient, ToolCall, ToolMessage
from advisorchain.advisors import CircuitBreakerAdvisor, ToolFallbackAdvisor
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

pytestmark = [pytest.mark.slow, UNFINISHED_STREAMS]

SECONDS = 12.0
TASKS = 20
SHORT = {"connect_timeout": 3.0, "list_timeout": 3.0, "call_timeout": 2.0, "list_ttl": 1.0}
LONGEST = 2 * (3.0 + 3.0) + 2.0 + 3.0
"""A turn may wait for a connection and a list, at its beginning and at the call, and for the call."""


class Web:
    """A server behind HTTP, in a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(SERVERS / "web.py"), self.name, str(self.port)])

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def _definition(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": {"type": "object"}}


def _fleet(folder: Path, web: Web, restarted: Web) -> list[McpServer]:
    changing = folder / "tools.json"
    changing.write_text(json.dumps([_definition("count"), _definition("count"), _definition("add")]))
    return [
        raw("healthy", settings={"list_ttl": 1.0}),
        McpServer.http(web.url, name="web", list_ttl=1.0),
        raw("talkative", stderr=200_000, noise=3),
        McpServer.http(restarted.url, name="restarted", **SHORT),
        raw("killed", starts=str(folder / "killed"), settings=SHORT),
        raw("stopped", starts=str(folder / "stopped"), settings=SHORT),
        raw("closer", close_stdout=["tools/call"], settings=SHORT),
        raw("garbler", garbage=["tools/call"], settings=SHORT),
        raw("stray", wrong_id=["tools/call"], settings=SHORT),
        raw("changer", tools_file=str(changing), settings=SHORT),
        raw("huge", settings={**SHORT, "call_timeout": 30.0}),
    ]


async def _mischief(folder: Path, restarted: Web, done: Counter[str]) -> None:
    """Kill, stop, restart and change, for ever."""
    number = 0
    while True:
        await anyio.sleep(0.7)
        number += 1
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(int(lines(folder / "killed")[-1]), signal.SIGKILL)
            done["killed"] += 1
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(int(lines(folder / "stopped")[-1]), signal.SIGSTOP)
            done["stopped"] += 1
        if number % 4 == 0:
            await anyio.to_thread.run_sync(restarted.stop)
            await anyio.sleep(0.3)
            restarted.start()
            done["restarted"] += 1
        description = f"Does count, as of {number}."
        (folder / "tools.json").write_text(json.dumps([_definition("count", description), _definition("add")]))


TROUBLED = {"restarted": "add", "killed": "wait", "stopped": "add", "closer": "add", "garbler": "add", "stray": "add",
            "changer": "count", "huge": "big"}  # fmt: skip


def all_happened(done: Counter[str]) -> bool:
    return min(done["killed"], done["stopped"], done["restarted"], done["huge"]) > 0


async def test_a_fleet_under_load(anyio_backend: str, tmp_path: Path, quick_kill: None) -> None:
    web, restarted = Web("web"), Web("restarted")
    before = children() - {web.process.pid, restarted.process.pid}
    try:
        assert await until(lambda: web.listens() and restarted.listens(), 30)
        tools = McpTools(_fleet(tmp_path, web, restarted), prefix="always")
        await _turn(tools, "huge", random.Random(0), Counter(), [])  # what is imported and kept at the first use
        await tools.aclose()
        files, memory = _open_files(), _memory()

        done: Counter[str] = Counter()
        durations: list[float] = []
        end = anyio.current_time() + SECONDS
        async with anyio.create_task_group() as group:
            async with anyio.create_task_group() as work:
                mischief = anyio.CancelScope()

                async def trouble() -> None:
                    with mischief:
                        await _mischief(tmp_path, restarted, done)

                async def load(number: int) -> None:
                    rng = random.Random(number)
                    while anyio.current_time() < end or (not all_happened(done) and anyio.current_time() < end + 60):
                        # Few of the huge ones: a result of 50 MB takes a second of the processor.
                        troubled = rng.choice([name for name in TROUBLED if name != "huge"])
                        await _turn(tools, "huge" if number == 0 else troubled, rng, done, durations)

                group.start_soon(trouble)
                for number in range(TASKS):
                    work.start_soon(load, number)
            mischief.cancel()
        with anyio.fail_after(20):
            await tools.aclose()
    finally:
        web.stop()
        restarted.stop()
    assert not children() - before, "a child process is left"
    assert await until(lambda: _open_files() <= files, 5), (files, _open_files())
    gc.collect()
    assert _memory() < memory + 64_000_000
    assert done["healthy"] == done["web"] == done["talkative"] == len(durations) > TASKS
    assert all_happened(done), done
    assert max(durations) < LONGEST


async def _turn(tools: McpTools, troubled: str, rng: random.Random, done: Counter[str], durations: list[float]) -> None:
    """One turn: a call of each healthy server, and one of a troubled one beside them."""
    a, b = rng.randrange(1000), rng.randrange(1000)
    arguments: dict[str, Any] = {
        "add": {"a": a, "b": b},
        "wait": {"seconds": 0.5},
        "big": {"size": 50_000_000},
        "count": {},
    }
    name = TROUBLED[troubled]
    calls = [ToolCall(f"{server}_add", {"a": a, "b": b}) for server in ("healthy", "web", "talkative")]
    model = ScriptedModel([[*calls, ToolCall(f"{troubled}_{name}", arguments[name])], "done"])
    advisors = [ToolFallbackAdvisor(), CircuitBreakerAdvisor()]
    start = anyio.current_time()
    response = await ChatClient(model, tools=[tools], advisors=advisors).call("go")
    durations.append(anyio.current_time() - start)
    found = {m.name: m for m in response.new_messages if isinstance(m, ToolMessage)}
    for server in ("healthy", "web", "talkative"):
        assert found[f"{server}_add"].content == str(a + b), found[f"{server}_add"]
        done[server] += 1
    message = found[f"{troubled}_{name}"]
    if troubled == "huge" and "larger than the connection takes" in str(message.content):
        done["huge"] += 1


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _memory() -> int:
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
