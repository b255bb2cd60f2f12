"""README and docs are programs: every Python block runs, and prints what the page says it prints.

The blocks of a page run in order in one namespace, as if pasted into one session. Top-level ``await`` is allowed, as in
``python -m asyncio``; such a block runs on asyncio and on trio. What a block prints must be shown, in a ``text`` block
right below it or in ``# -> ...`` comments, and must match: ``...`` in a shown line stands for any text.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*)(?P<attributes>.*)$")
_COMMENT = re.compile(r"^<!-- (?P<key>[\w-]+): (?P<value>.+) -->$")


@dataclass
class Block:
    """One fenced block.

    ``marks`` are the comments right above it: ``<!-- file: examples/sse.py -->`` (the block is that file),
    ``<!-- needs: OPENAI_API_KEY -->`` (it cannot run here: it is type-checked instead).
    """

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str]
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The page's blocks in order; a ``text`` block right after a ``python`` block is its output."""
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    between = False  # prose since the last block
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            comment = _COMMENT.match(line)
            if comment is not None:
                marks[comment["key"]] = comment["value"]
            elif line.strip():
                marks, between = {}, True
            continue
        indent, body = len(fence["indent"]), []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner[indent:])
        else:
            raise AssertionError(f"{page.relative_to(ROOT)}:{number}: the block is not closed")
        block = Block(page, number, fence["language"], "\n".join(body) + "\n", marks)
        if block.language == "text" and not between and blocks and blocks[-1].language == "python":
            blocks[-1].output = block.text
        blocks.append(block)
        marks, between = {}, False
    return blocks


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
    for block in BLOCKS[page]:
        if block.language == "toml" and "file" in block.marks:  # a configuration stands beside the program
            (tmp_path / Path(block.marks["file"]).name).write_text(block.text, encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    # exec adds this by itself, running a coroutine function does not; Python 3.12 looks for it.
    namespace: dict[str, Any] = {"__builtins__": builtins}
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
_CLI = re.compile(
    r"^(?:pip install uv && )?(?:uv run (?:--[\w-]+ )*)?(?P<command>(?:echo \"[^\"]*\" \| )?advisorchain\b.*)$"
)
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
    """Commands of our own program run, beside a copy of the examples; for the test command see below."""
    examples = shutil.copytree(ROOT / "docs" / "examples", tmp_path / "examples")
    assert commands(block), f"{block}: start the commands with '$ '"
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "120"}
    environment.pop("OPENAI_API_KEY", None)
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
    for command, shown in commands(block):
        ours = _CLI.match(command)
        if ours is None:
            assert re.match(
                r"(?:pip install|pip install uv && uv run --all-packages --all-extras pytest)\b", command
            ), f"{block}: nothing tests the command {command!r}"
            continue
        done = subprocess.run(
            ours["command"],
            shell=True,
            cwd=examples,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=100,
        )
        assert done.returncode == 0, f"{block}: {command}\n{done.stdout}\n{done.stderr}"
        if shown.strip():
            assert_matches(done.stdout, shown, block)


def test_the_test_command_of_the_readme_is_the_one_of_ci() -> None:
    command = "uv run --all-packages --all-extras pytest -n auto"
    assert f"pip install uv && {command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    ci = ROOT / ".ci" / "run"
    if not ci.exists():  # an archive of the sources
        pytest.skip(".ci/run is not here")
    assert f"    {command} " in ci.read_text(encoding="utf-8")
