"""`McpTools`: the tools of MCP servers as a `ToolProvider`. What one server does costs only its own tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import anyio

from ..errors import ConfigurationError, McpError
from ..exchange import RETURN_DIRECT, ChatRequest
from ..shield import in_trio
from ..tool_set import ToolSet
from ..tools.definition import Tool
from .cleaning import cleaned
from .connection import Connection
from .filters import as_filter
from .listed_tool import ListedTool
from .naming import Prefix, public_names
from .offer import BROKEN, Offer, offered
from .pinning import Pinning
from .remote_tool import RemoteTool
from .return_direct import DirectDefault
from .sdk import require_sdk
from .server import McpServer
from .status import ServerState, ServerStatus

logger = logging.getLogger("advisorchain.mcp")

MAX_TOLD = 100
"""How many notes about tools of one server get into the log; all are in `McpTools.status`."""

_Named = tuple[tuple[Any, ...], ToolSet, tuple[Tool, ...]]


class McpTools:
    """The tools of MCP servers, for ``tools=[...]`` of a client.

    Nothing connects before the first turn, or ``async with``. A server that is down, slow, or not what it says costs
    only its own tools: see `status`. Connections belong to an event loop; each has a task of its own, so any task may
    use and close them. Without ``async with`` they live until `aclose`, or the end of the event loop.

    Args:
        servers: with different names.
        filter: which tools are offered: a `ToolFilter`, patterns such as ``["orders/*"]``, or a function.
        prefix: how tools are named that clash, see `public_names`: ``"auto"``, ``"always"``, None, or a function.
        return_direct: what holds for tools of which neither an override, nor their trusted server, nor the server's
            ``return_direct`` says whether they return directly: a bool, or a function of the `ListedTool`.
        pinning: what happens when a tool is not what it was when it was seen first. True: it is left out, and what was
            seen first is remembered in this process; ``Pinning(PinFile(path))`` remembers it in a file. False: tools
            may change.

    Raises:
        ConfigurationError: an argument is wrong, two servers have one name, or the SDK is not installed.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        filter: Any = None,
        prefix: Prefix = "auto",
        return_direct: DirectDefault = None,
        pinning: Pinning | bool = True,
    ) -> None:
        require_sdk()
        self.servers = _checked(servers)
        self._names = [server.name for server in self.servers]
        self._permits = as_filter(filter)
        self._prefix: Prefix = prefix
        if return_direct is not None and not isinstance(return_direct, bool) and not callable(return_direct):
            raise ConfigurationError(f"return_direct must be True, False, None or a function, not {return_direct!r}.")
        self._return_direct: DirectDefault = return_direct
        if not isinstance(pinning, Pinning | bool):
            raise ConfigurationError(f"pinning must be Pinning(PinFile(path)), True or False, not {pinning!r}.")
        self._pinning = pinning if isinstance(pinning, Pinning) else Pinning() if pinning else None
        self._loops: WeakKeyDictionary[Any, list[_Source]] = WeakKeyDictionary()
        self._latest: list[_Source] = []
        self._named: _Named | None = None
        self._told: dict[str, set[str]] = {}
        self._told_bare: set[str] = set()

    async def tools(self, request: ChatRequest) -> Sequence[Tool]:
        """The tools that the servers offer now; asked once per turn. Tools of the request keep their names."""
        turn = request.context.turn
        if turn.observer is None or all(source.connection.fresh for source in self._sources()):
            tools = await self.listed(request.tools)
        else:
            asked = ", ".join(source.server.name for source in self._sources() if not source.connection.fresh)
            tools = await turn.operation("tools/list", self.listed(request.tools), target=asked)
        overrides = request.context.get(RETURN_DIRECT)
        if overrides:
            self._tell_bare(overrides, request.tools)
        return tools

    async def listed(self, others: ToolSet | None = None) -> Sequence[Tool]:
        """The tools that the servers offer now, under names that none of the ``others`` has."""
        others = _NO_TOOLS if others is None else others
        sources = self._sources()
        stale = [source for source in sources if not source.connection.fresh]
        if len(stale) == 1:
            await stale[0].refresh()
        elif stale:
            await _all_refreshed(stale)
        offers = tuple([source.offer for source in sources])
        named = self._named
        if named is None or named[1] is not others or any(a is not b for a, b in zip(named[0], offers, strict=True)):
            self._named = named = (offers, others, self._name(offers, others))
        return named[2]

    def status(self) -> tuple[ServerStatus, ...]:
        """What is known about each server, in the order given."""
        return tuple([source.status() for source in self._known()])

    @property
    def instructions(self) -> dict[str, str]:
        """What connected servers with ``instructions=True`` want a model to be told, by server; cleaned and cut."""
        found: dict[str, str] = {}
        for source in self._known():
            client = source.connection.client
            text = client.instructions if client is not None and source.server.instructions else None
            if text:
                found[source.server.name] = cleaned(text, limit=source.server.max_description_chars)[0]
        return found

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and with them child processes. A later use opens anew."""
        sources = self._loops.get(_loop(), ())
        async with anyio.create_task_group() as group:
            for source in sources:
                group.start_soon(source.connection.aclose)

    async def __aenter__(self) -> Self:
        try:
            await self.listed()
        except BaseException:  # nobody will leave what was never entered
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"McpTools({[server.name for server in self.servers]})"

    def _sources(self) -> list[_Source]:
        loop = _loop()
        sources = self._loops.get(loop)
        if sources is None:
            for past in [each for each in self._loops if _is_over(each)]:
                self._loops.pop(past, None)  # what is kept of it refers to it, so it would stay for ever
            sources = self._loops[loop] = [_Source(server, self, loop) for server in self.servers]
            self._latest = sources
        return sources

    def _known(self) -> list[_Source]:
        try:
            return self._sources()
        except RuntimeError:  # no event loop runs here
            return self._latest or [_Source(server, self) for server in self.servers]

    def _name(self, offers: Iterable[Offer], others: ToolSet) -> tuple[Tool, ...]:
        """The tools under their names."""
        found = [(offer, listed) for offer in offers for listed in offer.tools]
        names = public_names(
            [listed for _, listed in found], taken=others.names, prefix=self._prefix, servers=self._names
        )
        tools: list[Tool] = []
        for offer, listed in found:
            tools.append(offer.tool(listed, names[listed.server, listed.name]))
        return tuple(tools)

    def _tell(self, server: str, note: str) -> None:
        """Say once what was found wrong with a tool. A server that always has something new does not fill the log."""
        told = self._told.setdefault(server, set())
        if note in told or len(told) > MAX_TOLD:
            return
        told.add(note)
        if len(told) > MAX_TOLD:
            logger.warning("More is wrong with tools of MCP server %r: McpTools.status() has it.", server)
        else:
            logger.warning("MCP tool %s/%s", server, note)

    def _tell_bare(self, overrides: Iterable[str], others: ToolSet) -> None:
        """Say once that a bare name is that of a tool of this program."""
        remote = {
            tool.listed.name: tool for tool in (self._named[2] if self._named else ()) if isinstance(tool, RemoteTool)
        }
        for name in overrides:
            if name in remote and name not in self._told_bare and others.get(name) is None:
                self._told_bare.add(name)
                logger.warning(
                    "return_direct names %r, which is a tool of MCP server %r: write %r. A bare name is that of a tool "
                    "of this program.", name, remote[name].source, remote[name].policy_name,
                )  # fmt: skip


class _Source:
    """One server on one event loop: its connection, and what it offers."""

    def __init__(self, server: McpServer, tools: McpTools, loop: Any = None) -> None:
        self.server = server
        self.offer = Offer()
        self.connection = Connection(server, self._take)
        self._loop = None if loop is None else ref(loop)
        self._tools = tools
        self._failed = ""

    async def refresh(self) -> None:
        """List the tools anew. On a failure what was offered before is offered on, so that calls tell of it."""
        try:
            await self.connection.refresh()
        except McpError as exc:
            if str(exc) != self._failed:  # the same failure is told once
                self._failed = str(exc)
                logger.warning("%s%s", exc, f" It says: {exc.detail}" if exc.detail else "")
        else:
            if self._failed:
                logger.info("MCP server %r is back.", self.server.name)
            self._failed = ""

    async def _take(self, listed: Sequence[ListedTool]) -> None:
        """Make an offer of what the server has listed."""
        tools = self._tools
        self.offer = await offered(
            listed, self.server, self._same_loop, permits=tools._permits, pinning=tools._pinning,
            default=tools._return_direct, before=self.offer,
        )  # fmt: skip
        for name, notes in self.offer.notes.items():
            for note in notes:
                tools._tell(self.server.name, f"{_shown(name)}: {note}")
        for name, why in self.offer.left_out.items():
            if why.startswith(BROKEN):
                tools._tell(self.server.name, f"{_shown(name)} is left out: {why}")

    def _same_loop(self) -> Connection:
        """The connection of the event loop that calls, which need not be that of the listing."""
        if self._loop is not None and self._loop() is _loop():
            return self.connection
        for source in self._tools._sources():
            if source.server is self.server:
                return source.connection
        raise AssertionError("unreachable")

    def status(self) -> ServerStatus:
        """What is known about the server."""
        connection, server = self.connection, self.server
        error = connection.error
        state: ServerState = "failed" if error is not None else "connected"
        if error is None and connection.client is None:
            state = "idle" if connection.seen is None else "lost"
        named = self._tools._named
        names = {
            tool.listed.name: tool.name
            for tool in (named[2] if named is not None else ())
            if type(tool) is RemoteTool and tool.server is server
        }
        return ServerStatus(
            name=server.name,
            transport=server.transport,
            place=server.place,
            trusted=server.trusted,
            state=state,
            error=None if error is None else error.reason + (f" It says: {error.detail}" if error.detail else ""),
            protocol=connection.client.protocol_version if connection.client is not None else None,
            tools=names,
            left_out=dict(self.offer.left_out),
            notes=dict(self.offer.notes),
        )


_NO_TOOLS = ToolSet()


async def _all_refreshed(sources: Iterable[_Source]) -> None:
    """Refresh all at once. An error that is no server's (of a filter, say) is raised when all are through."""
    errors: list[Exception] = []

    async def refresh(source: _Source) -> None:
        try:
            await source.refresh()
        except Exception as exc:
            errors.append(exc)

    async with anyio.create_task_group() as group:
        for source in sources:
            group.start_soon(refresh, source)
    if errors:
        raise errors[0]


def _shown(name: str) -> str:
    return "".join([char if char.isprintable() else "?" for char in name[:100]])


def _loop() -> Any:
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def _is_over(loop: Any) -> bool:
    closed = getattr(loop, "is_closed", None)
    if closed is not None:
        return bool(closed())
    import trio

    try:
        loop.run_sync_soon(bool)
    except trio.RunFinishedError:
        return True
    return False


def _checked(servers: Any) -> tuple[McpServer, ...]:
    if isinstance(servers, McpServer):
        raise ConfigurationError(f"McpTools takes a list of servers: McpTools([{servers!r}]).")
    found = tuple(servers)
    for server in found:
        if not isinstance(server, McpServer):
            raise ConfigurationError(
                f"McpTools takes McpServer.stdio(...), .http(...), .sse(...) or .in_process(...), not {server!r}."
            )
    names = [server.name for server in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"Several MCP servers are named {', '.join(map(repr, twice))}: give each a name=.")
    return found
