"""Tools in the instructions, for models without tool calls: what is sent, and what is read from the answer."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import AssistantMessage, ChatClient, SystemMessage, Tool, ToolCall, ToolMessage, UserMessage, tool
from advisorchain.models.prompted_tools import prompted_messages, prompted_schema, read_prompted
from advisorchain.testing import ScriptedModel


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "sun"


HISTORY = [
    SystemMessage(content="Be brief."),
    UserMessage(content="Weather?"),
    AssistantMessage(content="Let me see.", tool_calls=(ToolCall("weather", {"city": "Oslo"}, "c1"),)),
    ToolMessage(call_id="c1", name="weather", content="sun"),
    AssistantMessage(content="Sunny."),
    UserMessage(content="Thanks"),
]


@pytest.mark.parametrize("offered", [True, False])
async def test_a_history_as_text(offered: bool) -> None:
    model = ScriptedModel(["ok"])
    await ChatClient(model, tools=[weather]).call(HISTORY)
    sent = prompted_messages(model.requests[0], offered=offered)
    assert [message.role for message in sent] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message.text for message in sent[1:]] == [
        "Weather?",
        '{"tool": "weather", "arguments": {"city": "Oslo"}}',
        "Result of the tool weather: sun",
        '{"answer": "Sunny."}' if offered else "Sunny.",
        "Thanks",
    ]
    assert sent[0].text.startswith("Be brief.")
    assert ("- weather: Weather of a city." in sent[0].text) is offered


@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        ('{"answer": "yes"}', "yes", []),
        ('{"answer": [1]}', "[1]", []),
        ('{"tool": "f", "arguments": {"a": 1}}', "", [("f", {"a": 1})]),
        ('{"tool": "f", "arguments": null}', "", [("f", "null")]),
        ('{"tool": "f"}', '{"tool": "f"}', []),
        ('{"tool": 7}', '{"tool": 7}', []),
        # Cut by the limit of tokens.
        ('{"answer": "It is 18 deg', "It is 18 deg", []),
        ('{"answer": ', '{"answer": ', []),
        ('{"tool": "f", "argu', '{"tool": "f", "argu', []),
        ('{"tool": "f", "arguments": {"a": 1, "b', "", [("f", '{"tool": "f", "arguments": {"a": 1, "b')]),
        ("plain", "plain", []),
        ("[1]", "[1]", []),
    ],
)
def test_reading(text: str, answer: str, calls: list[Any]) -> None:
    found = read_prompted(text)
    assert found.text == answer
    assert [(call.name, call.arguments) for call in found.calls] == calls


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "arguments", "definitions"),
    [
        (
            {"properties": {"a": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"items": {"$ref": "#/$defs/X"}}}},
            {"properties": {"a": {"$ref": "#/$defs/f.X"}}},
            {"f.X": {"items": {"$ref": "#/$defs/f.X"}}},
        ),
        (
            {"properties": {"a": {"$ref": "#/definitions/X"}}, "definitions": {"X": STRING}},
            {"$ref": "#/$defs/f"},
            {"f": {"properties": {"a": {"$ref": "#/$defs/f/definitions/X"}}, "definitions": {"X": STRING}}},
        ),
        (
            {"properties": {"a": STRING, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#"}}},
            {"$ref": "#/$defs/f"},
            {"f": {"properties": {"a": STRING, "b": {"$ref": "#/$defs/f/properties/a"}, "c": {"$ref": "#/$defs/f"}}}},
        ),
    ],
)
async def test_references_within_the_schema_of_a_tool(schema: Any, arguments: Any, definitions: Any) -> None:
    model = ScriptedModel(["ok"])
    offered = Tool.from_schema("f", lambda arguments: "x", description="F.", input_schema={"type": "object", **schema})
    await ChatClient(model, tools=[offered]).call("Hi")
    sent = prompted_schema(model.requests[0], "required")
    assert sent["$defs"] == {
        name: {"type": "object", **value} if name == "f" else value for name, value in definitions.items()
    }
    inner = sent["properties"]["arguments"]
    assert inner == (arguments if "$ref" in arguments else {"type": "object", **arguments})
