"""What is known about each server of an `McpTools`: for people, health checks and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ServerState: TypeAlias = Literal["idle", "connected", "lost", "failed"]
"""Idle: not used yet, or closed. Lost: was connected; the next use connects anew. Failed: see ``error``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What is known about one server.

    Attributes:
        name, transport, place, trusted: of the server, see `McpServer`.
        state: see `ServerState`.
        error: why it could not be connected or listed last time, or None.
        protocol: the version of the protocol that is spoken, or None.
        tools: names under which its tools are offered, by the server's own name for them.
        left_out: why a tool is not offered, by the server's name for it.
        notes: what was found wrong with tools that are offered, by the server's name for them.
    """

    name: str
    transport: str
    place: str
    trusted: bool
    state: ServerState
    error: str | None
    protocol: str | None
    tools: dict[str, str]
    left_out: dict[str, str]
    notes: dict[str, tuple[str, ...]]
