"""Broken characters, mended: one must not cost the message that it is in, nor the connection.

Programs in JavaScript cut a text in the middle of an emoji and write the half that is left as ``\\ud83d``, which strict
readers of JSON refuse; others write bytes that are no UTF-8. In Python, names of files can hold such halves.
"""

from __future__ import annotations

import codecs
import re
from typing import TypeVar

from pydantic_core import to_json

from .. import plain_json

T = TypeVar("T")

_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{_HEX}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{_HEX}"
_ESCAPES = rf"{_HIGH}{_LOW}|(?P<half>{_HIGH}|{_LOW})|\\."
_ESCAPE = re.compile(_ESCAPES, re.DOTALL)
# An escape, or what may become a pair, of which the rest is still to come.
_OPEN = rf"(?P<open>(?:{_HIGH})?\\(?:u{_HEX}{{0,3}})?\Z|{_HIGH}\Z)"
# Looking for a backslash first makes it four times faster.
_ESCAPE_OR_OPEN = re.compile(rf"(?=\\)(?:{_OPEN}|{_ESCAPES})", re.DOTALL)
_MARK = "\\ufffd"


def writable(value: T) -> T:
    """A text, or a JSON value, without halves of surrogate pairs, for which UTF-8 has no form."""
    try:
        to_json(value)
    except ValueError:
        return plain_json.writable(value)  # type: ignore[no-any-return]
    return value  # as nearly all are, and C finds that out faster than a walk


def mended(text: str) -> str:
    """JSON in which halves of surrogate pairs are replaced; time grows with its length."""
    return _ESCAPE.sub(lambda found: found[0] if found["half"] is None else _MARK, text)


class Mender:
    """Mends what comes in pieces, cut anywhere."""

    __slots__ = ("_decoder", "_open")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""

    def fed(self, piece: bytes) -> bytes:
        """What can be said of it so far; the rest comes with the next piece."""
        text = self._open + self._decoder.decode(piece)
        self._open = ""
        return (_ESCAPE_OR_OPEN.sub(self._whole, text) if "\\" in text else text).encode()

    def rest(self) -> bytes:
        """What is left at the end."""
        text, self._open = self._open + self._decoder.decode(b"", True), ""
        return mended(text).encode()

    def _whole(self, found: re.Match[str]) -> str:
        if found["open"] is not None:
            self._open = found["open"]
            return ""
        return found[0] if found["half"] is None else _MARK
