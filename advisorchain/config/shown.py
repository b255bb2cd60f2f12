"""The settings of a chain as text, as the file writes them; what may be a secret is masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..plugins.making import is_secret
from .environment import is_variable
from .file import ConfigFile
from .problems import shown_path

MASK = "***"
_HIDDEN = frozenset({"env", "headers"})
"""Tables of which every value may be a secret."""
_LOGIN = re.compile(r"://[^/\s]*@")
"""A URL with a name and a password, whatever its key is called."""
_LONG = 60


def settings_of(file: ConfigFile, chain: str | None) -> list[str]:
    """One line for each setting of a chain, ``key = value``; variables are shown by their names."""
    table: Mapping[str, Any] = file.source.table
    if chain is not None:
        table = table["chains"][chain]
    return [line for key, value in table.items() if key not in ("chains", "plugins") for line in _lines((key,), value)]


def _lines(path: tuple[str | int, ...], value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _lines((*path, key), item)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _lines((*path, number), item)
    else:
        yield f"{shown_path(path)} = {_shown(path, value)}"


def _shown(path: tuple[str | int, ...], value: Any) -> str:
    if is_variable(value) or isinstance(value, bool | int | float):
        return json.dumps(value)
    if path[:1] == ("mcp",) and path[2:3] == ("args",):  # a program's arguments may hold anything
        return f"{len(value)} arguments"
    if any(is_secret(part) or part in _HIDDEN for part in path[1:]):
        return MASK
    if isinstance(value, str) and _LOGIN.search(value):
        return MASK
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
