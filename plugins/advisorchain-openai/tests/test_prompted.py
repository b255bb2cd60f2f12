"""Tools described in the instructions and chosen by structured output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from pydantic import BaseModel

from advisorchain import ChatClient, TextDelta, ToolCallDelta, ToolMessage, tool
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aimock import Aimock


class Place(BaseModel):
    city: str


@tool
def weather(place: Place) -> str:
    """Weather of a place."""
    return f"18 in {place.city}"


@tool(return_direct=True)
def status(request_id: str) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved"


@pytest.fixture
async def prompted(aimock: Aimock) -> AsyncIterator[OpenAIModel]:
    async with OpenAIModel("smol", base_url=aimock.openai_url, prompted_tools=True) as model:
        yield model


def says(after: str, content: Any) -> dict[str, Any]:
    return {"match": {"userMessage": after}, "response": {"content": content}}


def schema_of(body: dict[str, Any]) -> dict[str, Any]:
    form = body["response_format"]["json_schema"]
    assert form["strict"] is False
    jsonschema.Draft202012Validator.check_schema(form["schema"])
    return form["schema"]


def allows(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


async def test_a_loop(aimock: Aimock, prompted: OpenAIModel, run: Any) -> None:
    aimock.load([
        says("Result of the tool weather: 18 in Paris", {"answer": "It is 18."}),
        says("weather?", {"tool": "weather", "arguments": {"place": {"city": "Paris"}}}),
    ])  # fmt: skip
    response = await run(ChatClient(prompted, tools=[weather, status], system="Be short."), "weather?")
    assert response.text == "It is 18." and response.stop_reason == "final"
    assert isinstance(response.new_messages[1], ToolMessage)
    first, second = aimock.bodies()
    assert "tools" not in first and "tool_choice" not in first
    head = first["messages"][0]
    assert head["role"] == "system" and head["content"].startswith("Be short.")
    assert "weather: Weather of a place." in head["content"] and "status: " in head["content"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert json.loads(second["messages"][2]["content"]) == {
        "tool": "weather",
        "arguments": {"place": {"city": "Paris"}},
    }
    schema = schema_of(first)
    assert allows(schema, {"tool": "weather", "arguments": {"place": {"city": "x"}}})
    assert allows(schema, {"tool": "status", "arguments": {"request_id": "x"}})
    assert allows(schema, {"answer": "x"})
    assert not allows(schema, {"tool": "weather", "arguments": {"request_id": "x"}})
    assert not allows(schema, {"tool": "other", "arguments": {}})
    if run.mode == "stream":
        assert [event.text for event in run.events if isinstance(event, TextDelta)] == ["It is 18."]
        (delta,) = [event for event in run.events if isinstance(event, ToolCallDelta)]
        assert delta.name == "weather" and json.loads(delta.arguments) == {"place": {"city": "Paris"}}


async def test_return_direct(aimock: Aimock, prompted: OpenAIModel, run: Any) -> None:
    aimock.load([says("status?", {"tool": "status", "arguments": {"request_id": "TR001"}})])
    response = await run(ChatClient(prompted, tools=[status]), "status?")
    assert (response.text, response.stop_reason) == ("TR001: approved", "return_direct")
    assert len(aimock.bodies()) == 1


async def test_an_output_type_is_the_answers_schema(aimock: Aimock, prompted: OpenAIModel, run: Any) -> None:
    aimock.load([says("where?", {"answer": {"city": "Paris"}})])
    response = await run(ChatClient(prompted, tools=[weather]), "where?", output_type=Place)
    assert response.output == Place(city="Paris")
    schema = schema_of(aimock.bodies()[0])
    assert allows(schema, {"answer": {"city": "x"}}) and not allows(schema, {"answer": "x"})


@pytest.mark.parametrize(
    ("choice", "call", "other", "answer"),
    [
        ("auto", True, True, True),
        ("required", True, True, False),
        ("status", True, False, False),
        ("none", False, False, True),
    ],
)
async def test_tool_choice(
    aimock: Aimock, prompted: OpenAIModel, choice: str, call: bool, other: bool, answer: bool
) -> None:
    aimock.load([says("status?", {"answer": "x"})])
    await ChatClient(prompted, tools=[weather, status]).call("status?", options={"tool_choice": choice})
    schema = schema_of(aimock.bodies()[0])
    assert allows(schema, {"tool": "status", "arguments": {"request_id": "x"}}) is call
    assert allows(schema, {"tool": "weather", "arguments": {"place": {"city": "x"}}}) is other
    assert allows(schema, {"answer": "x"}) is answer


async def test_without_tools_nothing_changes(aimock: Aimock, prompted: OpenAIModel, run: Any) -> None:
    aimock.load([says("hello", "hi")])
    assert (await run(ChatClient(prompted), "hello")).text == "hi"
    assert "response_format" not in aimock.bodies()[0]
