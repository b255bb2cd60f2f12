"""Names of advisors, models and tools made fit for a picture: one line, no control characters, not too long."""

from __future__ import annotations

import re
import unicodedata

# Controls, what changes the direction of text, what is no character of XML, and tags that nobody sees.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff\ud800-\udfff]")
_TAGS = re.compile("[\U000e0000-\U000e007f]")


def plain(name: str) -> str:
    """The name in one line, without characters that are not seen or that change what is seen around them."""
    return " ".join(_TAGS.sub("", _UNSEEN.sub(" ", name)).split())


def columns(text: str) -> int:
    """How many columns of a character's width the text takes; a Chinese character takes two."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def padded(text: str, width: int) -> str:
    """The text with spaces behind it, so that it takes so many columns."""
    return text + " " * (width - columns(text))


def cut(name: str, most: int) -> str:
    """The plain name in at most ``most`` columns; a cut is marked."""
    name = plain(name)
    if columns(name) <= most:
        return name
    kept, used = "", 0
    for char in name:
        used += columns(char)
        if used > most - 1:
            break
        kept += char
    return kept + "…"
