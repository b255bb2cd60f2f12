"""Fenced blocks of a Markdown page, with what the tests need to know about each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
