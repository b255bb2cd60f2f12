"""The tool loop against a real server: what it sends, parallel calls in pieces, thinking, return-direct."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ImagePart,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolError,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    UserMessage,
    tool,
)
from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from aimock import Aimock

CALLS = [
    {"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}, "id": "toolu_w"},
    {"name": "get_time", "arguments": {"zone": "Europe/Paris"}, "id": "toolu_t"},
]
PNG = b"\x89PNG\r\n\x1a\n12345"


@tool
def get_weather(city: str, unit: str) -> str:
    """Current weather of a city."""
    return f"18 {unit} in {city}"


@tool
async def get_time(zone: str) -> str:
    """Current time of a zone."""
    raise ToolError("no clock")


@tool(return_direct=True)
def travel_status(request_id: str) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved"


def asks(calls: list[dict[str, Any]], text: str = "", **more: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"toolCalls": calls, **more.pop("response", {})}
    if text:
        response["content"] = text
    return {"match": {"userMessage": "please", "hasToolResult": False}, "response": response, **more}


def concludes(text: str) -> dict[str, Any]:
    return {"match": {"userMessage": "please", "hasToolResult": True}, "response": {"content": text}}


async def test_the_whole_loop(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([asks(CALLS, "Let me look.", chunkSize=5), concludes("18 degrees.")])
    response = await run(ChatClient(model, tools=[get_weather, get_time], system="Be short."), "weather, please")
    assert response.text == "18 degrees."
    assert [type(message) for message in response.new_messages] == [
        AssistantMessage, ToolMessage, ToolMessage, AssistantMessage,
    ]  # fmt: skip
    first, second = wire.bodies
    assert first["tools"][0] == {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "input_schema": dict(get_weather.input_schema),
    }
    assert second["tools"] == first["tools"] and second["system"] == first["system"] == "Be short."
    assert second["messages"][0] == first["messages"][0]
    assert second["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_w", "name": "get_weather", "input": CALLS[0]["arguments"]},
                {"type": "tool_use", "id": "toolu_t", "name": "get_time", "input": CALLS[1]["arguments"]},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_w", "content": "18 celsius in Paris"},
                {"type": "tool_result", "tool_use_id": "toolu_t", "content": "no clock", "is_error": True},
            ],
        },
    ]


async def test_parallel_calls_arrive_in_pieces(aimock: Aimock, model: AnthropicModel) -> None:
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


async def test_thinking_goes_back_unchanged_with_the_results(aimock: Aimock, run: Any) -> None:
    """A server that is strict about it refuses the second request otherwise."""
    thinking = {"reasoning": "I must look.", "reasoningSignature": "c2lnbmF0dXJl"}
    aimock.load([asks(CALLS[:1], "One moment.", response=thinking), concludes("18 degrees.")])
    options = {"extra": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    headers = {"X-AIMock-Strict": "true"}
    name = "claude-sonnet-4-20250514-thinking"  # one that aimock takes for a reasoning model
    async with AnthropicModel(name, base_url=aimock.anthropic_url, headers=headers, options=options) as model:
        response = await run(ChatClient(model, tools=[get_weather]), "please")
        assert response.text == "18 degrees."
        # The same conversation without the signed part is what the server does not take.
        first, result = response.new_messages[:2]
        stripped = AssistantMessage(content=first.text, tool_calls=first.tool_calls)
        messages = [UserMessage(content="please"), stripped, result]
        entries = aimock.journal()
        assert len(entries) == 2 and entries[1]["response"]["status"] == 200
        try:
            await ChatClient(model, tools=[get_weather]).call(messages)
        except Exception as error:
            assert "thinking" in str(error)
        else:
            raise AssertionError("the server is not strict")


async def test_malformed_arguments_in_a_conversation_are_sent_as_an_object(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any
) -> None:
    aimock.load([concludes("Sorry.")])
    messages = [
        UserMessage(content="please"),
        AssistantMessage(tool_calls=(ToolCall("get_time", '["Europe/Paris"]', "functions.get_time:0"),)),
        ToolMessage(call_id="functions.get_time:0", name="get_time", content="no JSON object", is_error=True),
    ]
    assert (await run(ChatClient(model, tools=[get_time]), messages)).text == "Sorry."
    (call,), (result,) = [message["content"] for message in wire.bodies[0]["messages"][1:]]
    assert call["input"] == {"malformed_arguments": '["Europe/Paris"]'}
    assert call["id"] == result["tool_use_id"] == "functions_get_time_0"  # the provider takes no other letters


async def test_a_conversation_with_calls_but_without_tools_names_them(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any
) -> None:
    aimock.load([concludes("Done.")])
    messages = [
        UserMessage(content="please"),
        AssistantMessage(tool_calls=(ToolCall("get_time", {}, "toolu_1"), ToolCall("get_time", {}, "toolu_2"))),
        ToolMessage(call_id="toolu_1", name="get_time", content="12:00"),
        ToolMessage(call_id="toolu_2", name="get_time", content="12:01"),
    ]
    assert (await run(ChatClient(model), messages)).text == "Done."
    (body,) = wire.bodies
    assert [tool["name"] for tool in body["tools"]] == ["get_time"] and body["tool_choice"] == {"type": "none"}


async def test_a_direct_result_costs_one_model_call(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    calls = [{"name": "travel_status", "arguments": {"request_id": "TR001"}, "id": "toolu_s"}]
    aimock.load([asks(calls), concludes("It is approved.")])
    client = ChatClient(model, tools=[travel_status])
    response = await run(client, "status, please")
    assert (response.text, response.stop_reason) == ("TR001: approved", "return_direct")
    assert len(wire.bodies) == 1

    # The same tool without return-direct: the model reads the result and answers.
    response = await run(client, "status, please", return_direct={"travel_status": False})
    assert (response.text, response.stop_reason) == ("It is approved.", "final")

    # And the conversation goes on after a direct result.
    aimock.load([{"match": {"userMessage": "thanks"}, "response": {"content": "Any time."}}])
    turn = [
        AssistantMessage(tool_calls=(ToolCall("travel_status", {"request_id": "TR001"}, "c1"),)),
        ToolMessage(call_id="c1", name="travel_status", content="TR001: approved"),
        AssistantMessage(content="TR001: approved"),
    ]
    direct = await client.call([UserMessage(content="x"), *turn, UserMessage(content="thanks")])
    assert direct.text == "Any time."
    roles = [message["role"] for message in wire.bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


async def test_a_picture_from_a_tool_reaches_the_model(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any
) -> None:
    @tool
    def draw() -> tuple[Any, ...]:
        """Draw a picture."""
        return (TextPart(text="drawn"), ImagePart(data=PNG))

    aimock.load([asks([{"name": "draw", "arguments": {}, "id": "toolu_d"}]), concludes("Pretty.")])
    response = await run(ChatClient(model, tools=[draw]), "draw, please")
    assert response.text == "Pretty."
    data = base64.b64encode(PNG).decode()
    (result,) = wire.bodies[1]["messages"][2]["content"]
    assert result == {
        "type": "tool_result",
        "tool_use_id": "toolu_d",
        "content": [
            {"type": "text", "text": "drawn"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        ],
    }
