"""The problems of a configuration: collected, so that one run shows them all; each with file, line and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from ..errors import ConfigurationError
from .lines import KeyPath

MAX_SHOWN = 20
"""How many problems one error tells."""

MAX_FOUND = 100
"""After so many, nothing more is looked for."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MAX_CHARS = 2_000


class Scrub(Protocol):
    """Takes secrets out of a text."""

    def __call__(self, text: str, /) -> str:
        """The text without secrets."""
        ...


class Problems:
    """What is wrong with one file.

    Args:
        file: its name, as errors show it.
        lines: in which line a key stands.
        above: what the paths of problems are relative to, for example ``("tool", "advisorchain")``.
    """

    def __init__(self, file: str, lines: Mapping[KeyPath, int] | None = None, above: KeyPath = ()) -> None:
        self.file = file
        self.scrub: Scrub = str
        self._lines = lines or {}
        self._above = above
        self._found: dict[str, int] = {}

    def add(self, path: KeyPath, text: str, file: str | None = None) -> None:
        """Note a problem of the value at the path; ``file`` is another file that is meant."""
        if self.full:
            return
        line = 0 if file is not None else self._line(path)
        place = f"{file or self.file}:{line}" if line else file or self.file
        key = shown_path(path)
        told = f"{place}: {key + ': ' if key else ''}{self.scrub(text)}"
        if len(told) > _MAX_CHARS:
            told = told[:_MAX_CHARS] + "…"
        self._found.setdefault(told, line)

    @property
    def full(self) -> bool:
        """Whether it is enough: a careless file of a megabyte may have a problem in each of its lines."""
        return len(self._found) >= MAX_FOUND

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """End a phase.

        Raises:
            ConfigurationError: something was found; its text has one line for each, in the order of the file.
        """
        if not self._found:
            return
        told = sorted(self._found, key=self._found.__getitem__)
        if len(told) == 1:
            raise ConfigurationError(told[0])
        lines = [f"{len(told)} problems{' or more' if self.full else ''} in {self.file}:", *told[:MAX_SHOWN]]
        if len(told) > MAX_SHOWN:
            lines.append(f"… and {len(told) - MAX_SHOWN} more")
        raise ConfigurationError("\n".join(lines))

    def _line(self, path: KeyPath) -> int:
        """The line of the value, or of the nearest thing around it."""
        whole = (*self._above, *path)
        for end in range(len(whole), 0, -1):
            if whole[:end] in self._lines:
                return self._lines[whole[:end]]
        return 0


def shown_path(path: KeyPath) -> str:
    """A path as one would write it: ``advisors[0].max_rounds``; items count from 0."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if _BARE.fullmatch(part) else ascii(part[:100])
            text += f".{shown}" if text else shown
    return text


def nearest(name: str, known: Iterable[str], what: str = "possible") -> str:
    """A hint at the known name that is meant, or at all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:100], names, 1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    shown = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    return f"{what}: {shown}." if names else f"{what}: none."
