"""Ids as PostgreSQL can hold and index them: it takes no NUL in a text, and no long text in an index."""

from __future__ import annotations

import hashlib

INDEXED = 255
"""How many bytes of an id go into an index at most."""


def escaped(text: str) -> str:
    r"""The text without NUL: ``\0`` stands for it, and two backslashes for one."""
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def unescaped(text: str) -> str:
    """What `escaped` was given."""
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def key(text: str) -> tuple[str, str | None]:
    r"""What stands for an id in an index, and the escaped id itself when that is something else.

    No other id has the same key: an escaped text never has a backslash before ``#``.
    """
    plain = escaped(text)
    data = plain.encode()
    if len(data) <= INDEXED:
        return plain, None
    return "\\#" + hashlib.sha256(data).hexdigest(), plain
