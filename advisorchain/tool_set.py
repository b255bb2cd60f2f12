"""The tools of a request, in order and by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .errors import ConfigurationError

if TYPE_CHECKING:
    from .tools.definition import Tool


class ToolSet:
    """The tools of a request, in order and by name."""

    __slots__ = ("_tools", "_by_name", "__weakref__")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in self._tools}
        if len(self._by_name) != len(self._tools):
            raise ConfigurationError(_duplicates(self._tools))

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._by_name.get(name)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._by_name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"ToolSet({self.names})"


def _duplicates(tools: Iterable[Tool]) -> str:
    origins: dict[str, list[str]] = {}
    for tool in tools:
        origins.setdefault(tool.name, []).append(tool.origin)
    clashes = [f"{name!r} ({' and '.join(places)})" for name, places in origins.items() if len(places) > 1]
    return f"Tools of the same name: {', '.join(clashes)}. Rename one with tool.replace(name=...)."
