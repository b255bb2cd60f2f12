"""The MCP servers of a chain as `McpTools`; nothing is started or connected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .problems import Problems
from .server_plan import ServerPlan

_OWN = ("allow", "deny", "prefix", "pin", "transport", "command", "args", "env", "cwd", "url", "headers", "enabled")


def mcp_tools(plans: list[ServerPlan], folder: Path, problems: Problems) -> list[Any]:
    """One `McpTools` for the servers with the same ``prefix`` and ``pin``, those with trusted servers first."""
    if not plans:
        return []
    from ..mcp.pin_file import PinFile
    from ..mcp.pinning import Pinning
    from ..mcp.tools import McpTools

    groups: dict[tuple[Any, Any], list[Any]] = {}
    for plan in plans:
        try:
            server = _server(plan, folder)
        except ConfigurationError as exc:
            problems.add(plan.path, str(exc))
            continue
        prefix = plan.values.get("prefix", "auto")
        key = (None if prefix == "none" else prefix, plan.values.get("pin", True))
        groups.setdefault(key, []).append(server)
    found: list[Any] = []
    for (prefix, pin), servers in sorted(groups.items(), key=lambda item: not any(each.trusted for each in item[1])):
        pinning = Pinning(PinFile(folder / pin)) if isinstance(pin, str) else pin
        try:
            found.append(McpTools(servers, prefix=prefix, pinning=pinning))
        except ConfigurationError as exc:
            problems.add(plans[0].path[:-1], str(exc))
    return found


def _server(plan: ServerPlan, folder: Path) -> Any:
    from ..mcp.filters import ToolFilter
    from ..mcp.server import McpServer

    name, values = plan.name, plan.values
    settings = {key: value for key, value in values.items() if key not in _OWN and value is not None}
    rules: dict[str, Any] = {
        key: [_rule(name, pattern) for pattern in values[key]] for key in ("allow", "deny") if values.get(key)
    }
    if rules:
        settings["filter"] = ToolFilter(**rules)
    elif values.get("allow") == []:
        settings["filter"] = ToolFilter(default="deny")
    if "roots" in settings:
        settings["roots"] = [folder / root for root in settings["roots"]]
    if "command" in values:
        cwd = folder / values["cwd"] if "cwd" in values else None
        return McpServer.stdio(
            values["command"], values.get("args", []), env=values.get("env"), cwd=cwd, name=name, **settings
        )
    make = McpServer.sse if values.get("transport") == "sse" else McpServer.http
    return make(values["url"], headers=values.get("headers") or None, name=name, **settings)


def _rule(server: str, pattern: str) -> str:
    return f"{server}/{pattern}"
