"""`Link`: one life of a connection to an MCP server, held open by a task of its own; and what its end means."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import AdvisorChainError, McpConnectionError, McpError, ToolError
from ..shield import in_trio
from ..tools.timeout import new_scope
from .cleaning import cleaned
from .opening import Trace, opened
from .server import Era, McpServer, place_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

logger = logging.getLogger("advisorchain.mcp")

CLOSE_SECONDS = 10.0
"""How long a connection may take to close; the SDK gives a child process about six before it is killed."""
GRACE_SECONDS = 2.0
"""How long the goodbye to a server may take that is not a child process."""

_CLOSED, _BAD_REQUEST, _BAD_PARAMS, _NO_JSON = -32000, -32600, -32602, -32700  # of JSON-RPC and MCP
_SESSION_GONE = ("Session not found", "Session terminated")
_LOST = ("Connection closed", "SSE stream")
"""How the SDK begins to say that the connection is gone; with a code, -32000, that servers use as they like."""


class Link:
    """One life of a connection, held open by a task of its own: no cancel scope crosses a task.

    Args:
        server: where to connect.
        era: which protocol to begin with.
        seconds: how long connecting may take.
    """

    __slots__ = (
        "server", "era", "seconds", "began", "client", "error", "over", "trace", "dirty",
        "_dispatcher", "_scope", "_ready", "_stop", "_ended", "_calls",
    )  # fmt: skip

    def __init__(self, server: McpServer, era: Era, seconds: float) -> None:
        self.server = server
        self.era: Era = era
        self.seconds = seconds
        self.began = anyio.current_time()
        self.client: Client | None = None
        self.error: McpError | None = None
        self.over = False
        self.trace = Trace()
        self.dirty = False
        self._dispatcher: Any = None  # of the client's session
        self._scope: anyio.CancelScope | None = None
        self._ready = anyio.Event()
        self._stop = anyio.Event()
        self._ended = anyio.Event()
        self._calls: set[anyio.CancelScope] = set()

    @property
    def alive(self) -> bool:
        """Whether it can be used, as far as is known: a child process that has died is noticed here."""
        # The SDK wakes nobody when the other side has closed, but it knows.
        return not self.over and getattr(self._dispatcher, "_closed", False) is not True

    @property
    def ended(self) -> bool:
        """Whether its task is over, and with it the child process."""
        return self._ended.is_set()

    def start(self) -> None:
        """Start the task; it has a context of its own, not that of the turn that happened to come first."""
        context = contextvars.Context()
        name = f"advisorchain MCP server {self.server.name}"
        if in_trio():
            import trio

            trio.lowlevel.spawn_system_task(self._run, name=name, context=context)
        else:
            _tasks.add(task := asyncio.create_task(self._run(), name=name, context=context))
            task.add_done_callback(_tasks.discard)

    async def ready(self) -> Client:
        """The client, once it is connected.

        Raises:
            McpConnectionError: it could not be; nothing was sent.
        """
        if self.client is None and not self.over:
            with anyio.move_on_after(self.seconds + 0.5):
                await self._ready.wait()
        if self.client is None:
            self.drop()
            raise again(self.error) if self.error is not None else too_slow(self.server)
        return self.client

    async def during(self, call: Callable[[Client], Awaitable[Any]]) -> Any:
        """Await ``call(client)``; it does not outlive the connection.

        Raises:
            McpConnectionError: the connection had ended before.
            McpError: the connection has ended meanwhile.
        """
        client = self.client if self.client is not None else await self.ready()
        if self.over:
            raise closed(self.server)
        with new_scope() as scope:
            self._calls.add(scope)
            try:
                return await call(client)
            finally:
                self._calls.discard(scope)
        raise self._cut_off()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], progress: Any, meta: dict[str, Any] | None
    ) -> CallToolResult:
        """Call a tool: `during`, without a detour, because this is what every call pays.

        Raises:
            McpConnectionError: the connection had ended before.
            McpError: the call failed, or the connection has ended meanwhile.
            ToolError: the server refuses the call, in words for the model.
        """
        client = self.client if self.client is not None else await self.ready()
        if self.over:
            raise closed(self.server)
        with new_scope() as scope:
            self._calls.add(scope)
            try:
                return await client.call_tool(name, arguments, progress_callback=progress, meta=meta)  # type: ignore[arg-type]
            except AdvisorChainError:
                raise
            except Exception as exc:
                raise self._call_error(exc, name) from exc
            finally:
                self._calls.discard(scope)
        raise self._cut_off()

    def _call_error(self, exc: Exception, tool: str) -> Exception:
        """What a failed call means; drops the connection if it is of no more use."""
        from pydantic import ValidationError

        server, code, said, status = self.server.name, code_of(exc), words(exc), self.trace.status
        if code in (_CLOSED, _NO_JSON) and "byte limit" in said:
            return ToolError(f"The result of {tool!r} is larger than the connection takes. Ask for less at once.")
        if code is None and isinstance(exc, RuntimeError | ValidationError):
            logger.warning("MCP server %r breaks its own schema in a result of %r: %s", server, tool, said)
            return ToolError(f"The tool {tool!r} gave a result that does not fit what it promises.")
        if code == _BAD_PARAMS:
            return ToolError(f"The tool {tool!r} refused the call: {said}")
        if code == _BAD_REQUEST and said in _SESSION_GONE:  # it was restarted, and has not looked at the call
            self.drop()
            return McpConnectionError(server, "it has ended the session.", transient=True, code=code, status=status)
        if code is None or (code == _CLOSED and said.startswith(_LOST)):
            lost = McpError(
                server, "the connection was lost during the call.", transient=True, code=code,
                status=status, detail=self.trace.last_line or said,
            )  # fmt: skip
            self.drop(lost)
            return lost
        answer = f"error {code}" if status is None else f"HTTP status {status}"
        return McpError(
            server, f"it answered with {answer}.", transient=code in (-32603, -32001) and passes(status), code=code,
            status=status, detail=said,
        )  # fmt: skip

    def _cut_off(self) -> McpError:
        if self.error is not None:
            return again(self.error)
        return McpError(self.server.name, "the connection was closed during the call.", transient=True)

    def drop(self, error: McpError | None = None) -> None:
        """Let the connection end, also one that is being made; the next use makes a new one."""
        self.over = True
        self.error = self.error or error
        self._stop.set()
        if self.client is None and self._scope is not None:
            self._scope.cancel()

    async def wait_ended(self) -> None:
        """Wait for the end of a connection that was dropped, also of the child process."""
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._ended.wait()

    async def _run(self) -> None:
        server = self.server
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.seconds) as scope:
                self._scope = scope
                if self.over:  # dropped before it began
                    scope.cancel()
                async with opened(server, self.era, self.trace, self._changed) as client:
                    scope.deadline = float("inf")
                    self.client = client
                    self._dispatcher = client.session._dispatcher  # pyright: ignore[reportPrivateUsage]
                    self._ready.set()
                    try:
                        await self._stop.wait()
                    finally:  # an HTTP server that does not answer must not hold us up
                        scope.deadline = anyio.current_time() + GRACE_SECONDS
            if scope.cancelled_caught and self.client is None:
                self.error = self.error or too_slow(server)
        except AdvisorChainError as exc:
            self.error = exc if isinstance(exc, McpError) else McpConnectionError(server.name, str(exc))
        except Exception as exc:
            if not self.over:
                self.error = self._lost(exc) if self.client is not None else unreachable(server, exc, self.trace)
            logger.debug("The connection to MCP server %r has ended", server.name, exc_info=exc)
        except BaseException as exc:  # the loop ends; or the SDK's transport has cancelled its host task
            self.error = self.error or self._lost(exc)
            if in_trio() or not isinstance(exc, asyncio.CancelledError):
                raise
        finally:
            self.over = True
            self._ready.set()
            self._ended.set()
            for scope in list(self._calls):
                scope.cancel()

    def _changed(self) -> None:
        self.dirty = True

    def _lost(self, exc: BaseException) -> McpError:
        return McpError(
            self.server.name,
            "the connection was lost.",
            transient=True,
            status=self.trace.status,
            detail=self.trace.last_line or words(exc),
        )


_tasks: set[asyncio.Task[None]] = set()  # an event loop keeps only weak references


def again(error: McpError, kind: type[McpError] | None = None) -> McpError:
    """The same error for another caller: one that is raised in two tasks would mix up their tracebacks."""
    copy = (kind or type(error))(
        error.server, error.reason, transient=error.transient, code=error.code, status=error.status, detail=error.detail
    )
    copy.__cause__ = error.__cause__
    return copy


def too_slow(server: McpServer) -> McpConnectionError:
    """It took the whole time that connecting may take."""
    return McpConnectionError(
        server.name, f"it could not be connected within {server.connect_timeout:g} s.", transient=True
    )


def closed(server: McpServer) -> McpConnectionError:
    """The connection was closed on our side."""
    return McpConnectionError(server.name, "the connection was closed.", transient=True)


def took_all(exc: McpError) -> bool:
    """Whether connecting took the whole time."""
    return exc.__cause__ is None and exc.code is None


def unreachable(server: McpServer, exc: Exception, trace: Trace) -> McpConnectionError:
    """Why a connection could not be made, in words for people."""
    root: BaseException = exc
    while isinstance(root, BaseExceptionGroup):
        root = root.exceptions[0]
    status = trace.status
    if status is not None:
        reason, transient = f"it answered with HTTP status {status}.", passes(status)
    elif isinstance(root, OSError) and server.cwd is not None and root.filename == str(server.cwd):
        reason, transient = f"its directory cannot be used ({type(root).__name__}); see cwd=.", False
    elif isinstance(root, FileNotFoundError | PermissionError) and server.transport == "stdio":
        what = "was not found" if isinstance(root, FileNotFoundError) else "may not be run"
        reason, transient = f"the command {server.place!r} {what}; see command= and the PATH in env=.", False
    else:
        reason, transient = f"no connection could be made ({type(root).__name__}).", True
    error = McpConnectionError(
        server.name, reason, transient=transient, status=status, code=code_of(root),
        detail=trace.last_line or words(root),
    )  # fmt: skip
    error.__cause__ = root
    return error


def passes(status: int | None) -> bool:
    """Whether what an HTTP status says may be over soon."""
    return status is None or status in (408, 425, 429) or status >= 500


def code_of(exc: BaseException) -> int | None:
    """The JSON-RPC code of an error, if it has one."""
    code = getattr(exc, "code", None)
    return code if isinstance(code, int) else None


def words(exc: BaseException) -> str:
    """What an exception says, on one line and without anything that does not show; addresses without their secrets."""
    said = _ADDRESS.sub(lambda found: place_of(found[0]), str(getattr(exc, "message", None) or exc)[:2000])
    return " ".join(cleaned(said, limit=300)[0].split())


_ADDRESS = re.compile(r"https?://[^\s'\"<>]+", re.IGNORECASE)
