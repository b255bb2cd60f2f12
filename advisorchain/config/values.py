"""Checks single values against the annotation of the option that they are for; says in plain words what it takes."""

from __future__ import annotations

import json
import math
import operator
from functools import reduce
from typing import Any, Literal, get_args, get_origin

from .environment import EnvText
from .hints import Hint
from .shape import wording

_KINDS: dict[Any, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", bytes: "a text",
}  # fmt: skip
_PLUGINS = {
    "models": "a model", "memory_stores": "a memory store", "tool_indexes": "a tool index",
    "audit_sinks": "an audit sink", "advisors": "an advisor",
}  # fmt: skip
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_NOT = object()


class WrongValueError(Exception):
    """A value that the option does not take; the text says what it takes, and not what the value is."""


def checked(value: Any, hint: Hint) -> Any:
    """The value as the option wants it.

    Raises:
        WrongValueError: it is of another kind.
    """
    if hint.anything or not (hint.plain or hint.none):
        if hint.anything:
            return str(value) if isinstance(value, EnvText) else value
        raise WrongValueError(f"must be {takes(hint)}.")
    if isinstance(value, EnvText):
        found = _of_text(str(value), hint.plain)
        if found is not _NOT:
            return found
    elif any(_is_a(value, kind) for kind in hint.plain):
        return value
    rich = tuple(kind for kind in hint.plain if kind not in _KINDS and get_origin(kind) is not Literal)
    if bytes in hint.plain and str not in hint.plain and isinstance(value, str):
        return value.encode()
    if rich:
        return _by_pydantic(value, rich)
    raise WrongValueError(f"must be {takes(hint)}.")


def takes(hint: Hint) -> str:
    """What an option takes, in words."""
    if hint.anything:
        return "any value"
    words: list[str] = []
    for kind in hint.plain:
        if get_origin(kind) is Literal:
            words += [repr(choice) for choice in get_args(kind)]
        else:
            words.append(_KINDS.get(kind) or f"a {getattr(kind, '__name__', 'value')}")
    if hint.is_path:
        words.append("a path")
    if hint.items is not None:
        words.append("a list")
    if hint.values is not None or hint.dataclass is not None:
        words.append("a table")
    if hint.group is not None:
        words.append(f'{_PLUGINS[hint.group]} (its name, or a table with use = "…")')
    if hint.parts is not None:
        words.append(f"a table with use = {' or '.join(repr(name) for name in hint.parts)}")
    elif hint.thing:
        words.append('a table with use = "module:object"')
    if hint.function:
        words.append('a function or class as "module:object"')
    if hint.none and bool not in hint.plain:
        words.append("false (for none)")
    words = list(dict.fromkeys(words))
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0] if words else "left out"


def _is_a(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(kind))
    if kind is float:
        return type(value) in (int, float)
    return kind in _KINDS and type(value) is kind


def _of_text(text: str, kinds: tuple[Any, ...]) -> Any:
    """The value that the text of a variable stands for."""
    if bytes in kinds:  # a secret itself, where a plain text may be the name of one
        return text.encode()
    if str in kinds:
        return text
    for kind in kinds:
        if get_origin(kind) is Literal:
            for choice in get_args(kind):
                if str(choice) == text:
                    return choice
    word = text.strip().lower()
    if bool in kinds and word in _WORDS:
        return _WORDS[word]
    for kind in (int, float):
        if kind in kinds:
            try:
                number = kind(word)
            except ValueError:
                continue
            if math.isfinite(number):
                return number
    return _NOT


def _by_pydantic(value: Any, kinds: tuple[Any, ...]) -> Any:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter: Any = TypeAdapter(reduce(operator.or_, kinds))
    except PydanticUserError as exc:
        raise WrongValueError(f"cannot be checked: {exc.message.splitlines()[0]}.") from None
    try:
        if isinstance(value, EnvText):
            return adapter.validate_python(str(value))
        return adapter.validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as exc:
        error = exc.errors(include_url=False, include_input=False)[0]
        inner = ".".join(map(str, error["loc"])) if len(kinds) == 1 else ""
        raise WrongValueError(f"{inner + ': ' if inner else ''}{wording(error)}") from None
