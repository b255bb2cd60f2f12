"""What a traced task is in the middle of, besides its current span."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..context import Turn
    from .otel import Work

T = TypeVar("T")


class RunningTool(NamedTuple):
    """A tool call: whose it is, its span, and what was told of it."""

    turn: Turn
    call_id: str
    work: Work
    described: dict[str, Any]


SERVED: ContextVar[Work | None] = ContextVar("advisorchain_served", default=None)
"""The span of a served call, which covers the tool call that it makes, and no other."""
RUNNING_TOOL: ContextVar[RunningTool | None] = ContextVar("advisorchain_running_tool", default=None)


class Held(Generic[T]):
    """A variable that has a value while a block runs."""

    __slots__ = ("_variable", "_value", "_token")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[T] = self._variable.set(self._value)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        if kind is not GeneratorExit:  # else the loop is gone, and the context with it
            self._variable.reset(self._token)
