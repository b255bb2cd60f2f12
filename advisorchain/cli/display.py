"""How text reaches the terminal: cleaned, wrapped at words while it streams, never read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console

# C0 and C1 controls except newline and tab, DEL, and what changes the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Closing punctuation never begins a line.
_CLOSING = "，。、；：！？）》」』”’"
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60"
_TOKENS = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
_IS_WIDE = re.compile(f"[{_WIDE}]")
MAX_WORD = 200
"""A word that is not over after this many characters is not waited for."""


def clean(text: str) -> str:
    """The text without control characters (newline and tab stay), bidirectional controls and lone surrogates."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n")).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """The cleaned text in one line."""
    return " ".join(clean(text).split())


def shortened(text: str, width: int) -> str:
    """One cleaned line of at most ``width`` columns; a cut is marked."""
    text = one_line(text)
    if cell_len(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += cell_len(char)
        if used > width - 1:
            break
        kept += char
    return kept + "…"


def open_console(stderr: bool = False) -> Console:
    """A console for stdout or stderr: no markup, no emoji codes, no highlighting of what it prints."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def make_printable(stream: TextIO | Any) -> None:
    """Let a stream replace what its encoding does not have, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


class Flow:
    """Text that arrives in pieces, written at once and wrapped at words; on no terminal it is not wrapped.

    Args:
        console: where to write.
        indent: columns before every line.
        begun: something, ``indent`` columns wide, stands on the first line already.
    """

    def __init__(self, console: Console, indent: int = 0, *, begun: bool = False) -> None:
        self._console = console
        self._wraps = console.is_terminal
        self._width = max(console.width - indent, 8)
        self._indent = " " * indent
        self._column = 0
        self._word = ""
        self._space = ""
        self._fresh = not begun

    @property
    def at_line_start(self) -> bool:
        """Whether nothing stands on the current line."""
        return self._fresh and not self._word

    def write(self, text: str) -> None:
        """Write a piece; on a terminal its last word waits for the rest of it."""
        pending, self._word = self._word + clean(text), ""
        if not self._wraps:
            self._write_plain(pending)
            return
        tokens = _TOKENS.findall(pending)
        if tokens and not tokens[-1].isspace() and not _IS_WIDE.match(tokens[-1]) and len(tokens[-1]) < MAX_WORD:
            self._word = tokens.pop()
        for token in tokens:
            self._put(token)
        self._console.file.flush()

    def _write_plain(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            self._console.file.write((self._indent if self._fresh and line != "\n" else "") + line)
            self._fresh = line.endswith("\n")
        self._console.file.flush()

    def end_line(self) -> None:
        """Write what waits, and end the line if something stands on it."""
        if self._word:
            self._put(self._word)
            self._word = ""
        if not self._fresh:
            self._put("\n")
        self._space = ""
        self._console.file.flush()

    def _put(self, token: str) -> None:
        out = self._console.file
        if token == "\n":
            out.write("\n")
            self._column, self._space, self._fresh = 0, "", True
            return
        if token.isspace():
            self._space += token.expandtabs(4)
            return
        width = cell_len(token)
        # The last two columns are kept for closing punctuation, which must not begin a line.
        limit = self._width if token in _CLOSING else self._width - 2
        if self._column and self._column + len(self._space) + width > limit:
            out.write("\n")
            self._column, self._space, self._fresh = 0, "", True
        out.write((self._indent if self._fresh else "") + self._space + token)
        self._column += len(self._space) + width
        self._space, self._fresh = "", False


_BREAKS = re.compile(rf"\s*(?:[{_WIDE}][{_CLOSING}]*|[^\s.({_WIDE}]+[.(]*|[.(]+)")


def print_wrapped(console: Console, text: str, indent: int = 0, hanging: int = 0) -> None:
    """Print lines; on a terminal, long ones break at words, dots and brackets, and go on ``hanging`` further in."""
    for line in clean(text).split("\n"):
        written = " " * indent + line
        if console.is_terminal and cell_len(written) > console.width:
            written = "\n".join(_broken(written, console.width, hanging))
        console.file.write(written.rstrip() + "\n")
    console.file.flush()


def packed(items: Iterable[str], width: int) -> list[str]:
    """Items joined by a middle dot, as many on each line as fit."""
    lines: list[str] = []
    for item in items:
        if lines and cell_len(f"{lines[-1]} · {item}") <= width:
            lines[-1] += f" · {item}"
        else:
            lines.append(item)
    return lines


def _broken(line: str, width: int, hanging: int) -> list[str]:
    further = " " * (len(line) - len(line.lstrip()) + hanging)
    lines, current = [], ""
    for piece in _BREAKS.findall(line):
        if current.strip() and cell_len(current + piece) > width:
            lines.append(current)
            current, piece = further, piece.lstrip()
        current += piece
    return [*lines, current]
