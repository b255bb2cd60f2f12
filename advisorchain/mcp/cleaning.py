"""Text from a server, made safe to show: without characters that nobody sees but a model reads, and not too long.

Removed are: control characters and terminal escape sequences (tab and line break stay), zero-width and other invisible
characters, controls of the writing direction, Unicode tags, variation selectors that change nothing, characters for
private use (they have no meaning that two parties share), and broken characters. Kept are joiners where writing needs
them: inside an emoji, and between letters of scripts that use them (Arabic, the Indic scripts and others). Flags that
are spelled with tags (England, Scotland, Wales) become a black flag. Long runs of blank space, which push text out of
sight, are shortened.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

MAX_SCHEMA_CHARS = 200_000
"""How much text a schema may have in all: names, descriptions and values."""
MAX_SCHEMA_DEPTH = 50
"""How many levels of a schema are kept."""
MAX_SCHEMA_TEXT = 4_000
"""How long a description or title inside a schema may be."""
MAX_FINDINGS = 20
"""How many findings of one schema are listed."""

_CONTROLS = "control character"
_ESCAPES = "terminal escape sequence"
_INVISIBLE = "zero-width character"
_BIDI = "bidirectional control"
_TAGS = "Unicode tag character"
_SELECTORS = "variation selector"
_PRIVATE = "private-use character"
_BROKEN = "broken character"

_RANGES: tuple[tuple[int, int, str], ...] = (
    (0x00, 0x08, _CONTROLS), (0x0B, 0x0C, _CONTROLS), (0x0E, 0x1F, _CONTROLS), (0x7F, 0x9F, _CONTROLS),
    (0xAD, 0xAD, _INVISIBLE), (0x34F, 0x34F, _INVISIBLE), (0x61C, 0x61C, _BIDI), (0x115F, 0x1160, _INVISIBLE),
    (0x17B4, 0x17B5, _INVISIBLE), (0x180B, 0x180D, _SELECTORS), (0x180E, 0x180E, _INVISIBLE),
    (0x180F, 0x180F, _SELECTORS), (0x200B, 0x200D, _INVISIBLE), (0x200E, 0x200F, _BIDI), (0x202A, 0x202E, _BIDI),
    (0x2060, 0x2065, _INVISIBLE), (0x2066, 0x2069, _BIDI), (0x206A, 0x206F, _INVISIBLE), (0x2800, 0x2800, _INVISIBLE),
    (0x3164, 0x3164, _INVISIBLE), (0xD800, 0xDFFF, _BROKEN), (0xE000, 0xF8FF, _PRIVATE), (0xFDD0, 0xFDEF, _BROKEN),
    (0xFE00, 0xFE0F, _SELECTORS), (0xFEFF, 0xFEFF, _INVISIBLE), (0xFFA0, 0xFFA0, _INVISIBLE),
    (0xFFF0, 0xFFFB, _INVISIBLE), (0xFFFE, 0xFFFF, _BROKEN), (0x13430, 0x1343F, _INVISIBLE),
    (0x1BCA0, 0x1BCA3, _INVISIBLE), (0x1D173, 0x1D17A, _INVISIBLE), (0xE0000, 0xE007F, _TAGS),
    (0xE0080, 0xE00FF, _INVISIBLE), (0xE0100, 0xE01EF, _SELECTORS), (0xE01F0, 0xE0FFF, _INVISIBLE),
    (0xF0000, 0x10FFFF, _PRIVATE),
)  # fmt: skip
_SUSPECT = re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last, _ in _RANGES) + "]")
_LINE_ENDS = re.compile("\r\n?|\u2028|\u2029")
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n){8,}")
_BLANK_RUN = re.compile(r"[^\S\n]{41,}")

_ZWNJ, _ZWJ, _TEXT_STYLE, _EMOJI_STYLE = "\u200c", "\u200d", "\ufe0e", "\ufe0f"
# Scripts whose letters change shape by a joiner: Arabic to Thaana, the Indic ones, Tibetan, Myanmar, Khmer, Mongolian.
_JOINING = ((0x600, 0x7FF), (0x840, 0xDFF), (0xF00, 0x109F), (0x1780, 0x18AF), (0xFB50, 0xFDCF), (0xFE70, 0xFEFC))


def cleaned(text: str, *, limit: int) -> tuple[str, tuple[str, ...]]:
    """The text as it can be shown, and what was done to it, in words; see the module for what is removed.

    Args:
        text: anything.
        limit: how many characters the text may have, its mark (``[cut: ...]``) included.
    """
    size = len(text)
    findings: list[str] = []
    if size > limit * 4 + 1000:  # looking at millions of characters would only cost time
        text = text[: limit * 4 + 1000]
    if _LINE_ENDS.search(text):
        text = _LINE_ENDS.sub("\n", text)
    if _SUSPECT.search(text):
        text, removed = _visible(text)
        findings += removed
    for pattern, instead, what in ((_BLANK_LINES, "\n\n", "blank lines"), (_BLANK_RUN, " ", "spaces")):
        text, found = pattern.subn(instead, text)
        if found:
            findings.append(f"{_count(found, f'long run of {what}', f'long runs of {what}')} shortened")
    if len(text) > limit or size > limit * 4 + 1000:
        mark = f" [cut: {size} characters in all]"
        text = text[: limit - len(mark)] + mark if limit > len(mark) else text[:limit]
        findings.append(f"cut from {size} to {len(text)} characters")
    return text, tuple(findings)


def hidden(text: str) -> tuple[str, ...]:
    """What `cleaned` would remove, in words; nothing about length and blank space."""
    if not _SUSPECT.search(text):
        return ()
    return tuple(_visible(text)[1])


def _visible(text: str) -> tuple[str, list[str]]:
    """The text without characters that cannot be seen, and what they were."""
    counts: Counter[str] = Counter()
    text, escapes = _ESCAPE.subn("", text)
    counts[_ESCAPES] = escapes
    kept: list[str] = []
    spelled: list[str] = []
    for index, char in enumerate(text):
        kind = _kind(char)
        if kind is None or _needed(char, kept[-1] if kept else "", text[index + 1 : index + 2]):
            kept.append(char)
            continue
        counts[kind] += 1
        if kind is _TAGS and 0xE0020 <= ord(char) < 0xE007F:
            spelled.append(chr(ord(char) - 0xE0000))
    findings = [f"{_count(number, kind, kind + 's')} removed" for kind, number in counts.items() if number]
    if spelled:
        secret = "".join(spelled)
        findings.append(f"the tag characters spell {secret if len(secret) <= 100 else secret[:100] + '...'!r}")
    return "".join(kept), findings


def _kind(char: str) -> str | None:
    if not _SUSPECT.match(char):
        return None
    code = ord(char)
    return next(kind for first, last, kind in _RANGES if first <= code <= last)


def _needed(char: str, before: str, after: str) -> bool:
    """Whether a joiner or selector belongs to how its neighbours are written; never two in a row."""
    if not before or (_SUSPECT.match(before) and before != _EMOJI_STYLE):
        return False
    if char in (_ZWNJ, _ZWJ):
        if not after or _SUSPECT.match(after):
            return False
        if char == _ZWJ and (before == _EMOJI_STYLE or _pictured(before)) and _pictured(after):
            return True
        return before != _EMOJI_STYLE and _joins(before) and _joins(after)
    if char in (_TEXT_STYLE, _EMOJI_STYLE) and before != _EMOJI_STYLE:
        return _pictured(before) or before in "0123456789#*\u203c\u2049\u2139"
    return False


def _pictured(char: str) -> bool:
    return 0x1F000 <= ord(char) <= 0x1FAFF or unicodedata.category(char) in ("So", "Sm")


def _joins(char: str) -> bool:
    code = ord(char)
    return any(first <= code <= last for first, last in _JOINING)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# Keywords whose values are data: changing them would change what the schema accepts.
_DATA = frozenset({"const", "default", "enum", "examples", "example", "required", "pattern", "format", "$ref"})
# Keywords whose values are schemas by name.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_HUMAN = frozenset({"description", "title", "$comment"})


def cleaned_schema(
    schema: Mapping[str, Any],
    *,
    limit: int = MAX_SCHEMA_TEXT,
    max_chars: int = MAX_SCHEMA_CHARS,
    max_depth: int = MAX_SCHEMA_DEPTH,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy of a JSON schema whose texts for people can be shown, and what was done to it, in words.

    Only ``description``, ``title`` and ``$comment`` are changed. Names, and values that say what is accepted (``enum``,
    ``const``, ``default``, ``pattern`` and others), stay as they are; hidden characters in them are reported. What is
    nested deeper than ``max_depth`` becomes a schema that accepts anything. A schema with more than ``max_chars``
    characters becomes one that accepts any object: the server checks the arguments anyway.

    Args:
        schema: as the server lists it.
        limit: how many characters a text may have.
        max_chars: how many characters the schema may have.
        max_depth: how many levels are kept.
    """
    walk = _SchemaWalk(limit, max_chars, max_depth)
    try:
        found = walk.schema(schema, "", 1)
    except _TooLarge:
        return {"type": "object"}, (
            f"the schema has more than {max_chars} characters: one that accepts any object stands in its place",
        )
    findings = list(dict.fromkeys(walk.findings))
    if walk.more:
        findings.append(f"and {walk.more} more")
    return found, tuple(findings)


class _TooLarge(Exception):
    pass


class _SchemaWalk:
    def __init__(self, limit: int, room: int, max_depth: int) -> None:
        self.limit, self.room, self.max_depth = limit, room, max_depth
        self.findings: list[str] = []
        self.more = 0

    def schema(self, schema: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in schema.items():
            key = self.name(key, path)
            where = f"{path}/{key}"
            if key in _HUMAN and isinstance(value, str):
                self.take(min(len(value), self.limit))
                found[key], findings = cleaned(value, limit=self.limit)
                self.report(where, findings)
            elif key in _NAMED and isinstance(value, Mapping):
                self.take(2)
                found[key] = {
                    self.name(name, where): self.inner(inner, f"{where}/{name}", depth + 1)
                    for name, inner in value.items()
                }
            elif isinstance(value, list | tuple) and depth >= self.max_depth:
                self.report(where, ("nested too deeply: left out",))
            elif key in _DATA:
                found[key] = self.data(value, where, depth + 1)
            else:
                found[key] = self.inner(value, where, depth + 1)
        return found

    def inner(self, value: Any, path: str, depth: int) -> Any:
        """A schema, a list of schemas, or anything else that a keyword may have."""
        if not isinstance(value, Mapping | list | tuple):
            return self.data(value, path, depth)
        self.take(2)
        if depth > self.max_depth:
            self.report(path, ("nested too deeply: anything is accepted here",))
            return {}
        if isinstance(value, Mapping):
            return self.schema(value, path, depth)
        return [self.inner(item, f"{path}/{index}", depth + 1) for index, item in enumerate(value)]

    def data(self, value: Any, path: str, depth: int) -> Any:
        """A value that stays as it is."""
        if isinstance(value, str):
            self.take(len(value) + 2)
            if findings := hidden(value):
                self.report(path, _left(findings))
            return value
        self.take(2)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth > self.max_depth * 2:
            self.report(path, ("nested too deeply: left out",))
            return None
        if isinstance(value, Mapping):
            return {self.name(key, path): self.data(v, f"{path}/{key}", depth + 1) for key, v in value.items()}
        return [self.data(item, f"{path}/{index}", depth + 1) for index, item in enumerate(value)]

    def name(self, name: Any, path: str) -> str:
        text = str(name)
        self.take(len(text) + 2)
        if findings := hidden(text):
            self.report(f"the name '{text[:80]}' in {path or '/'}", _left(findings))
        return text

    def take(self, chars: int) -> None:
        self.room -= chars
        if self.room < 0:
            raise _TooLarge

    def report(self, where: str, findings: tuple[str, ...]) -> None:
        for finding in findings:
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(f"{ascii(where)[1:-1][:200]}: {finding}")
            else:
                self.more += 1


def _left(findings: tuple[str, ...]) -> tuple[str, ...]:
    """Findings about a value that stays as it is."""
    return tuple(finding.replace(" removed", " (left as it is)") for finding in findings)
