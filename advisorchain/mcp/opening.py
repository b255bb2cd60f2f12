"""A fresh SDK client for a server, entered; and what the SDK does not tell: the HTTP status, the child's last words."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import ConfigurationError
from .sdk_requests import request_our_way
from .server import Era, McpServer
from .stdio import child_process, line_limit

if TYPE_CHECKING:
    from mcp import Client

logger = logging.getLogger("advisorchain.mcp")

LISTEN_SECONDS = 1.0
"""How long connecting waits until the server tells its changes; from then on none is missed."""


class Trace:
    """What was seen of a server beside the protocol.

    Attributes:
        status: the HTTP status of the last answer when it was an error, or None.
        stderr: the end of what a child process wrote to its standard error.
    """

    __slots__ = ("status", "stderr")

    def __init__(self) -> None:
        self.status: int | None = None
        self.stderr = b""

    @property
    def last_line(self) -> str:
        """The last line of the child's standard error, printable."""
        lines = [line.strip() for line in self.stderr.decode(errors="replace").splitlines() if line.strip()]
        return "".join(char if char.isprintable() else "?" for char in lines[-1])[:300] if lines else ""


@asynccontextmanager
async def opened(server: McpServer, era: Era, trace: Trace, changed: Callable[[], None]) -> AsyncGenerator[Client]:
    """A connected client of the server, closed at the end; to be entered and left in one task.

    Args:
        server: where to connect.
        era: which protocol to begin with.
        trace: filled while the connection lives.
        changed: called when the server says that its list of tools has changed.
    """
    from mcp import Client

    from .callbacks import client_callbacks

    async def on_message(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            changed()

    async with AsyncExitStack() as stack:
        target = await _TARGETS[server.transport](server, trace, stack)
        try:
            made = Client(target, mode=era, message_handler=on_message, cache=None, **client_callbacks(server))
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f"MCP server {server.name!r} cannot be set up: {exc}") from exc
        request_our_way(made)
        client = await stack.enter_async_context(made)
        capabilities = client.server_capabilities.tools
        if client.protocol_version >= "2026" and capabilities is not None and capabilities.list_changed:
            await stack.enter_async_context(_listening(client, changed))
        yield client


@asynccontextmanager
async def _listening(client: Client, changed: Callable[[], None]) -> AsyncGenerator[None]:
    """Listens for changes of the list of tools, as servers of 2026 tell them; when that ends, the TTL has to do."""
    import anyio

    begun = anyio.Event()
    late = False

    async def listen() -> None:
        try:
            async with client.listen(tools_list_changed=True) as events:
                begun.set()
                if late:
                    changed()  # there may have been one that nobody heard
                async for _ in events:
                    changed()
        except Exception as exc:
            logger.debug("Listening for changed tools has ended: %s", type(exc).__name__)
        finally:
            begun.set()

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        try:
            with anyio.move_on_after(LISTEN_SECONDS) as scope:
                await begun.wait()
            late = scope.cancelled_caught
            yield
        finally:
            group.cancel_scope.cancel()


# What the SDK's client connects to, by transport -------------------------------------------------------------------


async def _stdio(server: McpServer, trace: Trace, stack: AsyncExitStack) -> Any:
    if sys.platform != "win32":
        return child_process(server, trace)
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd,
        encoding_error_handler="replace",  # one byte that is no UTF-8 must not end the connection
    )  # fmt: skip
    return stdio_client(parameters, errlog=stack.enter_context(open(os.devnull, "w")))  # noqa: ASYNC230


async def _http(server: McpServer, trace: Trace, stack: AsyncExitStack) -> Any:
    from mcp.client.streamable_http import streamable_http_client

    from .http_client import http_client

    client = await stack.enter_async_context(await http_client(server, trace))
    return streamable_http_client(
        _without_userinfo(server.url), http_client=client, max_sse_event_size=line_limit(server)
    )


async def _sse(server: McpServer, trace: Trace, stack: AsyncExitStack) -> Any:
    from mcp.client.sse import sse_client

    from .http_client import READ_SECONDS, http_client

    client = await http_client(server, trace)

    def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return client

    return sse_client(_without_userinfo(server.url), httpx_client_factory=factory, sse_read_timeout=READ_SECONDS)


async def _in_process(server: McpServer, trace: Trace, stack: AsyncExitStack) -> Any:
    inner = getattr(server.target, "_mcp_server", None)  # a FastMCP
    return server.target if inner is None else inner


_Target = Callable[[McpServer, Trace, AsyncExitStack], Awaitable[Any]]
_TARGETS: dict[str, _Target] = {"stdio": _stdio, "http": _http, "sse": _sse, "in_process": _in_process}


def _without_userinfo(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
