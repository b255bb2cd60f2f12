"""All tools of a server, page by page, with what the SDK's typed models leave out."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from ..errors import McpError
from .listed_tool import ListedTool
from .server import McpServer

if TYPE_CHECKING:
    from mcp import Client


MAX_LIST_BYTES = 67_108_864
"""How large the list of tools of one server may be in all, as JSON: 64 MiB."""


async def listed_tools(client: Client, server: McpServer) -> list[ListedTool]:
    """The server's tools, as they came; also two of one name, of which the first counts.

    Raises:
        McpError: there are too many, a page leads back to itself, or the list is not as the protocol wants it.
    """
    from mcp.types import ListToolsRequest, PaginatedRequestParams
    from pydantic import ValidationError

    raw_list = _raw_list()
    tools: list[ListedTool] = []
    cursor: str | None = None
    seen: set[str] = set()
    size = 0
    while True:
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        try:
            page = await client.session.send_request(request, raw_list)
        except ValidationError as exc:
            raise McpError(
                server.name, f"its list of tools is invalid: {_first_error(exc)}. Such a list is refused as a whole."
            ) from exc
        complete = cursor is None and page.next_cursor is None
        found = [_listed(tool, server) for tool in page.tools]
        if not server.trusted:
            # The SDK would check results against the server's schema, in which a stranger can hide an endless search.
            for tool in page.tools:
                tool.output_schema = None
        # What the SDK has not seen listed, it lists once more by itself before the first call.
        page = client.session._absorb_tool_listing(page, complete=complete)  # pyright: ignore[reportPrivateUsage]
        known = {tool.name for tool in page.tools}  # it leaves out what must not be called
        tools += [tool for tool in found if tool.name in known]
        if len(tools) > server.max_tools:
            raise McpError(server.name, f"it lists more than {server.max_tools} tools (max_tools).")
        size += sum(map(_size, found))
        if size > MAX_LIST_BYTES:
            raise McpError(server.name, f"its list of tools is larger than {MAX_LIST_BYTES} bytes.")
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in seen:
            raise McpError(server.name, "its list of tools never ends: a page leads back to an earlier one.")
        seen.add(cursor)
        await anyio.lowlevel.checkpoint()  # a server in this process may answer without one, and never end


@lru_cache(maxsize=1)
def _raw_list() -> Any:
    """The SDK's list of tools with annotations of any form: ``returnDirect`` is not among those that it knows."""
    from mcp.types import ListToolsResult, Tool
    from pydantic import create_model

    raw_tool = create_model("RawTool", __base__=Tool, annotations=(Any, None))
    tools: Any = list.__class_getitem__(raw_tool)
    return create_model("RawToolList", __base__=ListToolsResult, tools=(tools, ...))


def _listed(tool: Any, server: McpServer) -> ListedTool:
    annotations = tool.annotations if isinstance(tool.annotations, dict) else {}
    execution = getattr(tool, "execution", None)
    return ListedTool(
        server=server.name,
        name=tool.name,
        title=tool.title or (annotations.get("title") if isinstance(annotations.get("title"), str) else None),
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=annotations,
        meta=tool.meta or {},
        task_support=getattr(execution, "task_support", None),
        trusted=server.trusted,
    )


def _size(tool: ListedTool) -> int:
    """How large the tool is as JSON; 0 for one that is nested too deeply to be written, which is left out later."""
    from pydantic_core import to_json

    try:
        return len(to_json(tool, fallback=str))
    except ValueError:
        return 0


def _first_error(exc: Any) -> str:
    error = exc.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
