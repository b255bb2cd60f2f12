"""Taking secrets out of what is recorded: by field name, by form, and by the values of environment variables."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard, cast
from urllib.parse import quote, quote_plus

from ..audit.redaction import MIN_SECRET, REDACTED, Redaction

SHORTEST_UNNAMED_SECRET = 8
"""A shorter value of an environment variable, or in a text, is too likely to be a word elsewhere."""

_ENVIRONMENT_ENDINGS = ("_key", "_token", "_secret", "_password", "_passwd", "_pwd", "_pass", "_credentials", "_auth")
_WITHIN_SCHEMA = frozenset({"const", "default", "enum", "example", "examples"})
_SCHEMA_WORDS = frozenset({
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "description", "format", "items", "maxItems",
    "maxLength", "maximum", "minItems", "minLength", "minimum", "oneOf", "pattern", "properties", "required", "title",
    "type",
})  # fmt: skip
"""Of a described field that is a secret, what is none."""
_SCHEMA_FIELDS = frozenset({"input_schema", "output_schema", "schema", "parameters"})

# Each has one group, the secret itself, or none: all of it.
_FORMS = tuple(
    re.compile(form, flags)
    for form, flags in (
        # Not the words of "a basic understanding": a credential has a digit, or capitals inside.
        (r"\b(?i:bearer|basic)\s+(?=[\w.~+/-]{0,200}(?:[0-9=]|[a-z][A-Z]))([\w.~+/=-]{8,})", re.ASCII),
        (r"\bauthorization[\"']?\s*:\s*[\"']?(?:bearer|basic|digest|token|apikey)\s+([^\s\"',;]{8,})", re.IGNORECASE),
        (r"\b(?:set-)?cookie:[ \t]*([^\s=\"']+=[^\r\n\"']{4,})", re.IGNORECASE),
        # Not within base64, which has such pieces by chance.
        (r"(?<![\w-])(?:sk|rk|pk)-[A-Za-z0-9_-]{8,}", 0),
        (r"(?<![\w-])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}", 0),
        (r"(?<![\w-])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})", 0),
        (r"(?<![\w-])xox[abeprs]-[A-Za-z0-9-]{10,}", 0),
        (r"(?<![\w-])(?:(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[0-9A-Za-z_-]{30,}|hf_[A-Za-z0-9]{20,})", 0),
        (r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]*", 0),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        (r"://[^/\s:@]*:([^/\s@]+)@", 0),
    )
)
# In texts: "password": "x", password=x, and password: x1. Prose such as "the password: ask Ann" is left alone.
# A name begins where a word does, and has an end: otherwise a long word would take for ever.
_NAME = re.compile(r"(?<![A-Za-z0-9_.])[A-Za-z][\w.-]{0,80}(?=[\"'=:])")
_VALUE = re.compile(
    r"[\"']\s*[:=]\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\w.+-]+)"
    r"|=([^\s&;,\"'<>)\]}]{4,})"
    r"|:[ \t]*(?=[^\s,;\"'<>)\]}]{0,200}\d)([^\s,;\"'<>)\]}]{6,})"
)


class _Span(NamedTuple):
    start: int
    end: int


class Scrubber:
    """Replaces secrets with ``[redacted]``; remembers what it has found and takes it out of every later value, too.

    Args:
        fields: field names that hold secrets, besides the audit's (``password``, ``token``, ``api_key``, …).
        patterns: regular expressions of further secrets; with a group, only what the first group matches goes.
    """

    def __init__(self, fields: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        self._names = Redaction(fields)
        self._forms = (*_FORMS, *[re.compile(pattern) for pattern in patterns])
        self._known: dict[str, frozenset[str]] = {}
        """Secrets, and how they are spelled."""
        for name, value in os.environ.items():
            if self._is_environment_secret(name, value):
                self._know(value)

    def _is_environment_secret(self, name: str, value: str) -> bool:
        looks = self._names.is_secret(name) or name.lower().endswith(_ENVIRONMENT_ENDINGS)
        return looks and len(value) >= SHORTEST_UNNAMED_SECRET

    @property
    def known_secrets(self) -> int:
        """How many secrets it remembers."""
        return len(self._known)

    def data(self, value: Any) -> Any:
        """JSON data without its secrets: what a secret field holds, and what is a secret by form, in keys, too."""
        self._learn(value)
        return self._cleaned(value, in_schema=False)

    def text(self, text: str) -> str:
        """A text without its secrets."""
        return self.pieces([text])[0]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """A text in pieces without its secrets, also those that go from one piece into the next.

        A text that is a JSON object as a whole is cleaned as data; if that takes something out, all of it is in the
        first piece.
        """
        whole = "".join(pieces)
        self._learn(whole)
        value = _json_object(whole)
        if value is not None:
            clean = self.data(value)
            if clean != value:
                return [json.dumps(clean, ensure_ascii=False), *[""] * (len(pieces) - 1)]
        return _without(pieces, self._spans(whole))

    def _learn(self, value: Any) -> None:
        """Remember what secret fields hold, and what a text calls a secret."""
        if isinstance(value, Mapping):
            for key, inner in cast("Mapping[str, Any]", value).items():
                if not self._names.is_secret(str(key)):
                    self._learn(inner)
                elif not _is_schema(inner):
                    self._remember(inner)
                else:
                    self._remember([one for word, one in inner.items() if word not in _SCHEMA_WORDS | _WITHIN_SCHEMA])
        elif isinstance(value, list | tuple):
            for item in cast("Iterable[Any]", value):
                self._learn(item)
        elif isinstance(value, str):
            if (inner := _json_object(value)) is not None:
                self._learn(inner)
            for span in self._named(value):
                found = value[span.start : span.end]
                if len(found) >= SHORTEST_UNNAMED_SECRET and any(map(str.isdigit, found)):
                    self._know(found)

    def _remember(self, value: Any) -> None:
        if isinstance(value, Mapping):
            for inner in cast("Mapping[str, Any]", value).values():
                self._remember(inner)
        elif isinstance(value, list | tuple):
            for item in cast("Iterable[Any]", value):
                self._remember(item)
        elif isinstance(value, str | int | float) and not isinstance(value, bool) and len(str(value)) >= MIN_SECRET:
            self._know(str(value))

    def _know(self, secret: str) -> None:
        if secret not in self._known and secret != REDACTED:
            self._known[secret] = _spellings(secret)

    def _cleaned(self, value: Any, *, in_schema: bool, secret: bool = False) -> Any:
        if isinstance(value, Mapping):
            clean: dict[str, Any] = {}
            for key, inner in cast("Mapping[str, Any]", value).items():
                named = self._names.is_secret(str(key))
                if in_schema or _is_schema(inner):
                    hidden = secret and key not in _SCHEMA_WORDS
                    done = _hidden(inner) if hidden else self._cleaned(inner, in_schema=True, secret=named)
                elif named:
                    done = _hidden(inner)
                else:
                    done = self._cleaned(inner, in_schema=key in _SCHEMA_FIELDS)
                clean[self._plain_text(str(key))] = done
            return clean
        if isinstance(value, list | tuple):
            return [self._cleaned(item, in_schema=in_schema) for item in cast("Iterable[Any]", value)]
        if isinstance(value, str):
            return self._text_in_data(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._known:
            return REDACTED
        return value

    def _text_in_data(self, text: str) -> str:
        inner = _json_object(text)
        if inner is not None:
            clean = self._cleaned(inner, in_schema=False)
            if clean != inner:
                return json.dumps(clean, ensure_ascii=False)
        return self._plain_text(text)

    def _plain_text(self, text: str) -> str:
        return _without([text], self._spans(text))[0]

    def _spans(self, text: str) -> list[_Span]:
        """Where the secrets of a text are, in order and apart from one another."""
        found = self._named(text)
        for form in self._forms:
            if not form.groups:
                found += [_Span(*match.span()) for match in form.finditer(text)]
        for spellings in self._known.values():
            for spelled in spellings:
                start = text.find(spelled)
                while start >= 0:
                    found.append(_Span(start, start + len(spelled)))
                    start = text.find(spelled, start + len(spelled))
        return _merged(span for span in found if span.start < span.end)

    def _named(self, text: str) -> list[_Span]:
        """Secrets that the words around them give away: ``password=...``, ``Authorization: Bearer ...``."""
        found: list[_Span] = []
        for form in self._forms:
            if form.groups:
                found += [_Span(*match.span(0 if match[1] is None else 1)) for match in form.finditer(text)]
        end = 0
        for name in _NAME.finditer(text):
            if name.start() < end or not self._names.is_secret(name[0]):
                continue
            if (value := _VALUE.match(text, name.end())) is not None:
                start, end = value.span(value.lastindex or 0)
                quoted = text[start] in "\"'"
                found.append(_Span(start + quoted, end - quoted))
        return found


def _spellings(secret: str) -> frozenset[str]:
    """How a secret may stand in a text: as it is, in JSON, in an address, and within base64."""
    found = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    data = secret.encode(errors="replace")
    found |= {quote(data), quote(data, safe=""), quote_plus(data)}
    if len(data) >= SHORTEST_UNNAMED_SECRET:
        for before in range(3):  # where it begins within the three bytes that make four letters
            letters = base64.b64encode(bytes(before) + data).decode()
            inner = letters[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
            found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return frozenset(found)


def _is_schema(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value describes a field instead of being one: ``{"password": {"type": "string"}}`` is no secret."""
    if not isinstance(value, Mapping):
        return False
    node = cast("Mapping[str, Any]", value)
    kind = node.get("type")
    known = ("string", "integer", "number", "boolean", "object", "array", "null")
    return kind in known if isinstance(kind, str) else isinstance(kind, list) or "$ref" in node or "anyOf" in node


def _hidden(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) or value == "" else REDACTED


def _json_object(text: str) -> dict[str, Any] | None:
    if text[:1] != "{":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            merged[-1] = _Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _without(pieces: Sequence[str], spans: Sequence[_Span]) -> list[str]:
    """The pieces with every span replaced in the piece where it starts, and cut out of those where it goes on."""
    if not spans:
        return list(pieces)
    clean: list[str] = []
    begin = 0
    for piece in pieces:
        end, at, kept = begin + len(piece), begin, ""
        for span in spans:
            if span.end <= begin or span.start >= end:
                continue
            if span.start >= begin:
                kept += piece[at - begin : span.start - begin] + REDACTED
            at = min(span.end, end)
        clean.append(kept + piece[at - begin :])
        begin = end
    return clean
