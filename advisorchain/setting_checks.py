"""Checks of an advisor's settings: each error says which setting, what it must be, and what it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    """Check that a setting is None or a mapping, as ``example`` is one.

    Raises:
        ConfigurationError: it is not.
    """
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(f"{what} must be a mapping, for example {example}, not {value!r}.")


def check_template(what: str, value: Any, *known: str) -> None:
    """Check that a setting is None or a text whose placeholders are among ``known``.

    Raises:
        ConfigurationError: it is not.
    """
    if value is None:
        return
    try:
        if not isinstance(value, str):
            raise ValueError(f"is {value!r}")
        value.format(**dict.fromkeys(known, "x"))
    except (LookupError, ValueError, AttributeError) as error:
        names = ", ".join(f"{{{name}}}" for name in known)
        raise ConfigurationError(f"{what} must be a text with no placeholders but {names} ({error}).") from None
