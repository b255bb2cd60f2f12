"""Serving over HTTP: the ASGI app, who may talk to it, and a uvicorn that leaves signals alone."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import ipaddress
import logging
import socket
from collections.abc import Callable, Generator, Iterable
from typing import Any
from urllib.parse import urlsplit

import anyio
import uvicorn
from anyio.abc import TaskStatus
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import ConfigurationError
from .tool_server import ToolServer

logger = logging.getLogger("advisorchain.mcp")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHUTDOWN_SECONDS = 2
"""How long requests that are running at the end may go on."""

TokenCheck = Callable[[str], Any]


def http_app(
    server: ToolServer,
    *,
    path: str,
    allowed_hosts: Iterable[str] | None,
    allowed_origins: Iterable[str],
    token_verifier: Any,
    auth: AuthSettings | None,
) -> Starlette:
    """The app; see ``mcp_app``. ``allowed_hosts`` None: any host."""
    if not path.startswith("/"):
        raise ConfigurationError(f"path= must begin with '/', not be {path!r}.")
    if auth is not None and token_verifier is None:
        raise ConfigurationError("auth= describes who issues tokens; token_verifier= must check them too.")
    app = server.streamable_http_app(
        streamable_http_path=path,
        # Host and Origin are checked below: before the token is, and with a wildcard for the hosts.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        auth=auth,
        token_verifier=None if token_verifier is None else _Verifier(token_verifier),
    )
    if token_verifier is not None and auth is None:  # with auth= the SDK has added them
        app.add_middleware(AuthContextMiddleware)
        app.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(token_verifier)))
    app.add_middleware(
        HostAndOrigin,
        hosts=None if allowed_hosts is None else _names(allowed_hosts, "allowed_hosts"),
        origins=_names(allowed_origins, "allowed_origins"),
    )
    return app


class HostAndOrigin:
    """Refuses requests for another host (421) and from pages of another origin (403).

    So no page in a user's browser can reach the server, also when its name has been pointed at our address.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] | None, origins: frozenset[str]) -> None:
        self.app = app
        self.hosts = hosts
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or hand it on."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refused = self._refused(headers.get("host"), headers.get("origin"))
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _refused(self, host: str | None, origin: str | None) -> PlainTextResponse | None:
        if self.hosts is not None and (not host or _host_of("//" + host) not in self.hosts):
            logger.warning("A request for host %.200r was refused; allowed_hosts= says which are served.", host)
            return PlainTextResponse("Invalid Host header", 421)
        if origin and origin not in self.origins and not self._is_own(origin):
            logger.warning("A request of origin %.200r was refused; allowed_origins= says which may ask.", origin)
            return PlainTextResponse("Invalid Origin header", 403)
        return None

    def _is_own(self, origin: str) -> bool:
        """Whether the page comes from this machine, and this machine is who is served."""
        host = _host_of(origin)
        return self.hosts is not None and host in self.hosts and host in LOOPBACK


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _names(values: Iterable[str], option: str) -> frozenset[str]:
    if isinstance(values, str):
        raise ConfigurationError(f"{option}= takes a list, for example {option}=[{values!r}].")
    return frozenset(value.lower() for value in values)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(host: str) -> list[str] | None:
    """The names by which a server bound to ``host`` is rightly called; None when that cannot be known."""
    if is_loopback(host):
        return sorted({*LOOPBACK, host})
    try:
        return None if ipaddress.ip_address(host).is_unspecified else [host]
    except ValueError:
        return [host]


class _Verifier:
    """The SDK's form of a token check: an object with ``verify_token``, or a function of the token."""

    def __init__(self, check: Any) -> None:
        verify = getattr(check, "verify_token", None)
        if verify is None and not callable(check):
            raise ConfigurationError(
                f"token_verifier= must have verify_token(token), or be a function of the token, not {check!r}."
            )
        self._check: TokenCheck = verify or check

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who the token was issued to, or None; a check that fails lets nobody in."""
        try:
            found = self._check(token)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            logger.error("The token verifier failed; the request is refused", exc_info=error)
            return None
        if found is True:
            name = hashlib.sha256(token.encode()).hexdigest()[:16]
            return AccessToken(token=token, client_id=f"token-{name}", scopes=[])
        return found if isinstance(found, AccessToken) else None


# uvicorn -------------------------------------------------------------------------------------------------------------


class _Uvicorn(uvicorn.Server):
    """uvicorn that installs no signal handlers: whoever runs us decides what a signal means."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: the address cannot be listened on; says why.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        except OSError:
            listener.close()
            raise
        return listener
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"Cannot listen on {host} port {port}: {why}. Choose another port=.") from None


async def serve_http(app: ASGIApp, host: str, port: int, path: str, task_status: TaskStatus[str]) -> None:
    """Serve the app until cancelled; then running requests have `SHUTDOWN_SECONDS`."""
    with listen(host, port) as listener:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS, lifespan="on"
        )
        server = _Uvicorn(config)
        done = anyio.Event()
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listener.getsockname()[1]}{path}"

        async def run() -> None:
            try:
                # Shielded: uvicorn ends by `should_exit`; cancelled, it would leave its connections open.
                with anyio.CancelScope(shield=True), quiet_shutdown(server):
                    await server.serve([listener])
            finally:
                done.set()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            try:
                while not server.started and not done.is_set():  # noqa: ASYNC110 - uvicorn has no event for it
                    await anyio.sleep(0.01)
                if not server.started:
                    raise ConfigurationError("The HTTP server could not start; the log of uvicorn says why.")
                logger.info("Serving MCP at %s", url)
                task_status.started(url)
                await done.wait()
            finally:
                server.should_exit = True


@contextlib.contextmanager
def quiet_shutdown(server: uvicorn.Server) -> Generator[None]:
    """Keep uvicorn from logging a traceback for each stream that is cut at the end: it is meant to be."""

    def keep(record: logging.LogRecord) -> bool:
        return not (server.started and server.should_exit and record.levelno >= logging.ERROR)

    log = logging.getLogger("uvicorn.error")
    log.addFilter(keep)
    try:
        yield
    finally:
        log.removeFilter(keep)
