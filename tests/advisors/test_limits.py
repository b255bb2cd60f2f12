"""Limits of the tool loop: what is counted, when, and the three outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    ImagePart,
    Runtime,
    TextPart,
    ToolCall,
    ToolLoopLimitError,
    ToolMessage,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel

OUTCOMES = ["answer", "stop", "raise"]


class Counter:
    """Counts how often its tool ran."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    @tool
    def look(self, n: int) -> int:
        """Look at n."""
        self.runs.append(n)
        return n

    @tool
    def same(self) -> str:
        """Always the same."""
        self.runs.append("same")
        return "the same"

    @tool(repeatable=True)
    def poll(self) -> str:
        """May be polled."""
        self.runs.append("poll")
        return "pending"

    @tool
    def find(self, text: str) -> str:
        """Find nothing."""
        return "nothing found"

    @tool
    def tick(self) -> int:
        """Another result each time."""
        self.runs.append("tick")
        return len(self.runs)


class Endless:
    """A model that calls tools for ever, and answers only when tools are not allowed."""

    name = "endless"

    def __init__(self, *batches: list[ToolCall], obedient: bool = True, answer: str = "what I have") -> None:
        self.batches = batches
        self.obedient = obedient
        self.answer = answer
        self.requests: list[Any] = []

    async def __call__(self, request: Any) -> ChatResponse[Any]:
        self.requests.append(request)
        assert len(self.requests) < 100, "the loop does not end"
        if request.options.tool_choice == "none" and self.obedient:
            return ChatResponse(AssistantMessage(content=self.answer))
        batch = self.batches[(len(self.requests) - 1) % len(self.batches)]
        return ChatResponse(AssistantMessage(tool_calls=tuple(ToolCall(call.name, call.arguments) for call in batch)))


async def limited(run: Any, model: Any, outcome: str, limit: str, allowed: float, **settings: Any) -> Any:
    """Run into the limit, and check what is the same for every limit; the response, or the error."""
    loop = ToolCallingAdvisor(on_limit=outcome, **settings)  # type: ignore[arg-type]
    client = ChatClient(model, tools=[settings.pop("tools", None) or TOOLS[0]], advisors=[loop])
    if outcome == "raise":
        with pytest.raises(ToolLoopLimitError) as caught:
            await run(client, "go")
        assert (caught.value.limit, caught.value.allowed) == (limit, allowed) and str(caught.value)
        return caught.value
    response = await run(client, "go")
    assert response.stop_reason == "limit" and response.text and not response.tool_calls
    assert response.metadata["limit"] == {"limit": limit, "allowed": allowed}
    if outcome == "answer":
        assert response.text == model.answer
        assert model.requests[-1].options.tool_choice == "none"
        assert list(model.requests[-1].tools) == list(model.requests[0].tools), "the prompt cache stays warm"
    else:
        assert str(allowed) in response.text
        assert all(request.options.tool_choice is None for request in model.requests)
    return response


TOOLS: list[Counter] = []


@pytest.fixture(autouse=True)
def counter() -> Counter:
    """The tools of a test."""
    TOOLS[:] = [Counter()]
    return TOOLS[0]


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_batch_over_the_limit_of_calls_runs_not_at_all(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("look", {"n": n}) for n in range(8)])
    await limited(run, model, outcome, "calls", 6, max_calls=6)
    assert counter.runs == []
    assert len(model.requests) == (2 if outcome == "answer" else 1)
    if outcome == "answer":
        refused = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert len(refused) == 8 and all(m.is_error and "6" in m.text for m in refused)


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_calls_up_to_the_limit_run(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("look", {"n": n}) for n in range(3)], [ToolCall("look", {"n": n}) for n in (7, 8, 9)])
    await limited(run, model, outcome, "calls", 7, max_calls=7)
    assert sorted(counter.runs) == [0, 1, 2, 7, 8, 9]


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_rounds(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("tick")])
    await limited(run, model, outcome, "rounds", 4, max_rounds=4)
    assert len(counter.runs) == 4


async def test_the_answer_after_the_last_batch_is_no_round(run: Any, counter: Counter) -> None:
    model = ScriptedModel([[ToolCall("tick")], [ToolCall("tick")], "answer"])
    loop = ToolCallingAdvisor(max_rounds=2, on_limit="raise")
    response = await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")
    assert response.text == "answer" and response.stop_reason == "final" and "limit" not in response.metadata


async def test_the_default_is_25_rounds_and_a_last_answer(run: Any, counter: Counter) -> None:
    model = Endless([ToolCall("tick")])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert len(counter.runs) == 25 and response.stop_reason == "limit" and response.text == "what I have"
    assert response.metadata["limit"] == {"limit": "rounds", "allowed": 25}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_calls_per_tool(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("tick"), ToolCall("look", {"n": 1})])
    await limited(run, model, outcome, "calls_per_tool", 3, max_calls_per_tool=3)
    assert counter.runs.count("tick") == 3 and counter.runs.count(1) == 3


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_calls_of_one_tool(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("look", {"n": 1}), ToolCall("tick")], [ToolCall("tick"), ToolCall("tick")])
    await limited(run, model, outcome, "calls_per_tool", 4, max_calls_per_tool={"tick": 4})
    assert counter.runs.count("tick") == 4 and counter.runs.count(1) == 2, "only whole batches run"
    counter.runs.clear()
    model = Endless([ToolCall("tick")] * 3)
    await limited(run, model, outcome, "calls_per_tool", 4, max_calls_per_tool={"tick": 4})
    assert counter.runs == ["tick"] * 3


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_the_same_call_for_ever(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("same", {})])
    await limited(run, model, outcome, "repeats", 3, max_repeats=3)
    assert counter.runs == ["same"] * 3


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_b_a_b(run: Any, counter: Counter, outcome: str) -> None:
    model = Endless([ToolCall("same")], [ToolCall("look", {"n": 1})])
    await limited(run, model, outcome, "repeats", 3, max_repeats=3)
    assert 6 <= len(counter.runs) <= 8


async def test_the_default_stops_repeats(run: Any, counter: Counter) -> None:
    model = Endless([ToolCall("same")])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert response.metadata["limit"]["limit"] == "repeats" and len(counter.runs) == 3


@pytest.mark.parametrize("arguments", [['{"n": 1}', '{ "n":1}', {"n": 1}], ["{}", "", None]])
async def test_the_same_arguments_written_differently(run: Any, counter: Counter, arguments: list[Any]) -> None:
    name = "look" if isinstance(arguments[2], dict) else "same"
    model = Endless(*[[ToolCall(name, text)] for text in arguments])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert response.metadata["limit"]["limit"] == "repeats" and len(counter.runs) <= 4


async def test_polling_beside_a_repeated_call(run: Any, counter: Counter) -> None:
    model = Endless([ToolCall("poll"), ToolCall("same"), ToolCall("poll")])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert response.metadata["limit"]["limit"] == "repeats" and counter.runs.count("same") == 3


async def test_repeated_failures_are_repeats(run: Any, counter: Counter) -> None:
    model = Endless([ToolCall("ghost", {"n": 1})])
    response = await run(ChatClient(model, tools=[counter]), "go")
    assert response.metadata["limit"]["limit"] == "repeats" and len(model.requests) == 5


async def test_what_is_no_repeat(run: Any, counter: Counter) -> None:
    def steps(*calls: ToolCall) -> list[Any]:
        return [*[[call] for call in calls], "done"]

    loop = ToolCallingAdvisor(max_repeats=2, on_limit="raise")
    for model in (
        ScriptedModel(steps(*[ToolCall("poll") for _ in range(10)])),
        ScriptedModel(steps(*[ToolCall("tick") for _ in range(10)])),
        ScriptedModel(steps(*[ToolCall("look", {"n": n}) for n in range(10)])),
        ScriptedModel(steps(*[ToolCall("find", f'{{"text": "{text}"}}') for text in ("abc", "a bc", "ab c", "a b c")])),
        ScriptedModel(steps(ToolCall("same"), ToolCall("same"), ToolCall("look", {"n": 1}), ToolCall("same"))),
    ):
        assert (await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")).stop_reason == "final"


async def test_other_parts_are_another_result(run: Any) -> None:
    shots: list[int] = []

    @tool
    def screenshot() -> list[Any]:
        """A picture of the screen, which changes."""
        shots.append(1)
        return [TextPart(text="screen"), ImagePart(data=bytes(shots), media_type="image/png")]

    model = ScriptedModel([*[[ToolCall("screenshot")] for _ in range(6)], "done"])
    assert (await run(ChatClient(model, tools=[screenshot]), "go")).stop_reason == "final"


class Clock:
    """A clock that tests wind by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
async def test_seconds(run: Any, outcome: Any) -> None:
    clock = Clock()

    @tool
    def wait(seconds: float) -> str:
        """Pass time."""
        clock.now += seconds
        return f"{clock.now}"

    model = Endless([ToolCall("wait", {"seconds": 4})])
    loop = ToolCallingAdvisor(max_seconds=10, on_limit=outcome)
    client = ChatClient(model, tools=[wait], advisors=[loop], runtime=Runtime(clock=clock))
    if outcome == "raise":
        with pytest.raises(ToolLoopLimitError) as caught:
            await run(client, "go")
        assert (caught.value.limit, caught.value.allowed) == ("seconds", 10)
    else:
        response = await run(client, "go")
        assert response.stop_reason == "limit" and response.metadata["limit"] == {"limit": "seconds", "allowed": 10}
        assert (response.text == "what I have") is (outcome == "answer"), "the default is to stop"
        assert response.text
    assert clock.now == 112, "checked before every batch"


@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
async def test_tokens(run: Any, counter: Counter, outcome: Any) -> None:
    steps = [[ToolCall("tick")], [ToolCall("tick")], [ToolCall("tick")], "what I have"]
    model = ScriptedModel(steps, usage=Usage(input_tokens=30, output_tokens=10))
    loop = ToolCallingAdvisor(max_tokens=100, on_limit=outcome)
    client = ChatClient(model, tools=[counter], advisors=[loop])
    if outcome == "raise":
        with pytest.raises(ToolLoopLimitError, match="100 tokens"):
            await run(client, "go")
    else:
        response = await run(client, "go")
        assert response.metadata["limit"] == {"limit": "tokens", "allowed": 100}
        assert (response.text == "what I have") is (outcome == "answer"), "the default is to stop"
        assert response.usage.total_tokens == (160 if outcome == "answer" else 120)
    assert len(counter.runs) == 2


async def test_the_last_answer_is_asked_for_without_tool_results(run: Any, counter: Counter) -> None:
    seen: list[int] = []

    @chat_advisor(order=600)
    async def watch(request: Any, call_next: Any) -> Any:
        seen.append(len(request.tool_results))
        return await call_next(request)

    client = ChatClient(
        Endless([ToolCall("tick")]), tools=[counter], advisors=[ToolCallingAdvisor(max_rounds=2), watch]
    )
    assert (await run(client, "go")).stop_reason == "limit"
    assert seen == [0, 1, 1, 0], "what did not run has no result that an advisor could answer from"


async def test_unknown_usage_is_no_limit(run: Any, counter: Counter) -> None:
    model = ScriptedModel([[ToolCall("tick")], "done"])
    loop = ToolCallingAdvisor(max_tokens=1, on_limit="raise")
    assert (await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")).text == "done"


@pytest.mark.parametrize(
    "limit", [{"max_rounds": 4}, {"max_calls": 4}, {"max_calls_per_tool": 4}, {"max_tokens": 60}], ids=str
)
async def test_limits_count_per_turn_when_an_outer_advisor_enters_again(
    run: Any, counter: Counter, limit: dict[str, Any]
) -> None:
    @chat_advisor(order=300)
    async def thrice(request: Any, call_next: Any) -> Any:
        for _ in range(2):
            await call_next(request)
        return await call_next(request)

    batch = [ToolCall("tick")]
    model = ScriptedModel([batch, batch, "one", batch, batch, "two", batch], usage=Usage(5, 5))
    loop = ToolCallingAdvisor(**limit, on_limit="stop")
    response = await run(ChatClient(model, tools=[counter], advisors=[loop, thrice]), "go")
    assert len(counter.runs) == 4 and response.stop_reason == "limit"
    assert response.usage.total_tokens == 70, "every call of the turn"


async def test_the_repeat_count_starts_again_with_each_run_of_the_loop(run: Any, counter: Counter) -> None:
    @chat_advisor(order=300)
    async def twice(request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    batch = [ToolCall("same")]
    model = ScriptedModel([batch, batch, batch, "one", batch, batch, batch, "two"])
    loop = ToolCallingAdvisor(on_limit="raise")
    assert (await run(ChatClient(model, tools=[counter], advisors=[loop, twice]), "go")).text == "two"


@pytest.mark.parametrize("text", ["", "Still calling."])
async def test_calls_in_the_last_answer_never_run(run: Any, counter: Counter, text: str) -> None:
    steps = [[ToolCall("tick")], [ToolCall("tick")], [text, ToolCall("tick")] if text else [ToolCall("tick")]]
    model = ScriptedModel(steps)
    loop = ToolCallingAdvisor(max_rounds=1)
    response = await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")
    assert len(counter.runs) == 1 and response.stop_reason == "limit" and response.tool_calls == ()
    assert response.text == (text or "The limit of 1 tool rounds in one turn is reached.")


@pytest.mark.parametrize("reason", ["final", "length", "filtered", "refused"])
async def test_the_final_text_is_never_empty_at_a_limit(run: Any, counter: Counter, reason: Any) -> None:
    model = ScriptedModel(
        [[ToolCall("tick")], [ToolCall("tick")], ChatResponse(AssistantMessage(), stop_reason=reason)]
    )
    loop = ToolCallingAdvisor(max_rounds=1)
    response = await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")
    assert response.stop_reason == "limit" and response.text


async def test_outcomes_by_limit(run: Any, counter: Counter) -> None:
    loop = ToolCallingAdvisor(max_rounds=2, max_calls=3, on_limit={"calls": "raise"})
    client = ChatClient(Endless([ToolCall("tick")]), tools=[counter], advisors=[loop])
    assert (await run(client, "go")).text == "what I have"
    client = ChatClient(Endless([ToolCall("tick")] * 4), tools=[counter], advisors=[loop])
    with pytest.raises(ToolLoopLimitError, match="3 tool calls"):
        await run(client, "go")


async def test_no_limits_at_all(run: Any, counter: Counter) -> None:
    loop = ToolCallingAdvisor(max_rounds=None, max_repeats=None)
    model = ScriptedModel([*[[ToolCall("same")] for _ in range(60)], "done"])
    assert (await run(ChatClient(model, tools=[counter], advisors=[loop]), "go")).text == "done"
    assert len(counter.runs) == 60
