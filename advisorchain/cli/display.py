"""How text reaches the terminal: cleaned, wrapped at words while it streams, never read as markup."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console

# C0 and C1 controls except newline and tab, DEL, and what changes the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TOKENS = re.compile(r"\n|[^\S\n]+|[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]+")
# Closing punctuation never begins a line.
_CLOSING = "，。、；：！？）》」』”’"


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
    """

    def __init__(self, console: Console, indent: int = 0) -> None:
        self._console = console
        self._width = max(console.width - indent, 8) if console.is_terminal else sys.maxsize
        self._indent = " " * indent
        self._column = 0
        self._word = ""
        self._space = ""
        self._fresh = True

    @property
    def at_line_start(self) -> bool:
        """Whether nothing stands on the current line."""
        return self._fresh and not self._word

    def write(self, text: str) -> None:
        """Write a piece; its last word waits for the rest of it."""
        pending, self._word = self._word + clean(text), ""
        tokens = _TOKENS.findall(pending)
        if tokens and not tokens[-1].isspace() and len(tokens[-1]) > 1 - tokens[-1].isascii():
            self._word = tokens.pop()
            if len(self._word) > 200:
                tokens.append(self._word)
                self._word = ""
        for token in tokens:
            self._put(token)
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
        if self._column and self._column + len(self._space) + width > self._width and token not in _CLOSING:
            out.write("\n")
            self._column, self._space, self._fresh = 0, "", True
        out.write((self._indent if self._fresh else "") + self._space + token)
        self._column += len(self._space) + width
        self._space, self._fresh = "", False


def print_wrapped(console: Console, text: str, indent: int = 0, hanging: int = 0) -> None:
    """Print lines; on a terminal, long ones go on ``hanging`` columns further in."""
    for line in clean(text).split("\n"):
        lead = len(line) - len(line.lstrip(" "))
        if not console.is_terminal or cell_len(line) + indent <= console.width:
            console.file.write((" " * indent + line).rstrip() + "\n")
            continue
        first = Flow(console, indent)
        rest = Flow(console, indent + lead + hanging)
        words = re.findall(r"\s*\S+", line)
        head = ""
        while words and cell_len(head + words[0]) + indent <= console.width:
            head += words.pop(0)
        if head:
            first.write(head)
            first.end_line()
        rest.write("".join(words).lstrip())
        rest.end_line()
    console.file.flush()
