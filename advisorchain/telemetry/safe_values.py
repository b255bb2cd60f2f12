"""Whatever was given as attributes that every exporter takes: recording neither fails on them nor complains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_CHARS = 4_096
"""How long the text of an attribute may be that is no content."""
MAX_NAME_CHARS = 256
"""How long the name of a span or of an attribute may be."""
MAX_ATTRIBUTES = 64
"""How many attributes of a note or an operation are kept: spans have room for 128."""
MAX_ITEMS = 256
"""How many items of a list are kept."""
_LARGEST = 2**63


def safe_text(value: Any, limit: int = MAX_CHARS) -> str:
    """The text, cut and without broken characters; of anything else the name of its type: it may be content."""
    if not isinstance(value, str):
        return type(value).__qualname__
    text = str.__str__(value)[:limit]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def safe_attributes(attributes: Any) -> dict[str, Any]:
    """Those that have a name and a value; values are texts, numbers, truth values, or tuples of one of them."""
    if not isinstance(attributes, Mapping):
        return {}
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(name, str) and name and value is not None and len(found) < MAX_ATTRIBUTES:
            found[safe_text(name, MAX_NAME_CHARS)] = _safe(value)
    return found


def _safe(value: Any) -> Any:
    if isinstance(value, list | tuple):
        items = [_scalar(item) for item in value[:MAX_ITEMS]]
        same = len({type(item) for item in items}) < 2
        return tuple(items if same else map(str, items))
    return _scalar(value)


def _scalar(value: Any) -> str | bool | int | float:
    kind = type(value)
    if kind is float or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return safe_number(value)
    return safe_text(value)


def safe_number(number: int) -> int | str:
    """The number, or its text when it has more bits than exporters take."""
    if -_LARGEST <= number < _LARGEST:
        return number
    return hex(number)[:MAX_NAME_CHARS]  # Python refuses to write very long ones in decimals
