"""The end of an HTTP response, however its reading ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio

CLOSING_TIMEOUT = 2.0
"""Seconds that reading the rest of a response may take."""


async def drain(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of the response after the end of the answer, so that the connection can be used again."""
    with anyio.move_on_after(CLOSING_TIMEOUT), suppress(Exception):
        while True:
            await anext(pieces)


async def close_response(http: Any, pieces: AsyncIterator[bytes] | None = None) -> None:
    """Close a response, and let its generators come to their end.

    A generator that is merely dropped is closed later, by the event loop, and trio warns about it.
    """
    with anyio.CancelScope(shield=True):
        await http.aclose()
        if pieces is not None:
            await drain(pieces)  # what has arrived already, then the error of a closed response
