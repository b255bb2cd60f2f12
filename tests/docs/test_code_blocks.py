"""README and docs are programs: every Python block runs, and prints what the page says it prints.

The blocks of a page run in order in one namespace, as if pasted into one session. Top-level ``await`` is allowed, as in
``python -m asyncio``; such a block runs on asyncio and on trio. What a block prints must be shown, in a ``text`` block
right below it or in ``# -> ...`` comments, and must match: ``...`` in a shown line stands for any text.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import anyio
import pytest

import advisorchain
from advisorchain import ChatClient, Order, errors, events
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel

from .markdown import PAGES, ROOT, Block, blocks_of

BLOCKS = {page: blocks_of(page) for page in PAGES}
LANGUAGES = {"python", "text", "console", "toml", "json", "mermaid"}

ids = [page.relative_to(ROOT).as_posix() for page in PAGES]


def python_blocks(page: Path) -> list[Block]:
    return [block for block in BLOCKS[page] if block.language == "python" and "needs" not in block.marks]


def run_block(block: Block, namespace: dict[str, Any], backend: str) -> str:
    """Run a block in the page's namespace and return what it prints."""
    source = "\n" * block.line + block.text  # so that a traceback shows the page's line
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, str(block.page), "exec", flags=flags, dont_inherit=True)
    # A block that shows a file is that module; any other is the reader's own script.
    namespace["__name__"] = "example" if "file" in block.marks else "__main__"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:

            async def run() -> None:
                await types.FunctionType(code, namespace)()

            anyio.run(run, backend=backend)
        else:
            exec(code, namespace)
    return printed.getvalue()


def shown_output(block: Block) -> str | None:
    """What the page says that the block prints."""
    comments: list[str] = re.findall(r"# -> ?(.*)$", block.text, re.M)
    if comments:
        assert block.output is None, f"{block}: its output is shown twice"
        return "\n".join(comments) + "\n"
    return block.output


def assert_matches(printed: str, shown: str, where: object) -> None:
    printed_lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    shown_lines = [line.rstrip() for line in shown.rstrip().splitlines()]
    patterns = [".*".join(map(re.escape, line.split("..."))) for line in shown_lines]
    same = len(printed_lines) == len(patterns) and all(map(re.fullmatch, patterns, printed_lines))
    assert same, f"{where} prints\n{printed}\nbut shows\n{shown}"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_python_blocks_run(page: Path, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    namespace: dict[str, Any] = {}
    for block in python_blocks(page):
        printed = run_block(block, namespace, backend)
        shown = shown_output(block)
        if shown is None:
            assert not printed, f"{block} prints text that the page does not show:\n{printed}"
        else:
            assert_matches(printed, shown, block)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_blocks_are_known(page: Path) -> None:
    """A block in another language, or with attributes that hide it from these tests, would not be tested."""
    for block in BLOCKS[page]:
        assert block.language in LANGUAGES, f"{block}: unknown language {block.language!r}"
        assert block.marks.keys() <= {"file", "needs"}, f"{block}: unknown marks {block.marks}"


def test_there_is_something_to_run() -> None:
    assert sum(len(python_blocks(page)) for page in PAGES) > 40


FILE_BLOCKS = [block for page in PAGES for block in BLOCKS[page] if "file" in block.marks]


@pytest.mark.parametrize("block", FILE_BLOCKS, ids=str)
def test_shown_files_are_the_files(block: Block) -> None:
    assert block.text == (ROOT / "docs" / block.marks["file"]).read_text(encoding="utf-8")


KEY_BLOCKS = [block for page in PAGES for block in BLOCKS[page] if "needs" in block.marks]


def test_blocks_that_need_a_key_are_type_checked(tmp_path: Path) -> None:
    """They call a provider, so they cannot run here; all else about them is checked."""
    assert KEY_BLOCKS
    for number, block in enumerate(KEY_BLOCKS):
        assert re.fullmatch(r"[A-Z][A-Z0-9_]+", block.marks["needs"]), f"{block}: name the variable that it needs"
        body = textwrap.indent(block.text, "    ")
        (tmp_path / f"block_{number}.py").write_text(f"# {block}\nasync def main() -> None:\n{body}\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, str(tmp_path)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


# `pip install uv && uv run --all-extras advisorchain demo` and `advisorchain demo` run the same program here.
_CLI = re.compile(r"^(?:pip install uv && )?(?:uv run (?:--[\w-]+ )*)?(?P<command>advisorchain\b.*)$")
CONSOLE_BLOCKS = [block for page in PAGES for block in BLOCKS[page] if block.language == "console"]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(shown)) for command, shown in found]


@pytest.mark.parametrize("block", CONSOLE_BLOCKS, ids=str)
def test_console_blocks_run(block: Block, tmp_path: Path) -> None:
    """Commands of our own program run; the test command is the one that this very run was started with."""
    assert commands(block), f"{block}: start the commands with '$ '"
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "120"}
    environment.pop("OPENAI_API_KEY", None)
    environment["PYTHONPATH"] = str(ROOT / "docs" / "examples")
    for command, shown in commands(block):
        ours = _CLI.match(command)
        if ours is None:
            assert re.match(
                r"(?:pip install|pip install uv && uv run --all-packages --all-extras pytest)\b", command
            ), f"{block}: nothing tests the command {command!r}"
            continue
        done = subprocess.run(
            ours["command"], shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"{block}: {command}\n{done.stdout}\n{done.stderr}"
        if shown.strip():
            assert_matches(done.stdout, shown, block)


def test_the_test_command_of_the_readme_is_the_one_of_ci() -> None:
    command = "uv run --all-packages --all-extras pytest"
    assert f"pip install uv && {command}" in (ROOT / "README.md").read_text(encoding="utf-8")
    ci = ROOT / ".ci" / "run"
    if not ci.exists():  # an archive of the sources
        pytest.skip(".ci/run is not here")
    assert command in ci.read_text(encoding="utf-8")


# Tables and trees that repeat what the source says -------------------------------------------------------------------


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_the_ladder_is_the_enum(page: Path) -> None:
    rows = re.findall(r"^\| \**(\d+)\** \| \**`(\w+)`\** \|", page.read_text(encoding="utf-8"), re.M)
    assert [(name, int(order)) for order, name in rows] == [(place.name, place.value) for place in Order]


def test_the_places_in_bold_are_taken() -> None:
    rows = re.findall(r"^\| \*\*(\d+)\*\* \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    chain = ChatClient(ScriptedModel([])).chain
    assert [int(order) for order in rows] == [entry.order for entry in chain.entries]


def test_the_table_of_events_is_complete() -> None:
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ?([^|]*?) ?\|$", page, re.M))
    kinds = {
        kind.__name__: {field.name for field in dataclasses.fields(kind)} - {"path", "round", "attempt"}
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
    }
    assert {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows.items()} == kinds


def test_the_tree_of_errors_is_the_one_of_the_source() -> None:
    def names(text: str) -> list[str]:
        return re.findall(r"^\s*[│├└─ ]*(\w+(?:Error))\b", text, re.M)

    assert errors.__doc__ is not None
    tree = next(block.text for block in BLOCKS[ROOT / "docs" / "errors.md"] if block.language == "text")
    assert names(tree) == names(errors.__doc__)
    defined = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type)]
    assert sorted(names(tree)) == sorted(set(defined) & set(dir(advisorchain)))


@pytest.mark.parametrize(
    ("page", "name", "shown"),
    [
        ("tools.md", "result.MAX_RESULT_CHARS", "100,000 characters"),
        ("tools.md", "result.MAX_RESULT_BYTES", "16 MiB"),
        ("tools.md", "threads.TOOL_THREADS", "at most **40** at once"),
        ("tools.md", "threads.MAX_ABANDONED_THREADS", "When **32** threads"),
        ("tools.md", "batch.CONCURRENCY", "at most 8 at once"),
        ("streaming.md", "stream.QUEUED_EVENTS", "Above 256 unread events"),
        ("sub-agents.md", "sub_agent.SUB_AGENT_TIMEOUT", "600 seconds"),
        ("writing-an-advisor.md", "context.TURN_END_SECONDS", "have 5\nseconds"),
    ],
)
def test_the_numbers_are_those_of_the_source(page: str, name: str, shown: str) -> None:
    module, _, constant = name.rpartition(".")
    package = "advisorchain.tools" if page == "tools.md" else "advisorchain"
    value = getattr(importlib.import_module(f"{package}.{module}"), constant)
    assert shown in (ROOT / "docs" / page).read_text(encoding="utf-8")
    (number,) = re.findall(r"[\d,]+", shown)
    assert float(number.replace(",", "")) * (2**20 if "MiB" in shown else 1) == value


def test_the_limits_are_those_of_the_source() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(max_\w+)` \| ([^|]+) \|", page, re.M))
    parameters = inspect.signature(ToolCallingAdvisor).parameters
    actual = {name: parameters[name].default for name in parameters if name.startswith("max_") and "chars" not in name}
    assert {name: None if text == "no limit" else int(text) for name, text in shown.items()} == actual
