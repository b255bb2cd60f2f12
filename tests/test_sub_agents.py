"""Clients inside clients: as a tool and as a model."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ContextKey,
    Event,
    Finished,
    ModelError,
    Restarted,
    RoundStarted,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolRegistry,
    ToolStarted,
    TurnAbortedError,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel

KEY = ContextKey[str]("test.key")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(return_direct=True)
async def weather(city: str) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "sunny": True}


@tool(return_direct=True)
async def flights(city: str) -> dict[str, Any]:
    """Flights."""
    return {"to": city, "price": 120}


def ask(agent: str, prompt: str = "do it") -> ToolCall:
    return ToolCall(agent, {"prompt": prompt})


def texts(events: list[Event], *path: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for event in events:
        if isinstance(event, TextDelta) and event.path == path:
            found[event.round] = found.get(event.round, "") + event.text
    return found


# As a tool -----------------------------------------------------------------------------------------------------------


async def test_the_answer_of_a_sub_agent_is_a_tool_result(run: Any) -> None:
    sub_model = ScriptedModel([["Let me add. ", ToolCall("add", {"a": 1, "b": 2})], "It is 3."])
    sub = ChatClient(sub_model, tools=[add], system="You can add.")
    model = ScriptedModel([["I ask. ", ask("adder", "1 + 2?")], "The adder says 3."])
    client = ChatClient(model, tools=[sub.as_tool("adder", "Adds.")], system="You delegate.")
    response = await run(client, "what is 1 + 2?", conversation_id="c1")

    assert response.text == "The adder says 3."
    assert [message.text for message in response.new_messages] == ["I ask. ", "It is 3.", "The adder says 3."]
    assert [message.text for message in sub_model.requests[0].messages] == ["You can add.", "1 + 2?"]
    assert sub_model.requests[0].conversation_id is None
    assert sub_model.requests[0].tools.names == ["add"] and model.requests[0].tools.names == ["adder"]
    if run.mode == "stream":
        assert texts(run.events) == {1: "I ask. ", 2: "The adder says 3."}
        assert texts(run.events, "adder") == {1: "Let me add. ", 2: "It is 3."}
        tools = [(type(e).__name__, e.path) for e in run.events if isinstance(e, ToolStarted | ToolFinished)]
        assert tools == [
            ("ToolStarted", ()), ("ToolStarted", ("adder",)), ("ToolFinished", ("adder",)), ("ToolFinished", ()),
        ]  # fmt: skip
        rounds = [(e.path, e.round) for e in run.events if isinstance(e, RoundStarted)]
        assert rounds == [((), 1), (("adder",), 1), (("adder",), 2), ((), 2)]
        assert not any(isinstance(event, Restarted) for event in run.events)


async def test_the_artifact_is_the_sub_agents_response(run: Any) -> None:
    seen: list[Any] = []

    class Loop(ToolCallingAdvisor):
        async def before_round(self, request: ChatRequest, state: Any) -> ChatRequest:
            seen.extend(result.artifact for result in request.tool_results)
            return request

    sub = ChatClient(ScriptedModel(["sub answer"]))
    client = ChatClient(ScriptedModel([[ask("agent")], "ok"]), tools=[sub.as_tool("agent", "A.")], advisors=[Loop()])
    await run(client, "?")
    assert [type(artifact) for artifact in seen] == [ChatResponse] and seen[0].text == "sub answer"


async def test_agents_within_agents_have_longer_paths(run: Any) -> None:
    inner = ChatClient(ScriptedModel(["deep"]))
    middle = ChatClient(ScriptedModel([["m1 ", ask("inner")], "m2"]), tools=[inner.as_tool("inner", "I.")])
    outer = ChatClient(ScriptedModel([["o1 ", ask("middle")], "o2"]), tools=[middle.as_tool("middle", "M.")])
    assert (await run(outer, "?")).text == "o2"
    if run.mode == "stream":
        assert texts(run.events, "middle", "inner") == {1: "deep"}
        assert texts(run.events, "middle") == {1: "m1 ", 2: "m2"}
        assert texts(run.events) == {1: "o1 ", 2: "o2"}
        assert [event.path for event in run.events if isinstance(event, Finished)] == [()]


async def test_two_agents_at_the_same_time_keep_their_events_apart(run: Any) -> None:
    async def slow(request: ChatRequest) -> ChatResponse[Any]:
        text = request.user_text
        for letter in text:
            await request.emit(TextDelta(letter))
            await anyio.sleep(0.001)
        return ChatResponse(AssistantMessage(content=text))

    tools = [ChatClient(slow).as_tool(name, "An agent.") for name in ("a", "b")]
    model = ScriptedModel([[ask("a", "aaaaaaaa"), ask("b", "bbbbbbbb")], "done"])
    response = await run(ChatClient(model, tools=tools), "?")
    assert [message.text for message in response.new_messages[1:3]] == ["aaaaaaaa", "bbbbbbbb"]
    if run.mode == "stream":
        assert texts(run.events, "a") == {1: "aaaaaaaa"} and texts(run.events, "b") == {1: "bbbbbbbb"}


async def test_two_direct_agents_hand_raw_results_to_one_that_sums_up(run: Any) -> None:
    """Each sub-agent asks its model once, the summarising client twice; only that one speaks for itself."""
    weather_model = ScriptedModel([[ToolCall("weather", {"city": "Rome"})]], name="weather")
    flight_model = ScriptedModel([[ToolCall("flights", {"city": "Rome"})]], name="flights")
    agents = [
        ChatClient(weather_model, tools=[weather]).as_tool("weather_agent", "Knows the weather."),
        ChatClient(flight_model, tools=[flights]).as_tool("flight_agent", "Knows flights."),
    ]
    model = ScriptedModel([[ask("weather_agent"), ask("flight_agent")], "Sunny, and 120 to fly."])
    response = await run(ChatClient(model, tools=agents), "A trip to Rome?")
    assert (len(weather_model.requests), len(flight_model.requests), len(model.requests)) == (1, 1, 2)
    assert [message.text for message in model.requests[1].messages[-2:]] == [
        '{"city":"Rome","sunny":true}', '{"to":"Rome","price":120}',
    ]  # fmt: skip
    assert (response.text, response.stop_reason) == ("Sunny, and 120 to fly.", "final")
    if run.mode == "stream":
        assert texts(run.events) == {2: "Sunny, and 120 to fly."}


async def test_a_direct_sub_agent(run: Any) -> None:
    sub = ChatClient(ScriptedModel([[ToolCall("weather", {"city": "Rome"})]]), tools=[weather])
    agent = sub.as_tool("agent", "Knows the weather.", return_direct=True)
    response = await run(ChatClient(ScriptedModel([[ask("agent")]]), tools=[agent]), "?")
    assert response.text == '{"city":"Rome","sunny":true}' and response.stop_reason == "return_direct"


async def test_an_agent_may_call_itself(run: Any) -> None:
    async def countdown(request: ChatRequest) -> ChatResponse[Any]:
        number = int(request.user_text)
        if number == 0 or request.messages[-1].role == "tool":
            return ChatResponse(AssistantMessage(content=f"{number}"))
        return ChatResponse(AssistantMessage(tool_calls=(ask("again", str(number - 1)),)))

    registry = ToolRegistry()
    client = ChatClient(countdown, tools=[registry])
    registry.register(client.as_tool("again", "Counts down."))
    assert (await run(client, "3")).text == "3"
    if run.mode == "stream":
        assert {event.path for event in run.events} == {(), ("again",), ("again",) * 2, ("again",) * 3}


async def test_usage_adds_to_the_parent(run: Any) -> None:
    seen: list[Usage | None] = []

    @chat_advisor(order=300)
    async def look(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        seen.append(response.usage)
        return response

    sub_model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3"], usage=Usage(10, 1, reasoning_tokens=1))
    sub = ChatClient(sub_model, tools=[add], advisors=[look])
    model = ScriptedModel([[ask("agent")], "ok"], usage=Usage(100, 5))
    response = await run(ChatClient(model, tools=[sub.as_tool("agent", "A.")]), "?")
    assert response.usage == Usage(220, 12, reasoning_tokens=2)
    assert seen == [Usage(20, 2, reasoning_tokens=2)], "the sub-agent's own turn"


async def test_limits_are_the_sub_agents_own(run: Any) -> None:
    steps: list[Any] = [[ToolCall("add", {"a": n, "b": 2})] for n in range(4)]
    sub = ChatClient(ScriptedModel([*steps, "done"]), tools=[add], advisors=[ToolCallingAdvisor(max_rounds=4)])
    parent_loop = ToolCallingAdvisor(max_rounds=1, max_calls=1, on_limit="raise")
    client = ChatClient(
        ScriptedModel([[ask("agent")], "ok"]), tools=[sub.as_tool("agent", "A.")], advisors=[parent_loop]
    )
    response = await run(client, "?")
    assert (response.text, response.new_messages[1].text) == ("ok", "done")


@pytest.mark.parametrize("error", [ModelError("down"), ValueError("secret detail")])
async def test_an_error_in_a_sub_agent_is_a_tool_error(run: Any, error: Exception) -> None:
    sub = ChatClient(ScriptedModel([error]))
    client = ChatClient(ScriptedModel([[ask("agent")], "sorry"]), tools=[sub.as_tool("agent", "A.")])
    response = await run(client, "?")
    message = response.new_messages[1]
    assert response.text == "sorry" and message.is_error
    assert type(error).__name__ in message.text and "secret" not in message.text


async def test_a_sub_agent_may_end_the_whole_turn(run: Any) -> None:
    error = TurnAbortedError("stop everything")

    @chat_advisor(order=300)
    async def guard(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        raise error

    sub = ChatClient(ScriptedModel([]), advisors=[guard])
    client = ChatClient(ScriptedModel([[ask("agent"), ask("agent")]]), tools=[sub.as_tool("agent", "A.")])
    with pytest.raises(TurnAbortedError) as caught:
        await run(client, "?")
    assert caught.value is error


async def test_a_sub_agent_that_takes_too_long(run: Any) -> None:
    ended: list[Any] = []

    async def hangs(request: ChatRequest) -> ChatResponse[Any]:
        async def note(end: Any) -> None:
            ended.append(end.response)

        request.context.at_turn_end(note)
        await anyio.sleep_forever()
        raise AssertionError

    agent = ChatClient(hangs).as_tool("agent", "A.", timeout=0.05)
    response = await run(ChatClient(ScriptedModel([[ask("agent")], "sorry"]), tools=[agent]), "?")
    assert response.text == "sorry" and response.new_messages[1].is_error
    assert ended == [None], "its turn ended too"


async def test_the_context_is_a_child(run: Any) -> None:
    seen: list[Any] = []

    @chat_advisor(order=300)
    async def inner(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        seen.append(request.context.get(KEY))
        request.context[KEY] = "inner"
        return await call_next(request)

    @chat_advisor(order=300)
    async def outer(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        seen.append(request.context.get(KEY))
        return response

    sub = ChatClient(ScriptedModel(["a", "b"]), advisors=[inner])
    steps = [[ask("agent"), ask("agent")], "ok"]
    client = ChatClient(ScriptedModel(steps), tools=[sub.as_tool("agent", "A.")], advisors=[outer])
    await run(client, "?", context={KEY: "caller"})
    assert seen == ["caller", "caller", "caller"]


async def test_the_parents_overrides_of_return_direct_stay_outside(run: Any) -> None:
    sub_model = ScriptedModel([[ToolCall("weather", {"city": "Rome"})]])
    sub = ChatClient(sub_model, tools=[weather])
    model = ScriptedModel([[ask("agent")], "ok"])
    client = ChatClient(model, tools=[sub.as_tool("agent", "A.")], return_direct={"weather": False})
    response = await run(client, "?", return_direct={"weather": False, "agent": False})
    assert len(sub_model.requests) == 1 and response.text == "ok"

    sub_model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "summed up"])
    sub = ChatClient(sub_model, tools=[add])
    client = ChatClient(ScriptedModel([[ask("agent")], "ok"]), tools=[sub.as_tool("agent", "A.")])
    response = await run(client, "?", return_direct={"add": True})
    assert response.new_messages[1].text == "summed up"


async def test_why_not_direct_stays_inside(run: Any) -> None:
    steps = [[ToolCall("weather", {"city": "Rome"}), ToolCall("add", {"a": 1, "b": 2})], "both"]
    sub = ChatClient(ScriptedModel(steps), tools=[weather, add])
    response = await run(ChatClient(ScriptedModel([[ask("agent")], "ok"]), tools=[sub.as_tool("agent", "A.")]), "?")
    assert "return_direct" not in response.metadata


def test_a_sub_agent_needs_a_description() -> None:
    with pytest.raises(ConfigurationError, match="'agent'"):
        ChatClient(ScriptedModel([])).as_tool("agent", "")


# As a model ----------------------------------------------------------------------------------------------------------


async def test_a_client_as_a_model(run: Any) -> None:
    inner_model = ScriptedModel(
        [["Inner thinks. ", ToolCall("add", {"a": 1, "b": 2})], "Inner says 3."], usage=Usage(10, 1)
    )
    inner = ChatClient(inner_model, tools=[add], system="Inner rules.", name="inner")
    outer = ChatClient(inner.as_model(), system="Outer rules.")
    response = await run(outer, "1 + 2?")
    assert response.text == "Inner says 3."
    assert [message.text for message in response.new_messages] == ["Inner says 3."]
    assert response.usage == Usage(20, 2), "each call is counted once"
    messages = inner_model.requests[0].messages
    assert [message.text for message in messages] == ["Inner rules.", "Outer rules.", "1 + 2?"]
    assert [type(message) for message in messages] == [SystemMessage, SystemMessage, UserMessage]
    if run.mode == "stream":
        assert texts(run.events) == {1: "Inner says 3."}
        tools = [event.path for event in run.events if isinstance(event, ToolStarted | ToolFinished)]
        assert tools == [("inner",), ("inner",)]
        assert not any(isinstance(event, Restarted) and event.path == () for event in run.events)


async def test_a_client_as_a_model_answers_in_every_round(run: Any) -> None:
    """A loop around a loop: the inner client answers with text only, so the outer one sees final answers."""
    inner_model = ScriptedModel(["first", "second"], usage=Usage(10, 1))
    inner = ChatClient(inner_model)

    @chat_advisor(order=300)
    async def again(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    response = await run(ChatClient(inner.as_model("thinker"), advisors=[again]), "?")
    assert response.text == "second" and response.usage == Usage(20, 2)


async def test_the_models_name_is_shown() -> None:
    inner = ChatClient(ScriptedModel([]), name="inner")
    assert " inner" in ChatClient(inner.as_model()).explain()
    assert " thinker" in ChatClient(inner.as_model("thinker")).explain()


async def test_an_error_of_the_inner_client_arrives_as_itself(run: Any) -> None:
    error = ModelError("down")
    outer = ChatClient(ChatClient(ScriptedModel([error])).as_model())
    with pytest.raises(ModelError) as caught:
        await run(outer, "?")
    assert caught.value is error


async def test_a_tool_may_use_another_client_on_its_own(run: Any) -> None:
    """Without ``as_tool``: a turn of its own, nothing is streamed and nothing is added."""
    other = ChatClient(ScriptedModel(["from another client"], usage=Usage(7, 7)))

    @tool
    async def consult(context: ToolContext) -> str:
        """Consult."""
        return (await other.call("?")).text

    client = ChatClient(ScriptedModel([[ToolCall("consult", {})], "ok"], usage=Usage(1, 1)), tools=[consult])
    response = await run(client, "?")
    assert (response.new_messages[1].text, response.usage) == ("from another client", Usage(2, 2))
    assert {event.path for event in run.events} <= {()}
