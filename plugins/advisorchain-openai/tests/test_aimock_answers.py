"""Answers of a real server: text, reasoning, usage, structured output, what was sent, and leaving early."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    ChatOptions,
    ConfigurationError,
    ImagePart,
    ModelError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock

TEXT = "Good morning, friend of the chain. This sentence is long enough for several chunks."


def answer(text: str, **more: Any) -> dict[str, Any]:
    fixture = {key: more.pop(key) for key in ("latency", "chunkSize", "truncateAfterChunks") if key in more}
    return {"match": {"userMessage": "hello"}, "response": {"content": text, **more}, **fixture}


class City(BaseModel):
    name: str
    people: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_text(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer(TEXT, usage={"prompt_tokens": 11, "completion_tokens": 7})])
    client = ChatClient(model, system="Be kind.", options={"temperature": 0.5})
    response = await run(client, "hello there")
    assert response.text == TEXT
    assert response.stop_reason == "final"
    assert response.usage == Usage(11, 7)
    assert response.metadata["finish_reason"] == "stop" and response.metadata["response_id"]
    (body,) = aimock.bodies()
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello there"},
    ]
    assert body["model"] == "gpt-4o" and body["temperature"] == 0.5
    assert "tools" not in body and "response_format" not in body
    streamed = run.mode == "stream"
    assert body.get("stream", False) is streamed
    assert body.get("stream_options") == ({"include_usage": True} if streamed else None)
    if streamed:
        assert len([event for event in run.events if isinstance(event, TextDelta)]) > 2


async def test_without_usage_chunks(aimock: Aimock) -> None:
    aimock.load([answer(TEXT)])
    model = OpenAIModel("gpt-4o", base_url=aimock.openai_url, stream_usage=False)
    async with model, ChatClient(model).stream("hello") as stream:
        response = await stream.response()
    assert response.text == TEXT and response.usage == Usage()
    assert "stream_options" not in aimock.bodies()[0]


async def test_reasoning(aimock: Aimock, run: Any) -> None:
    aimock.load([answer("42", reasoning="six times seven")])
    async with OpenAIModel("o3", base_url=aimock.openai_url) as model:
        response = await run(ChatClient(model), "hello")
    assert response.text == "42"
    assert response.message.content == (ReasoningPart(text="six times seven"), TextPart(text="42"))
    if run.mode == "stream":
        thoughts = [event.text for event in run.events if isinstance(event, ReasoningDelta)]
        assert "".join(thoughts) == "six times seven"


@pytest.mark.parametrize(("finish", "reason"), [("length", "length"), ("content_filter", "filtered")])
async def test_cut_and_filtered_answers(aimock: Aimock, model: OpenAIModel, run: Any, finish: str, reason: str) -> None:
    aimock.load([answer("Once upon a", finishReason=finish)])
    response = await run(ChatClient(model), "hello")
    assert response.stop_reason == reason and response.text == "Once upon a"


async def test_images_and_text(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer("A picture.")])
    message = UserMessage(content=(TextPart(text="hello, what is it?"), ImagePart(url="https://example.org/a.png")))
    await run(ChatClient(model), message)
    assert aimock.bodies()[0]["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hello, what is it?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        }
    ]


# Structured output ---------------------------------------------------------------------------------------------------


async def test_an_object_as_output(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer({"name": "Paris", "people": 2_100_000})])  # type: ignore[arg-type]
    response = await run(ChatClient(model), "hello", output_type=City)
    assert response.output == City(name="Paris", people=2_100_000)
    (body,) = aimock.bodies()
    sent = body["response_format"]
    assert sent["type"] == "json_schema" and sent["json_schema"]["name"] == "City"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["additionalProperties"] is False
    assert [message["role"] for message in body["messages"]] == ["user"]  # no instruction beside the schema


async def test_a_list_as_output_is_unwrapped(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer({"value": [1, 2, 3]}, chunkSize=4)])  # type: ignore[arg-type]
    response = await run(ChatClient(model), "hello", output_type=list[int])
    assert response.output == [1, 2, 3] and response.text == "[1, 2, 3]"
    schema = aimock.bodies()[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}


async def test_a_server_without_json_schema_gets_an_instruction(aimock: Aimock, run: Any) -> None:
    aimock.load([answer({"name": "Paris", "people": 1})])  # type: ignore[arg-type]
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, native_output=False) as model:
        response = await run(ChatClient(model), "hello", output_type=City)
    assert response.output.people == 1
    (body,) = aimock.bodies()
    assert "response_format" not in body
    assert body["messages"][0]["role"] == "system" and "people" in body["messages"][0]["content"]


async def test_text_as_output_needs_no_schema(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer("plain")])
    assert (await run(ChatClient(model), "hello", output_type=str)).output == "plain"
    assert "response_format" not in aimock.bodies()[0]


# Options -------------------------------------------------------------------------------------------------------------


async def test_every_option(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer("ok")])
    options = ChatOptions(
        model="gpt-other", temperature=0.1, top_p=0.2, max_tokens=30, stop=("END", "STOP"), seed=4,
        frequency_penalty=0.5, presence_penalty=0.6, reasoning_effort="low", tool_choice="required",
        parallel_tool_calls=False, timeout=70, extra={"logit_bias": {"7": 1}, "top_k": 8, "temperature": 0.9},
    )  # fmt: skip
    await run(ChatClient(model, tools=[add]), "hello", options=options)
    entry = aimock.journal()[0]
    body = entry["body"]
    expected = {
        "model": "gpt-other", "top_p": 0.2, "max_tokens": 30, "stop": ["END", "STOP"], "seed": 4,
        "frequency_penalty": 0.5, "presence_penalty": 0.6, "reasoning_effort": "low", "tool_choice": "required",
        "parallel_tool_calls": False, "logit_bias": {"7": 1}, "top_k": 8, "temperature": 0.9,
    }  # fmt: skip
    assert {key: body.get(key) for key in expected} == expected
    assert float(entry["headers"]["x-stainless-read-timeout"]) == 70
    assert entry["headers"]["x-stainless-retry-count"] == "0"


async def test_model_options_lie_under_those_of_client_and_call(aimock: Aimock) -> None:
    aimock.load([answer("ok")])
    options = {"temperature": 0.1, "seed": 1, "top_p": 0.3, "extra": {"a": 1, "b": 1}}
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, options=options) as model:
        client = ChatClient(model, options={"seed": 2, "extra": {"b": 2}})
        await client.call("hello", options={"top_p": 0.9})
    (body,) = aimock.bodies()
    assert [body[key] for key in ("temperature", "seed", "top_p", "a", "b")] == [0.1, 2, 0.9, 1, 2]


async def test_tool_choice(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([answer("ok")])
    client = ChatClient(model, tools=[add])
    for choice in ("auto", "none", "required", "add"):
        await run(client, "hello", options={"tool_choice": choice})
    named = {"type": "function", "function": {"name": "add"}}
    assert [body["tool_choice"] for body in aimock.bodies()] == ["auto", "none", "required", named]
    with pytest.raises(ConfigurationError, match=r"subtract.*'add'"):
        await run(client, "hello", options={"tool_choice": "subtract"})


async def test_without_tools_no_tool_options_are_sent(aimock: Aimock, model: OpenAIModel) -> None:
    aimock.load([answer("ok")])
    await ChatClient(model).call("hello", options={"tool_choice": "auto", "parallel_tool_calls": True})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & aimock.bodies()[0].keys()


async def test_max_tokens_has_the_name_that_the_server_knows(aimock: Aimock) -> None:
    aimock.load([answer("ok")])
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, max_tokens_field="max_completion_tokens") as model:
        await ChatClient(model).call("hello", options={"max_tokens": 5})
    (body,) = aimock.bodies()
    assert body["max_completion_tokens"] == 5 and "max_tokens" not in body


# Leaving early -------------------------------------------------------------------------------------------------------

LONG: dict[str, Any] = {"text": TEXT * 20, "latency": 100, "chunkSize": 10}  # 16 seconds


@pytest.fixture
async def hangs_up(aimock: Aimock) -> AsyncIterator[None]:
    """The server must see one connection closed in the middle of an answer, at once."""
    aimock.load([answer(**LONG)])
    before, started = aimock.given_up(), time.monotonic()
    yield
    assert await aimock.gives_up(before) == before + 1
    assert time.monotonic() - started < 10


async def still_works(aimock: Aimock, client: ChatClient) -> None:
    aimock.load([answer("still here")])
    assert (await client.call("hello")).text == "still here"


@pytest.mark.usefixtures("hangs_up")
async def test_leaving_a_stream_early(aimock: Aimock, model: OpenAIModel) -> None:
    client = ChatClient(model)
    async with client.stream("hello") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    await still_works(aimock, client)


@pytest.mark.usefixtures("hangs_up")
async def test_cancelling_a_stream(aimock: Aimock, model: OpenAIModel) -> None:
    client = ChatClient(model)
    with anyio.CancelScope() as scope:
        async with client.stream("hello") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    scope.cancel()
    assert scope.cancelled_caught
    await still_works(aimock, client)


async def test_cancelling_a_call(aimock: Aimock, api_key: str, wire: Any) -> None:
    async with OpenAIModel("gpt-4o", client=lambda: wire.client(aimock.openai_url, api_key)) as model:
        client = ChatClient(model)
        await aimock.loses_a_call(client, wire.bodies)
        await still_works(aimock, client)


@pytest.mark.usefixtures("hangs_up")
async def test_a_tap_that_fails(aimock: Aimock, model: OpenAIModel) -> None:
    @chat_advisor(order=900)
    async def breaking(request: Any, call_next: Any) -> Any:
        async def tap(event: Any, emit: Any) -> None:
            raise LookupError("the tap is broken")

        return await call_next(request.tap(tap))

    with pytest.raises(LookupError, match="the tap is broken"):
        async with ChatClient(model, advisors=[breaking]).stream("hello") as stream:
            await stream.response()
    await still_works(aimock, ChatClient(model))


@pytest.mark.usefixtures("hangs_up")
async def test_the_whole_call_has_a_time_limit(aimock: Aimock, model: OpenAIModel) -> None:
    client = ChatClient(model)
    await client.call("hello")  # the connection is there, and the time is the server's
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"within 2 s") as caught:
        async with client.stream("hello", options={"timeout": 2}) as stream:
            await stream.response()
    assert caught.value.transient and 1.9 < time.monotonic() - started < 10
    await still_works(aimock, client)
