"""Callables that must be async, checked without a cost for those that visibly are."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])


def is_async(fn: Any) -> bool:
    """Whether a callable is visibly async: an ``async def``, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004


def passes_on(fn: F) -> F:
    """Mark a plain function that always returns something to await, so that nobody has to check what it returned.

    ``def advise(self, request, call_next): return call_next(request)`` costs half of what the same costs as a coroutine
    function: for advisors that have nothing to do most of the time.
    """
    fn.passes_on = True  # type: ignore[attr-defined]
    return fn


def checked_async(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """``fn`` as it is when it is async; else ``fn`` with a check that it returns something to await.

    A plain function that returns an awaitable is fine, and only calling it shows whether it does.
    """
    if is_async(fn) or getattr(fn, "passes_on", False) is True:
        return fn

    def checked(*args: Any) -> Awaitable[Any]:
        result = fn(*args)
        if not inspect.isawaitable(result):
            raise ConfigurationError(f"{what} must be async: it returned {type(result).__name__} directly.")
        return result

    return checked
