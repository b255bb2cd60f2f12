"""How the tests of the command line program run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = '''
import anyio
from advisorchain import ToolContext, ToolError, tool


@tool
async def echo(text: str) -> str:
    """Echo a text."""
    return text


@tool
async def hostile(text: str = "") -> str:
    """Print something hostile."""
    return "[bold red]A[/] \\x1b[31mB\\x1b]0;title\\x07 \\x9bC \\u202eD\\u2066 :smile: \\x00\\x08E\\ttab"


@tool
async def broken(text: str = "") -> str:
    """Do something broken."""
    raise ValueError("secret\\x1b[2J detail")


@tool
async def slow(context: ToolContext) -> str:
    """Do something slow."""
    for step in range(300):
        await context.progress(step, 300, "working")
        await anyio.sleep(0.1)
    return "done"


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    @tool
    async def count(self) -> str:
        """Count the calls."""
        self.calls += 1
        return f"call {self.calls}"


class NeedsArguments:
    def __init__(self, key: str) -> None:
        pass


everything = [echo, hostile, broken, slow]
nested = Counter
not_a_tool = 42
'''

Advisorchain = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """A directory with a user's own tools."""
    (tmp_path / "my_tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "fails.py").write_text("raise RuntimeError('first line\\nsecond line')", encoding="utf-8")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(3)", encoding="utf-8")
    return tmp_path


def environment(**changes: str) -> dict[str, str]:
    """A plain environment: no key, no colours asked for, UTF-8."""
    kept = {
        key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "SYSTEMROOT", "PYTHONPATH", "TERM")
    }
    return {**kept, "PYTHONUTF8": "1", **changes}


@pytest.fixture
def advisorchain(work_dir: Path) -> Advisorchain:
    """Run the program in a process of its own, in the user's directory."""

    def run(*arguments: str, input: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "advisorchain.cli", *arguments],
            cwd=work_dir,
            env=environment(**changes),
            input=input,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )

    return run
