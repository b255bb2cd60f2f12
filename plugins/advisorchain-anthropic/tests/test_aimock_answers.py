"""Answers of a real server: text, thinking, usage, structured output, what was sent, and leaving early."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anthropic
import anyio
import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    ChatOptions,
    ConfigurationError,
    ImagePart,
    ModelError,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain_anthropic import AnthropicModel
from advisorchain_anthropic.clients import takes_sampling

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


async def test_text(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([answer(TEXT, usage={"input_tokens": 11, "output_tokens": 7})])
    client = ChatClient(model, system="Be kind.")
    response = await run(client, "hello there")
    assert response.text == TEXT
    assert response.stop_reason == "final"
    assert response.usage == Usage(11, 7)
    assert response.metadata["finish_reason"] == "end_turn" and response.metadata["response_id"]
    (body,) = wire.bodies
    assert body.pop("stream", False) is (run.mode == "stream")
    assert body == {
        "model": "claude-sonnet-5",
        "max_tokens": 8192,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello there"}]}],
    }
    if run.mode == "stream":
        assert len([event for event in run.events if isinstance(event, TextDelta)]) > 2


async def test_thinking(aimock: Aimock, model: AnthropicModel, run: Any) -> None:
    aimock.load([answer("42", reasoning="six times seven", reasoningSignature="c2ln", redactedThinking=["ZW5j"])])
    response = await run(ChatClient(model), "hello")
    assert response.text == "42"
    block = {"type": "thinking", "thinking": "six times seven", "signature": "c2ln"}
    redacted = {"type": "redacted_thinking", "data": "ZW5j"}
    assert response.message.content == (
        ProviderPart(provider="anthropic", type="redacted_thinking", data=redacted),
        ReasoningPart(text="six times seven"),
        ProviderPart(provider="anthropic", type="thinking", data=block),
        TextPart(text="42"),
    )
    if run.mode == "stream":
        thoughts = [event.text for event in run.events if isinstance(event, ReasoningDelta)]
        assert "".join(thoughts) == "six times seven"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "length"), ("model_context_window_exceeded", "length"), ("refusal", "refused"),
        ("stop_sequence", "final"),
    ],
)  # fmt: skip
async def test_reasons_to_stop(aimock: Aimock, model: AnthropicModel, run: Any, finish: str, reason: str) -> None:
    aimock.load([answer("Once upon a", finishReason=finish)])
    response = await run(ChatClient(model), "hello")
    assert response.stop_reason == reason and response.text == "Once upon a"


async def test_images_and_text(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([answer("A picture.")])
    message = UserMessage(content=(TextPart(text="hello, what is it?"), ImagePart(url="https://example.org/a.png")))
    await run(ChatClient(model), message)
    assert wire.bodies[0]["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hello, what is it?"},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            ],
        }
    ]


# Structured output ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"reasoning_effort": "low"}, {"extra": {"output_config": {"effort": "low"}}}])
async def test_an_object_as_output(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any, options: dict[str, Any]
) -> None:
    aimock.load([answer({"name": "Paris", "people": 2_100_000})])  # type: ignore[arg-type]
    response = await run(ChatClient(model), "hello", output_type=City, options=options)
    assert response.output == City(name="Paris", people=2_100_000)
    (body,) = wire.bodies
    sent = body["output_config"]
    assert sent["effort"] == "low" and sent["format"]["type"] == "json_schema"
    assert sent["format"]["schema"]["required"] == ["name", "people"]
    assert sent["format"]["schema"]["additionalProperties"] is False
    assert "system" not in body  # no instruction beside the schema


async def test_a_list_as_output_is_unwrapped(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([answer({"value": [1, 2, 3]}, chunkSize=4)])  # type: ignore[arg-type]
    response = await run(ChatClient(model), "hello", output_type=list[int])
    assert response.output == [1, 2, 3] and response.text == "[1, 2, 3]"
    schema = wire.bodies[0]["output_config"]["format"]["schema"]
    assert schema["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}


async def test_a_type_that_cannot_be_enforced_gets_an_instruction(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any
) -> None:
    aimock.load([answer({"Paris": 1})])  # type: ignore[arg-type]
    response = await run(ChatClient(model, system="Be kind."), "hello", output_type=dict[str, int])
    assert response.output == {"Paris": 1}
    (body,) = wire.bodies
    assert "output_config" not in body
    assert body["system"].startswith("Be kind.") and "JSON schema" in body["system"]


async def test_a_server_without_structured_output_gets_an_instruction(aimock: Aimock, run: Any) -> None:
    aimock.load([answer({"name": "Paris", "people": 1})])  # type: ignore[arg-type]
    async with AnthropicModel("m", base_url=aimock.anthropic_url, native_output=False) as model:
        response = await run(ChatClient(model), "hello", output_type=City)
    assert response.output.people == 1
    assert "people" in aimock.bodies()[0]["messages"][0]["content"]


async def test_text_as_output_needs_no_schema(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([answer("plain")])
    assert (await run(ChatClient(model), "hello", output_type=str)).output == "plain"
    assert "output_config" not in wire.bodies[0]


# Options -------------------------------------------------------------------------------------------------------------


async def test_every_option(
    aimock: Aimock, model: AnthropicModel, wire: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    aimock.load([answer("ok")])
    options = ChatOptions(
        model="claude-other", temperature=0.1, top_p=0.2, max_tokens=30, stop=("END", "STOP"), seed=4,
        frequency_penalty=0.5, presence_penalty=0.6, reasoning_effort="low", tool_choice="required",
        parallel_tool_calls=False, timeout=70,
        extra={"top_k": 8, "thinking": {"type": "disabled"}, "temperature": 0.9, "output_config": {"effort": "max"}},
    )  # fmt: skip
    client = ChatClient(model, tools=[add])
    await run(client, "hello", options=options)
    await run(client, "hello", options=options)
    body = wire.bodies[0]
    expected = {
        "model": "claude-other", "top_p": 0.2, "max_tokens": 30, "stop_sequences": ["END", "STOP"],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "top_k": 8, "temperature": 0.9,
        "thinking": {"type": "disabled"}, "output_config": {"effort": "max"},
    }  # fmt: skip
    assert {key: body.get(key) for key in expected} == expected
    left_out = ("seed", "frequency_penalty", "presence_penalty")
    assert not body.keys() & set(left_out)
    assert [sum(name in record.message for record in caplog.records) for name in left_out] == [1, 1, 1]
    entry = aimock.journal()[0]
    assert float(entry["headers"]["x-stainless-read-timeout"]) == 70
    assert entry["headers"]["x-stainless-retry-count"] == "0"


async def test_a_temperature_that_the_server_refuses_is_left_out(
    aimock: Aimock, wire: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    aimock.load([answer("ok")])
    make = lambda: wire.client(aimock.anthropic_url, "k")  # noqa: E731
    async with AnthropicModel("m", client=make, sampling=False) as model:
        await run(ChatClient(model), "hello", options={"temperature": 0.1})
    assert "temperature" not in wire.bodies[0] and "temperature is not sent" in caplog.text


@pytest.mark.parametrize(
    ("url", "headers", "takes"),
    [
        ("http://localhost:8080", {}, True),
        ("https://api.anthropic.com", {}, False),
        ("https://api.anthropic.com", {"anthropic-version": "2023-06-01"}, True),
    ],
)
def test_who_takes_a_temperature(url: str, headers: dict[str, str], takes: bool) -> None:
    client = anthropic.AsyncAnthropic(base_url=url, api_key="k", default_headers=headers)
    assert takes_sampling(client) is takes
    foundry = anthropic.AsyncAnthropicFoundry(base_url="https://example.org/anthropic", api_key="k")
    assert not takes_sampling(foundry)  # Anthropic's API under another address


async def test_model_options_lie_under_those_of_client_and_call(aimock: Aimock, wire: Any) -> None:
    aimock.load([answer("ok")])
    options = {"max_tokens": 1, "temperature": 0.1, "top_p": 0.3, "extra": {"a": 1, "b": 1}}
    make = lambda: wire.client(aimock.anthropic_url, "k")  # noqa: E731
    async with AnthropicModel("m", client=make, options=options, max_tokens=7) as model:
        client = ChatClient(model, options={"max_tokens": 2, "extra": {"b": 2}})
        await client.call("hello", options={"top_p": 0.9})
    (body,) = wire.bodies
    assert [body[key] for key in ("temperature", "max_tokens", "top_p", "a", "b")] == [0.1, 2, 0.9, 1, 2]


async def test_tool_choice(aimock: Aimock, model: AnthropicModel, wire: Any, run: Any) -> None:
    aimock.load([answer("ok")])
    client = ChatClient(model, tools=[add])
    for choice in ("auto", "none", "required", "add"):
        await run(client, "hello", options={"tool_choice": choice})
    one_by_one = {"parallel_tool_calls": False}
    await run(client, "hello", options=one_by_one)
    await run(client, "hello", options={"tool_choice": "none", **one_by_one})
    await run(client, "hello")
    assert [body.get("tool_choice") for body in wire.bodies] == [
        {"type": "auto"}, {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "add"},
        {"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}, None,
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"subtract.*'add'"):
        await run(client, "hello", options={"tool_choice": "subtract"})


async def test_without_tools_no_tool_options_are_sent(aimock: Aimock, model: AnthropicModel, wire: Any) -> None:
    aimock.load([answer("ok")])
    await ChatClient(model).call("hello", options={"tool_choice": "auto", "parallel_tool_calls": False})
    assert not {"tools", "tool_choice"} & wire.bodies[0].keys()


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
async def test_leaving_a_stream_early(aimock: Aimock, model: AnthropicModel) -> None:
    client = ChatClient(model)
    async with client.stream("hello") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    await still_works(aimock, client)


@pytest.mark.usefixtures("hangs_up")
async def test_cancelling_a_stream(aimock: Aimock, model: AnthropicModel) -> None:
    client = ChatClient(model)
    with anyio.CancelScope() as scope:
        async with client.stream("hello") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    scope.cancel()
    assert scope.cancelled_caught
    await still_works(aimock, client)


async def test_cancelling_a_call(aimock: Aimock, model: AnthropicModel, wire: Any) -> None:
    client = ChatClient(model)
    await aimock.loses_a_call(client, wire.bodies)
    await still_works(aimock, client)


@pytest.mark.usefixtures("hangs_up")
async def test_a_tap_that_fails(aimock: Aimock, model: AnthropicModel) -> None:
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
async def test_the_whole_call_has_a_time_limit(aimock: Aimock, model: AnthropicModel) -> None:
    client = ChatClient(model)
    await client.call("hello")  # the connection is there, and the time is the server's
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"within 2 s") as caught:
        async with client.stream("hello", options={"timeout": 2}) as stream:
            await stream.response()
    assert caught.value.transient and 1.9 < time.monotonic() - started < 10
    await still_works(aimock, client)
