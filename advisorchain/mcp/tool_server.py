"""`ToolServer`: the SDK's low-level server with the handlers that list and call `ExposedTools`.

Imports the SDK, which takes a second or two: imported only when something is served.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .exposure import MCP_CALLER, MCP_META, ExposedTools, McpCaller
from .list_changes import ListChanges
from .mending import writable
from .outgoing import annotate_direct, wire_result, wire_tool
from .trace_context import TRACE_CONTEXT, received_trace

logger = logging.getLogger("advisorchain.mcp")

PAGE_SIZE = 1000
"""How many tools one answer to ``tools/list`` holds."""

_Context = ServerRequestContext[Any, Any]


class ToolServer(Server[Any]):
    """An MCP server of exposed tools, for any transport.

    Args:
        exposed: the tools.
        name: of the server.
        version: of the server.
        title: for people, or None.
        instructions: what the client may tell its model about the server, or None.
        request_meta: the keys of a request's ``_meta`` that tools may see, under `MCP_META`.
        tool_meta: the keys of ``Tool.meta`` that are listed in a tool's ``_meta``.
    """

    def __init__(
        self,
        exposed: ExposedTools,
        *,
        name: str,
        version: str,
        title: str | None = None,
        instructions: str | None = None,
        request_meta: Collection[str] = (),
        tool_meta: Collection[str] = (),
    ) -> None:
        self.exposed = exposed
        self._request_meta = tuple(request_meta)
        self._tool_meta = tuple(tool_meta)
        self._changes = ListChanges(exposed)
        super().__init__(
            name,
            version=version,
            title=writable(title),
            instructions=writable(instructions),
            lifespan=_watching,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._changes.on_listen if exposed.can_change else None,
        )
        # The SDK's own spans would double ours, and hold the texts of errors.
        self.middleware = [each for each in self.middleware if type(each).__name__ != "OpenTelemetryMiddleware"]
        self.middleware += [self._watched, self._shape]

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> InitializationOptions:
        """The SDK's, which says that the list of tools may change if it may."""
        options = notification_options or NotificationOptions(tools_changed=self.exposed.can_change)
        return super().create_initialization_options(options, *args, **kwargs)

    # Requests --------------------------------------------------------------------------------------------------------

    async def _list(self, context: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        start = _start(params.cursor if params is not None else None)
        try:
            tools = await self.exposed.listed()
            modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            page = [
                wire_tool(tool, modern=modern, published=self._tool_meta) for tool in tools[start : start + PAGE_SIZE]
            ]
        except Exception as error:
            logger.error("The tools could not be listed", exc_info=error)
            raise MCPError(types.INTERNAL_ERROR, "The tools could not be listed; the server's log says why.") from None
        end = start + PAGE_SIZE
        return types.ListToolsResult(tools=page, next_cursor=str(end) if end < len(tools) else None)

    async def _call(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        # Caught here whatever it is: to clients of the older protocols the SDK would send an exception's own text.
        try:
            result, tool = await self.exposed.call(
                params.name,
                params.arguments,
                values=self._values(context),
                progress=context.session.report_progress if _wants_progress(context) else None,
            )
            return wire_result(result, tool, modern=context.protocol_version in MODERN_PROTOCOL_VERSIONS)
        except Exception as error:
            logger.error("The call of %r could not be answered", params.name, exc_info=error)
            text = f"The call of {params.name[:200]!r} could not be answered. The details are in the server's log."
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.exposed.fixed.get(name)
        return None if tool is None else tool.input_schema

    def _values(self, context: _Context) -> dict[Any, Any]:
        """What the tools and advisors of a call may know about where it came from."""
        meta: Mapping[str, Any] = {**(context.meta or {})}
        known = context.session.client_params
        info = known.client_info if known is not None else None
        token = get_access_token()
        values: dict[Any, Any] = {
            MCP_CALLER: McpCaller(
                name=info.name if info is not None else None,
                version=info.version if info is not None else None,
                protocol=context.protocol_version,
                client_id=token.client_id if token is not None else None,
                subject=token.subject if token is not None else None,
                scopes=tuple(token.scopes) if token is not None else (),
            ),
            MCP_META: {key: meta[key] for key in self._request_meta if key in meta},
        }
        if trace := received_trace(meta):
            values[TRACE_CONTEXT] = trace
        return values

    async def _watched(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Lets whoever watches see the request, as a child of what the client has told of."""
        observer = self.exposed.watch()
        if observer is None:
            return await call_next(ctx)
        target: str | None = None
        if ctx.method == "tools/call":
            name = (ctx.params or {}).get("name")
            target = name if isinstance(name, str) and self.exposed.fixed.get(name) else "_OTHER"
        about: dict[str, Any] = {"mcp.protocol.version": ctx.protocol_version}
        if ctx.request_id is not None:
            about["jsonrpc.request.id"] = str(ctx.request_id)
        with observer.served(ctx.method, target, {**(ctx.meta or {})}, about) as fail:
            result = await call_next(ctx)
            if target is not None and _is_error(result):
                fail("tool_error")
        return result

    async def _shape(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Sees every message: adds what the SDK's models would drop, and notes whom to tell of changes."""
        result = await call_next(ctx)
        if ctx.method == "tools/list" and isinstance(result, dict):
            annotate_direct(result)
        elif ctx.method == "notifications/initialized" and self.exposed.can_change:
            self._changes.add(ctx.session._connection)
        return result

    async def watch(self) -> None:
        """Tell clients when a registry has changed; runs as long as the server is served."""
        await self._changes.watch()


@asynccontextmanager
async def _watching(server: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
    if not isinstance(server, ToolServer) or not server.exposed.can_change:
        yield {}
        return
    async with anyio.create_task_group() as group:
        group.start_soon(server.watch)
        yield {}
        group.cancel_scope.cancel()


def _is_error(result: HandlerResult) -> bool:
    return bool(result.get("isError") if isinstance(result, dict) else getattr(result, "is_error", False))


def _start(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
        raise MCPError(types.INVALID_PARAMS, "There is no such cursor: list from the beginning.")
    return int(cursor)


def _wants_progress(context: _Context) -> bool:
    meta: Mapping[str, Any] = {**(context.meta or {})}
    if meta.get("progress_token", meta.get("progressToken")) is not None:
        return True
    # In one process there is no token: the client's callback is called directly.
    outbound: Any = context.session._request_outbound
    return getattr(getattr(outbound, "_inner", outbound), "_on_progress", None) is not None
