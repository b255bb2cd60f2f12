"""Chains nest: a chain, or a client, as the model of another."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    AdvisorChain,
    ChatClient,
    ConfigurationError,
    ImagePart,
    Order,
    TextPart,
    ToolCall,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel
from advisorchain.tools import run_tool


@tool(return_direct=True)
def picture() -> list[Any]:
    """A picture."""
    return [TextPart(text="A cat."), ImagePart(data=b"\x89PNG", media_type="image/png")]


async def test_a_chain_as_a_model_counts_every_call_once(run: Any) -> None:
    @tool
    def one() -> int:
        """One."""
        return 1

    inner = ScriptedModel([[ToolCall("one")], "1"], usage=Usage(10, 5))
    chain = AdvisorChain([ToolCallingAdvisor()], inner, tool=run_tool)
    response = await run(ChatClient(chain, tools=[one], advisors=[ToolCallingAdvisor()]), "go")
    assert response.text == "1"
    assert response.usage == Usage(20, 10)


async def test_a_sub_agents_parts_reach_the_outer_turn(run: Any) -> None:
    artist = ChatClient(ScriptedModel([[ToolCall("picture")]]), tools=[picture])
    outer = ScriptedModel([[ToolCall("artist", {"prompt": "a cat"})], "done"])
    response = await run(ChatClient(outer, tools=[artist.as_tool("artist", "Draws.")]), "draw")
    message = response.new_messages[1]
    assert [part.kind for part in message.content] == ["text", "image"]


async def test_a_model_client_hands_on_direct_results(run: Any) -> None:
    artist = ChatClient(ScriptedModel([[ToolCall("picture")]]), tools=[picture])
    response = await run(ChatClient(artist.as_model()), "draw")
    assert response.stop_reason == "return_direct"
    assert [result.name for result in response.direct_results] == ["picture"]


def test_a_sub_agent_needs_its_loop() -> None:
    client = ChatClient(ScriptedModel([]), tool_loop=False)
    with pytest.raises(ConfigurationError, match="tool_loop=False"):
        client.as_tool("manual", "By hand.")
    with pytest.raises(ConfigurationError, match="tool_loop=False"):
        client.as_model()


async def test_feedback_without_a_loop_keeps_the_first_answer(run: Any) -> None:
    from advisorchain import UserMessage

    @chat_advisor(order=Order.OUTPUT)
    async def critic(request: Any, call_next: Any) -> Any:
        first = await call_next(request)
        more = (*first.new_messages, UserMessage(content="shorter"))
        return await call_next(request.replace(messages=(*request.messages, *more)))

    client = ChatClient(ScriptedModel(["a long answer", "short"]), advisors=[critic], tool_loop=False)
    response = await run(client, "?")
    assert [message.text for message in response.new_messages] == ["a long answer", "shorter", "short"]
