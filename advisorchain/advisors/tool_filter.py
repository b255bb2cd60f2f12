"""Tool filter: which tools a request may see, by name, by tag, or by who asks."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from types import CoroutineType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ..advisor import Advisor
from ..async_callable import passes_on
from ..context import ContextKey, Turn
from ..errors import ConfigurationError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..order import Order
from ..setting_checks import checked_names
from ..tool_set import ToolSet
from ..tools.definition import Tool
from ..tools.execution import UnknownTool

Choice: TypeAlias = Iterable[str] | Callable[[Tool, ChatRequest], bool]
"""Names and tags, ``*`` for any characters; or a function of the tool and the request."""
_Says: TypeAlias = Callable[[Tool, ChatRequest], bool]

_KEPT_SETS = 64
"""How many parts of one set of tools are kept."""


class ToolFilterAdvisor(Advisor):
    """Leaves tools out of a request. A tool that is left out does not run either, however it comes to be called.

    To the model it does not exist: a call to it is answered like that of a tool that there is not.

    Args:
        allow: only these tools: names and tags (``*`` stands for any characters), or ``allow(tool, request) -> bool``,
            which may look at ``request.context`` (roles, tenant, feature flags). Default: all.
        deny: not these, also when they are allowed; in the same forms.

    A function is asked in every round and again before a call runs. If it raises, the turn fails: nothing is shown that
    was not allowed.

    Raises:
        ConfigurationError: neither is given, or one has another form; in a call: a function is async, or does not say
            True or False.
    """

    order: int = Order.TOOL_FILTER

    def __init__(
        self,
        *,
        allow: Choice | None = None,
        deny: Choice | None = None,
        order: int = Order.TOOL_FILTER,
        name: str | None = None,
    ) -> None:
        if allow is None and deny is None:
            raise ConfigurationError(
                'A tool filter needs allow= or deny=, for example ToolFilterAdvisor(deny=["admin"]), which leaves out '
                "the tool, or the tools with the tag, admin."
            )
        self.allow = allow
        self.deny = deny
        self.order = order
        if name is not None:
            self.name = name
        self._allows = self._says("allow", allow)
        self._denies = self._says("deny", deny)
        self._asks = callable(allow) or callable(deny)  # else what is left out depends on the tools alone
        self._known: WeakKeyDictionary[ToolSet, OrderedDict[tuple[int, ...], ToolSet]] = WeakKeyDictionary()
        self._seen = ContextKey[tuple[Turn, ToolSet]](f"advisorchain.tool_filter.{id(self)}")

    @passes_on
    def advise(self, request: ChatRequest, call_next: ChatNext) -> CoroutineType[Any, Any, ChatResponse[Any]]:
        """Leave out what is not allowed."""
        tools = request.tools
        context = request.context
        seen = context.get(self._seen)
        if seen is None or seen[1] is not tools or seen[0] is not context.turn:
            context[self._seen] = (context.turn, tools)
        kept = self._kept(tools, request)
        if kept is not tools:
            options = request.options
            choice = options.tool_choice
            if (choice == "required" and not len(kept)) or (choice in tools and choice not in kept):
                options = options.replace(tool_choice="auto")
            request = request.replace(tools=kept, options=options)
        return call_next(request)  # type: ignore[return-value]  # an awaitable is enough; mypy has no CoroutineType

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Run the call, unless its tool is left out.

        Raises:
            UnknownToolError: it is.
        """
        request = invocation.request
        context = request.context
        seen = context.get(self._seen)
        # As the tools came here: those that an advisor further inside has added are its own affair.
        tools = seen[1] if seen is not None and seen[0] is context.turn else request.tools
        tool = tools.get(invocation.tool.name)
        if tool is not None and not self._shows(tool, request):
            unknown = invocation.tool
            if type(unknown) is not UnknownTool:
                unknown = UnknownTool(tool.name, self._kept(tools, request))
            unknown.validate(None)  # raises
        return await call_next(invocation)

    def _kept(self, tools: ToolSet, request: ChatRequest) -> ToolSet:
        """What is left of the tools: the same object for the same tools."""
        known = self._known.get(tools)
        if known is None:
            known = OrderedDict()
        elif not self._asks:
            return known.get((), tools)
        shows = self._shows
        kept = [tool for tool in tools if shows(tool, request)]
        if len(kept) == len(tools):
            self._known.setdefault(tools, known)
            return tools
        key = tuple(map(id, kept)) if self._asks else ()
        left = known.get(key)
        if left is None:
            left = known[key] = ToolSet(kept)
            while len(known) > _KEPT_SETS:
                known.popitem(last=False)
        self._known.setdefault(tools, known)  # not before it is complete: another thread would see all tools
        return left

    def _shows(self, tool: Tool, request: ChatRequest) -> bool:
        return (self._allows is None or self._allows(tool, request)) and (
            self._denies is None or not self._denies(tool, request)
        )

    def _says(self, what: str, choice: Any) -> _Says | None:
        """A function that asks ``choice`` about a tool."""
        if choice is None:
            return None
        if callable(choice):
            return self._asked(what, choice)
        takes = "a list of names and tags, or a function of the tool and the request"
        names = checked_names(what, choice, takes)
        plain = frozenset(name for name in names if "*" not in name)
        patterns = [name.replace("[", "[[]").replace("?", "[?]") for name in names if "*" in name]

        def chosen(tool: Tool, request: ChatRequest) -> bool:
            names = {tool.policy_name, *tool.tags}
            if not plain.isdisjoint(names):
                return True
            return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)

        return chosen

    def _asked(self, what: str, function: Callable[[Tool, ChatRequest], Any]) -> _Says:
        def asked(tool: Tool, request: ChatRequest) -> bool:
            said = function(tool, request)
            if said is True or said is False:
                return said
            if inspect.iscoroutine(said):
                said.close()
            raise ConfigurationError(
                f"Advisor {self.name!r}: {what}= must say True or False of the tool {tool.name!r}, not "
                f"{type(said).__name__}; it must be a plain function, not async."
            )

        return asked
