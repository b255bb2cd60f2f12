"""From what a server lists to what is offered: filtered, pinned, cleaned, checked; and why the rest is left out."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import anyio.to_thread
from pydantic_core import to_json

from ..errors import ConfigurationError, McpError
from ..tools.schema_arguments import check_schema
from .cleaning import cleaned, cleaned_schema
from .listed_tool import ListedTool
from .pinning import Pinning
from .remote_tool import RemoteTool
from .return_direct import DirectDefault, return_direct_of
from .server import McpServer

if TYPE_CHECKING:
    from .connection import Connection

logger = logging.getLogger("advisorchain.mcp")

PAUSE_EVERY = 0.01
"""After how many seconds of work other tasks get a turn."""
LARGE_SCHEMA = 2_000
"""From how many characters of JSON on a schema is checked on a thread: 200,000, the most, take seconds."""
TITLE_CHARS = 200
NAME_CHARS = 256
"""How long a server's name for a tool may be; the protocol says 128. It stands in messages, policies and the audit."""
BROKEN = "its definition is broken:"
"""How the reason begins when a tool is left out because nothing can be made of it."""


@dataclass(slots=True)
class Offer:
    """What one server offers.

    Attributes:
        tools: as they were listed.
        left_out: why a tool is not among them, by the server's name for it.
        notes: what was found wrong with those that are, by the server's name for them.
    """

    tools: tuple[ListedTool, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    made: dict[str, RemoteTool] = field(default_factory=dict)

    def tool(self, listed: ListedTool, name: str) -> RemoteTool:
        """The tool under a name; the same object as long as neither has changed."""
        tool = self.made[listed.name]
        if tool.name != name:
            renamed = tool.replace(name=name)
            assert isinstance(renamed, RemoteTool)
            tool = self.made[listed.name] = renamed
        return tool


async def offered(
    listed: Sequence[ListedTool],
    server: McpServer,
    connection: Callable[[], Connection],
    *,
    permits: Callable[[ListedTool], bool],
    pinning: Pinning | None,
    default: DirectDefault,
    before: Offer,
) -> Offer:
    """What of the listed tools is offered.

    Args:
        listed: as the server lists them.
        server: it.
        connection: finds the connection over which a tool is called.
        permits: the filter of all servers.
        pinning: see `McpTools`.
        default: see ``return_direct`` of `McpTools`.
        before: the offer before this one: what has not changed is taken over.
    """
    offer = Offer()
    wanted: list[ListedTool] = []
    times = Counter(tool.name for tool in listed)
    for tool in {tool.name: tool for tool in reversed(listed)}.values():
        if len(tool.name) > NAME_CHARS:
            offer.left_out[f"{tool.name[:50]}..."] = f"{BROKEN} its name has {len(tool.name)} characters"
        elif tool.task_support == "required":
            offer.left_out[tool.name] = "it can only be run as a task, which is not supported"
        elif not server.permits(tool) or not permits(tool):
            offer.left_out[tool.name] = "a filter leaves it out"
        else:
            wanted.append(tool)
    wanted.reverse()
    if pinning is not None:
        try:
            report = await pinning.check(server.name, wanted)
        except Exception as exc:  # of the store
            reason = "its tools could not be compared with their pins, so they are not taken over."
            raise McpError(server.name, reason, detail=str(exc)[:300]) from exc
        wanted = list(report.permitted)
        offer.left_out |= dict.fromkeys(report.blocked, "it is new on this server, or cannot be pinned")
        for name, change in report.changed.items():
            if not change.offered:
                offer.left_out[name] = "its definition is not what it was when it was first seen"
    old = {tool.name: tool for tool in before.tools}
    kept: list[ListedTool] = []
    since = time.perf_counter()
    for tool in wanted:
        if time.perf_counter() - since > PAUSE_EVERY:
            await anyio.lowlevel.checkpoint()
            since = time.perf_counter()
        if old.get(tool.name) == tool:  # a list that is asked for again is mostly the same
            tool = old[tool.name]
            offer.made[tool.name] = before.made[tool.name]
            if tool.name in before.notes:
                offer.notes[tool.name] = before.notes[tool.name]
        elif not await _make(tool, server, connection, default, offer):
            continue
        kept.append(tool)
        if times[tool.name] > 1:
            told = f"it is listed {times[tool.name]} times; the first counts"
            offer.notes[tool.name] = (*[note for note in offer.notes.get(tool.name, ()) if note != told], told)
    offer.tools = tuple(kept)
    for name, why in offer.left_out.items():
        logger.debug("MCP tool %s/%r is not offered: %s", server.name, name[:100], why)
    return offer


async def _make(
    tool: ListedTool, server: McpServer, connection: Callable[[], Connection], default: DirectDefault, offer: Offer
) -> bool:
    """Make a tool that can be called, or say why not."""
    notes: list[str] = []
    title, found = cleaned(tool.title or "", limit=TITLE_CHARS)
    title = " ".join(title.split())
    notes += [f"title: {note}" for note in found]
    description, found = cleaned(tool.description, limit=server.max_description_chars)
    notes += [f"description: {note}" for note in found]
    try:
        schema, found = await _sound_schema(tool)
        notes += [f"schema: {note}" for note in found]
        direct = return_direct_of(tool, server, default)
        made = RemoteTool(
            tool, server, connection, name="_", title=title or tool.name[:TITLE_CHARS],
            description=description or title or tool.name[:TITLE_CHARS], input_schema=schema, direct=direct,
        )  # fmt: skip
    except (ConfigurationError, RecursionError) as exc:
        offer.left_out[tool.name] = f"{BROKEN} {cleaned(str(exc), limit=300)[0]}"
        return False
    if direct.ignored:
        notes.append(direct.ignored)
    offer.made[tool.name] = made
    if notes:
        offer.notes[tool.name] = tuple(notes)
    return True


async def _sound_schema(tool: ListedTool) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The schema of the arguments, cleaned and checked, and what was found in it."""
    try:
        large = len(to_json(tool.input_schema, fallback=str)) > LARGE_SCHEMA
    except ValueError:  # nested too deeply to be written
        large = True
    return await anyio.to_thread.run_sync(_sound, tool) if large else _sound(tool)


def _sound(tool: ListedTool) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    schema, found = cleaned_schema(_complete(tool.input_schema))
    check_schema(tool.name, schema)
    return schema, found


def _complete(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """With properties, which providers ask for, and without its dialect, which some of them refuse."""
    schema = {key: value for key, value in schema.items() if key != "$schema"}
    if schema.get("type", "object") != "object":
        raise ConfigurationError(f"the arguments must be an object, not {schema.get('type')!r}")
    return {"type": "object", "properties": {}, **schema}
