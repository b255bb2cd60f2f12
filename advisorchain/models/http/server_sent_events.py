"""Server-sent events out of the bytes of an HTTP response.

The SDK's own stream leaves async generators unfinished after ``[DONE]``, which trio reports on every answer, and
``httpx2`` splits lines at characters that JSON text may contain (U+2028, U+0085); this decoder does neither.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Collects bytes and gives the ``data`` of every complete event."""

    __slots__ = ("_line", "_return", "_data")

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line that is not over: a picture is one of many megabytes
        self._return = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that this piece completes."""
        piece = self._return + piece
        # A carriage return at the end may be half of a CRLF: it waits for the next piece.
        self._return = b"\r" if piece.endswith(b"\r") else b""
        first, *others = _LINE_END.split(piece.removesuffix(b"\r"))
        self._line.append(first)
        if not others:
            return []
        *lines, rest = [b"".join(self._line), *others]
        self._line = [rest]
        return self._events(lines)

    def finish(self) -> list[str]:
        """The data of a last event that no empty line ends."""
        last = b"".join(self._line)
        self._line, self._return = [], b""
        return self._events([last, b""])

    def _events(self, lines: list[bytes]) -> list[str]:
        events: list[str] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data.clear()
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
        return events
