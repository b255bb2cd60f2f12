"""Request bodies without halves of characters, which tools find in file names, and which no request can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def writable(value: Any) -> Any:
    """The JSON value with a ``?`` for every half of a character (lone surrogate), in keys too; it is not changed."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {writable(key): writable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [writable(item) for item in value]
    return value
