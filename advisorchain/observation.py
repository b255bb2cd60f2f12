"""What may watch a turn: the hooks that tracing fills. Knows no tracing library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from .chain import Entry
    from .context import Turn
    from .exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
    from .invocation import ToolInvocation, ToolResult
    from .messages import ToolCall
    from .tools.definition import Tool

T = TypeVar("T")

Attributes = Mapping[str, Any]
"""What a note or an operation says of itself: names with texts, numbers, truth values, or lists of one of them."""


class Observer(Protocol):
    """Watches turns. Every hook runs what it is given, exactly once, and hands on its outcome unchanged.

    Attributes:
        advisors: whether it watches the passes through advisors too; else chains run as they are.
    """

    advisors: bool

    async def turn(
        self, client: str, request: ChatRequest, run: Callable[[], Awaitable[ChatResponse[Any]]]
    ) -> ChatResponse[Any]:
        """A whole turn."""
        ...

    async def advise(self, entry: Entry, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """One pass through an advisor of chat exchanges."""
        ...

    async def advise_tool(self, entry: Entry, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """One pass through an advisor of tool calls."""
        ...

    async def model_call(self, name: str, model: ChatNext, request: ChatRequest, run: ChatNext) -> ChatResponse[Any]:
        """One call of a model."""
        ...

    async def tool_call(
        self, request: ChatRequest, call: ToolCall, tool: Tool, direct: bool, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """One tool call, its attempts inside it."""
        ...

    async def operation(self, name: str, running: Awaitable[T], target: str, attributes: Attributes | None) -> T:
        """Something else that takes time: a search in a memory, a retrieval."""
        ...

    def note(self, name: str, attributes: Attributes | None) -> None:
        """Something that happened at one moment."""
        ...

    def describe_tool_call(self, turn: Turn, call_id: str, attributes: Attributes) -> None:
        """More about a tool call that is running."""
        ...

    def carrier(self) -> dict[str, str]:
        """The trace context to send along: ``traceparent``, perhaps ``tracestate``; empty when nothing is traced."""
        ...

    def served(
        self, method: str, target: str | None, meta: Attributes, attributes: Attributes
    ) -> AbstractContextManager[Callable[[str | None], None]]:
        """A request of somebody outside; what is entered takes the kind of error of the answer."""
        ...
