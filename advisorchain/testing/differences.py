"""What a request asks otherwise than the recorded one, as a diff that a person can read."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ..audit.redaction import REDACTED

LONGEST_DIFF = 200
"""Lines of a diff that are shown."""
LONGEST_LINE = 300
"""Characters of a line that are shown; of two lines that differ, those around the difference."""
_BEFORE = 60
_VOLATILE = "[volatile]"


def aligned(recorded: Any, asked: Any, volatile: Sequence[re.Pattern[str]] = ()) -> Any:
    """``asked`` with the recorded value wherever both mean the same.

    A recorded ``[redacted]`` stands for any text, and what a volatile pattern matches is the same everywhere.
    """
    if recorded == asked and type(recorded) is type(asked):
        return recorded
    if isinstance(recorded, str) and isinstance(asked, str):
        return recorded if _same_text(recorded, asked, volatile) else asked
    if recorded == REDACTED and asked is not None and not isinstance(asked, Mapping | list):
        return recorded
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        before = cast("Mapping[str, Any]", recorded)
        return {
            key: aligned(before[key], value, volatile) if key in before else value
            for key, value in cast("Mapping[str, Any]", asked).items()
        }
    if isinstance(recorded, list) and isinstance(asked, list):
        items: list[Any] = asked
        known: list[Any] = recorded
        paired = [aligned(old, new, volatile) for old, new in zip(known, items, strict=False)]
        return [*paired, *items[len(paired) :]]
    return asked


def difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """A unified diff, field by field and line by line; an empty text when there is none."""
    before, after = list(_lines(recorded)), list(_lines(asked))
    lines = _narrow(list(difflib.unified_diff(before, after, "recorded", "asked now", lineterm="", n=3)))
    if len(lines) > LONGEST_DIFF:
        lines[LONGEST_DIFF:] = [f"... and {len(lines) - LONGEST_DIFF} lines more"]
    return "\n".join(lines)


def _narrow(lines: list[str]) -> list[str]:
    """The lines of a diff, none longer than `LONGEST_LINE` and some dots."""
    narrow: list[str] = []
    removed: list[str] = []
    for sign, group in itertools.groupby(lines, lambda line: line[:1]):
        block = list(group)
        partners = removed if sign == "+" else []
        for line, partner in itertools.zip_longest(block, partners[: len(block)]):
            narrow.append(_cut(line, _same_start(line, partner or line)))
        for index, partner in enumerate(partners[: len(block)]):
            place = len(narrow) - len(block) - len(removed) + index
            narrow[place] = _cut(partner, _same_start(partner, block[index]))
        removed = block if sign == "-" else []
    return narrow


def _same_start(line: str, other: str) -> int:
    """The number of the first character, after the sign, in which two lines of a diff differ; 0 when in none."""
    return next((at for at, (one, two) in enumerate(zip(line[1:], other[1:], strict=False)) if one != two), 0)


def _cut(line: str, differs: int) -> str:
    """A long line around the character of that number."""
    if len(line) <= LONGEST_LINE:
        return line
    start = differs - _BEFORE if differs > LONGEST_LINE - _BEFORE else 0
    end = 1 + start + LONGEST_LINE
    return f"{line[0]}{'...' if start else ''}{line[1 + start : end]}{'...' if end < len(line) else ''}"


def _same_text(recorded: str, asked: str, volatile: Sequence[re.Pattern[str]]) -> bool:
    if recorded == asked:
        return True
    for pattern in volatile:
        recorded, asked = pattern.sub(_VOLATILE, recorded), pattern.sub(_VOLATILE, asked)
    if recorded == asked:
        return True
    first, *rest = recorded.split(REDACTED)
    if not rest or not asked.startswith(first):
        return False
    *middle, last = rest
    at = len(first)
    for piece in middle:
        at = asked.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return len(asked) - len(last) >= at and asked.endswith(last)


def _lines(value: Any, indent: str = "", name: str = "") -> Iterable[str]:
    """A value, one field or one line of text per line."""
    head = f"{indent}{name}:" if name else f"{indent}-"
    if isinstance(value, Mapping):
        if name or indent:
            yield head
        for key, inner in cast("Mapping[str, Any]", value).items():
            yield from _lines(inner, indent + "  " if name or indent else "", str(key))
    elif isinstance(value, list):
        yield head
        for item in value:
            yield from _lines(item, indent + "  ")
    elif isinstance(value, str) and "\n" in value:
        yield head
        for line in value.split("\n"):
            yield f"{indent}  | {line}"
    else:
        yield f"{head} {value!r}"
