"""What OpenTelemetry's GenAI conventions demand of content, as JSON schemas of our own.

The facts (names, what is required) are those of ``gen-ai-input-messages``, ``gen-ai-output-messages``,
``gen-ai-system-instructions`` and ``gen-ai-tool-definitions`` in the project open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

from typing import Any


def _part(kind: str, **required: Any) -> dict[str, Any]:
    return {
        "properties": {"type": {"const": kind}, **required},
        "required": ["type", *required],
    }


_TEXT = {"type": "string"}
_MODALITY = {"type": "string"}
_KNOWN = {
    "text": _part("text", content=_TEXT),
    "tool_call": _part("tool_call", name=_TEXT),
    "tool_call_response": _part("tool_call_response", response={}),
    "server_tool_call": _part(
        "server_tool_call", name=_TEXT, server_tool_call={"type": "object", "required": ["type"]}
    ),
    "blob": _part("blob", modality=_MODALITY, content=_TEXT),
    "file": _part("file", modality=_MODALITY, file_id=_TEXT),
    "uri": _part("uri", modality=_MODALITY, uri=_TEXT),
    "reasoning": _part("reasoning", content=_TEXT),
}
"""Parts of a known type; one of any other type is allowed with nothing but its type."""
_PART = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _TEXT},
    "allOf": [{"if": {"properties": {"type": {"const": kind}}}, "then": schema} for kind, schema in _KNOWN.items()],
}


def _messages(**more: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["role", "parts", *more],
            "properties": {
                "role": {"enum": ["system", "user", "assistant", "tool"]},
                "parts": {"type": "array", "items": _PART},
                **more,
            },
        },
    }


INPUT_MESSAGES = _messages()
OUTPUT_MESSAGES = _messages(finish_reason=_TEXT)
SYSTEM_INSTRUCTIONS = {"type": "array", "items": _PART}
TOOL_DEFINITIONS = {
    "type": "array",
    "items": {"type": "object", "required": ["type", "name"], "properties": {"type": _TEXT, "name": _TEXT}},
}
