"""Advisors made of one function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from .advisor import Advisor
from .exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from .invocation import ToolInvocation, ToolResult


class FunctionAdvisor(Advisor):
    """An advisor made of one function; see `chat_advisor` and `tool_advisor`."""

    def __init__(
        self,
        *,
        order: int,
        name: str,
        has_derived_name: bool = False,
        streams: Literal["pass", "hold"] = "pass",
        advise: Callable[[ChatRequest, ChatNext], Awaitable[ChatResponse[Any]]] | None = None,
        advise_tool: Callable[[ToolInvocation, ToolNext], Awaitable[ToolResult]] | None = None,
    ) -> None:
        self.order = order
        self.name = name
        self.has_derived_name = has_derived_name
        self.streams = streams
        if advise is not None:
            self.advise = advise  # type: ignore[method-assign, assignment]
        if advise_tool is not None:
            self.advise_tool = advise_tool  # type: ignore[method-assign, assignment]


def chat_advisor(
    *, order: int, name: str | None = None, streams: Literal["pass", "hold"] = "pass"
) -> Callable[[Callable[[ChatRequest, ChatNext], Awaitable[ChatResponse[Any]]]], FunctionAdvisor]:
    """Make an advisor of an async function of ``(request, call_next)``; the name defaults to the function's."""
    return lambda fn: FunctionAdvisor(
        order=order,
        name=_name(fn, name),
        has_derived_name=name is None,
        streams=streams,
        advise=fn,
    )


def tool_advisor(
    *, order: int, name: str | None = None
) -> Callable[[Callable[[ToolInvocation, ToolNext], Awaitable[ToolResult]]], FunctionAdvisor]:
    """Make an advisor of an async function of ``(invocation, call_next)``; the name defaults to the function's."""
    return lambda fn: FunctionAdvisor(
        order=order,
        name=_name(fn, name),
        has_derived_name=name is None,
        advise_tool=fn,
    )


def _name(fn: Any, name: str | None) -> str:
    return name or str(getattr(fn, "__name__", type(fn).__name__))
