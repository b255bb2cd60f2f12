"""A real small language model behind llama.cpp's own Messages API. Shapes are asserted, never wording."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import pytest
from pydantic import Field

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ModelError,
    RoundFinished,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from smollm2 import SmolLM2

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(600)]

OPTIONS: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


@tool
def get_weather(city: Annotated[str, Field(max_length=40)]) -> str:
    """Current weather of a city."""
    return f"18 degrees and sun in {city}"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: each answer takes seconds, and the tests against aimock run on both."""
    return "asyncio"


@pytest.fixture
async def model(smollm2: SmolLM2) -> AsyncIterator[AnthropicModel]:
    settings: dict[str, Any] = {"options": OPTIONS, "native_output": False, "provider": "llama.cpp"}
    async with AnthropicModel("smollm2", base_url=smollm2.anthropic_url, **settings) as model:
        yield model


async def test_an_answer(model: AnthropicModel, run: Any) -> None:
    response = await run(ChatClient(model, system="You answer in one sentence."), "What is the capital of France?")
    assert response.text
    assert response.stop_reason in ("final", "length")
    assert response.usage.input_tokens > 20  # what the server takes from its cache counts too
    assert response.usage.cache_read_tokens is not None and response.usage.cache_write_tokens is None
    assert 0 < response.usage.output_tokens <= 24
    if run.mode == "stream":
        deltas = [event for event in run.events if isinstance(event, TextDelta)]
        assert len(deltas) > 3
        assert len([event for event in run.events if isinstance(event, RoundFinished)]) == 1


async def test_one_streamed_answer_after_another(model: AnthropicModel) -> None:
    client = ChatClient(model, options={"max_tokens": 2})
    for number in range(15):
        async with client.stream(f"Hello {number}!") as stream:
            assert (await stream.response()).usage.output_tokens == 2


async def test_an_answer_that_is_cut(model: AnthropicModel, run: Any) -> None:
    response = await run(ChatClient(model), "Tell me a very long story.", options={"max_tokens": 8})
    assert response.stop_reason == "length"
    assert response.usage.output_tokens == 8


async def test_leaving_a_stream_stops_the_computation(model: AnthropicModel, smollm2: SmolLM2) -> None:
    client = ChatClient(model)
    async with client.stream("Count from one to one thousand.", options={"max_tokens": 2000}) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    with anyio.fail_after(20):
        while smollm2.is_busy():  # noqa: ASYNC110  # another process cannot set an event
            await anyio.sleep(0.05)
    assert (await client.call("Hello!", options={"max_tokens": 4})).usage.output_tokens <= 4


async def test_a_list_of_tools(model: AnthropicModel, run: Any) -> None:
    response = await run(ChatClient(model, tools=[get_weather]), "What is the weather in Paris?")
    assert response.stop_reason in ("final", "length", "limit")
    without = await run(ChatClient(model), "What is the weather in Paris?")
    assert response.usage.input_tokens > without.usage.input_tokens + 50, "the tools reach the prompt"


async def test_a_conversation_with_calls(model: AnthropicModel, run: Any) -> None:
    messages = [
        UserMessage(content="Weather in Paris and in Rome?"),
        AssistantMessage(
            tool_calls=(ToolCall("get_weather", {"city": "Paris"}, "c1"), ToolCall("get_weather", '{"city": ', "c2"))
        ),
        ToolMessage(call_id="c1", name="get_weather", content="18 degrees"),
        ToolMessage(call_id="c2", name="get_weather", content="The arguments are no valid JSON.", is_error=True),
    ]
    response = await run(ChatClient(model, tools=[get_weather]), messages, options={"max_tokens": 8})
    assert response.usage.output_tokens <= 8 and response.usage.input_tokens > 50


async def test_a_prompt_that_is_too_long(model: AnthropicModel, run: Any, smollm2: SmolLM2) -> None:
    with pytest.raises(ModelError) as caught:
        await run(ChatClient(model), "word " * (smollm2.context_tokens + 500))
    assert caught.value.status == 400 and not caught.value.transient
    assert "context" in str(caught.value)
