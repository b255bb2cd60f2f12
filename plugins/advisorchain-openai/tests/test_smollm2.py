"""A real small language model behind llama.cpp's server. Shapes are asserted, never wording."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ModelError,
    Order,
    RoundFinished,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolMessage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from smollm2 import SmolLM2

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(600)]

OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "max_tokens": 24}
JSON_OPTIONS = {**OPTIONS, "max_tokens": 80}


class Weather(BaseModel):
    city: Literal["Paris", "Rome", "Oslo"]
    degrees: Annotated[int, Field(ge=-99, le=99)]
    rain: bool


@tool
def get_weather(city: Annotated[str, Field(max_length=40)]) -> str:
    """Current weather of a city."""
    return f"18 degrees and sun in {city}"


@tool(return_direct=True)
def travel_status(request_id: Literal["TR001", "TR002", "TR003"]) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved, 5000"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: each answer takes seconds, and the tests against aimock run on both."""
    return "asyncio"


@pytest.fixture
async def model(smollm2: SmolLM2) -> AsyncIterator[OpenAIModel]:
    async with OpenAIModel("smollm2", base_url=smollm2.openai_url, options=OPTIONS) as model:
        yield model


@pytest.fixture
async def prompted(smollm2: SmolLM2) -> AsyncIterator[OpenAIModel]:
    async with OpenAIModel("smollm2", base_url=smollm2.openai_url, options=JSON_OPTIONS, prompted_tools=True) as model:
        yield model


async def test_an_answer(model: OpenAIModel, run: Any) -> None:
    response = await run(ChatClient(model, system="You answer in one sentence."), "What is the capital of France?")
    assert response.text
    assert response.stop_reason in ("final", "length")
    assert response.usage.input_tokens > 10
    assert 0 < response.usage.output_tokens <= 24
    if run.mode == "stream":
        deltas = [event for event in run.events if isinstance(event, TextDelta)]
        assert len(deltas) > 3
        assert len([event for event in run.events if isinstance(event, RoundFinished)]) == 1


async def test_one_streamed_answer_after_another(model: OpenAIModel) -> None:
    # This server often closes a connection after a stream, although it promises to keep it.
    client = ChatClient(model, options={"max_tokens": 2})
    for number in range(15):
        async with client.stream(f"Hello {number}!") as stream:
            assert (await stream.response()).usage.output_tokens == 2


async def test_an_answer_that_is_cut(model: OpenAIModel, run: Any) -> None:
    response = await run(ChatClient(model), "Tell me a very long story.", options={"max_tokens": 8})
    assert response.stop_reason == "length"
    assert response.usage.output_tokens == 8


async def test_structured_output(model: OpenAIModel, run: Any) -> None:
    response = await run(ChatClient(model), "What is the weather in Rome?", output_type=Weather, options=JSON_OPTIONS)
    assert isinstance(response.output, Weather)


async def test_structured_output_that_is_no_object(model: OpenAIModel, run: Any) -> None:
    numbers = Annotated[list[Annotated[int, Field(ge=0, le=9)]], Field(min_length=2, max_length=3)]
    response = await run(ChatClient(model), "Say some numbers.", output_type=numbers, options=JSON_OPTIONS)
    assert 2 <= len(response.output) <= 3


async def test_leaving_a_stream_stops_the_computation(model: OpenAIModel, smollm2: SmolLM2) -> None:
    client = ChatClient(model)
    async with client.stream("Count from one to one thousand.", options={"max_tokens": 2000}) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    with anyio.fail_after(20):
        while smollm2.is_busy():  # noqa: ASYNC110  # another process cannot set an event
            await anyio.sleep(0.05)
    assert (await client.call("Hello!", options={"max_tokens": 4})).usage.output_tokens <= 4


async def test_a_list_of_tools(model: OpenAIModel, run: Any) -> None:
    response = await run(ChatClient(model, tools=[get_weather, travel_status]), "What is the weather in Paris?")
    assert response.stop_reason in ("final", "length", "return_direct", "limit")
    without = await run(ChatClient(model), "What is the weather in Paris?")
    assert response.usage.input_tokens > without.usage.input_tokens + 50, "the tools reach the prompt"


async def test_a_conversation_with_malformed_arguments(model: OpenAIModel, run: Any) -> None:
    call = ToolCall("get_weather", '{"city": ', "c1")
    messages = [
        UserMessage(content="Weather in Paris?"),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(call_id="c1", name="get_weather", content="The arguments are no valid JSON.", is_error=True),
    ]
    client = ChatClient(model, tools=[get_weather])
    assert (await run(client, messages, options={"max_tokens": 8, "tool_choice": "none"})).usage.output_tokens <= 8


async def test_a_prompt_that_is_too_long(model: OpenAIModel, run: Any, smollm2: SmolLM2) -> None:
    with pytest.raises(ModelError) as caught:
        await run(ChatClient(model), "word " * (smollm2.context_tokens + 500))
    assert caught.value.status == 400 and not caught.value.transient
    assert "context" in str(caught.value)


async def test_return_direct(prompted: OpenAIModel, run: Any) -> None:
    calls = 0

    @chat_advisor(order=Order.MODEL - 1)
    async def counting(request: Any, call_next: Any) -> Any:
        nonlocal calls
        calls += 1
        return await call_next(request)

    client = ChatClient(prompted, tools=[travel_status], advisors=[counting])
    response = await run(client, "What is the status of TR001?", options={"tool_choice": "required"})
    assert response.stop_reason == "return_direct"
    assert response.text.startswith("TR00") and response.text.endswith(": approved, 5000")
    assert calls == 1


async def test_the_model_calls_a_tool_and_reads_its_result(prompted: OpenAIModel, run: Any) -> None:
    @chat_advisor(order=600)
    async def first_a_call_then_an_answer(request: Any, call_next: Any) -> Any:
        choice = "get_weather" if request.round <= 1 else "none"
        return await call_next(request.replace(options=request.options.replace(tool_choice=choice)))

    client = ChatClient(prompted, tools=[get_weather, travel_status], advisors=[first_a_call_then_an_answer])
    response = await run(client, "What is the weather in Paris?")
    kinds = [type(message) for message in response.new_messages]
    assert kinds == [AssistantMessage, ToolMessage, AssistantMessage]
    assert response.new_messages[1].text.startswith("18 degrees")
    assert response.text
    if run.mode == "stream":
        assert len([event for event in run.events if isinstance(event, ToolFinished)]) == 1
