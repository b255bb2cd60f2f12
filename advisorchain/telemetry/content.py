"""Messages, tools and tool calls as the JSON that the GenAI conventions give content: bounded, and without blobs.

The shapes are those of the JSON schemas ``gen-ai-input-messages``, ``gen-ai-output-messages``,
``gen-ai-system-instructions`` and ``gen-ai-tool-definitions`` of OpenTelemetry's GenAI conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from ..messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
)
from ..tools.definition import Tool
from .failures import error_text

CUTS = (16_384, 4_096, 1_024, 256, 64)
"""Characters that a text keeps, and items that a list or object inside of something keeps, tried one after the other
until the whole fits."""
_DEEPEST = 32


def bounded(build: Callable[[int], Any], max_bytes: int) -> str:
    """``build(limit)`` as at most ``max_bytes`` of JSON: texts are cut, then the middle of a list is left out.

    A plain text stays one, without quotes.

    Args:
        build: makes the value with no text longer than ``limit`` characters.
        max_bytes: the most bytes of the JSON.
    """
    value: Any = None
    for limit in CUTS:
        value = build(limit)
        encoded = _json(value)
        if len(encoded) <= max_bytes:
            return encoded.decode()
    while isinstance(value, list) and len(value) > 2:
        middle = len(value) // 2
        value = [*value[: middle // 2], *value[len(value) - middle // 2 :]] if len(value) > 4 else [value[0], value[-1]]
        encoded = _json(value)
        if len(encoded) <= max_bytes:
            return encoded.decode()
    return "[]" if isinstance(value, list) else "{}" if isinstance(value, dict) else ""


def _json(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return to_json(value, fallback=str, inf_nan_mode="strings")


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and how much of it was left out; without broken characters."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def system_instructions(messages: Sequence[Message], limit: int) -> list[dict[str, Any]]:
    """The parts of the leading system messages."""
    return [part for message in messages[: _head(messages)] for part in _parts(message, limit)]


def input_messages(messages: Sequence[Message], limit: int) -> list[dict[str, Any]]:
    """What follows the leading system messages."""
    return [{"role": message.role, "parts": _parts(message, limit)} for message in messages[_head(messages) :]]


def output_messages(answer: tuple[Message, str], limit: int) -> list[dict[str, Any]]:
    """An answer with its finish reason."""
    message, finish_reason = answer
    return [{"role": message.role, "parts": _parts(message, limit), "finish_reason": finish_reason}]


def exception_text(error: BaseException, limit: int) -> str:
    """What an exception says."""
    return cut(error_text(error), limit)


def tool_definitions(tools: Iterable[Tool], limit: int) -> list[dict[str, Any]]:
    """The tools that the model was shown."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": cut(tool.description, limit),
            "parameters": plain(dict(tool.input_schema), limit),
        }
        for tool in tools
    ]


def plain(value: Any, limit: int, depth: int = _DEEPEST) -> Any:
    """A value as JSON data with its texts cut, and what is inside it; deeper than ``depth`` it is cut off."""
    if isinstance(value, str):
        return cut(value, limit)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        found = {cut(str(key), limit): plain(item, limit, depth - 1) for key, item in islice(value.items(), limit)}
        return found if len(value) <= limit else {**found, "…": f"({len(value) - limit} more)"}
    if isinstance(value, list | tuple):
        items = value if depth == _DEEPEST else value[:limit]
        kept = [plain(item, limit, depth - 1) for item in items]
        return kept if len(items) == len(value) else [*kept, f"… ({len(value) - limit} more)"]
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    try:
        data = to_jsonable_python(value, fallback=lambda odd: type(odd).__qualname__, inf_nan_mode="strings")
    except ValueError:  # circular, or broken text inside
        return type(value).__qualname__
    return plain(data, limit, depth - 1)


def _head(messages: Sequence[Message]) -> int:
    head = 0
    while head < len(messages) and type(messages[head]) is SystemMessage:
        head += 1
    return head


def _parts(message: Message, limit: int) -> list[dict[str, Any]]:
    content: Any = getattr(message, "content", "")
    parts = [{"type": "text", "content": cut(content, limit)}] if isinstance(content, str) else []
    if not isinstance(content, str):
        parts = [_part(part, limit) for part in content or ()]
    if isinstance(message, ToolMessage):
        response: Any = parts[0]["content"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
        return [{"type": "tool_call_response", "id": message.call_id, "response": response}]
    if isinstance(message, AssistantMessage):
        parts = [part for part in parts if part != {"type": "text", "content": ""}]
        parts += [_call(call, limit) for call in message.tool_calls]
    return parts


def _call(call: ToolCall, limit: int) -> dict[str, Any]:
    made = {"id": call.id, "name": cut(call.name, limit)}
    if call.executed_by == "provider":
        return {"type": "server_tool_call", **made, "server_tool_call": {"type": call.name[:limit]}}
    return {"type": "tool_call", **made, "arguments": plain(call.arguments, limit)}


def _part(part: Part, limit: int) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "content": cut(part.text, limit)}
    if isinstance(part, ReasoningPart):
        return {"type": "reasoning", "content": cut(part.text, limit)}
    if isinstance(part, ImagePart | AudioPart | FilePart):
        modality = {"image": "image", "audio": "audio"}.get(part.kind, "file")
        about = {"mime_type": part.media_type} if part.media_type else {}
        if part.data is None:
            return {"type": "uri", "modality": modality, "uri": cut(part.url or "", limit), **about}
        # What it holds stays out: a backend drops a whole batch that is too large.
        return {"type": "blob", "modality": modality, "content": "", "byte_size": len(part.data), **about}
    return {"type": str(getattr(part, "kind", "part"))}
