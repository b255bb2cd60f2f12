"""What will be made: factories with options that are checked. Nothing has been made of it yet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import AdvisorChainError
from ..plugins.making import wrong_with
from .lines import KeyPath
from .problems import Problems
from .target import described


@dataclass(slots=True)
class Blueprint:
    """One thing to make.

    Attributes:
        factory: a class or a function.
        options: its options; in them, blueprints of other things.
        path: where it stands in the file.
        label: what errors call it.
        group: the group of plugins that what is made must belong to; None: none.
        attributes: set on what was made, because the factory does not take them.
        makes: a function is wanted that makes one for each use.
        ready: the factory only gives an object that was there before, which is not ours to close.
    """

    factory: Callable[..., Any]
    options: dict[str, Any]
    path: KeyPath
    label: str
    group: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    makes: bool = False
    ready: bool = False


class _FailedError(Exception):
    """Something could not be made; it is noted why."""


class Workshop:
    """Makes things of blueprints, inner ones first, and keeps them so that they can be closed."""

    def __init__(self, problems: Problems) -> None:
        self.made: list[Any] = []
        self._problems = problems

    def make(self, blueprint: Blueprint) -> Any:
        """The thing; None when it cannot be made, which is noted."""
        try:
            return self._make(blueprint)
        except _FailedError:
            return None

    def close(self) -> None:
        """Close what was made and can be closed at once: the rest was not used yet."""
        for thing in reversed(self.made):
            close = getattr(thing, "close", None)
            if callable(close) and not inspect.iscoroutinefunction(close):
                with suppress(Exception):
                    close()

    def _make(self, blueprint: Blueprint) -> Any:
        options = {key: self._filled(value) for key, value in blueprint.options.items()}
        try:
            thing = blueprint.factory(**options)
            wrong = wrong_with(blueprint.group or "tools", thing, "is" if blueprint.ready else "made")
            if wrong is None:
                for name, value in blueprint.attributes.items():
                    setattr(thing, name, value)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # somebody else's code
            thing, wrong = None, str(exc) if isinstance(exc, AdvisorChainError) and str(exc) else described(exc)
        if wrong:
            act = "use" if blueprint.ready else "make"
            self._problems.add(blueprint.path, f"cannot {act} {blueprint.label}: {wrong}")
            raise _FailedError
        if not blueprint.ready:
            self.made.append(thing)
        return thing

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Blueprint):
            thing = self._make(value)
            if not value.makes:
                return thing
            return partial(_another, value)
        if isinstance(value, Mapping):
            return {key: self._filled(item) for key, item in value.items()}
        if type(value) in (list, tuple, set, frozenset):
            return type(value)([self._filled(item) for item in value])
        return value


def _another(value: Any) -> Any:
    """One more of what could be made before; nobody keeps it."""
    if isinstance(value, Blueprint):
        return value.factory(**{key: _another(inner) for key, inner in value.options.items()})
    if isinstance(value, Mapping):
        return {key: _another(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([_another(item) for item in value])
    return value
