"""``advisorchain mcp call``: one call of one tool."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import typer
from pydantic_core import to_jsonable_python
from rich.text import Text

from ..errors import ConfigurationError
from ..invocation import ToolResult
from ..mcp.exposure import ExposedTools
from ..mcp.remote_tool import RemoteTool
from ..mcp.status import ServerStatus
from ..messages import Part
from .choice import UsageProblem
from .display import Flow, one_line, open_console
from .mcp_choice import ChosenServers
from .mcp_list import listed, quiet
from .standard_input import read_all


async def call_tool(chosen: ChosenServers, name: str, arguments: list[str], as_json: bool, verbose: bool) -> int:
    """Call the tool and print its result; returns the exit code.

    Raises:
        UsageProblem: the arguments make no sense, or it is not clear which server is meant.
        ConfigurationError: there is no such tool, or its server cannot be reached.
    """
    servers = [server.name for server in chosen.every_server]
    server, original = _split(name, servers)
    wanted = [
        fleet
        for fleet in chosen.fleets
        if any(each.name == server for each in fleet.servers)
    ]  # fmt: skip
    async with AsyncExitStack() as stack:
        with quiet(verbose):
            found = await stack.enter_async_context(listed(wanted))
        tool = _found(found, server, original)
        given = _arguments(arguments, tool.input_schema)
        result, _ = await ExposedTools([tool]).call(tool.name, given)
    if as_json:
        typer.echo(json.dumps(_data(tool, result), indent=1))
    else:
        _print(result)
    return int(result.is_error)


def _split(name: str, servers: Sequence[str]) -> tuple[str, str]:
    server, slash, original = name.partition("/")
    if slash and server in servers:
        return server, original
    if len(servers) == 1:
        return servers[0], name
    raise UsageProblem(f"{name!r}: write SERVER/TOOL; servers: {', '.join(servers)}.")


def _found(found: Sequence[tuple[ServerStatus, list[RemoteTool]]], server: str, original: str) -> RemoteTool:
    for status, tools in found:
        if status.name != server:
            continue
        by_name = {tool.listed.name: tool for tool in tools}
        if original in by_name:
            return by_name[original]
        if status.error is not None:
            raise ConfigurationError(f"MCP server {server!r}: {status.error}")
        if original in status.left_out:
            raise ConfigurationError(f"The tool {server}/{original} is left out: {status.left_out[original]}.")
        near = difflib.get_close_matches(original, by_name, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(by_name) or 'none'}."
        raise ConfigurationError(f"The server {server!r} has no tool {original!r}; {hint}")
    raise AssertionError(server)


def _arguments(texts: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    if len(texts) == 1 and (texts[0] == "-" or texts[0].lstrip().startswith("{")):
        text = read_all() if texts[0] == "-" else texts[0]
        try:
            value = json.loads(text)
        except ValueError as exc:
            raise UsageProblem(f"The arguments are no JSON: {exc}.") from None
        if not isinstance(value, dict):
            raise UsageProblem("The arguments must be a JSON object.")
        return value
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageProblem(f"{text!r}: write arguments as NAME=VALUE, or all of them as one JSON object.")
        given[name] = _value(value, schema.get("properties", {}).get(name))
    return given


def _value(text: str, schema: Any) -> Any:
    """A text where the tool takes texts, else what it means as JSON."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" or (isinstance(kind, list) and "string" in kind):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(result: ToolResult) -> None:
    console = open_console()
    flow = Flow(console)
    flow.write(result.content)
    flow.end_line()
    for part in result.parts:
        about = ", ".join(f"{name} {value}" for name, value in _part(part).items() if name != "kind")
        console.print(Text(f"[{part.kind}: {one_line(about)}]", style="dim"), soft_wrap=True)


def _part(part: Part) -> dict[str, Any]:
    data = getattr(part, "data", None)
    about = {name: getattr(part, name, None) for name in ("media_type", "name", "url")}
    size = {"bytes": len(data)} if isinstance(data, bytes) else {}
    return {"kind": part.kind, **{name: value for name, value in about.items() if value}, **size}


def _data(tool: RemoteTool, result: ToolResult) -> dict[str, Any]:
    return {
        "server": tool.source,
        "tool": tool.listed.name,
        "is_error": result.is_error,
        "text": result.content,
        "structured": to_jsonable_python(result.structured, fallback=str, inf_nan_mode="strings"),
        "parts": [_part(part) for part in result.parts],
    }
