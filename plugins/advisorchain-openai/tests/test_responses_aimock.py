"""The Responses API of a real server: the contract, what is sent, the tool loop, structured output, and by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    ChatOptions,
    ConfigurationError,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Tool,
    Usage,
    plugins,
    tool,
)
from advisorchain.testing import check_model, forbid_model_calls
from advisorchain.testing.model import CALLS, TOOL
from advisorchain_openai import OpenAIResponsesModel

if TYPE_CHECKING:
    from aimock import Aimock

TEXT = "Good morning, friend of the chain. This sentence is long enough for several chunks."


def answer(text: Any, **more: Any) -> dict[str, Any]:
    fixture = {key: more.pop(key) for key in ("latency", "chunkSize") if key in more}
    return {"match": {"userMessage": "hello"}, "response": {"content": text, **more}, **fixture}


class City(BaseModel):
    name: str
    people: int


class Node(BaseModel):
    value: int
    children: list[Node] = []


@tool
def get_weather(city: str, unit: str = "celsius") -> str:
    """Current weather of a city."""
    return f"18 {unit} in {city}"


@tool
def get_time(zone: str) -> str:
    """Current time of a zone."""
    return "12:00"


@tool(return_direct=True)
def travel_status(request_id: str) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved"


async def test_the_model_keeps_the_contract(aimock: Aimock, api_key: str, free_tcp_port: int) -> None:
    words = ["apple", "plum", "quince", "cherry", "grape", *(f"fruit{number}end" for number in range(CALLS))]
    says = [{"match": {"userMessage": word}, "response": {"content": word}} for word in words]
    calls = [
        {
            "match": {"userMessage": f'with the text "{word}"', "hasToolResult": False},
            "response": {"toolCalls": [{"name": TOOL, "arguments": {"text": word}}]},
        }
        for word in ("pearanswer", "pearstreamed")
    ]
    done = [{"match": {"userMessage": "pear", "hasToolResult": True}, "response": {"content": "done"}}]
    aimock.load([*calls, *done, *says])
    for name in ("gpt-5-mini", "gpt-4o"):
        await check_model(
            lambda name=name: OpenAIResponsesModel(name, base_url=aimock.openai_url, api_key=api_key),  # type: ignore[misc]
            broken=lambda: OpenAIResponsesModel("gpt-4o", base_url=f"http://127.0.0.1:{free_tcp_port}/v1"),
            exact=True,
        )


async def test_real_calls_can_be_forbidden(aimock: Aimock, responder: OpenAIResponsesModel) -> None:
    with forbid_model_calls(), pytest.raises(ConfigurationError, match="OpenAIResponsesModel 'gpt-4o'"):
        await ChatClient(responder).call("hello")
    assert not aimock.journal()


async def test_text(aimock: Aimock, responder: OpenAIResponsesModel, wire: Any, run: Any) -> None:
    aimock.load([answer(TEXT, usage={"input_tokens": 11, "output_tokens": 7})])
    response = await run(ChatClient(responder, system="Be kind.", options={"temperature": 0.5}), "hello there")
    assert response.text == response.message.content == TEXT
    assert response.stop_reason == "final" and response.usage == Usage(11, 7)
    assert response.metadata["finish_reason"] == "completed" and response.metadata["response_id"]
    assert response.metadata["response_model"] == "gpt-4o"
    expected = {
        "model": "gpt-4o",
        "store": False,
        "temperature": 0.5,
        "instructions": "Be kind.",
        "input": [{"type": "message", "role": "user", "content": "hello there"}],
    }
    assert wire.bodies == [expected | ({"stream": True} if run.mode == "stream" else {})]
    if run.mode == "stream":
        assert len([event for event in run.events if isinstance(event, TextDelta)]) > 2


async def test_reasoning_comes_encrypted_and_goes_back(aimock: Aimock, api_key: str, wire: Any, run: Any) -> None:
    call = {"name": "get_weather", "arguments": {"city": "Paris"}, "id": "call_w"}
    asked = {"match": {"userMessage": "please", "hasToolResult": False}}
    aimock.load([
        {**asked, "response": {"toolCalls": [call], "reasoning": "A tool knows.", "webSearches": ["Paris"]}},
        {"match": {"userMessage": "please", "hasToolResult": True}, "response": {"content": "18."}},
    ])  # fmt: skip
    async with OpenAIResponsesModel("o3", client=lambda: wire.client(aimock.openai_url, api_key)) as model:
        response = await run(ChatClient(model, tools=[get_weather]), "weather, please")
    assert response.text == "18."
    thought, kept, search = response.new_messages[0].content
    assert thought == ReasoningPart(text="A tool knows.")
    assert isinstance(kept, ProviderPart) and kept.data["encrypted_content"]
    assert [found.executed_by for found in response.new_messages[0].tool_calls] == ["provider", "client"]
    assert wire.bodies[0]["include"] == ["reasoning.encrypted_content"]
    assert wire.bodies[1]["input"][1:] == [
        kept.data,
        search.data,
        {"type": "function_call", "call_id": "call_w", "name": "get_weather", "arguments": '{"city":"Paris"}'},
        {"type": "function_call_output", "call_id": "call_w", "output": "18 celsius in Paris"},
    ]
    if run.mode == "stream":
        thoughts = [event.text for event in run.events if isinstance(event, ReasoningDelta)]
        assert "".join(thoughts) == "A tool knows."


async def test_the_whole_loop(aimock: Aimock, responder: OpenAIResponsesModel, wire: Any, run: Any) -> None:
    calls = [
        {"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}, "id": "call_w"},
        {"name": "get_time", "arguments": {"zone": "Europe/Paris"}, "id": "call_t"},
    ]
    asked = {"match": {"userMessage": "please", "hasToolResult": False}, "chunkSize": 5}
    aimock.load([
        {**asked, "response": {"content": "Let me look.", "toolCalls": calls}},
        {"match": {"userMessage": "please", "hasToolResult": True}, "response": {"content": "18 at noon."}},
    ])  # fmt: skip
    response = await run(ChatClient(responder, tools=[get_weather, get_time]), "weather, please")
    assert response.text == "18 at noon." and response.new_messages[0].content == "Let me look."
    first, second = wire.bodies
    assert second["tools"] == first["tools"] and [tool["strict"] for tool in first["tools"]] == [False, False]
    assert [(item["type"], item.get("call_id")) for item in second["input"]] == [
        ("message", None),
        ("message", None),
        ("function_call", "call_w"),
        ("function_call", "call_t"),
        ("function_call_output", "call_w"),
        ("function_call_output", "call_t"),
    ]


async def test_return_direct(aimock: Aimock, responder: OpenAIResponsesModel, run: Any) -> None:
    call = {"name": "travel_status", "arguments": {"request_id": "TR001"}}
    aimock.load([{"match": {"userMessage": "please"}, "response": {"toolCalls": [call]}}])
    response = await run(ChatClient(responder, tools=[travel_status]), "TR001, please")
    assert response.stop_reason == "return_direct" and response.text == "TR001: approved"
    assert len(aimock.journal()) == 1


# Structured output ---------------------------------------------------------------------------------------------------


async def test_an_object_as_output(aimock: Aimock, responder: OpenAIResponsesModel, wire: Any, run: Any) -> None:
    aimock.load([answer({"name": "Paris", "people": 2_100_000})])
    response = await run(
        ChatClient(responder), "hello", output_type=City, options={"extra": {"text": {"verbosity": "low"}}}
    )
    assert response.output == City(name="Paris", people=2_100_000)
    text = wire.bodies[0]["text"]
    assert text["verbosity"] == "low" and text["format"]["type"] == "json_schema"
    assert text["format"]["name"] == "City" and text["format"]["strict"] is True
    assert text["format"]["schema"]["additionalProperties"] is False
    assert "instructions" not in wire.bodies[0]


async def test_a_list_as_output_is_unwrapped(aimock: Aimock, api_key: str, wire: Any, run: Any) -> None:
    aimock.load([answer({"value": [1, 2, 3]}, chunkSize=4, reasoning="Count.")])
    async with OpenAIResponsesModel("o3", client=lambda: wire.client(aimock.openai_url, api_key)) as model:
        response = await run(ChatClient(model), "hello", output_type=list[int])
    assert response.output == [1, 2, 3] and response.text == "[1, 2, 3]"
    assert response.message.content[-1] == TextPart(text="[1, 2, 3]")
    schema = wire.bodies[0]["text"]["format"]["schema"]
    assert schema["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}


async def test_a_server_without_json_schema_gets_an_instruction(aimock: Aimock, wire: Any, run: Any) -> None:
    aimock.load([answer({"name": "Paris", "people": 1})])
    async with OpenAIResponsesModel(
        "gpt-4o", client=lambda: wire.client(aimock.openai_url, "k"), native_output=False
    ) as model:
        response = await run(ChatClient(model), "hello", output_type=City)
    assert response.output.people == 1
    assert "text" not in wire.bodies[0] and "people" in wire.bodies[0]["instructions"]


async def test_schemas_can_be_inlined(aimock: Aimock, wire: Any, run: Any) -> None:
    aimock.load([answer({"value": 1, "children": []})])

    async def plant(arguments: dict[str, Any]) -> str:
        return "planted"

    planting = Tool.from_schema("plant", plant, description="Plant it.", input_schema=Node.model_json_schema())
    for inline in (False, True):
        client = lambda: wire.client(aimock.openai_url, "k")  # noqa: E731
        async with OpenAIResponsesModel("gpt-4o", client=client, inline_schemas=inline) as model:
            for _ in range(2):
                response = await run(ChatClient(model, tools=[planting]), "hello", output_type=Node)
        assert response.output == Node(value=1)
        sent = json.dumps([wire.bodies[-1]["tools"], wire.bodies[-1]["text"]])
        assert ("$ref" in sent and "$defs" in sent) is not inline
    assert wire.bodies[-1] == wire.bodies[-2] and wire.bodies[-1]["text"]["format"]["strict"] is False


# Options and tool choice ---------------------------------------------------------------------------------------------


async def test_every_option(
    aimock: Aimock, responder: OpenAIResponsesModel, wire: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    aimock.load([answer("ok")])
    extra = {
        "reasoning": {"summary": "auto"}, "include": ["file_search_call.results"], "service_tier": "flex", "top_p": 0.9,
        "store": True,
    }  # fmt: skip
    options = ChatOptions(
        model="gpt-5", temperature=0.1, top_p=0.2, max_tokens=30, stop=("END",), seed=4, frequency_penalty=0.5,
        presence_penalty=0.6, reasoning_effort="low", tool_choice="required", parallel_tool_calls=False, timeout=70,
        extra=extra,
    )  # fmt: skip
    for _ in range(2):
        await run(ChatClient(responder, tools=[get_time]), "hello", options=options)
    body = wire.bodies[0]
    expected = {
        "model": "gpt-5", "temperature": 0.1, "top_p": 0.9, "max_output_tokens": 30, "tool_choice": "required",
        "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": False, "service_tier": "flex",
        "include": ["reasoning.encrypted_content", "file_search_call.results"], "store": True,
    }  # fmt: skip
    assert {key: body.get(key) for key in expected} == expected
    assert not {"stop", "seed", "frequency_penalty", "presence_penalty", "max_tokens"} & body.keys()
    assert float(wire.headers[0]["x-stainless-read-timeout"]) == 70
    assert wire.headers[0]["x-stainless-retry-count"] == "0"
    for name in ("stop", "seed", "frequency_penalty", "presence_penalty"):
        assert caplog.text.count(f"The option {name} is not sent") == 1, "it is said once"


@pytest.mark.parametrize(
    ("model", "setting", "asked"),
    [
        ("gpt-5-mini", None, True), ("o3", None, True), ("openai/gpt-oss-120b", None, True),
        ("my-deployment", None, True),
        ("gpt-4o", None, False), ("gpt-4.1-mini", None, False), ("ft:gpt-4o-mini:mine::1", None, False),
        ("openai/gpt-3.5-turbo", None, False), ("chatgpt-4o-latest", None, False), ("gpt-5-chat-latest", None, False),
        ("gpt-4o", True, True), ("gpt-5-mini", False, False),
    ],
)  # fmt: skip
async def test_who_is_asked_for_encrypted_reasoning(
    aimock: Aimock, wire: Any, model: str, setting: bool | None, asked: bool
) -> None:
    aimock.load([answer("ok")])
    client = lambda: wire.client(aimock.openai_url, "k")  # noqa: E731
    async with OpenAIResponsesModel(model, client=client, encrypted_reasoning=setting) as made:
        await ChatClient(made).call("hello")
    assert ("include" in wire.bodies[0]) is asked


async def test_tool_choice(aimock: Aimock, wire: Any, run: Any) -> None:
    aimock.load([answer("ok")])
    server_tools = [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "wiki", "server_url": "https://example.org"},
    ]
    client = lambda: wire.client(aimock.openai_url, "k")  # noqa: E731
    async with OpenAIResponsesModel("gpt-4o", client=client, server_tools=server_tools) as model:
        for choice, expected in [
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            ("get_time", {"type": "function", "name": "get_time"}),
            ("web_search", {"type": "web_search"}),
            ("wiki", {"type": "mcp", "server_label": "wiki"}),
        ]:
            await run(ChatClient(model, tools=[get_time]), "hello", options={"tool_choice": choice})
            assert wire.bodies[-1]["tool_choice"] == expected
        with pytest.raises(ConfigurationError, match=r"names no tool .* \['web_search', 'wiki', 'get_time'\]"):
            await run(ChatClient(model, tools=[get_time]), "hello", options={"tool_choice": "get_tmie"})
        await run(ChatClient(model), "hello")
        assert wire.bodies[-1]["tools"] == server_tools and "tool_choice" not in wire.bodies[-1]


async def test_without_tools_nothing_is_said_of_them(
    aimock: Aimock, responder: OpenAIResponsesModel, wire: Any, run: Any
) -> None:
    aimock.load([answer("ok")])
    await run(ChatClient(responder), "hello", options={"tool_choice": "auto", "parallel_tool_calls": True})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & wire.bodies[0].keys()


async def test_leaving_a_stream_closes_the_connection(aimock: Aimock, responder: OpenAIResponsesModel) -> None:
    aimock.load([answer("word " * 400, latency=50, chunkSize=5)])
    before = aimock.given_up()
    started = time.monotonic()
    async with ChatClient(responder).stream("hello") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert time.monotonic() - started < 10
    await aimock.gives_up(before)


# By name -------------------------------------------------------------------------------------------------------------


def test_on_the_command_line(aimock: Aimock) -> None:
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    aimock.load([answer("Good morning.")])
    environment = {**os.environ, "OPENAI_BASE_URL": aimock.openai_url, "OPENAI_API_KEY": "k"}
    command = [sys.executable, "-m", "advisorchain.cli", "run", "--model", "openai_responses:gpt-5-mini", "hello"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, text=True)
    assert done.returncode == 0 and "Good morning." in done.stdout, done.stdout + done.stderr
    (entry,) = aimock.journal()
    assert entry["body"]["model"] == "gpt-5-mini" and entry["path"] == "/v1/responses"


def test_as_a_plugin() -> None:
    settings = {"model": "gpt-5-mini", "api_key": "k", "server_tools": [{"type": "web_search"}]}
    model = plugins.load("models", "openai_responses", **settings)
    assert isinstance(model, OpenAIResponsesModel) and model.name == "gpt-5-mini"
    with pytest.raises(ConfigurationError, match="'custom' is not"):
        plugins.load("models", "openai_responses", **{**settings, "server_tools": [{"type": "custom"}]})
