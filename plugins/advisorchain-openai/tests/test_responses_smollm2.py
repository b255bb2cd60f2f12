"""The Responses API of another implementation, llama.cpp's server, with a real language model behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ModelError,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from advisorchain_openai import OpenAIResponsesModel

if TYPE_CHECKING:
    from smollm2 import SmolLM2

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: the tests against aimock run on both."""
    return "asyncio"


@pytest.fixture
async def model(smollm2: SmolLM2) -> AsyncIterator[OpenAIResponsesModel]:
    options = {"temperature": 0, "max_tokens": 24}
    async with OpenAIResponsesModel("smollm2", base_url=smollm2.openai_url, options=options) as model:
        yield model


@tool
def look(city: str) -> str:
    """Look up the weather of a city."""
    return f"18 in {city}"


async def test_text(model: OpenAIResponsesModel, run: Any) -> None:
    response = await run(ChatClient(model, system="Be brief."), "Hello!")
    assert response.text and response.stop_reason in ("final", "length")
    assert response.usage.input_tokens and 0 < response.usage.output_tokens <= 24
    assert response.metadata["response_id"]
    if run.mode == "stream":
        assert any(isinstance(event, TextDelta) for event in run.events)


async def test_a_conversation_with_a_call(model: OpenAIResponsesModel, run: Any) -> None:
    messages = [
        UserMessage(content="What is the weather in Rome?"),
        AssistantMessage(content="I look.", tool_calls=(ToolCall("look", {"city": "Rome"}, "c1"),)),
        ToolMessage(call_id="c1", name="look", content="18"),
        AssistantMessage(content="18 degrees."),
        UserMessage(content="Thank you! Goodbye."),
    ]
    response = await run(ChatClient(model, tools=[look]), messages, options={"tool_choice": "none"})
    assert response.text


async def test_a_prompt_that_is_too_long(model: OpenAIResponsesModel, run: Any, smollm2: SmolLM2) -> None:
    with pytest.raises(ModelError) as caught:
        await run(ChatClient(model), "word " * (smollm2.context_tokens + 500))
    assert caught.value.status == 400 and not caught.value.transient
    assert "context" in str(caught.value)
