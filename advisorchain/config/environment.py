"""Values from environment variables: a whole field ``"${NAME}"``, never a part of one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..plugins.making import is_secret
from .lines import KeyPath
from .problems import Problems

_WHOLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOREIGN = re.compile(r"\$\{\w+:[^{}]*\}")
"""How other programs write variables: ``${env:NAME}``, ``${input:name}``, ``${NAME:-default}``."""
_ON = frozenset({"true", "1", "yes", "on"})
_OFF = frozenset({"false", "0", "no", "off"})
_SHORTEST_SECRET = 4


class EnvText(str):
    """The value of an environment variable: a text that may stand for a number or a flag."""

    __slots__ = ()


LEFT_OUT: Any = object()
"""Stands in a list for an entry that is not enabled, so that the others keep their numbers."""


class Environment:
    """Fills in environment variables, and remembers their values to keep them out of errors.

    Args:
        problems: where a variable that is not set is noted.
        variables: the environment; default: that of this process.
    """

    def __init__(self, problems: Problems, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables
        self._problems = problems
        self._secrets: dict[str, str] = {}
        problems.scrub = self.scrub

    def filled(self, value: Any, path: KeyPath) -> Any:
        """The value, and what is in it, with every ``"${NAME}"`` replaced by an `EnvText`.

        Tables with ``use`` that are not enabled are left out.
        """
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            return [self._part(item, (*path, number)) for number, item in enumerate(value)]
        if isinstance(value, dict):
            parts = {key: self._part(item, (*path, key)) for key, item in value.items()}
            return {key: part for key, part in parts.items() if part is not LEFT_OUT}
        return value

    def _part(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict) and "use" in value and isinstance(value.get("enabled"), bool | str):
            if not self.enabled(value["enabled"], path):
                return LEFT_OUT
            value = {key: item for key, item in value.items() if key != "enabled"}
        return self.filled(value, path)

    def enabled(self, value: bool | str, path: KeyPath) -> bool:
        """What an ``enabled`` says."""
        if isinstance(value, bool):
            return value
        path = (*path, "enabled")
        if not _WHOLE.fullmatch(value):
            self._problems.add(path, 'must be true, false, or "${NAME}" of an environment variable.')
            return False
        name = value[2:-1]
        said = self._variables.get(name)
        word = (said or "").strip().lower()
        if said is None:
            self._problems.add(path, f"the environment variable {name} is not set; set it to true or false.")
        elif word not in _ON | _OFF:
            self._problems.add(path, f"the environment variable {name} must be true or false.")
        return word in _ON

    def hide_secrets(self, value: Any, *, secret: bool = False) -> None:
        """Keep out of errors what stands in the file itself under, or below, a key that sounds like a secret's."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.hide_secrets(item, secret=secret or is_secret(key))
        elif isinstance(value, list):
            for item in value:
                self.hide_secrets(item, secret=secret)
        elif secret and isinstance(value, str) and not isinstance(value, EnvText):
            self._hide(value, "(secret)")

    def hide(self, values: Iterable[str]) -> None:
        """Keep these texts out of errors."""
        for value in values:
            self._hide(value, "(secret)")

    def _hide(self, value: str, shown: str) -> None:
        if len(value) >= _SHORTEST_SECRET:
            for form in (value, repr(value)[1:-1], json.dumps(value)[1:-1]):
                self._secrets.setdefault(form, shown)

    def scrub(self, text: str) -> str:
        """The text with values of variables replaced by ``${NAME}``."""
        for secret, name in sorted(self._secrets.items(), key=lambda item: -len(item[0])):
            text = text.replace(secret, name)
        return text

    def _text(self, value: str, path: KeyPath) -> str:
        whole = _WHOLE.fullmatch(value)
        if whole is None:
            part = _WHOLE.search(value)
            if part is not None:
                self._problems.add(
                    path, f"{part[0]} must be the whole value; put the whole text into the environment variable."
                )
            elif foreign := _FOREIGN.search(value):
                self._problems.add(
                    path, f'{foreign[0][:100]} is not understood here: write "${{NAME}}", the whole value.'
                )
            return value
        name = whole[1]
        said = self._variables.get(name)
        if said is None:
            self._problems.add(path, f"the environment variable {name} is not set.")
            return EnvText()
        self._hide(said, value)
        return EnvText(said)


def is_variable(value: Any) -> bool:
    """Whether a value is ``"${NAME}"``."""
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def plain(value: Any) -> Any:
    """The value with plain texts for those of variables."""
    if isinstance(value, EnvText):
        return str(value)
    if isinstance(value, list):
        return [plain(item) for item in value if item is not LEFT_OUT]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def has_variables(value: Any) -> bool:
    """Whether something in the value is that of a variable."""
    if isinstance(value, dict):
        return any(map(has_variables, value.values()))
    if isinstance(value, list):
        return any(map(has_variables, value))
    return isinstance(value, EnvText)
