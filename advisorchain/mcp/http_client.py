"""The HTTP client under a connection: it goes where it was told, and reads no answer without an end.

Imports ``httpx2``: imported only when something is connected over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import httpx2

from .server import McpServer
from .stdio import line_limit

if TYPE_CHECKING:
    from .opening import Trace

READ_SECONDS = 300.0
"""How long an HTTP answer may be silent."""


async def http_client(server: McpServer, trace: Trace) -> httpx2.AsyncClient:
    """A client with the server's headers and credentials, which notes HTTP errors in ``trace``."""

    async def look(response: httpx2.Response) -> None:
        _note_status(response, trace)
        if not _is_stream(response, server):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream, line_limit(server), _encoding(response))

    given = server.headers
    headers = httpx2.Headers(dict((given if given is None or isinstance(given, Mapping) else await given()) or {}))
    # A few compressed kilobytes can be gigabytes, and they are unpacked before anybody can look at them.
    headers["accept-encoding"] = "identity"
    parts = urlsplit(server.url)
    auth = server.auth
    if auth is None and parts.username is not None:
        auth = httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    return httpx2.AsyncClient(
        headers=headers,
        auth=auth,
        timeout=httpx2.Timeout(server.connect_timeout, read=READ_SECONDS),
        event_hooks={"response": [look]},
        follow_redirects=False,
    )


def _note_status(response: httpx2.Response, trace: Trace) -> None:
    status = response.status_code
    if status == 405 and response.request.method == "GET":
        return  # many servers have no stream of their own; that is no error
    trace.status = status if status >= 400 else None


def _is_stream(response: httpx2.Response, server: McpServer) -> bool:
    """Whether the SDK reads it event by event, with a limit for each. Everything else it reads as a whole."""
    kind = response.headers.get("content-type", "").lower()
    read_by_event = server.transport == "http" or response.request.method == "GET"
    return (
        kind.startswith("text/event-stream")
        and read_by_event
        and response.is_success
        and not _encoding(response)
    )  # fmt: skip


def _encoding(response: httpx2.Response) -> str:
    encoding: str = response.headers.get("content-encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer up to a limit. Beyond it the SDK gets an error that costs this answer only."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, encoding: str) -> None:
        self._inner = inner
        self._limit = limit
        self._encoding = encoding

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        if self._encoding:
            raise httpx2.StreamError("the answer is compressed, although that was not accepted")
        left = self._limit
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"the message exceeded the byte limit of {self._limit}")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
