"""Checks of an advisor's settings: each error says which setting, what it must be, and what it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ConfigurationError


def check_number(what: str, value: Any, *, over: float | None = None, least: float = 0, whole: bool = False) -> None:
    """Check that a setting is a finite number: over ``over``, or at least ``least``; with ``whole``, an int.

    Raises:
        ConfigurationError: it is not.
    """
    kinds = int if whole else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and (value >= least if over is None else value > over):
        return
    kind = "an int" if whole else "a number"
    bound = f"over {over:g}" if over is not None else f"of at least {least:g}"
    raise ConfigurationError(f"{what} must be {kind} {bound} (is {value!r}).")


def check_function(what: str, value: Any, takes: str) -> None:
    """Check that a setting is None or a function; ``takes`` says of what.

    Raises:
        ConfigurationError: it is not.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{what} must be a function of {takes}, not {value!r}.")


def check_mapping(what: str, value: Any, example: str) -> None:
    """Check that a setting is None or a mapping by name, as ``example`` is one.

    Raises:
        ConfigurationError: it is not, or has a key that is no text: nothing would ever be looked up by it.
    """
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise ConfigurationError(f"{what} must be a mapping by name, for example {example}, not {value!r}.")


def checked_names(what: str, value: Any, takes: str) -> tuple[str, ...]:
    """The names that a setting lists; ``takes`` says what it takes. One text is no list: its letters are no names.

    Raises:
        ConfigurationError: it is something else.
    """
    if isinstance(value, Iterable) and not isinstance(value, str):
        names: tuple[Any, ...] = tuple(value)
        if all(isinstance(name, str) and name for name in names):
            return names
    raise ConfigurationError(f"{what} must be {takes}, not {value!r}.")


def check_template(what: str, value: Any, *known: str) -> None:
    """Check that a setting is a text whose placeholders are among ``known``.

    Raises:
        ConfigurationError: it is not.
    """
    try:
        if not isinstance(value, str):
            raise ValueError(f"is {value!r}")
        value.format(**dict.fromkeys(known, "x"))
    except (LookupError, ValueError, AttributeError) as error:
        but = f" but {', '.join(f'{{{name}}}' for name in known)}" if known else ""
        raise ConfigurationError(f"{what} must be a text with no placeholders{but} ({error}).") from None
