"""`Pin`: what a tool was when it was accepted; its fingerprint, and where pins are kept."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .listed_tool import ListedTool

MAX_DEPTH = 100
"""How deeply a definition may be nested: any JSON reader takes as much, so that no tool makes a pin file unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a tool was when it was accepted.

    Attributes:
        sha256: the `fingerprint` of the definition.
        meta_sha256: that of the tool's ``_meta``, which may change without harm.
        first_seen: when this definition was accepted, in UTC, for example ``"2026-11-29T12:00:00Z"``.
        definition: what the server said: name, title, description, schemas, annotations; before any cleaning.
    """

    sha256: str
    meta_sha256: str
    first_seen: str
    definition: Mapping[str, Any]

    @classmethod
    def of(cls, tool: ListedTool) -> Pin:
        """A pin of the tool as it is now."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta = fingerprint_of(dict(tool.meta))
        return cls(sha256=fingerprint(tool), meta_sha256=meta, first_seen=now, definition=definition(tool))


def definition(tool: ListedTool) -> dict[str, Any]:
    """What is pinned of a tool, under the names of the protocol; ``_meta`` is not part of it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }


def fingerprint(tool: ListedTool) -> str:
    """The SHA-256, in hex, of a tool's definition as canonical JSON: the order of keys does not matter.

    Raises:
        ValueError: the definition is nested too deeply, or holds what JSON has no form for.
    """
    return fingerprint_of(definition(tool))


def fingerprint_of(value: Mapping[str, Any]) -> str:
    """The SHA-256, in hex, of a JSON object in canonical form.

    Raises:
        ValueError: it is nested too deeply, or holds what JSON has no form for.
    """
    try:
        _check_depth(value, MAX_DEPTH)
        text = _canonical(value)
    except TypeError as error:
        raise ValueError(f"the definition is no JSON: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _check_depth(value: Any, left: int) -> None:
    if not left:
        raise ValueError(f"the definition is nested deeper than {MAX_DEPTH} levels")
    for inner in value.values() if isinstance(value, Mapping) else value:
        kind = type(inner)
        if kind is not str and (kind is dict or kind is list or isinstance(inner, Mapping | list | tuple)):
            _check_depth(inner, left - 1)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode


@runtime_checkable
class PinStore(Protocol):
    """Where pins are kept. See `PinFile` and `InMemoryPins`."""

    async def load(self, server: str) -> dict[str, Pin]:
        """The server's pins, by the tools' original names; empty for one that was never seen."""
        ...

    async def save(self, server: str, pins: Mapping[str, Pin], *, replace: bool = False) -> dict[str, Pin]:
        """Add pins, and return all that the server has then.

        Without ``replace`` a pin that is there already stays: of two processes that see a new tool at the same time,
        the first decides what it is.
        """
        ...

    async def forget(self, server: str, names: Iterable[str] | None = None) -> None:
        """Remove pins of these tools, or of all tools of the server."""
        ...


class InMemoryPins:
    """Pins of this process: a change is noticed as long as the process lives."""

    def __init__(self) -> None:
        self._pins: dict[str, dict[str, Pin]] = {}

    async def load(self, server: str) -> dict[str, Pin]:
        """A copy of the server's pins."""
        return dict(self._pins.get(server, {}))

    async def save(self, server: str, pins: Mapping[str, Pin], *, replace: bool = False) -> dict[str, Pin]:
        """Add pins; those that are there stay unless ``replace``."""
        there = self._pins.get(server, {})
        self._pins[server] = {**there, **pins} if replace else {**pins, **there}
        return dict(self._pins[server])

    async def forget(self, server: str, names: Iterable[str] | None = None) -> None:
        """Remove pins."""
        gone = None if names is None else set(names)
        left = {} if gone is None else {k: v for k, v in self._pins.get(server, {}).items() if k not in gone}
        if left:
            self._pins[server] = left
        else:
            self._pins.pop(server, None)
