"""Which MCP servers a chain has: its own, those of the top level that it names, and those of an ``mcpServers`` file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigurationError
from .environment import Environment
from .lines import KeyPath
from .problems import Problems, nearest
from .shape import MAX_ENTRIES, ChainTable, FileTable, ServerTable, wording
from .source import read_text

_TRANSPORTS = {
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_KEYS = ("command", "args", "env", "cwd", "url", "headers")
_FOREIGN = frozenset({
    "type", "transport", "disabled", "timeout", "autoApprove", "alwaysAllow", "description", "note", "envFile", "dev",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One server, with the variables filled in."""

    name: str
    values: dict[str, Any]
    path: KeyPath


def servers_of(
    shape: FileTable, chain: ChainTable, path: KeyPath, folder: Path, environment: Environment, problems: Problems
) -> list[ServerPlan]:
    """The servers of a chain that are enabled. A table adds to that of the same name at the top, or in a JSON file."""
    defined: dict[str, dict[str, Any]] = {}
    if chain is not shape and (chain.mcp or shape.mcp):
        defined = _merged(_imported(shape, (), folder, problems), shape.mcp)
    own = _imported(chain, path, folder, problems)
    found: list[ServerPlan] = []
    known = {**defined, **own}
    wanted = _merged({name: known[name] for name in [*own, *chain.mcp] if name in known}, chain.mcp)
    if len(wanted) > MAX_ENTRIES:
        problems.add((*path, "mcp_servers"), f"gives more than {MAX_ENTRIES:,} servers.")
        return found
    for name, values in wanted.items():
        if problems.full:
            break
        place = (*path, "mcp", name)
        if not environment.enabled(values.pop("enabled", True), place):
            continue
        if not values.get("command") and not values.get("url"):
            if chain is not shape and name not in known and not values:
                problems.add(place, f"there is no MCP server {name!r}; {nearest(name, known, 'servers')}")
            else:
                problems.add(place, "needs a command to start, or the url of a server.")
            continue
        if "command" in values and "url" in values:
            problems.add(place, "has both command and url; leave one of them out.")
        for key in ("args", "env", "cwd") if "url" in values else ("headers", "transport"):
            if key in values:
                problems.add((*place, key), f"does not go with {'url' if 'url' in values else 'command'}.")
        found.append(ServerPlan(name, environment.filled(values, place), place))
    return found


def _merged(base: dict[str, dict[str, Any]], tables: Mapping[str, ServerTable]) -> dict[str, dict[str, Any]]:
    merged = {name: dict(values) for name, values in base.items()}
    for name, table in tables.items():
        said = {key: getattr(table, key) for key in table.model_fields_set}
        merged[name] = {**merged.get(name, {}), **said}
    return merged


def _imported(chain: ChainTable, path: KeyPath, folder: Path, problems: Problems) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(chain.mcp_servers):
        place = (*path, "mcp_servers", number)
        try:
            text = read_text(folder / name, "file of MCP servers")
            data = json.loads(text)
        except ConfigurationError as exc:
            problems.add(place, str(exc))
            continue
        except (ValueError, RecursionError) as exc:
            problems.add(place, f"{name} is no JSON: {str(exc)[:200] or 'it nests too deep'}.")
            continue
        servers = data.get("mcpServers") if isinstance(data, dict) else None
        if not isinstance(servers, dict):
            problems.add(place, f'{name} has no table "mcpServers".')
            continue
        for server, said in servers.items():
            table = _table(server, said, str(folder / name), problems)
            if table is not None:
                found[server] = {key: getattr(table, key) for key in table.model_fields_set}
    return found


def _table(server: str, said: Any, file: str, problems: Problems) -> ServerTable | None:
    place = ("mcpServers", server)
    if not isinstance(said, dict):
        problems.add(place, "must be a table.", file)
        return None
    values = {key: said[key] for key in _KEYS if key in said}
    for key in said:
        if problems.full:
            break
        if key not in _KEYS and key not in _FOREIGN:
            problems.add((*place, key), f"unknown key; {nearest(key, _KEYS)}", file)
    transport = said.get("type", said.get("transport"))
    if transport is not None and transport != "stdio":
        kind = _TRANSPORTS.get(transport.lower()) if isinstance(transport, str) else None
        if kind is None:
            problems.add((*place, "type"), "must be stdio, http or sse.", file)
        else:
            values["transport"] = kind
    disabled = said.get("disabled", False)
    if not isinstance(disabled, bool):
        problems.add((*place, "disabled"), "must be true or false.", file)
    elif disabled:
        values["enabled"] = False
    try:
        return ServerTable.model_validate(values)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_input=False):
            problems.add((*place, *error["loc"]), wording(error), file)
        return None
