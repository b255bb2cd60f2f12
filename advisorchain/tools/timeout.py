"""The timeout of one tool attempt: a cancel scope whose deadline is set when the tool first suspends."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ToolTimeoutError
from ..shield import in_trio

if TYPE_CHECKING:
    import anyio

T = TypeVar("T")

_scope_types: dict[bool, type[anyio.CancelScope]] = {}


@types.coroutine
def run_within(running: Coroutine[Any, Any, T], seconds: float, tool: str) -> Generator[Any, Any, T]:
    """Await ``running`` for at most ``seconds``; a tool that never suspends costs no timer.

    The scope is entered before the tool's first step, because scopes nest: the tool may enter some of its own.

    Raises:
        ToolTimeoutError: the time is over.
    """
    with new_scope() as scope:
        try:
            yielded = running.send(None)
            scope.deadline = _now() + seconds
            while True:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    running.close()
                    raise
                except BaseException as exc:
                    yielded = running.throw(exc)
                else:
                    if sent is None:  # asyncio sends nothing but None: from here on the interpreter itself passes it on
                        return (yield from running)  # type: ignore[no-any-return]
                    yielded = running.send(sent)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
    raise ToolTimeoutError(f"The tool {tool!r} did not answer within {seconds:g} seconds.")


def _now() -> float:
    """The loop's clock; on asyncio without asking which loop it is, twice."""
    if in_trio():
        import trio

        return trio.current_time()
    return asyncio.get_running_loop().time()


def new_scope() -> anyio.CancelScope:
    """A cancel scope of the running loop; its class is looked up once, which saves half of its cost."""
    trio = in_trio()
    scope_type = _scope_types.get(trio)
    if scope_type is not None:
        return scope_type()
    import anyio

    scope = anyio.CancelScope()
    _scope_types[trio] = type(scope)
    return scope
