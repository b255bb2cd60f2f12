"""In which line of a TOML file a key stands, which `tomllib` does not say, and how deep it nests, before parsing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

KeyPath = tuple[str | int, ...]
"""Keys from the top of a file down, with the numbers of list items (from 0)."""

MAX_DEPTH = 32
"""How long the path to a value may be."""

_BLANK = re.compile(r"[ \t]*+")
_SKIP = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")
_REST = re.compile(r"[ \t]*+(?:#[^\n]*+)?\r?(?:\n|\Z)")
_PART = re.compile(r'[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\[^\n])*+"|' + r"'[^'\n]*+'")
_TEXT = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*+"{3,5}|' + r"'''(?:(?!''').)*+'{3,5}|" + r'"(?:[^"\\\n]|\\[^\n])*+"|' + r"'[^'\n]*+'",
    re.DOTALL,
)
_OTHER = re.compile(r"[^\s,\[\]{}#\"'=][^,\[\]{}#\"'=\n]*+")


class TooDeepError(Exception):
    """The file nests deeper than `MAX_DEPTH`."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _NoToml(Exception):
    """What follows is not read: `tomllib` says what is wrong with it."""


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """The line (from 1) of every key, table and list item of a TOML text, by its path; up to the first syntax error.

    Raises:
        TooDeepError: a path is longer than `MAX_DEPTH`.
    """
    scanner = _Scanner(text)
    with suppress(_NoToml):
        scanner.run()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.lines: dict[KeyPath, int] = {}
        self._seen = 0  # up to here, line ends are counted
        self._tables: dict[KeyPath, int] = {}  # lists of tables, and how many each has

    def run(self) -> None:
        header: KeyPath = ()
        self._skip(_SKIP)
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                header = self._header()
            else:
                self._pair(header)
            if not self._skip(_REST):
                raise _NoToml
            self._skip(_SKIP)

    def _header(self) -> KeyPath:
        opening = "[[" if self.text.startswith("[[", self.at) else "["
        self.at += len(opening)
        parts = self._key()
        if not self.text.startswith("]" * len(opening), self.at):
            raise _NoToml
        self.at += len(opening)
        if opening == "[":
            path = self._within(parts)
        else:
            listed = (*self._within(parts[:-1]), parts[-1])
            self._note(listed)
            number = self._tables[listed] = self._tables.get(listed, -1) + 1
            path = (*listed, number)
        self._note(path)
        return path

    def _within(self, parts: KeyPath) -> KeyPath:
        """The path of a table; a list of tables on the way stands for its last one."""
        path: KeyPath = ()
        for part in parts:
            path = (*path, part)
            self._note(path)
            number = self._tables.get(path)
            if number is not None:
                path = (*path, number)
        return path

    def _pair(self, table: KeyPath) -> None:
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path)
        if not self.text.startswith("=", self.at):
            raise _NoToml
        self.at += 1
        self._skip(_BLANK)
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            found = _PART.match(self.text, self.at)
            if found is None:
                raise _NoToml
            self.at = found.end()
            parts.append(_plain(found[0]))
            if len(parts) > MAX_DEPTH:
                self._too_deep()
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        opening = self.text[self.at : self.at + 1]
        if opening not in ("[", "{"):
            found = (_TEXT if opening in ('"', "'") else _OTHER).match(self.text, self.at)
            if found is None:
                raise _NoToml
            self.at = found.end()
            return
        if len(path) > MAX_DEPTH:
            self._too_deep()
        closing = "]" if opening == "[" else "}"
        self.at += 1
        number = 0
        while True:
            self._skip(_SKIP)
            if self.text.startswith(closing, self.at):
                self.at += 1
                return
            if opening == "{":
                self._pair(path)
            else:
                item = (*path, number)
                self._note(item)
                self._value(item)
                number += 1
            self._skip(_SKIP)
            if self.text.startswith(",", self.at):
                self.at += 1
            elif not self.text.startswith(closing, self.at):
                raise _NoToml

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found is not None

    def _note(self, path: KeyPath) -> None:
        if len(path) > MAX_DEPTH:
            self._too_deep()
        if path not in self.lines:
            self.lines[path] = self._line()

    def _line(self) -> int:
        self.line += self.text.count("\n", self._seen, self.at)
        self._seen = self.at
        return self.line

    def _too_deep(self) -> NoReturn:
        raise TooDeepError(self._line())


def _plain(part: str) -> str:
    """A part of a key without its quotes."""
    if part[0] == "'" or (part[0] == '"' and "\\" not in part):
        return part[1:-1]
    if part[0] != '"':
        return part
    try:
        key: str = tomllib.loads(f"key = {part}")["key"]
    except tomllib.TOMLDecodeError:
        raise _NoToml from None
    return key
