"""How the tests of the command line program run it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


ShowPage = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; one for all tests of a module."""
    from chromium import open_chromium

    with open_chromium() as found:
        yield found


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[ShowPage]:
    """Write the page of a trace and open it; at the end nothing was logged, no script failed, nothing was asked for."""
    from chromium import Tab
    from made_traces import travel_turn

    from advisorchain.cli.trace_page import write_trace_page
    from advisorchain.cli.trace_spans import TraceSpan, span_of

    tabs: list[Tab] = []

    def open_page(spans: list[TraceSpan] | None = None, title: str = "sample.jsonl", **options: Any) -> Page:
        path = tmp_path / f"page{len(tabs)}.html"
        write_trace_page([span_of(span) for span in travel_turn()] if spans is None else spans, path, title)
        tabs.append(Tab(browser, path, **options))
        return tabs[-1].page

    yield open_page
    for index, tab in enumerate(tabs):
        assert tab.problems == []
        assert tab.requests == [(tmp_path / f"page{index}.html").as_uri()]
        tab.context.close()
