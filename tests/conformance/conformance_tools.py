"""The tools that the official conformance suite calls, made with advisorchain; served by ``advisorchain mcp serve``."""

from __future__ import annotations

import base64

import anyio

from advisorchain import AudioPart, FilePart, ImagePart, TextPart, Tool, ToolContext, ToolError, ToolRegistry, tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAA")


@tool
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> ImagePart:
    """Give an image."""
    return ImagePart(data=PNG, media_type="image/png")


@tool
async def test_audio_content() -> AudioPart:
    """Give a sound."""
    return AudioPart(data=WAV, media_type="audio/wav")


@tool
async def test_embedded_resource() -> FilePart:
    """Give a file."""
    return FilePart(data=b"This is an embedded resource content.", media_type="text/plain", name="embedded.txt")


@tool
async def test_multiple_content_types() -> list[TextPart | ImagePart | FilePart]:
    """Give a text, an image and a file."""
    return [
        TextPart(text="Multiple content types test:"),
        ImagePart(data=PNG, media_type="image/png"),
        FilePart(data=b'{"test":"data","value":123}', media_type="application/json", name="mixed.json"),
    ]


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        await context.progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return "done"


def echo(arguments: dict[str, object]) -> dict[str, object]:
    return arguments


json_schema_2020_12_tool = Tool.from_schema(
    "json_schema_2020_12_tool",
    echo,
    description="Tool with JSON Schema 2020-12 features",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)

test_custom_headers = Tool.from_schema(
    "test_custom_headers",
    echo,
    description="Tool with a parameter that travels as a header too",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["region"],
    },
)


@tool
async def test_trigger_tool_change() -> str:
    """Add a tool."""
    name = f"added_{len(TOOLS)}"
    TOOLS.register(Tool.from_schema(name, echo, description="A tool that came later"))
    return name


TOOLS = ToolRegistry(
    [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_progress,
        json_schema_2020_12_tool,
        test_custom_headers,
        test_trigger_tool_change,
    ]
)
