"""The tool loop against a real server: what it sends, parallel calls in pieces, return-direct."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ImagePart,
    TextPart,
    ToolCallDelta,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    UserMessage,
    tool,
)
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock

CALLS = [
    {"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}, "id": "call_w"},
    {"name": "get_time", "arguments": {"zone": "Europe/Paris"}, "id": "call_t"},
]


@tool
def get_weather(city: str, unit: str) -> str:
    """Current weather of a city."""
    return f"18 {unit} in {city}"


@tool
async def get_time(zone: str) -> str:
    """Current time of a zone."""
    return "12:00"


@tool(return_direct=True)
def travel_status(request_id: str) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved"


def asks(calls: list[dict[str, Any]], text: str = "", **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"toolCalls": calls}
    if text:
        response["content"] = text
    return {"match": {"userMessage": "please", "hasToolResult": False}, "response": response, **more}


def concludes(text: str) -> dict[str, Any]:
    return {"match": {"userMessage": "please", "hasToolResult": True}, "response": {"content": text}}


async def test_the_whole_loop(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([asks(CALLS, "Let me look.", chunkSize=5), concludes("18 degrees at noon.")])
    response = await run(ChatClient(model, tools=[get_weather, get_time], system="Be short."), "weather, please")
    assert response.text == "18 degrees at noon."
    assert [type(message) for message in response.new_messages] == [
        AssistantMessage, ToolMessage, ToolMessage, AssistantMessage,
    ]  # fmt: skip
    assert response.new_messages[0].text == "Let me look."
    first, second = aimock.bodies()
    assert [entry["function"]["name"] for entry in first["tools"]] == ["get_weather", "get_time"]
    assert first["tools"][0] == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather of a city.",
            "parameters": dict(get_weather.input_schema),
        },
    }
    assert second["tools"] == first["tools"]
    assert second["messages"][:2] == first["messages"]
    assistant, weather, time = second["messages"][2:]
    assert (assistant["role"], assistant["content"]) == ("assistant", "Let me look.")
    assert [(call["id"], json.loads(call["function"]["arguments"])) for call in assistant["tool_calls"]] == [
        ("call_w", {"city": "Paris", "unit": "celsius"}),
        ("call_t", {"zone": "Europe/Paris"}),
    ]
    assert weather == {"role": "tool", "tool_call_id": "call_w", "content": "18 celsius in Paris"}
    assert time == {"role": "tool", "tool_call_id": "call_t", "content": "12:00"}


async def test_parallel_calls_arrive_in_pieces(aimock: Aimock, model: OpenAIModel) -> None:
    aimock.load([asks(CALLS, chunkSize=3), concludes("Done.")])
    async with ChatClient(model, tools=[get_weather, get_time]).stream("please") as stream:
        events = [event async for event in stream]
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    assert len(deltas) > 10
    for index, call in enumerate(CALLS):
        own = [delta for delta in deltas if delta.index == index]
        assert [delta.id for delta in own if delta.id] == [call["id"]]
        assert [delta.name for delta in own if delta.name] == [call["name"]]
        assert json.loads("".join(delta.arguments for delta in own)) == call["arguments"]
    assert len([event for event in events if isinstance(event, ToolStarted)]) == 2
    assert len([event for event in events if isinstance(event, ToolFinished)]) == 2


async def test_malformed_arguments_go_back_to_the_model_as_an_error(
    aimock: Aimock, model: OpenAIModel, run: Any
) -> None:
    broken = [{"name": "get_time", "arguments": '["Europe/Paris"]', "id": "call_x"}]
    aimock.load([asks(broken), concludes("Sorry.")])
    response = await run(ChatClient(model, tools=[get_time]), "please")
    assert response.text == "Sorry."
    assert response.new_messages[0].tool_calls[0].arguments == '["Europe/Paris"]'
    assistant, result = aimock.bodies()[1]["messages"][1:]
    # Servers parse the arguments, so they are a JSON object whatever the model wrote.
    sent = json.loads(assistant["tool_calls"][0]["function"]["arguments"])
    assert sent == {"malformed_arguments": '["Europe/Paris"]'}
    assert result["tool_call_id"] == "call_x" and "JSON" in result["content"]


async def test_a_direct_result_costs_one_model_call(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    calls = [{"name": "travel_status", "arguments": {"request_id": "TR001"}, "id": "call_s"}]
    aimock.load([asks(calls), concludes("It is approved.")])
    client = ChatClient(model, tools=[travel_status])
    response = await run(client, "status, please")
    assert (response.text, response.stop_reason) == ("TR001: approved", "return_direct")
    assert len(aimock.bodies()) == 1
    usage = response.usage

    # The same tool without return-direct: the model reads the result and answers.
    aimock.load([asks(calls), concludes("It is approved.")])
    response = await run(client, "status, please", return_direct={"travel_status": False})
    assert (response.text, response.stop_reason) == ("It is approved.", "final")
    assert len(aimock.bodies()) == 2
    assert response.usage.total_tokens > usage.total_tokens

    # And the conversation goes on after a direct result.
    aimock.load([{"match": {"userMessage": "thanks"}, "response": {"content": "Any time."}}])
    direct = await client.call([UserMessage(content="x"), *_direct_turn(), UserMessage(content="thanks")])
    assert direct.text == "Any time."
    assert [message["role"] for message in aimock.bodies()[0]["messages"]] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip


def _direct_turn() -> list[Any]:
    from advisorchain import ToolCall

    return [
        AssistantMessage(tool_calls=(ToolCall("travel_status", {"request_id": "TR001"}, "c1"),)),
        ToolMessage(call_id="c1", name="travel_status", content="TR001: approved"),
        AssistantMessage(content="TR001: approved"),
    ]


async def test_a_picture_from_a_tool_reaches_the_model(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    @tool
    def draw() -> tuple[Any, ...]:
        """Draw a picture."""
        return (TextPart(text="drawn"), ImagePart(url="https://example.org/drawn.png"))

    # aimock takes the results for those of the current turn only up to the next user message, which is the picture's.
    aimock.load([
        {"match": {"userMessage": "Returned by the tool draw"}, "response": {"content": "Pretty."}},
        asks([{"name": "draw", "arguments": {}, "id": "call_d"}]),
    ])  # fmt: skip
    response = await run(ChatClient(model, tools=[draw]), "draw, please")
    assert response.text == "Pretty."
    result, picture = aimock.bodies()[1]["messages"][2:]
    assert result["role"] == "tool" and result["content"].startswith("drawn")
    assert picture["role"] == "user"
    assert picture["content"][1] == {"type": "image_url", "image_url": {"url": "https://example.org/drawn.png"}}
