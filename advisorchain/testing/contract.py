"""How the rules of a contract are checked: each with a new object, and a broken one in its own words."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """What a check found out about one rule."""

    rule: str
    problem: str | None
    """How the rule is broken; None: it is kept."""


_verdicts: ContextVar[list[Verdict] | None] = ContextVar("advisorchain.testing.verdicts", default=None)


@contextmanager
def collected() -> Generator[list[Verdict]]:
    """Inside the block a broken rule ends no check: the verdicts on all rules are in the list, in their order."""
    found: list[Verdict] = []
    token = _verdicts.set(found)
    try:
        yield found
    finally:
        _verdicts.reset(token)


async def made(make: Callable[[], Any]) -> Any:
    """A new object of ``make``, which may be async."""
    found = make()
    return await found if inspect.isawaitable(found) else found


@contextmanager
def told(rule: Callable[..., Any], about: Any) -> Generator[None]:
    """What goes wrong inside is an ``AssertionError`` that names the type of the object and the rule, its docstring.

    Raises:
        AssertionError: see above; inside `collected` nothing is raised.
    """
    found = _verdicts.get()
    try:
        yield
    except Exception as exc:
        what = exc if isinstance(exc, AssertionError) else f"It raised {exc!r}."
        if found is None:
            raise AssertionError(f"{type(about).__name__}: {rule.__doc__} {what}") from exc
        found.append(Verdict(str(rule.__doc__), str(what)))
    else:
        if found is not None:
            found.append(Verdict(str(rule.__doc__), None))


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
