"""From our side to the wire: a `Tool` as a server lists it, a `ToolResult` as ``tools/call`` answers it."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes
from weakref import WeakKeyDictionary

import mcp_types as types
from pydantic_core import from_json, to_jsonable_python

from ..invocation import ToolResult
from ..messages import AudioPart, FilePart, ImagePart, Part, TextPart
from ..tools.definition import Tool
from ..tools.result import trim
from .mending import writable

logger = logging.getLogger("advisorchain.mcp")

RETURN_DIRECT_META = "advisorchain/returnDirect"
TAGS_META = "advisorchain/tags"
RESULT_URI = "advisorchain://result/"
"""Under this address stand files that a result holds as bytes; it can be read nowhere else."""

_HINTS = {
    "read_only": "read_only_hint",
    "destructive": "destructive_hint",
    "idempotent": "idempotent_hint",
    "open_world": "open_world_hint",
}
_MAGIC = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"BM": "image/bmp"}
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})


def wire_tool(tool: Tool, *, modern: bool, published: Collection[str] = ()) -> types.Tool:
    """The tool as it is listed; ``modern`` is False for protocol versions before 2026-07-28.

    Args:
        tool: the tool.
        modern: whether an output schema may be anything but an object's.
        published: the keys of ``tool.meta`` that go out.
    """
    hints = {name: value for ours, name in _HINTS.items() if (value := getattr(tool, ours)) is not None}
    meta: dict[str, Any] = {key: tool.meta[key] for key in published if key in tool.meta}
    if tool.tags:
        meta[TAGS_META] = sorted(tool.tags)
    if tool.return_direct:
        meta[RETURN_DIRECT_META] = True
        meta["returnDirect"] = True
    output = output_schema(tool, modern)
    return types.Tool(
        name=tool.name,
        title=writable(tool.title) or None,
        description=writable(tool.description),
        input_schema=writable({"type": "object", **tool.input_schema}),
        output_schema=None if output is None else writable(dict(output)),
        annotations=types.ToolAnnotations(**hints) if hints else None,
        _meta=_json(meta, fallback=str) if meta else None,
    )


def annotate_direct(listing: dict[str, Any]) -> None:
    """Add ``annotations.returnDirect`` to a listing in its wire form: the SDK's models would drop it."""
    for tool in listing.get("tools", ()):
        if (tool.get("_meta") or {}).get(RETURN_DIRECT_META):
            tool["annotations"] = {**(tool.get("annotations") or {}), "returnDirect": True}


def output_schema(tool: Tool, modern: bool) -> Mapping[str, Any] | None:
    """The output schema that the client is told and may insist on, or None."""
    schema = tool.output_schema
    return schema if schema is not None and (modern or schema.get("type") == "object") else None


def wire_result(result: ToolResult, tool: Tool, *, modern: bool) -> types.CallToolResult:
    """The result as content blocks and structured content.

    A result that does not keep the output schema is an error: a client that checks it would refuse the whole answer.
    """
    structured = _json(result.structured, inf_nan_mode="strings")  # raises here, not in the SDK
    if not modern and not isinstance(structured, dict):
        structured = None
    schema = output_schema(tool, modern)
    if schema is not None and not result.is_error:
        structured = _said(result) if structured is None else structured
        problem = _problem(tool, schema, structured)
        if problem is not None:
            logger.error("Tool %r gave a result that its output schema does not allow: %s", tool.name, problem)
            text = f"The tool {tool.name!r} gave a result that does not fit its output schema."
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
    text = writable(result.content)
    if tool.max_result_chars is not None and not tool.return_direct:
        text = trim(text, tool.max_result_chars)
    content: list[types.ContentBlock] = []
    if text or not result.parts:
        content.append(types.TextContent(text=text))
    content += [block for part in result.parts if (block := _block(part)) is not None]
    for part in _for_user(result):
        block = _block(part)
        if block is not None:
            content.append(block.model_copy(update={"annotations": types.Annotations(audience=["user"])}))
    return types.CallToolResult(content=content, structured_content=structured, is_error=result.is_error)


def _for_user(result: ToolResult) -> tuple[Part, ...]:
    """Parts for people only, which a result that came from another MCP server may have."""
    about = (result.metadata or {}).get("mcp")
    parts = about.get("for_user") if isinstance(about, Mapping) else None
    return parts if isinstance(parts, tuple) else ()


_checks: WeakKeyDictionary[Tool, Any] = WeakKeyDictionary()


def _said(result: ToolResult) -> Any:
    """The text as JSON data: an advisor has changed it, and what it says now counts."""
    try:
        return from_json(result.content)
    except ValueError:
        return None


def _json(value: Any, **settings: Any) -> Any:
    """A value as JSON data that can be written."""
    try:
        data = to_jsonable_python(value, **settings)
    except UnicodeEncodeError:  # it takes half of a surrogate pair as a text, but not as a key
        data = to_jsonable_python(writable(value), **settings)
    return writable(data)


def _problem(tool: Tool, schema: Mapping[str, Any], structured: Any) -> str | None:
    """What keeps the structured content from fitting the schema, or None."""
    if structured is None:
        return "there is no structured content"
    if not tool.trusted:  # a stranger's schema can be made so that checking it takes for ever
        return None
    check = _checks.get(tool)
    if check is None:
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        # An empty registry: nothing is fetched that a $ref names.
        check = validator_for(schema, default=Draft202012Validator)(dict(schema), registry=Registry())
        _checks[tool] = check
    try:
        error = next(check.iter_errors(structured), None)
    except Exception as exc:  # the schema itself is at fault
        return f"{type(exc).__name__} in the schema"
    if error is None:
        return None
    where = ".".join(map(str, error.absolute_path)) or "result"
    return f"{where} fails {error.validator!r}"  # not its message, which repeats the value


def _block(part: Part) -> types.ContentBlock | None:
    """A content part as a block; None for what is between a model and us only (reasoning, provider parts)."""
    if isinstance(part, TextPart):
        return types.TextContent(text=writable(part.text))
    if not isinstance(part, ImagePart | AudioPart | FilePart):
        return None
    data, media_type = part.data, part.media_type
    if data is None:
        url = writable(part.url or "")
        found = _data_of(url) if url.startswith("data:") else None
        if found is None:
            name = writable(getattr(part, "name", None)) or url.rstrip("/").rpartition("/")[2] or part.kind
            return types.ResourceLink(uri=url, name=name, mime_type=media_type)
        data, media_type = found[0], media_type or found[1]
    if isinstance(part, ImagePart):
        kind = media_type or next((kind for start, kind in _MAGIC.items() if data.startswith(start)), None)
        return types.ImageContent(data=_base64(data), mime_type=kind or "application/octet-stream")
    if isinstance(part, AudioPart):
        return types.AudioContent(data=_base64(data), mime_type=media_type or "application/octet-stream")
    uri = RESULT_URI + quote(writable(part.name or "file"), safe="")
    text = _text(data, media_type)
    if text is not None:
        return types.EmbeddedResource(
            resource=types.TextResourceContents(uri=uri, text=text, mime_type=media_type or "text/plain")
        )
    return types.EmbeddedResource(
        resource=types.BlobResourceContents(
            uri=uri, blob=_base64(data), mime_type=media_type or "application/octet-stream"
        )
    )


def _text(data: bytes, media_type: str | None) -> str | None:
    kind = (media_type or "").partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _data_of(url: str) -> tuple[bytes, str | None] | None:
    """Bytes and media type of a ``data:`` address, or None when it is malformed."""
    head, comma, body = url.removeprefix("data:").partition(",")
    if not comma:
        return None
    kind = head.partition(";")[0] or None
    try:
        data = unquote_to_bytes(body)
        return (base64.b64decode(data, validate=True) if head.endswith(";base64") else data), kind
    except binascii.Error:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
