"""Callables that must be async, checked without a cost for those that visibly are."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from .errors import ConfigurationError


def checked_async(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """``fn`` as it is when it is async; else ``fn`` with a check that it returns something to await.

    A plain function that returns an awaitable is fine, and only calling it shows whether it does.
    """
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None)):  # noqa: B004
        return fn

    def checked(*args: Any) -> Awaitable[Any]:
        result = fn(*args)
        if not inspect.isawaitable(result):
            raise ConfigurationError(f"{what} must be async: it returned {type(result).__name__} directly.")
        return result

    return checked
