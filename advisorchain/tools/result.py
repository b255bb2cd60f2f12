"""From the value that a tool returned to a `ToolResult`, and the cuts that keep results within bounds."""

from __future__ import annotations

import inspect
from typing import Any

from ..invocation import PART_TYPES, ToolResult, are_parts
from ..messages import FilePart, TextPart
from ..plain_json import binary_note, json_text, writable

MAX_RESULT_CHARS = 100_000
"""How many characters of a result the model reads by default (about 25,000 tokens)."""
MAX_RESULT_BYTES = 16 * 1024 * 1024
"""How much text any result may have, a direct one too."""


def convert_result(value: Any) -> ToolResult:
    """A returned value as a result: text as it is, content parts as parts, anything else as JSON.

    None becomes ``null``, NaN ``"NaN"``, bytes their UTF-8 text or else a file part. Objects that JSON does not know
    become their ``str()``. A generator becomes the list of what it yields.

    Raises:
        Exception: the value cannot be read, for example because it holds itself.
    """
    kind = type(value)
    if kind is str:
        return ToolResult(bounded(value), artifact=value)
    if kind is int:
        return ToolResult(str(value), artifact=value)
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return ToolResult(bounded(data.decode()), artifact=value)
        except UnicodeDecodeError:
            return ToolResult(binary_note(data), parts=(FilePart(data=data[:MAX_RESULT_BYTES]),), artifact=value)
    if isinstance(value, PART_TYPES):
        return _from_parts((value,), value)
    if are_parts(value):
        return _from_parts(tuple(value), value)
    if isinstance(value, str):  # a str subclass, for example a StrEnum
        return ToolResult(bounded(str.__str__(value)), artifact=value)
    if inspect.isasyncgen(value):
        raise TypeError("a tool returned an async generator; it must return one value")
    if inspect.isgenerator(value):
        value = list(value)
    return ToolResult(bounded(json_text(value)), artifact=value)


def _from_parts(parts: tuple[Any, ...], artifact: Any) -> ToolResult:
    text = "".join(part.text for part in parts if type(part) is TextPart)
    others = tuple(part for part in parts if type(part) is not TextPart)
    return ToolResult(bounded(text), parts=others, artifact=artifact)


def bounded(text: str) -> str:
    """The text, cut and marked above `MAX_RESULT_BYTES` of UTF-8."""
    if len(text) * 4 <= MAX_RESULT_BYTES:  # UTF-8 has at most 4 bytes a character
        return text
    data = text.encode(errors="replace")
    if len(data) <= MAX_RESULT_BYTES:
        return text
    kept = data[:MAX_RESULT_BYTES].decode(errors="ignore")
    return f"{kept}\n[cut: {len(data)} bytes, the first {MAX_RESULT_BYTES} are kept]"


def encodable(result: ToolResult) -> ToolResult:
    """The result with lone surrogates replaced (undecodable file names have them): no provider takes them."""
    try:
        result.content.encode()
    except UnicodeEncodeError:
        return result.with_text(writable(result.content))
    return result


def trim(text: str, max_chars: int) -> str:
    """What the model reads of a long text: its beginning, and a mark that says how much was cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[cut: {len(text)} characters, the first {max_chars} are shown]"
