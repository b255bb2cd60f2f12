"""What an advisor is: an object with a ``name``, an ``order``, and ``advise`` or ``advise_tool`` or both."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from .exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from .invocation import ToolInvocation, ToolResult

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def derived_name(owner: type) -> str:
    """The class name in snake_case, without ``_advisor``: ``TokenBudgetAdvisor`` is ``token_budget``."""
    return _WORD.sub("_", owner.__name__).lower().strip("_").removesuffix("_advisor")


class _DerivedName:
    """Gives every class its derived name until a class or an instance sets one."""

    def __get__(self, advisor: object, owner: type) -> str:
        return derived_name(owner)


class Advisor:
    """Wraps chat exchanges (``advise``), tool calls (``advise_tool``), or both; see `Order` for where.

    A method that is not overridden is left out of its chain and costs nothing. Any object with these members is an
    advisor; inheriting is a convenience.

    Attributes:
        name: default: the class name in snake_case without ``_advisor``.
        order: 0 to 999; lower is further outside.
        streams: ``"hold"``: the advisor may change or withhold content, so under streaming nothing of what is inside
            it is emitted, and the text that it returns is emitted when ``advise`` returns. ``"pass"`` (default):
            events pass while it waits.
        inside, outside: ``"tool_loop"`` refuses a chain in which the advisor stands on the wrong side.
        is_tool_loop: the advisor is a tool loop; a chain has at most one.
        span_kind: what readers of OpenInference take its spans for: ``"CHAIN"``, ``"GUARDRAIL"``, ``"RETRIEVER"``.
    """

    name: str = _DerivedName()  # type: ignore[assignment]
    order: int
    streams: Literal["pass", "hold"] = "pass"
    inside: ClassVar[Literal["tool_loop"] | None] = None
    outside: ClassVar[Literal["tool_loop"] | None] = None
    is_tool_loop: ClassVar[bool] = False
    span_kind: ClassVar[str] = "CHAIN"

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Handle a chat exchange; ``await call_next(request)`` runs the rest of the chain."""
        return await call_next(request)

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Handle one tool call; ``await call_next(invocation)`` runs the rest of the tool chain."""
        return await call_next(invocation)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} order={getattr(self, 'order', None)}>"
