"""Which plugins may be imported, by the environment and by the caller."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import PluginError
from .groups import checked_group
from .metadata import Entry, normalized

ALLOW_VARIABLE = "ADVISORCHAIN_PLUGINS"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

_around: ContextVar[tuple[tuple[str, tuple[str, ...]], ...]] = ContextVar("advisorchain.plugins.allowed", default=())


@contextmanager
def allowing(allow: Iterable[str] | None, *, by: str = "allow") -> Generator[None]:
    """Inside the block only these plugins may be used, also those that a plugin itself asks for by name.

    Args:
        allow: as in ``ADVISORCHAIN_PLUGINS``, which holds too; None: no more than it.
        by: what errors call the list.
    """
    if allow is None:
        yield
        return
    token = _around.set((*_around.get(), (by, (allow,) if isinstance(allow, str) else tuple(allow))))
    try:
        yield
    finally:
        _around.reset(token)


class Allowed:
    """Whether an entry is allowed by the environment variable, by ``allow``, and by the blocks of `allowing` around."""

    def __init__(self, allow: Iterable[str] | None) -> None:
        self._lists: list[tuple[str, set[str]]] = []
        variable = os.environ.get(ALLOW_VARIABLE)
        if variable is not None:
            self._lists.append((ALLOW_VARIABLE, _understood(variable.split(","), ALLOW_VARIABLE)))
        if allow is not None:
            self._lists.append(("allow", _understood([allow] if isinstance(allow, str) else allow, "allow")))
        self._lists += [(by, _understood(around, by)) for by, around in _around.get()]

    def __call__(self, entry: Entry) -> bool:
        """Whether nothing forbids it."""
        return self.why(entry) is None

    def why(self, entry: Entry) -> str | None:
        """What forbids it."""
        if not self._lists:
            return None
        names = {normalized(entry.distribution), f"{entry.group}/{entry.name}"}
        return next((source for source, allowed in self._lists if not names & allowed), None)


def _understood(items: Iterable[str], source: str) -> set[str]:
    names = [item for item in (str(item).strip() for item in items) if item]
    if "none" in names and len(names) > 1:
        raise PluginError(f"{source} has 'none' beside other names: write none alone, or leave it out.")
    allowed: set[str] = set()
    for name in names:
        group, slash, plugin = name.partition("/")
        if not (plugin if slash else _NAME.fullmatch(name)):
            raise PluginError(f"{source}, {name!r}: write the name of a distribution, or group/name of a plugin.")
        if slash:
            allowed.add(f"{checked_group(group, f'{source}, {name!r}: ')}/{plugin}")
        elif name != "none":
            allowed.add(normalized(name))
    return allowed
