"""A server's answer may have any form: what cannot be read is a failed call, what need not be read is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import ModelError

R = TypeVar("R")


def understood(provider: str, read: Callable[..., R], /, *said: Any) -> R:
    """What ``read`` makes of what a server has said.

    Raises:
        ModelError: ``read`` fails at it; transient, because the next answer may be in order.
    """
    try:
        return read(*said)
    except Exception as exc:  # a text where an object belongs, a number where a list does, and so on
        raise ModelError(
            f"{provider}: the answer has not the form that it should have ({type(exc).__name__}).",
            transient=True,
            provider=provider,
        ) from exc


def token_count(said: Any) -> int | None:
    """A count of tokens as a server has said it; None for what is no count."""
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    return said if type(said) is int and said >= 0 else None
