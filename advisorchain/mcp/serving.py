"""Our tools as an MCP server: `serve_tools`; `mcp_app` for an ASGI server of your own; `mcp_server` for the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal

import anyio

from ..errors import ConfigurationError
from ..observers import watch_of
from ..shield import in_trio
from ..version import __version__
from .exposure import ExposedTools
from .sdk import require_sdk

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp.server.auth.settings import AuthSettings
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from starlette.applications import Starlette

    from ..runtime import Runtime
    from ..telemetry import Telemetry
    from .tool_server import ToolServer

Transport = Literal["stdio", "http"]

DEFAULT_NAME = "advisorchain"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
DEFAULT_PATH = "/mcp"


def mcp_server(
    tools: Iterable[Any],
    *,
    name: str = DEFAULT_NAME,
    version: str | None = None,
    title: str | None = None,
    instructions: str | None = None,
    advisors: Iterable[Any] = (),
    request_meta: Collection[str] = (),
    tool_meta: Collection[str] = (),
    runtime: Runtime | None = None,
    telemetry: bool | Telemetry = True,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> ToolServer:
    """The tools as a low-level server of the MCP SDK: connect a client in this process, or run it on your transport.

    Args:
        tools: what ``ChatClient(tools=...)`` takes; a whole client through ``client.as_tool(name, description)``.
        name: of the server.
        version: of the server; default: this package's.
        title: for people.
        instructions: what clients may tell their model about the server.
        advisors: wrap every call (audit, breaker, cache, ...); each must have ``advise_tool``.
        request_meta: keys of a request's ``_meta`` that tools see under `MCP_META`; none unless listed.
        tool_meta: keys of ``Tool.meta`` that go out in a tool's ``_meta``; none unless listed.
        runtime: clock and ids.
        telemetry: as for `ChatClient`: every request is a span, a child of the client's if it sends its trace along.
        tracer_provider: as for `ChatClient`.
        meter_provider: as for `ChatClient`.

    Raises:
        ConfigurationError: tools or advisors do not fit.
    """
    for option, keys in (("request_meta", request_meta), ("tool_meta", tool_meta)):
        if isinstance(keys, str):
            raise ConfigurationError(f"{option}= takes a list of keys, for example {option}=[{keys!r}].")
    require_sdk()
    exposed = ExposedTools(tools, advisors, runtime, watch_of(telemetry, tracer_provider, meter_provider))
    from .tool_server import ToolServer

    return ToolServer(
        exposed,
        name=name,
        version=__version__ if version is None else version,
        title=title,
        instructions=instructions,
        request_meta=request_meta,
        tool_meta=tool_meta,
    )


def mcp_app(
    tools: Iterable[Any],
    *,
    path: str = DEFAULT_PATH,
    allowed_hosts: Iterable[str] | None = ("127.0.0.1", "localhost", "::1"),
    allowed_origins: Iterable[str] = (),
    token_verifier: Any = None,
    auth: AuthSettings | None = None,
    **settings: Any,
) -> Starlette:
    """The tools as an ASGI app (Streamable HTTP), for an ASGI server of your own or inside another app.

    The app's lifespan must run: mounted in another app, enter ``app.router.lifespan_context(app)`` in that one's.

    Args:
        tools: as for `mcp_server`.
        path: where the endpoint is.
        allowed_hosts: host names (without port) that requests may be for; default: this machine's; None: any.
        allowed_origins: origins (``https://example.org``) of web pages that may ask; besides those of this machine, if
            it is an allowed host.
        token_verifier: checks bearer tokens: an object with ``verify_token`` (the MCP SDK's ``TokenVerifier``), or a
            function of the token, sync or async, that returns True, an ``AccessToken`` of the SDK, or nothing. None:
            nobody is asked for a token.
        auth: the SDK's ``AuthSettings``: who issues the tokens, for clients that speak OAuth.
        settings: those of `mcp_server`.

    Raises:
        ConfigurationError: tools, advisors or settings do not fit.
    """
    server = mcp_server(tools, **settings)
    from .http_app import http_app

    return http_app(
        server,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        token_verifier=token_verifier,
        auth=auth,
    )


async def serve_tools(
    tools: Iterable[Any],
    *,
    transport: Transport = "stdio",
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    path: str = DEFAULT_PATH,
    allowed_hosts: Iterable[str] | None = None,
    allowed_origins: Iterable[str] = (),
    token_verifier: Any = None,
    auth: AuthSettings | None = None,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
    **settings: Any,
) -> None:
    """Serve tools over MCP until cancelled; over stdio also until the client goes.

    Over stdio what tools print goes to stderr, for stdout belongs to the protocol. No signal handlers are installed:
    the command line ``advisorchain mcp serve`` does that. HTTP needs asyncio.

    Args:
        tools: as for `mcp_server`.
        transport: ``"stdio"`` or ``"http"`` (Streamable HTTP).
        host: the address to bind to. One that other machines can reach demands a ``token_verifier``.
        port: the port; 0: any free one.
        path: where the endpoint is.
        allowed_hosts: host names (without port) that requests may be for; default: those of ``host``; bound to all
            addresses, any.
        allowed_origins: as for `mcp_app`.
        token_verifier: as for `mcp_app`.
        auth: as for `mcp_app`.
        task_status: ``url = await task_group.start(serve_tools, ...)`` waits until the server listens; ``"stdio"`` over
            stdio.
        settings: those of `mcp_server`.

    Raises:
        ConfigurationError: tools, advisors or settings do not fit, the address cannot be listened on, or it can be
            reached by others and there is no ``token_verifier``.
    """
    if transport == "stdio":
        if token_verifier is not None or auth is not None:
            raise ConfigurationError("token_verifier= and auth= are for transport='http': over stdio nobody can ask.")
        server = mcp_server(tools, **settings)
        from .stdio_serving import serve_stdio

        task_status.started("stdio")
        await serve_stdio(server)
        return
    if transport != "http":
        raise ConfigurationError(f"transport= is 'stdio' or 'http', not {transport!r}.")
    if in_trio():
        raise ConfigurationError("Serving over HTTP needs asyncio; under trio, run mcp_app(...) in a server for trio.")
    from .http_app import hosts_of, is_loopback, serve_http

    if token_verifier is None and not is_loopback(host):
        raise ConfigurationError(
            f"Bound to {host!r}, everybody who can reach this machine could call the tools: give token_verifier=, or "
            f"bind to {DEFAULT_HOST}."
        )
    app = mcp_app(
        tools,
        path=path,
        allowed_hosts=hosts_of(host) if allowed_hosts is None else allowed_hosts,
        allowed_origins=allowed_origins,
        token_verifier=token_verifier,
        auth=auth,
        **settings,
    )
    await serve_http(app, host, port, path, task_status)
