"""`Connection`: one MCP server on one event loop, connected when it is needed; any task may call and close."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from ..circuit import Circuit, CircuitRules
from ..errors import AdvisorChainError, McpConnectionError, McpError, ToolError
from ..shield import run_shielded
from .link import Link, again, closed, code_of, passes, took_all, words
from .listed_tool import ListedTool
from .listing import listed_tools
from .pin import definition
from .server import Era, McpServer

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

logger = logging.getLogger("advisorchain.mcp")

RULES = CircuitRules(failures=3, reset_after=60.0, window=None)
"""A server that could not be connected or listed three times in a row is left alone for a minute, then tried once."""

_NO_METHOD = -32601  # of JSON-RPC


class Seen(NamedTuple):
    """What a server has listed, when, and over which life of the connection."""

    tools: Mapping[str, ListedTool]
    at: float
    link: Link


class Connection:
    """One server on one event loop: connected when it is needed, and anew after it was lost.

    Attributes:
        server: which.
        seen: what it has listed last, or None.
        error: why it could not be connected or listed last time, or None.
        circuit: the record of connecting and listing, see `RULES`.
    """

    def __init__(self, server: McpServer, check: Callable[[Sequence[ListedTool]], Awaitable[None]]) -> None:
        self.server = server
        self.seen: Seen | None = None
        self.error: McpError | None = None
        self.circuit = Circuit()
        self._check = check
        self._era: Era = server.era
        self._link: Link | None = None
        self._links: list[Link] = []  # also those that are still closing
        self._lock = anyio.Lock()
        self._failures = 0
        self._closings = 0

    @property
    def client(self) -> Client | None:
        """The SDK's client while it is connected, or None."""
        return self._link.client if self._link is not None and self._link.alive else None

    @property
    def fresh(self) -> bool:
        """Whether what was listed still counts: no change was told, no new connection, not too old."""
        seen = self.seen
        if seen is None or seen.link.dirty or not seen.link.alive:
            return False
        ttl = self.server.list_ttl
        return ttl is None or anyio.current_time() - seen.at < ttl

    async def refresh(self) -> None:
        """List the tools, if what was listed does not count any more.

        Who comes while that is under way shares its outcome: a server that is mute costs everybody its time once.

        Raises:
            McpError: the server could not be connected or listed, or is left alone for a while.
        """
        failures, closings = self._failures, self._closings
        async with self._lock:
            if self.fresh:
                return
            if self._closings != closings:
                raise closed(self.server)
            if self._failures != failures and self.error is not None:
                raise again(self.error)
            now = anyio.current_time()
            self.circuit, admission = self.circuit.admit(now, RULES)
            if not admission.admitted:
                raise McpConnectionError(
                    self.server.name,
                    f"it failed {RULES.failures} times in a row and is left alone for {RULES.reset_after:g} s.",
                    transient=True,
                )
            try:
                await self._list()
            except McpError as exc:
                if self._closings == closings:  # else it was ended by us
                    self.circuit = self.circuit.failed(admission, anyio.current_time(), RULES)
                    self._failures += 1
                    self.error = exc
                raise
            except BaseException:
                self.circuit = self.circuit.released(admission, anyio.current_time())
                raise
            self.circuit = self.circuit.succeeded(admission, anyio.current_time())
            self.error = None

    def call(
        self, tool: ListedTool, arguments: dict[str, Any], progress: Any = None, meta: dict[str, Any] | None = None
    ) -> Awaitable[CallToolResult]:
        """Call a tool, as it was listed. Never twice, whatever happens.

        Raises:
            McpConnectionError: the server could not be reached.
            McpError: it failed, or the connection was lost.
            ToolError: it refuses the call, in words for the model.
        """
        link, seen = self._link, self.seen
        if seen is None or link is None or seen.link is not link or not link.alive:
            return self._call_anew(tool, arguments, progress, meta)
        if seen.tools.get(tool.name) is not tool:
            _check_same(seen, tool)
        return link.call_tool(tool.name, arguments, progress, meta)

    async def _call_anew(
        self, tool: ListedTool, arguments: dict[str, Any], progress: Any, meta: dict[str, Any] | None
    ) -> CallToolResult:
        """Call it after connecting anew since it was offered: the server may be another one by now."""
        try:
            await self.refresh()
        except McpError as exc:
            raise again(exc, McpConnectionError) from exc  # whatever it was, the call was not sent
        if self.seen is None:
            raise closed(self.server)
        _check_same(self.seen, tool)
        return await self.seen.link.call_tool(tool.name, arguments, progress, meta)

    async def aclose(self) -> None:
        """Close the connection and wait for its end, also of the child process; a later use opens a new one."""
        self._closings += 1
        links, self._links, self._link = self._links, [], None
        self.seen = self.error = None
        self.circuit = Circuit()
        for link in links:
            link.drop(closed(self.server))

        async def ended() -> None:
            for link in links:
                await link.wait_ended()

        if not all(link.ended for link in links):
            self._links += links  # who else closes meanwhile waits too
            await run_shielded(ended)

    # One life after the other ----------------------------------------------------------------------------------------

    def _start(self, era: Era, seconds: float) -> Link:
        link = self._link = Link(self.server, era, seconds)
        self._links = [*(link for link in self._links if not link.ended), link]
        link.start()
        return link

    async def _connected(self) -> Link:
        link = self._link
        if link is not None and not link.alive:
            link.drop()
        if link is None or link.over:
            link = self._start(self._era, self.server.connect_timeout)
        if link.client is None:
            await self._opened(link)
            link = self._link or link
        return link

    async def _opened(self, link: Link) -> None:
        """Wait until it is connected; when the newest protocol fails, try the handshake of before 2026 once."""
        try:
            await link.ready()
            return
        except McpError as exc:
            if self._link is not link:  # closed meanwhile
                raise
            if self.server.era != "auto" or exc.status is not None or isinstance(exc.__cause__, OSError):
                raise
            self._era = "legacy" if link.era == "auto" else "auto"
            left = self.server.connect_timeout - (anyio.current_time() - link.began)
            if link.era != "auto" or took_all(exc) or left < self.server.connect_timeout / 2:
                raise  # the time is over; the next attempt speaks the other protocol
        other = self._start("legacy", left)
        try:
            await other.ready()
        except McpError:
            self._era = self.server.era
            raise

    async def _list(self) -> None:
        link = await self._connected()
        link.dirty = False
        at = anyio.current_time()
        try:
            tools = await self._tools_of(link)
            await self._check(tools)
        except BaseException:
            link.dirty = True  # what it has told is still to be looked at
            raise
        self.seen = Seen({tool.name: tool for tool in reversed(tools)}, at, link)

    async def _tools_of(self, link: Link) -> list[ListedTool]:
        try:
            with anyio.fail_after(self.server.list_timeout):
                return await link.during(lambda client: listed_tools(client, self.server))  # type: ignore[no-any-return]
        except TimeoutError:
            link.drop()  # it may be stuck; the next attempt begins anew
            raise McpError(
                self.server.name, f"it did not list its tools within {self.server.list_timeout:g} s.", transient=True
            ) from None
        except AdvisorChainError:
            raise
        except Exception as exc:
            code, status = code_of(exc), link.trace.status
            if code == _NO_METHOD and status is None:
                return []  # it has resources or prompts only
            link.drop()
            raise McpError(
                self.server.name, "it could not list its tools.", transient=passes(status), code=code, status=status,
                detail=link.trace.last_line or words(exc),
            ) from exc  # fmt: skip


def _check_same(seen: Seen, tool: ListedTool) -> None:
    """Refuse a tool that is not what was offered any more; what it says of itself in ``_meta`` may change.

    Raises:
        ToolError: it is another one by now, or gone.
    """
    now = seen.tools.get(tool.name)
    if now is None or definition(now) != definition(tool):
        raise ToolError(f"The tool {tool.name!r} is not what it was when it was offered, so it was not called.")
