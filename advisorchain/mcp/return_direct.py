"""Whether a tool of an MCP server returns directly: who says so, and whose word counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..errors import ConfigurationError
from .listed_tool import ListedTool
from .server import McpServer

DirectDefault: TypeAlias = bool | Callable[[ListedTool], bool | None] | None

META_KEYS = ("advisorchain/returnDirect", "returnDirect")
"""Where a tool's ``_meta`` carries the flag, the first that is there counts: ours, and that of others."""
ANNOTATION = "returnDirect"
"""Where annotations carry it: Solon AI, and servers on the MCP Java SDK."""


class Direct(NamedTuple):
    """The flag of a tool.

    Attributes:
        value: whether its result may be the answer itself.
        source: who said so: ``"override"``, a remote carrier, ``"server"``, ``"provider"`` or ``"default"``.
        ignored: what the server said that does not count, and why; empty when there is nothing of the kind.
    """

    value: bool
    source: str
    ignored: str = ""


def return_direct_of(tool: ListedTool, server: McpServer, default: DirectDefault = None) -> Direct:
    """The flag: the server's ``overrides`` here, over what a trusted server says itself, over the defaults here."""
    carrier, remote, ignored = _remote(tool)
    if remote is not None and not server.trusted:
        ignored = (
            f"{carrier} says {'true' if remote else 'false'}, but the server is not trusted; trusted=True, or "
            f'overrides={{{json.dumps(tool.name[:100])}: {{"return_direct": {remote}}}}}, makes it count'
        )
        remote = None
    override = server.overrides.get(tool.name, {}).get("return_direct")
    if override is not None:
        return Direct(override, "override")
    if remote is not None:
        return Direct(remote, carrier, ignored)
    if server.return_direct is not None:
        return Direct(server.return_direct, "server", ignored)
    value = default(tool) if callable(default) else default
    if value is not None:
        if not isinstance(value, bool):
            raise ConfigurationError(f"return_direct must give True, False or None, not {value!r:.100}.")
        return Direct(value, "provider", ignored)
    return Direct(False, "default", ignored)


def _remote(tool: ListedTool) -> tuple[str, bool | None, str]:
    """The carrier of the flag, its value, and what was there but is no flag."""
    ignored = ""
    carried = [(f"_meta[{key!r}]", tool.meta.get(key)) for key in META_KEYS]
    carried.append((f"annotations.{ANNOTATION}", tool.annotations.get(ANNOTATION)))
    for carrier, value in carried:
        if value is None:
            continue
        flag = _flag(value)
        if flag is not None:
            return carrier, flag, ignored
        ignored = f"{carrier} is {value!r:.50}, neither true nor false"
    return "", None, ignored


def _flag(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return True if isinstance(value, str) and value.lower() == "true" else None
