"""Tool cache: the same call of the same tool runs once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextvars import ContextVar
from typing import Any

from ..advisor import Advisor
from ..context import ContextKey
from ..errors import AdvisorChainError, ConfigurationError
from ..exchange import ToolNext
from ..failures import tool_failure
from ..invocation import ToolInvocation, ToolResult
from ..order import Order
from ..setting_checks import check_function, check_number, checked_names
from ..tools.canonical import canonical_arguments
from ..tools.definition import Tool

Scope = ContextKey[Any] | Callable[[ToolInvocation], Hashable | None]
Selection = Iterable[str] | Callable[[Tool], bool]

_FLYING = ContextVar("advisorchain.tool_cache.flying", default=False)
"""Whether this code runs inside a call that others may wait for."""


class _Kept:
    """A result in the cache; holds the tool, so that the ids in its key stay its own."""

    __slots__ = ("result", "expires", "tool")

    def __init__(self, result: ToolResult, expires: float, tool: Tool) -> None:
        self.result = result
        self.expires = expires
        self.tool = tool


class _Flight:
    """A call that runs now, and what came of it: a result, an error, or neither when it was cancelled."""

    __slots__ = ("landed", "result", "error")

    def __init__(self) -> None:
        import anyio

        self.landed = anyio.Event()
        self.result: ToolResult | None = None
        self.error: Exception | None = None


class ToolCacheAdvisor(Advisor):
    """Answers a tool call from the result of an earlier, identical one.

    ``result.metadata["cache"]`` is then ``"hit"``.

    Identical: the same tool of the same source (for a method, of the same object), the same arguments however their
    JSON is written, and the same scope. Identical calls that run at once share one execution; if the one that executes
    is cancelled, another takes over. A call from within a cached tool (of a sub-agent) waits for no other. Errors, and
    degraded or denied results, are not kept.

    Args:
        ttl: seconds for which a result is kept.
        max_entries: how many results are kept; the one that was not asked for the longest goes first.
        scope: whose results these are: a context key or a function of the invocation, that gives the user, the tenant,
            ... None there: this call is not cached. Without a scope, tools that read the context are not cached.
        tools: which tools are cached: names and tags, or a function of the tool; a tool of an MCP server is named
            ``server/tool``. Default: those with ``read_only=True``, except ``repeatable`` ones.
        clock: monotonic seconds.

    Raises:
        ConfigurationError: a value is out of range, or a selection is none; in a call: the scope gives something that
            cannot be hashed.
    """

    order: int = Order.TOOL_CACHE

    def __init__(
        self,
        *,
        ttl: float = 300.0,
        max_entries: int = 1000,
        scope: Scope | None = None,
        tools: Selection | None = None,
        clock: Callable[[], float] = time.monotonic,
        order: int = Order.TOOL_CACHE,
        name: str | None = None,
    ) -> None:
        check_number("ttl", ttl, over=0)
        check_number("max_entries", max_entries, least=1, whole=True)
        if scope is not None and not isinstance(scope, ContextKey) and not callable(scope):
            raise ConfigurationError(f"scope must be a ContextKey or a function of the invocation, not {scope!r}.")
        check_function("clock", clock, "no arguments")
        self.ttl = ttl
        self.max_entries = max_entries
        self.scope = scope
        self.clock = clock
        self.order = order
        if name is not None:
            self.name = name
        self._selects = _selector(tools)
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._flights: dict[Hashable, _Flight] = {}
        self._lock = threading.Lock()  # for the results: clients of several threads may share the cache

    def clear(self) -> None:
        """Forget every result; calls that run now are not kept."""
        with self._lock:
            self._kept.clear()
            self._flights.clear()

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Answer from the cache, join the identical call that runs now, or run."""
        key = self._key(invocation)
        if key is None:
            return await call_next(invocation)
        while True:
            kept = self._found(key)
            if kept is not None:
                return _hit(kept.result)
            from anyio.lowlevel import current_token

            place = (current_token(), key)  # an event belongs to its loop
            flight = self._flights.get(place)
            if flight is None:
                return await self._run(invocation, call_next, key, place)
            if _FLYING.get():  # a sub-agent's call may wait for itself, or two for each other: none of them waits
                return await call_next(invocation)
            await flight.landed.wait()
            if flight.result is not None:
                return _hit(flight.result)
            if flight.error is not None:
                raise flight.error

    def _found(self, key: Hashable) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if self.clock() < kept.expires:
                self._kept.move_to_end(key)
                return kept
            del self._kept[key]
            return None

    async def _run(self, invocation: ToolInvocation, call_next: ToolNext, key: Hashable, place: Hashable) -> ToolResult:
        flight = self._flights[place] = _Flight()
        flying = _FLYING.get()
        _FLYING.set(True)
        try:
            result = await call_next(invocation)
            flight.result = own = result.own_copy()  # before somebody changes what this caller gets
            if not result.is_error and result.failure is None:
                kept = _Kept(own, self.clock() + self.ttl, invocation.tool)
                with self._lock:
                    if self._flights.get(place) is flight:  # else all was cleared meanwhile
                        self._kept[key] = kept
                        self._kept.move_to_end(key)
                        while len(self._kept) > self.max_entries:
                            self._kept.popitem(last=False)
            return result
        except Exception as exc:
            # What ends this turn, alone or in a group, is no reason to end the others'.
            error = tool_failure(exc)
            if not (isinstance(error, AdvisorChainError) and error.ends_turn):
                flight.error = exc
            raise
        finally:
            _FLYING.set(flying)
            if self._flights.get(place) is flight:
                del self._flights[place]
            flight.landed.set()

    def _key(self, invocation: ToolInvocation) -> Hashable | None:
        """What makes two calls identical, or None when this call is not cached."""
        tool = invocation.tool
        if tool.source == "unknown" or not self._selects(tool):
            return None
        scope: Any = self.scope
        owner: Hashable = None
        if scope is not None:
            owner = invocation.context.get(scope) if isinstance(scope, ContextKey) else scope(invocation)
            if owner is None:
                return None
            try:
                hash(owner)
            except TypeError:
                raise ConfigurationError(
                    f"The scope of advisor {self.name!r} gave {owner!r} for a call of {tool.name!r}; it must be "
                    "hashable: a text, a number, or a tuple of these."
                ) from None
        elif tool.reads_context:
            return None
        target = tool.target
        ids = tuple(map(id, target)) if isinstance(target, tuple) else id(target)
        # A server's tools may be made anew each time they are listed; then `target` says which server it is.
        where = ids if tool.source == "local" or target is not tool else None
        return tool.source, tool.policy_name, where, canonical_arguments(invocation.call.arguments), owner


def _selector(tools: Selection | None) -> Callable[[Tool], bool]:
    if tools is None:
        return lambda tool: tool.read_only is True and not tool.repeatable
    if callable(tools):
        return tools
    given = [tools] if isinstance(tools, str) else tools
    names = frozenset(checked_names("tools", given, "a list of names and tags, or a function of the tool"))
    return lambda tool: tool.policy_name in names or not names.isdisjoint(tool.tags)


def _hit(result: ToolResult) -> ToolResult:
    metadata = {**(result.metadata or {}), "cache": "hit"}
    metadata.pop("attempts", None)  # this call made none
    return result.own_copy().replace(metadata=metadata)
