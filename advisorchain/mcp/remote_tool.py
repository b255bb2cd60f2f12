"""`RemoteTool`: a tool of an MCP server, as the model sees it and calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..context import Context
from ..errors import ConfigurationError, McpError, ToolArgumentsError, ToolError
from ..invocation import ToolResult
from ..tools.definition import Tool, ToolContext
from ..tools.schema_arguments import SchemaArguments, argument_error, parse_arguments
from .cleaning import cleaned
from .conversion import plain_result, tool_result
from .listed_tool import ListedTool
from .return_direct import Direct
from .server import McpServer
from .trace_context import sent_trace

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from ..observation import Observer
    from .connection import Connection

_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_NETWORK = {"stdio": "pipe", "http": "tcp", "sse": "tcp"}
PROGRESS_CHARS = 1_000
"""How long the message of a progress report may be."""


class RemoteTool(Tool):
    """A tool of an MCP server. ``source`` is the server's name, ``listed`` what the server says of the tool.

    Made by `McpTools`. Its arguments are checked here only as far as a stranger's schema cannot do harm: the server
    checks them itself.
    """

    listed: ListedTool
    server: McpServer
    direct: Direct

    def __init__(
        self,
        listed: ListedTool,
        server: McpServer,
        connection: Callable[[], Connection],
        *,
        name: str,
        description: str,
        title: str,
        input_schema: Mapping[str, Any],
        direct: Direct,
    ) -> None:
        arguments: Any = SchemaArguments(input_schema) if server.trusted else OuterArguments(input_schema)
        self._set(
            listed=listed, server=server, direct=direct, input_schema=input_schema, _arguments=arguments,
            _connection=connection,
        )  # fmt: skip
        settings: dict[str, Any] = {setting: listed.hint(hint) for setting, hint in _HINTS.items()}
        settings |= {
            "name": name,
            "title": title,
            "description": description,
            "output_schema": listed.output_schema,
            "meta": listed.meta,
            "tags": listed.tags,
            "timeout": server.call_timeout,
            "return_direct": direct.value,
            "source": server.name,
            "trusted": server.trusted,
            "origin": f"MCP server {server.name!r}",
        }
        super().__init__(**settings | dict(server.overrides.get(listed.name, {})))
        self._set(return_direct_from=direct.source)

    @property
    def policy_name(self) -> str:
        """``server/name``, by the server's own name for the tool."""
        return f"{self.source}/{self.listed.name}"

    @property
    def label(self) -> str:
        """The title, if the server is trusted or the title is from ``overrides``; else the name."""
        ours = self.trusted or "title" in self.server.overrides.get(self.listed.name, {})
        return self.title if ours else self.name

    @property
    def reads_context(self) -> bool:
        """Whether something of the context is sent along that the server can answer by (``meta=`` of the server)."""
        return bool(self.server.meta)

    @property
    def target(self) -> Any:
        """What runs behind the tool: its server."""
        return self.server

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call the server.

        Raises:
            McpError: the server could not be reached, or failed.
            ToolError: the server refused the call, or the arguments cannot be sent.
            ConfigurationError: something of the context that ``meta=`` lists cannot be sent.
        """
        server, request = self.server, context.request
        meta: dict[str, Any] = sent_trace(request.context)
        if server.meta:
            meta = {**meta, **self._listed_meta(request.context)}
        # Half way out, they would end the connection for all other calls too. In this process nothing is written.
        if server.transport != "in_process" and not _is_sendable(arguments):
            raise ToolError(f"The arguments for {self.name!r} cannot be sent: they have broken characters.")
        connection: Connection = self._connection()  # type: ignore[attr-defined]
        progress = _shown_progress(context) if request.streaming else None
        calling = connection.call(self.listed, arguments, progress, meta or None)
        observer = request.context.turn.observer
        result = await (calling if observer is None else self._described(calling, connection, context, observer))
        plain = plain_result(result, server.max_result_bytes)
        if plain is not None:
            return plain
        direct = self.is_direct(request.context)
        return tool_result(result, tool=self.name, max_bytes=server.max_result_bytes, direct=direct)

    async def _described(
        self, calling: Awaitable[CallToolResult], connection: Connection, context: ToolContext, observer: Observer
    ) -> CallToolResult:
        """Tell whoever watches what the call is; by the names of the MCP conventions."""
        turn, call_id, client = context.context.turn, context.call.id, connection.client
        about = {"mcp.method.name": "tools/call", "advisorchain.mcp.server": self.source}
        if client is not None:
            about["mcp.protocol.version"] = client.protocol_version
        if (network := _NETWORK.get(self.server.transport)) is not None:
            about["network.transport"] = network
        observer.describe_tool_call(turn, call_id, about)
        try:
            return await calling
        except McpError as error:
            if error.code is not None:
                observer.describe_tool_call(turn, call_id, {"rpc.response.status_code": str(error.code)})
            raise

    def _listed_meta(self, context: Context) -> dict[str, Any]:
        """What the server's ``meta`` lists. It and the trace context go along in ``_meta``, and nothing else."""
        found: dict[str, Any] = {}
        for key, name in self.server.meta.items():
            value = context.get(name)
            if value is None:
                continue
            if not _is_sendable(value):
                raise ConfigurationError(
                    f"MCP server {self.source!r}: meta= sends {key!r} along, but its value in the context, of type "
                    f"{type(value).__name__}, is no JSON."
                )
            found[key] = value
        return found

    def __repr__(self) -> str:
        return f"<RemoteTool {self.name!r}: {self.policy_name}>"


def _is_sendable(value: Any) -> bool:
    """Whether it can be written as JSON in UTF-8, which has no form for half of a surrogate pair."""
    try:
        to_json(value)
    except ValueError:
        return False
    return True


def _shown_progress(context: ToolContext) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    """Reports of the server to the stream, with a message that can be shown."""

    async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
        shown = None if message is None else cleaned(message, limit=PROGRESS_CHARS)[0]
        await context.progress(progress, total, shown)

    return report


class OuterArguments:
    """Checks only what lies open: required and unknown names, and plain types.

    A whole JSON schema can be made so that checking it takes for ever (``pattern``, references that branch). Null
    passes for an argument that may be missing: many models write it for "nothing", and the server knows what it takes.
    """

    __slots__ = ("_closed", "_properties", "_required")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties = schema.get("properties")
        self._properties: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        self._required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        self._closed = schema.get("additionalProperties") is False and "patternProperties" not in schema

    def validate(self, tool: str, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
        """The parsed arguments.

        Raises:
            ToolArgumentsError: malformed, or not what the schema says on its outside.
        """
        parsed = parse_arguments(tool, arguments)
        if problems := self._problems(parsed):
            error: ToolArgumentsError = argument_error(tool, problems)
            raise error
        return parsed

    def _problems(self, arguments: dict[str, Any]) -> list[str]:
        problems = [f"{name}: is required" for name in self._required if name not in arguments]
        for name, value in arguments.items():
            schema = self._properties.get(name)
            if schema is None:
                if self._closed:
                    problems.append(f"{name[:100]}: there is no such argument")
            elif value is None and name not in self._required:
                continue
            elif isinstance(schema, Mapping) and isinstance(kind := schema.get("type"), str) and not _is(value, kind):
                problems.append(f"{name}: must be of type {kind}")
        return problems


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        sound = isinstance(value, int) or (isinstance(value, float) and (kind == "number" or value.is_integer()))
        return sound and not isinstance(value, bool)
    expected = _TYPES.get(kind)
    return expected is None or isinstance(value, expected)


_TYPES: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
