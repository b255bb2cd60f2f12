"""Tool calls in the caller's hands: ``tool_loop=False`` and ``client.execute_tools``."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    ConfigurationError,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    TranscriptError,
    TurnAbortedError,
    UserMessage,
    tool,
    tool_advisor,
)
from advisorchain.advisors import ReturnDirectAdvisor, ToolCallingAdvisor
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel

RUNS: list[Any] = []


@pytest.fixture(autouse=True)
def no_runs() -> None:
    """Start from nothing."""
    RUNS.clear()


@tool
def add(a: int, b: int) -> int:
    """Add."""
    RUNS.append((a, b))
    return a + b


@tool
def delete(path: str) -> str:
    """Delete a file."""
    RUNS.append(path)
    return "deleted"


@tool(return_direct=True)
def show() -> dict[str, int]:
    """Show."""
    return {"a": 1}


TOOLS = [add, delete, show]
ADD = ToolCall("add", {"a": 1, "b": 2}, "c1")
DELETE = ToolCall("delete", {"path": "/"}, "c2")


async def opened(run: Any, *calls: ToolCall, **settings: Any) -> tuple[ChatClient, ScriptedModel, ChatResponse[Any]]:
    """A client, its model, and a response with open calls."""
    model = ScriptedModel([["Shall I?", *calls], "done"])
    client = ChatClient(model, tools=TOOLS, tool_loop=False, **settings)
    response = await run(client, "go")
    return client, model, response


@pytest.mark.parametrize("per_call", [True, False])
@pytest.mark.parametrize("explicit", [True, False])
async def test_without_the_loop_the_calls_are_handed_over(run: Any, per_call: bool, explicit: bool) -> None:
    model = ScriptedModel([["Shall I?", ADD, DELETE]])
    advisors = [ToolCallingAdvisor(), ReturnDirectAdvisor()] if explicit else []
    if per_call:
        response = await run(ChatClient(model, tools=TOOLS, advisors=advisors), "go", tool_loop=False)
    else:
        response = await run(ChatClient(model, tools=TOOLS, advisors=advisors, tool_loop=False), "go")
    assert response.text == "Shall I?" and [call.name for call in response.tool_calls] == ["add", "delete"]
    assert response.new_messages == (response.message,) and not RUNS


async def test_the_call_decides_over_the_client(run: Any) -> None:
    model = ScriptedModel([[ADD], "done"])
    response = await run(ChatClient(model, tools=TOOLS, tool_loop=False), "go", tool_loop=True)
    assert response.text == "done" and RUNS == [(1, 2)]


async def test_all_calls(run: Any) -> None:
    client, model, response = await opened(run, ADD, DELETE)
    ran = await client.execute_tools(response)
    assert [r.content for r in ran.results] == ["3", "deleted"] and ran.direct == ()
    assert [m.role for m in ran.messages] == ["user", "assistant", "tool", "tool"]
    check_pairing(ran.messages)
    answer = await run(client, ran.messages)
    assert answer.text == "done" and model.requests[1].messages == tuple(ran.messages)


async def test_the_history_keeps_the_turns_id(run: Any) -> None:
    client, model, response = await opened(run, ADD)
    ran = await client.execute_tools(response)
    await run(client, ran.messages)
    first, second = (request.context.turn.id for request in model.requests)
    assert first == second == ran.messages.turn_id


@pytest.mark.parametrize("chosen", [lambda: ["c1"], lambda: [ADD], lambda: (call for call in [ADD])])
async def test_some_calls(run: Any, chosen: Any) -> None:
    client, _, response = await opened(run, ADD, DELETE)
    ran = await client.execute_tools(response, calls=chosen())
    assert RUNS == [(1, 2)]
    assert [r.is_error for r in ran.results] == [False, True] and "Not executed" in ran.results[1].content
    assert [r.call_id for r in ran.results] == ["c1", "c2"]
    check_pairing(ran.messages)


async def test_no_call(run: Any) -> None:
    client, _, response = await opened(run, ADD, DELETE)
    ran = await client.execute_tools(response, calls=[])
    assert not RUNS and all(r.is_error for r in ran.results) and ran.direct == ()
    check_pairing(ran.messages)


async def test_an_edited_call(run: Any) -> None:
    client, _model, response = await opened(run, ADD, DELETE)
    edited = response.tool_calls[1].replace(arguments={"path": "/data/x"})
    ran = await client.execute_tools(response, calls=[edited, "c1"])
    assert sorted(map(str, RUNS)) == ["(1, 2)", "/data/x"]
    assert [r.call_id for r in ran.results] == ["c1", "c2"], "in call order"
    assistant = ran.messages[1]
    assert isinstance(assistant, AssistantMessage)
    assert assistant.tool_calls[1].arguments == {"path": "/data/x"}, "the model reads what was run"
    check_pairing(ran.messages)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("the user did it", "the user did it"),
        (ToolResult("a result"), "a result"),
        (ToolResult.error("denied by Ann"), "denied by Ann"),
        ({"a": [1]}, '{"a":[1]}'),
        (7, "7"),
    ],
)
async def test_results_of_the_caller(run: Any, value: Any, text: str) -> None:
    client, _, response = await opened(run, ADD, DELETE)
    ran = await client.execute_tools(response, results={"c2": value})
    assert RUNS == [(1, 2)]
    assert [r.content for r in ran.results] == ["3", text]
    assert ran.results[1].call_id == "c2" and ran.results[1].name == "delete"
    assert ran.results[1].is_error is (isinstance(value, ToolResult) and value.is_error)
    assert ran.messages[-1].text == text


async def test_a_gate_denies_one_of_two(run: Any) -> None:
    client, model, response = await opened(run, ADD, DELETE)
    denied = {call.id: ToolResult.error("The user said no.") for call in response.tool_calls if call.name == "delete"}
    ran = await client.execute_tools(response, results=denied)
    await run(client, ran.messages)
    assert [(m.text, m.is_error) for m in model.requests[1].messages if isinstance(m, ToolMessage)] == [
        ("3", False), ("The user said no.", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"calls": ["c9"]}, "'c9', which is no open call"),
        ({"calls": [ToolCall("add", {}, "c9")]}, "no open call"),
        ({"calls": [7]}, "7, which is no open call"),
        ({"results": {"c9": "x"}}, "'c9'"),
        ({"calls": ["c1"], "results": {"c1": "x"}}, "in calls= and in results="),
        ({"calls": "c1"}, "calls= takes a list"),
        ({"calls": ADD}, "calls= takes a list"),
        ({"results": ["x"]}, "results= maps call ids"),
    ],
    ids=str,
)
async def test_what_does_not_belong_to_the_response(run: Any, settings: Any, message: str) -> None:
    client, _, response = await opened(run, ADD)
    with pytest.raises(ConfigurationError, match=message):
        await client.execute_tools(response, **settings)
    assert not RUNS


@pytest.mark.parametrize("fails", ["results", "trim"])
async def test_the_end_runs_when_what_follows_the_tools_fails(run: Any, fails: str) -> None:
    ends: list[Any] = []

    @tool
    async def work(context: ToolContext) -> str:
        """Has something to close."""
        context.context.at_turn_end(ends.append)
        return "worked"

    def trim(result: ToolResult) -> str:
        raise ValueError("no")

    circular: list[Any] = []
    circular.append(circular)
    model = ScriptedModel([[ToolCall("work", {}, "c1"), ToolCall("work", {}, "c2")]])
    loop = ToolCallingAdvisor(trim=trim if fails == "trim" else None)
    client = ChatClient(model, tools=[work], advisors=[loop])
    response = await run(client, "go", tool_loop=False)
    with pytest.raises((ValueError, RecursionError)) as raised:
        await client.execute_tools(response, results={"c2": circular if fails == "results" else "2"})
    assert [end.error for end in ends] == [raised.value]


async def test_what_is_no_response(run: Any) -> None:
    client, _, response = await opened(run, ADD)
    with pytest.raises(ConfigurationError, match="takes a response"):
        await client.execute_tools(response.message)  # type: ignore[arg-type]


async def test_a_response_without_open_calls(run: Any) -> None:
    client = ChatClient(ScriptedModel(["hi"]), tool_loop=False)
    with pytest.raises(ConfigurationError, match="no open tool calls"):
        await client.execute_tools(await run(client, "go"))
    with pytest.raises(ConfigurationError, match="never reached a model"):
        await client.execute_tools(ChatResponse(AssistantMessage(tool_calls=(ADD,))))


async def test_bad_calls_and_failures_are_results(run: Any) -> None:
    calls = [ToolCall("ghost"), ToolCall("add", "{"), ToolCall("add", {"a": 1}), ADD]
    client, _, response = await opened(run, *calls)
    ran = await client.execute_tools(response)
    assert [r.is_error for r in ran.results] == [True, True, True, False]
    check_pairing(ran.messages)


async def test_two_calls_of_one_id(run: Any) -> None:
    calls = [ToolCall("add", {"a": 1, "b": 1}, "same"), ToolCall("add", {"a": 2, "b": 2}, "same")]
    client, _model, response = await opened(run, *calls)
    ran = await client.execute_tools(response)
    assert [r.content for r in ran.results] == ["2", "4"]
    assert len({r.call_id for r in ran.results}) == 2
    check_pairing(ran.messages)
    assert (await run(client, ran.messages)).text == "done"
    assert sorted(RUNS) == [(1, 1), (2, 2)]


async def test_ids_used_again_in_the_next_round(run: Any) -> None:
    model = ScriptedModel([[ADD], [ADD], "done"])
    client = ChatClient(model, tools=TOOLS, tool_loop=False)
    response = await run(client, "go")
    while response.tool_calls:
        response = await run(client, (await client.execute_tools(response)).messages)
    assert response.text == "done"
    ids = [call.id for m in model.requests[2].messages for call in getattr(m, "tool_calls", ())]
    assert len(set(ids)) == 2


async def test_the_tool_advisors_wrap_every_call(run: Any) -> None:
    seen: list[str] = []

    @tool_advisor(order=100)
    async def audit(invocation: Any, call_next: Any) -> Any:
        seen.append(invocation.call.name)
        if invocation.call.name == "delete":
            return ToolResult.error("not allowed")
        return await call_next(invocation)

    client, _, response = await opened(run, ADD, DELETE, ToolCall("ghost"), advisors=[audit])
    ran = await client.execute_tools(response)
    assert sorted(seen) == ["add", "delete", "ghost"] and RUNS == [(1, 2)]
    assert [r.is_error for r in ran.results] == [False, True, True]


async def test_what_ends_the_turn_is_raised(run: Any) -> None:
    @tool_advisor(order=100)
    async def guard(invocation: Any, call_next: Any) -> Any:
        raise TurnAbortedError("no")

    client, _, response = await opened(run, ADD, DELETE, advisors=[guard])
    with pytest.raises(TurnAbortedError, match="no"):
        await client.execute_tools(response)


@pytest.mark.parametrize("aborts", [False, True])
async def test_what_a_call_does_to_its_turn(run: Any, aborts: bool) -> None:
    """As in the loop: what it steers is in the history, and what it registers for the end of the turn runs."""
    ends: list[Any] = []

    @tool
    async def work(context: ToolContext) -> str:
        """Steers, and has something to close."""
        context.request.steer(UserMessage(content="be brief"))
        context.context.at_turn_end(ends.append)
        if aborts:
            raise TurnAbortedError("no")
        return "worked"

    model = ScriptedModel([[ToolCall("work")], "done"])
    client = ChatClient(model, tools=[work], tool_loop=False)
    response = await run(client, "go")
    if aborts:
        with pytest.raises(TurnAbortedError):
            await client.execute_tools(response)
        assert [type(end.error) for end in ends] == [TurnAbortedError]
        return
    ran = await client.execute_tools(response)
    assert [m.text for m in ran.messages] == ["go", "", "worked", "be brief"]
    assert [(end.response.text, end.messages) for end in ends] == [("", tuple(ran.messages))]
    await run(client, ran.messages)
    assert model.requests[1].messages == tuple(ran.messages)


async def test_direct(run: Any) -> None:
    client, _, response = await opened(run, ToolCall("show"), ToolCall("show"))
    ran = await client.execute_tools(response)
    assert [json.loads(r.content) for r in ran.direct] == [{"a": 1}, {"a": 1}] and ran.direct[0].artifact == {"a": 1}
    client, _, response = await opened(run, ToolCall("show"), ADD)
    assert (await client.execute_tools(response)).direct == ()
    client, _, response = await opened(run, ToolCall("show"), return_direct={"show": False})
    assert (await client.execute_tools(response)).direct == ()
    client, _, response = await opened(run, ADD, return_direct={"add": True})
    assert (await client.execute_tools(response)).direct[0].content == "3"
    client, _, response = await opened(run, ToolCall("show", {"x": 1}))
    assert (await client.execute_tools(response)).direct == (), "an error is never direct"


async def test_calls_of_a_cut_answer_do_not_run(run: Any) -> None:
    cut = ChatResponse(AssistantMessage(tool_calls=(ADD,)), stop_reason="length")
    client = ChatClient(ScriptedModel([cut]), tools=TOOLS, tool_loop=False)
    response = await run(client, "go")
    ran = await client.execute_tools(response)
    assert not RUNS and ran.results[0].is_error and "length" in ran.results[0].content


async def test_a_whole_loop_by_hand(run: Any) -> None:
    steps = [["First.", ADD, ToolCall("ghost")], [ToolCall("add", {"a": 5, "b": 5})], "The answer."]
    model = ScriptedModel(steps)
    client = ChatClient(model, tools=TOOLS, tool_loop=False, system="Be kind.")
    messages: Any = [UserMessage(content="go")]
    rounds = 0
    while True:
        response = await run(client, messages)
        if not response.tool_calls:
            break
        rounds += 1
        messages = (await client.execute_tools(response)).messages
    assert rounds == 2 and response.text == "The answer."
    by_loop = ScriptedModel(steps)
    await run(ChatClient(by_loop, tools=TOOLS, system="Be kind."), "go")
    texts = [[(m.role, m.text) for m in request.messages] for request in model.requests]
    assert texts == [[(m.role, m.text) for m in request.messages] for request in by_loop.requests]


async def test_stopping_between_rounds_leaves_a_history_that_must_be_completed(run: Any) -> None:
    client, _, response = await opened(run, ADD)
    history = [UserMessage(content="go"), *response.new_messages]
    with pytest.raises(TranscriptError, match="execute_tools"):
        await run(client, [*history, UserMessage(content="never mind")])
    ran = await client.execute_tools(response, calls=[])
    assert (await run(client, [*ran.messages, UserMessage(content="never mind")])).text == "done"


async def test_long_results_are_cut_for_the_model(run: Any) -> None:
    long = "x" * 200_000
    client, _, response = await opened(run, ADD)
    ran = await client.execute_tools(response, results={"c1": long})
    assert ran.results[0].content == long and "[cut: 200000 characters" in ran.messages[-1].text


async def test_calls_run_at_the_same_time(run: Any) -> None:
    together = anyio.Event()

    @tool
    async def meet() -> str:
        """Waits for the others."""
        RUNS.append("in")
        if len(RUNS) == 3:
            together.set()
        with anyio.fail_after(10):
            await together.wait()
        return "met"

    client = ChatClient(ScriptedModel([[ToolCall("meet") for _ in range(3)]]), tools=[meet], tool_loop=False)
    ran = await client.execute_tools(await run(client, "go"))
    assert [r.content for r in ran.results] == ["met"] * 3
