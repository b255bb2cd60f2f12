"""`ExposedTools`: our tools as somebody outside calls them, each call through the tool onion. Knows nothing of MCP."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..chain import AdvisorChain
from ..context import Context, ContextKey, Turn
from ..errors import ConfigurationError
from ..events import Event, ToolProgress
from ..exchange import ChatRequest, ChatResponse, discard
from ..invocation import ToolResult
from ..messages import AssistantMessage, ToolCall
from ..observers import Watch, global_observer
from ..runtime import Runtime
from ..tool_set import ToolSet
from ..tools.definition import Tool, ToolProvider
from ..tools.execution import UnknownTool, run_call, run_tool
from ..tools.registry import ToolRegistry, ToolSources, provided_tools
from .mending import writable

logger = logging.getLogger("advisorchain.mcp")

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""What MCP allows as the name of a tool."""

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCaller:
    """Who called a tool of ours over MCP. Name and version are what the client says of itself: never authorise on them.

    Attributes:
        name: the client program's name, or None.
        version: its version, or None.
        protocol: the protocol version of the connection.
        client_id: whom the access token was issued to, as the token verifier says; None without one.
        subject: the user behind the access token, or None.
        scopes: what the access token allows.
    """

    name: str | None = None
    version: str | None = None
    protocol: str = ""
    client_id: str | None = None
    subject: str | None = None
    scopes: tuple[str, ...] = ()


MCP_CALLER = ContextKey[McpCaller]("advisorchain.mcp.caller")
"""In the context of a call that came over MCP: who called."""
MCP_META = ContextKey[Mapping[str, Any]]("advisorchain.mcp.meta")
"""In the context of a call that came over MCP: those keys of the request's ``_meta`` that ``request_meta=`` allows."""


class ExposedTools:
    """Tools that are called one at a time from outside: no model, no conversation, but the whole tool onion.

    Args:
        tools: what ``ChatClient(tools=...)`` takes.
        advisors: wrap every call; each must have ``advise_tool``.
        runtime: clock and ids.
        watch: what watches the calls.

    Raises:
        ConfigurationError: a tool has a name that MCP does not allow, or an advisor wraps model calls only.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        advisors: Iterable[Any] = (),
        runtime: Runtime | None = None,
        watch: Watch = global_observer,
    ) -> None:
        items = [tools] if isinstance(tools, ToolRegistry) else _listed(tools)
        self._sources = ToolSources(items)
        self._registries = [item for item in items if isinstance(item, ToolRegistry)]
        self._runtime = runtime or Runtime()
        self.watch = watch
        self._chain = AdvisorChain(advisors, _no_model, tool=run_tool)
        idle = [entry.name for entry in self._chain.entries if entry.advise_tool is None]
        if idle:
            raise ConfigurationError(
                f"advisors= has {', '.join(map(repr, idle))}, which wrap model calls, and serving tools makes none: "
                "leave them out, or give them to a ChatClient and serve client.as_tool(name, description)."
            )
        invalid = [f"{tool.name!r} ({tool.origin})" for tool in self._sources.tools if not _is_valid(tool)]
        if invalid:
            raise ConfigurationError(
                f"MCP does not allow these names of tools: {', '.join(invalid)}. Letters, digits, '_', '-' and '.' are "
                "allowed, up to 128; change one with tool.replace(name=...)."
            )
        self._refused: set[str] = set()
        self._seen = self._fixed = self._sources.tools

    @property
    def fixed(self) -> ToolSet:
        """The tools that need no provider. A registry that has come to clash with others does not end the serving."""
        try:
            tools = self._sources.tools
        except ConfigurationError as error:
            if str(error) not in self._refused:
                self._refused.add(str(error))
                logger.error("The tools are served as they were before: %s", error)
            return self._fixed
        if tools is not self._seen:
            self._seen, self._fixed = tools, ToolSet(self._servable(tools))
        return self._fixed

    @property
    def can_change(self) -> bool:
        """Whether a registry is among the tools, so that the list may change."""
        return bool(self._registries)

    @property
    def version(self) -> int:
        """Grows when a registry changes."""
        return sum(registry.version for registry in self._registries)

    async def listed(self) -> list[Tool]:
        """All tools that are there now. A provider that fails costs only its own tools, and is told in the log."""
        return list(await self._available(self._request(Context(Turn(self._runtime)))))

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None,
        *,
        values: Mapping[Any, Any] | None = None,
        progress: Progress | None = None,
    ) -> tuple[ToolResult, Tool]:
        """Run one call as a turn of its own; whatever goes wrong becomes an error result.

        Args:
            name: the tool's name.
            arguments: the arguments.
            values: for the turn's `Context`.
            progress: is awaited with what the tool reports: progress, total, message.

        Returns:
            The result, and the tool that gave it.
        """
        runtime = self._runtime
        turn = Turn(runtime)
        turn.ledger.started = runtime.clock()
        turn.chain = self._chain
        turn.observer = self.watch()
        turn.ledger.rounds = 1
        request = self._request(Context(turn, dict(values or {})))
        call = ToolCall(name, arguments)
        turn.call_ids.add(call.id)
        if progress is not None:
            request = request.replace(emit=_progress_of(call, progress), streaming=True)
        tool = request.tools.get(name)
        result: ToolResult | None = None
        failure: BaseException | None = None
        try:
            if tool is None:
                tools = await self._available(request)
                request = request.replace(tools=tools)
                tool = tools.get(name) or UnknownTool(name, tools)
            result = await run_call(request, call, tool)
        except Exception as error:  # one that ends the turn: its text is for the application
            failure = error
        except BaseException as error:
            if turn.has_callbacks:
                await turn.end(None, error)
            raise
        if turn.has_callbacks:
            try:
                await turn.end(None if result is None else _response(result), failure)
            except Exception as error:
                result, failure = None, error
        if tool is None:
            tool = UnknownTool(name, request.tools)
        return result if result is not None else _refusal(name, failure), tool

    def _request(self, context: Context) -> ChatRequest:
        return ChatRequest(
            (), tools=self.fixed, context=context, execute=self._chain.execute_for(context.turn.observer), round=1,
            emit=discard, offers={},
        )  # fmt: skip

    async def _available(self, request: ChatRequest) -> ToolSet:
        fixed = self.fixed
        if not self._sources.providers:
            return fixed
        found = {tool.name: tool for tool in fixed}
        for provider in self._sources.providers:
            # It sees those before it, and may name its own accordingly.
            seen = fixed if len(found) == len(fixed) else ToolSet(found.values())
            for tool in await self._provided(provider, request.replace(tools=seen)):
                if found.setdefault(tool.name, tool) is not tool:
                    self._refuse(tool, f"the name is taken by {found[tool.name].origin}")
        return ToolSet(found.values())

    async def _provided(self, provider: ToolProvider, request: ChatRequest) -> list[Tool]:
        try:
            tools = await provided_tools(provider, request)
        except Exception as error:
            logger.warning("%s gives no tools to serve: %s", type(provider).__qualname__, type(error).__name__)
            logger.debug("%s failed", type(provider).__qualname__, exc_info=error)
            return []
        return self._servable(tools)

    def _servable(self, tools: Iterable[Tool]) -> list[Tool]:
        found: list[Tool] = []
        for tool in tools:
            if _is_valid(tool):
                found.append(tool)
            else:
                self._refuse(tool, "MCP does not allow the name")
        return found

    def _refuse(self, tool: Tool, why: str) -> None:
        """Say once why a provider's tool is not served."""
        if tool.name not in self._refused:
            self._refused.add(tool.name)
            logger.warning("Tool %r from %s is not served: %s.", tool.name, tool.origin, why)


def _listed(tools: Any) -> list[Any]:
    if isinstance(tools, Tool | str) or callable(tools) or not isinstance(tools, Iterable):
        raise ConfigurationError(f"tools= takes a list, for example tools=[{tools!r}].")
    items = list(tools)
    for item in items:
        if not isinstance(item, type) and callable(getattr(item, "as_tool", None)):
            raise ConfigurationError(f"{item!r} is no tool: serve it as one, with .as_tool(name, description).")
    return items


def _is_valid(tool: Tool) -> bool:
    return TOOL_NAME.fullmatch(tool.name) is not None


def _progress_of(call: ToolCall, progress: Progress) -> Callable[[Event], Awaitable[None]]:
    """An `Emit` that hands on what this call reports, as long as it grows: MCP wants that."""
    last = -math.inf

    async def emit(event: Event) -> None:
        nonlocal last
        if not isinstance(event, ToolProgress) or event.call_id != call.id or event.path:
            return
        total = event.total if event.total is not None and math.isfinite(event.total) else None
        if not math.isfinite(event.progress) or event.progress <= last:
            return
        last = event.progress
        try:
            await progress(event.progress, total, writable(event.message))
        except Exception as error:  # the client is gone, or about to be: no reason for the tool to fail
            logger.debug("Progress of %r could not be sent: %s", call.name, type(error).__name__)

    return emit


def _response(result: ToolResult) -> ChatResponse[Any]:
    return ChatResponse(AssistantMessage(content=result.content), stop_reason="return_direct", direct_results=(result,))


def _refusal(name: str, error: BaseException | None) -> ToolResult:
    kind = type(error).__name__
    logger.error("The call of %r was ended", name, exc_info=error)
    return ToolResult.error(
        f"The call of {name[:200]!r} was not carried out ({kind}). The details are in the server's log.",
        failure={"exception": kind},
    )


async def _no_model(request: ChatRequest) -> ChatResponse[Any]:
    raise ConfigurationError("Served tools have no model to ask.")
