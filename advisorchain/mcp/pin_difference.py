"""What differs between two definitions of a tool, in lines that a person reads; hidden characters show as escapes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .listed_tool import ListedTool
from .pin import Pin, definition

MAX_LINES = 100
"""How many lines a difference has at most."""
SHOWN = 120
"""How many characters of a value are shown."""
CONTEXT = 30
"""How many characters before the first difference of two texts are shown."""


def difference(old: Pin | ListedTool | Mapping[str, Any], new: Pin | ListedTool | Mapping[str, Any]) -> list[str]:
    """What has changed, field by field: one line for every value that was added, removed or changed.

    Args:
        old: the pin, a listed tool, or a definition.
        new: the same.
    """
    lines: list[str] = []
    for line in _compare(_definition(old), _definition(new), ""):
        if len(lines) == MAX_LINES:
            lines.append("and more")
            break
        lines.append(line)
    return lines


def _definition(value: Pin | ListedTool | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(value, Pin):
        return value.definition
    return definition(value) if isinstance(value, ListedTool) else value


def _compare(old: Any, new: Any, path: str, depth: int = 0) -> Iterator[str]:
    if depth > 100:
        if _json(old) != _json(new):
            yield f"{_name(path)}: changed, nested too deeply to show"
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{path}/{key}" if path else str(key)
            if key not in new:
                yield f"{_name(where)}: removed, was {_shown(old[key])}"
            elif key not in old:
                yield f"{_name(where)}: added {_shown(new[key])}"
            else:
                yield from _compare(old[key], new[key], where, depth + 1)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for index in range(max(len(old), len(new))):
            where = f"{path}/{index}"
            if index >= len(new):
                yield f"{_name(where)}: removed, was {_shown(old[index])}"
            elif index >= len(old):
                yield f"{_name(where)}: added {_shown(new[index])}"
            else:
                yield from _compare(old[index], new[index], where, depth + 1)
    elif isinstance(old, str) and isinstance(new, str):
        if old != new:
            start = _first_difference(old, new)
            yield f"{_name(path)}: {_shown(old, start)} -> {_shown(new, start)}"
    elif type(old) is not type(new) or old != new:
        yield f"{_name(path)}: {_shown(old)} -> {_shown(new)}"


def _first_difference(old: str, new: str) -> int:
    """Where to begin to show two long texts: a little before they part."""
    if max(len(old), len(new)) <= SHOWN:
        return 0
    low, high = 0, min(len(old), len(new))
    while low < high:  # by halves, because texts may be long
        middle = (low + high + 1) // 2
        if old[:middle] == new[:middle]:
            low = middle
        else:
            high = middle - 1
    return max(low - CONTEXT, 0)


def _shown(value: Any, start: int = 0) -> str:
    if isinstance(value, str):
        text = ascii(value[start : start + SHOWN])
        return f"{'...' if start else ''}{text}{'...' if len(value) > start + SHOWN else ''}"
    text = _json(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _name(path: str) -> str:
    return ascii(path)[1:-1][:300]


def _json(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"
