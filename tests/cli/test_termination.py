"""SIGTERM and Ctrl-C end a command, and the server processes that it has started: real processes, real signals."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_client import SERVERS, lives, wait_for

from .conftest import environment

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

CODES = pytest.mark.parametrize(
    ("signum", "code", "says"),
    [(signal.SIGINT, 130, "error: cancelled\n"), (signal.SIGTERM, 143, "error: terminated\n")],
    ids=["ctrl-c", "sigterm"],
)
TOOLS = """
import sys
from advisorchain.mcp import McpServer, McpTools
server = McpServer.stdio(sys.executable, {arguments!r}, name="raw", overrides={{"wait": {{"description": "Do wait."}}}})
tools = McpTools([server])
"""


class Started:
    """A command that runs, and the server process that it has started."""

    def __init__(self, directory: Path, arguments: list[str], ignores_sigint: bool = False) -> None:
        self.starts, self.calls = directory / "starts", directory / "calls"
        command = [sys.executable, "-m", "advisorchain.cli", *arguments]
        if ignores_sigint:  # as a shell starts what runs in the background
            command = ["sh", "-c", f"trap '' INT; exec {shlex.join(command)}"]
        self.process = subprocess.Popen(
            command, cwd=directory, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.servers: set[int] = set()

    def wait_for_server(self) -> None:
        assert wait_for(lambda: bool(self._find()), 20.0), self.end(signal.SIGKILL)

    def wait_for_call(self) -> None:
        """Until the server has got a call."""
        self.wait_for_server()
        assert wait_for(lambda: self.calls.exists(), 20.0), self.end(signal.SIGKILL)

    def _find(self) -> set[int]:
        if self.starts.exists():
            self.servers |= set(map(int, self.starts.read_text().split("\n")[:-1]))
        return self.servers

    def end(self, signum: signal.Signals) -> tuple[int, str, str]:
        """Send the signal; the exit code, and what was printed."""
        self.process.send_signal(signum)
        out, errors = self.process.communicate(timeout=30)
        return self.process.returncode, out, errors

    @property
    def leaves_nothing(self) -> bool:
        return bool(self.servers) and wait_for(lambda: not any(map(lives, self.servers)), 5.0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """``start("mcp", "list", "--stdio", server, habits)``."""
    made: list[Started] = []

    def run(*arguments: str, ignores_sigint: bool = False, **habits: Any) -> Started:
        script = json.dumps(
            {"habits": {"starts": str(tmp_path / "starts"), "calls": str(tmp_path / "calls"), **habits}}
        )
        server = ["-S", "-E", str(SERVERS / "raw.py"), script]
        (tmp_path / "raw_tools.py").write_text(TOOLS.format(arguments=server))
        spec = f"raw={shlex.join([sys.executable, *server])}"
        filled = [spec if argument == "SERVER" else argument for argument in arguments]
        made.append(Started(tmp_path, filled, ignores_sigint))
        return made[-1]

    yield run
    for started in made:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


@CODES
def test_while_connecting_to_a_mute_server(start: Any, signum: Any, code: int, says: str) -> None:
    """A stubborn one hears neither the end of its input nor SIGTERM: it is killed."""
    stubborn = signum == signal.SIGTERM
    started = start("mcp", "list", "--stdio", "SERVER", mute=["initialize", "server/discover"], ignore_term=stubborn)
    started.wait_for_server()
    time.sleep(0.3)
    assert started.end(signum) == (code, "", says)
    assert started.leaves_nothing


@CODES
def test_during_a_call(start: Any, signum: Any, code: int, says: str) -> None:
    started = start("mcp", "call", "raw/wait", "seconds=60", "--stdio", "SERVER")
    started.wait_for_call()
    assert started.end(signum) == (code, "", says)
    assert started.leaves_nothing


@pytest.mark.parametrize("command", ["pin", "diff"])
def test_pins_are_whole_or_not_there(start: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "pins.json").write_text('{"version": 1, "servers": {}}')
    started = start("mcp", command, "--file", "pins.json", "--stdio", "SERVER", slow={"tools/list": 60})
    started.wait_for_server()
    time.sleep(0.5)
    assert started.end(signal.SIGTERM) == (143, "", "error: terminated\n")
    assert json.loads((tmp_path / "pins.json").read_text()) == {"version": 1, "servers": {}}
    assert started.leaves_nothing


@CODES
def test_a_turn_with_tools_of_a_server(start: Any, signum: Any, code: int, says: str) -> None:
    """Nobody closes the user's own McpTools: the connections end with the event loop."""
    stubborn = signum == signal.SIGTERM
    started = start("run", "do wait, 60 seconds", "-t", "raw_tools:tools", "-m", "keyword", ignore_term=stubborn)
    started.wait_for_call()
    assert started.end(signum) == (code, "", says)
    assert started.leaves_nothing


def test_a_turn_that_ends_leaves_no_server(start: Any) -> None:
    started = start("run", "do count", "-t", "raw_tools:tools", "-m", "keyword")
    started.wait_for_call()
    _, errors = started.process.communicate(timeout=30)
    assert started.process.returncode == 0, errors
    assert started.leaves_nothing


@pytest.mark.parametrize("way", ["sigterm in a turn", "sigterm at the prompt", "/exit"])
def test_a_conversation(start: Any, way: str) -> None:
    stubborn = way != "sigterm at the prompt"
    started = start("chat", "-t", "raw_tools:tools", "-m", "keyword", ignore_term=stubborn)
    text = "do wait, 60 seconds" if way == "sigterm in a turn" else "do count"
    started.process.stdin.write(f"{text}\n")
    started.process.stdin.flush()
    started.wait_for_call()
    if way == "/exit":
        out, errors = started.process.communicate("/exit\n", timeout=30)
        assert (started.process.returncode, errors) == (0, "")
    else:
        time.sleep(0.0 if way == "sigterm in a turn" else 1.0)
        code, out, errors = started.end(signal.SIGTERM)
        assert (code, errors) == (143, "")
    assert "Traceback" not in out
    assert started.leaves_nothing


def test_where_ctrl_c_is_ignored_sigterm_is_not(start: Any) -> None:
    started = start("mcp", "call", "raw/wait", "seconds=60", "--stdio", "SERVER", ignores_sigint=True)
    started.wait_for_call()
    started.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert started.process.poll() is None
    assert started.end(signal.SIGTERM) == (143, "", "error: terminated\n")
    assert started.leaves_nothing


def test_sync_code_leaves_no_server_at_its_end(start: Any, tmp_path: Path) -> None:
    """The background loop ends with the process, in order: also a server that hears nothing is gone."""
    start("--version", ignore_term=True).process.communicate(timeout=30)
    code = """
import os, sys
from raw_tools import tools
from advisorchain import ChatClient
from advisorchain.models import KeywordModel
from mcp_client import children
print(ChatClient(KeywordModel(), tools=[tools]).call_sync("do count").stop_reason, *children())
"""
    path = f"{tmp_path}:{Path(__file__).parent.parent / 'support'}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(PYTHONPATH=path), capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    reason, *servers = done.stdout.split()
    assert reason == "final" and len(servers) == 1 and not lives(int(servers[0]))
