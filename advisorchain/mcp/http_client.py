"""The HTTP client under a connection: it goes where it was told, and reads no answer without an end.

Imports ``httpx2``: imported only when something is connected over HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from inspect import isawaitable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import anyio
import httpx2

from ..errors import ConfigurationError
from .mending import Mender
from .server import McpServer
from .server_checks import check_headers
from .stdio import line_limit

if TYPE_CHECKING:
    from .opening import Trace

logger = logging.getLogger("advisorchain.mcp")

READ_SECONDS = 300.0
"""How long an HTTP answer may be silent."""


async def http_client(server: McpServer, trace: Trace) -> httpx2.AsyncClient:
    """A client with the server's headers and credentials, which notes HTTP errors in ``trace``."""

    async def look(response: httpx2.Response) -> None:
        _note_status(response, trace)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        limit = None if _is_stream(response, server) else line_limit(server)
        response.stream = _Body(response.stream, limit, _encoding(response))

    given = await _given_headers(server)
    headers = httpx2.Headers(given)
    # A few compressed kilobytes can be gigabytes, and they are unpacked before anybody can look at them.
    headers["accept-encoding"] = "identity"
    parts = urlsplit(server.url)
    auth = server.auth
    if auth is None and parts.username is not None:
        auth = httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    elif auth is None and callable(server.headers):
        auth = _RenewedHeaders(server, given)
    return httpx2.AsyncClient(
        headers=headers,
        auth=auth,
        timeout=httpx2.Timeout(server.connect_timeout, read=READ_SECONDS),
        event_hooks={"response": [look]},
        follow_redirects=False,
    )


async def _given_headers(server: McpServer) -> httpx2.Headers:
    """The headers of the settings, from their function if it is one.

    Raises:
        ConfigurationError: the function gives no headers.
    """
    given = server.headers
    if callable(given):
        asked = given()
        if not isawaitable(asked):
            raise ConfigurationError("headers= must be an async function; this one returned without being awaited.")
        given = await asked
        check_headers(given)
    return httpx2.Headers(dict(given or {}))


class _RenewedHeaders(httpx2.Auth):
    """Asks for the headers anew when the server answers 401, and makes the request once more if they have changed.

    A connection may live for days, and a token for an hour. What is answered with 401 was not carried out. Of many
    requests whose token has expired one asks.
    """

    def __init__(self, server: McpServer, given: httpx2.Headers) -> None:
        self._server = server
        self._given = self._newest = given
        self._asking = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        # What a request has otherwise than given belongs to the protocol, and stays.
        kept = {name for name, value in request.headers.items() if value != self._given.get(name)}
        self._renew(request, kept)
        response = yield request
        if response.status_code == 401:
            async with self._asking:
                renewed = self._renew(request, kept)  # another one has asked meanwhile
                if not renewed:
                    await self._ask()
                    renewed = self._renew(request, kept)
            if renewed:
                yield request

    async def _ask(self) -> None:
        try:
            self._newest = await _given_headers(self._server)
        except Exception as error:  # passed on, it would end the connection for all other calls too
            logger.warning("MCP server %r: headers= failed: %s", self._server.name, type(error).__name__)
            logger.debug("headers= failed", exc_info=error)

    def _renew(self, request: httpx2.Request, kept: set[str]) -> bool:
        """Give a request the newest headers; whether it had others."""
        changed = {
            name: value
            for name, value in self._newest.items()
            if name not in kept and request.headers.get(name) != value
        }
        request.headers.update(changed)
        return bool(changed)


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


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, mended, up to a limit. Beyond it the SDK gets an error that costs this answer only.

    It is no async generator, because the SDK leaves those of a stream of events to the garbage collector.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None, encoding: str) -> None:
        self._inner = inner
        self._limit = limit
        self._encoding = encoding
        self._size = 0
        self._mender: Mender | None = Mender()

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._chunks = aiter(self._inner)
        return self

    async def __anext__(self) -> bytes:
        if self._encoding:
            raise httpx2.StreamError("the answer is compressed, although that was not accepted")
        if self._mender is None:
            raise StopAsyncIteration
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            rest, self._mender = self._mender.rest(), None
            return rest
        self._size += len(chunk)
        if self._limit is not None and self._size > self._limit:
            raise httpx2.StreamError(f"the message exceeded the byte limit of {self._limit}")
        return self._mender.fed(chunk)

    async def aclose(self) -> None:
        await self._inner.aclose()
