"""Calls that must not run: made despite ``tool_choice="none"``, or in an answer that was cut."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import AssistantMessage, ChatClient, ChatResponse, ToolCall, ToolMessage, tool
from advisorchain.testing import ScriptedModel


class Counter:
    """Counts how often its tools ran."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    @tool
    def look(self, n: int) -> int:
        """Look at n."""
        self.runs.append(n)
        return n

    @tool
    def tick(self) -> int:
        """Another result each time."""
        self.runs.append("tick")
        return len(self.runs)


@pytest.fixture
def counter() -> Counter:
    """The tools of a test."""
    return Counter()


@pytest.mark.parametrize("obedient", [True, False])
async def test_tool_choice_none_is_kept_by_the_loop(run: Any, counter: Counter, obedient: bool) -> None:
    asked = 0

    async def model(request: Any) -> ChatResponse[Any]:
        nonlocal asked
        asked += 1
        if obedient and request.options.tool_choice == "none":
            return ChatResponse(AssistantMessage(content="what I have"))
        return ChatResponse(AssistantMessage(tool_calls=(ToolCall("tick", {}),)))

    response = await run(ChatClient(model, tools=[counter]), "go", options={"tool_choice": "none"})
    assert counter.runs == [], "calls made despite tool_choice none never run"
    assert asked == (1 if obedient else 2) and response.tool_calls == ()
    if obedient:
        assert response.text == "what I have" and response.stop_reason == "final"


def cut(*calls: ToolCall, text: str = "") -> ChatResponse[Any]:
    """An answer that was cut at its length limit."""
    return ChatResponse(AssistantMessage(content=text, tool_calls=calls), stop_reason="length")


async def test_calls_of_a_cut_answer_do_not_run(run: Any, counter: Counter) -> None:
    model = ScriptedModel([cut(ToolCall("look", '{"n": 1')), [ToolCall("look", {"n": 2})], "done"])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert counter.runs == [2] and response.text == "done" and response.stop_reason == "final"
    refused = model.requests[1].messages[-1]
    assert isinstance(refused, ToolMessage) and refused.is_error and "length" in refused.text
    assert response.request.context.ledger.rounds == 2, "a batch that was refused is a round too"


async def test_cut_twice_ends_the_turn(run: Any, counter: Counter) -> None:
    calls = [cut(ToolCall("look", {"n": n}), ToolCall("tick"), text=f"try {n}") for n in (1, 2)]
    model = ScriptedModel(calls)
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert counter.runs == [] and response.stop_reason == "length" and response.text == "try 2"
    assert response.tool_calls == () and len(response.metadata["dropped_calls"]) == 2


async def test_a_cut_answer_without_calls_is_the_answer(run: Any, counter: Counter) -> None:
    response = await run(ChatClient(ScriptedModel([cut(text="half an ans")]), tools=[counter]), "go")
    assert response.text == "half an ans" and response.stop_reason == "length"
