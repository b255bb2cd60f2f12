"""How the rules of a contract are checked: each with a new object, and a broken one in its own words."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any


async def made(make: Callable[[], Any]) -> Any:
    """A new object of ``make``, which may be async."""
    found = make()
    return await found if inspect.isawaitable(found) else found


@contextmanager
def told(rule: Callable[..., Any], about: Any) -> Generator[None]:
    """What goes wrong inside is an ``AssertionError`` that names the type of the object and the rule, its docstring.

    Raises:
        AssertionError: see above.
    """
    try:
        yield
    except Exception as exc:
        what = exc if isinstance(exc, AssertionError) else f"It raised {exc!r}."
        raise AssertionError(f"{type(about).__name__}: {rule.__doc__} {what}") from exc


async def check_rule(rule: Callable[..., Awaitable[None]], make: Callable[[], Any], *more: Any) -> None:
    """Await ``rule(a new object, *more)``, and close the object if it can be closed.

    Raises:
        AssertionError: the rule is broken.
    """
    checked = await made(make)
    try:
        with told(rule, checked):
            await rule(checked, *more)
    finally:
        close = getattr(checked, "aclose", None) or getattr(checked, "close", None)
        closed = close() if close is not None else None
        if inspect.isawaitable(closed):
            await closed
