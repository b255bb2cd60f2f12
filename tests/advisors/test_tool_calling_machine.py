"""Random scripts of rounds: whatever a model does, every request is paired, and call equals stream.

Played on both event loops, with advisors inside and outside the loop, and by hand with ``execute_tools``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    Message,
    ModelError,
    Restarted,
    RoundFinished,
    RoundStarted,
    TextDelta,
    ToolCall,
    ToolError,
    ToolFinished,
    ToolLoopLimitError,
    ToolResult,
    ToolStarted,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import ReturnDirectAdvisor, ToolCallingAdvisor
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel


@tool
async def good(n: int = 0) -> int:
    """Works."""
    await anyio.lowlevel.checkpoint()
    return n


@tool(parallel=False)
async def bad(n: int = 0) -> int:
    """Fails in several ways."""
    if n % 4 == 0:
        raise ToolError("told")
    if n % 4 == 1:
        raise asyncio.CancelledError
    if n % 4 == 2:
        raise SystemExit
    raise ExceptionGroup("g", [KeyError("x")])


@tool(return_direct=True)
async def direct(n: int = 0) -> str:
    """Returns directly."""
    return f"direct {n}"


CALLS = st.builds(
    lambda name, arguments, identifier: (name, arguments, identifier),
    st.sampled_from(["good", "good", "bad", "direct", "ghost", ""]),
    st.sampled_from([{"n": 1}, {"n": 2}, {"n": 3}, {}, None, "", "{", "[]", '{"n": "x"}', '{"m": 1}', '{"n": 4}']),
    st.sampled_from([None, "", "a", "b", "call_0", "x" * 100]),
)
STEPS = st.one_of(
    st.text(alphabet="ab \n", max_size=12),
    st.tuples(st.text(alphabet="ab", max_size=6), st.lists(CALLS, max_size=5), st.sampled_from(["final", "length"])),
    st.tuples(st.text(alphabet="ab", max_size=6), st.lists(CALLS, min_size=1, max_size=5), st.just("final")),
    st.just("error"),
)
SETTINGS = st.fixed_dictionaries(
    {
        "max_rounds": st.sampled_from([1, 2, 3, None]),
        "max_calls": st.sampled_from([None, 1, 4]),
        "max_repeats": st.sampled_from([1, 2, None]),
        "on_limit": st.sampled_from(["answer", "stop", "raise", None]),
        "concurrency": st.sampled_from([1, 2, 8]),
    }
)


@chat_advisor(order=300)
async def twice(request: Any, call_next: Any) -> Any:
    """Runs the loop again, with feedback."""
    first = await call_next(request)
    again = (*request.messages, *first.new_messages, UserMessage(content="again"))
    return await call_next(request.replace(messages=again))


@chat_advisor(order=850)
async def retry(request: Any, call_next: Any) -> Any:
    """Repeats a failed model call."""
    try:
        return await call_next(request)
    except ModelError:
        return await call_next(request)


@chat_advisor(order=610)
async def steer(request: Any, call_next: Any) -> Any:
    """Adds a message for good, in round 2."""
    return await call_next(request.steer(UserMessage(content="steered")) if request.round == 2 else request)


@chat_advisor(order=590)
async def narrow(request: Any, call_next: Any) -> Any:
    """Hides a tool, and adds a message for one round."""
    tools = [found for found in request.tools if found.name != "bad"]
    messages = [*request.messages, UserMessage(content="for this round")]
    return await call_next(request.replace(tools=tools, messages=messages))


@chat_advisor(order=700)
async def inventive(request: Any, call_next: Any) -> Any:
    """Makes up a call, in round 3."""
    if request.round != 3:
        return await call_next(request)
    calls = (ToolCall("good", {"n": 7}, "a"), ToolCall("ghost", None, "a"))
    return ChatResponse(AssistantMessage(content="made up", tool_calls=calls))


@tool_advisor(order=800)
async def repair(invocation: Any, call_next: Any) -> Any:
    """Repairs one kind of failure, and repeats another."""
    try:
        return await call_next(invocation)
    except ToolError:
        return ToolResult("repaired", failure={"kind": "degraded"})
    except ExceptionGroup:
        return await call_next(invocation.replace(call=invocation.call.replace(arguments={"n": 0})))


ADVISORS = [twice, retry, steer, narrow, inventive, repair]
BACKENDS = st.sampled_from(["asyncio", "trio"])


def step_of(drawn: Any) -> Any:
    """A step of a script; ids are made when it is played, so that both modes get the same."""
    if drawn == "error":
        return ModelError("down")
    if isinstance(drawn, str):
        return drawn
    text, calls, reason = drawn
    made = tuple(ToolCall(name, arguments, identifier) for name, arguments, identifier in calls)
    return ChatResponse(AssistantMessage(content=text, tool_calls=made), stop_reason=reason)


def shape(messages: Any) -> list[Any]:
    """Messages without what differs from turn to turn: ids."""
    return [
        (m.role, m.text, [(c.name, c.arguments) for c in getattr(m, "tool_calls", ())], getattr(m, "is_error", None))
        for m in messages
    ]


def check(messages: list[Message] | tuple[Message, ...]) -> None:
    """The pairing invariant, and ids that are used once."""
    check_pairing(messages)
    ids = Counter(c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls)
    assert all(count == 1 for count in ids.values())


async def play(
    script: list[Any], loop: dict[str, Any], policy: Any, more: list[Any], streamed: bool
) -> tuple[Any, list[Any], list[Any]]:
    """The outcome, the requests and the events of one turn."""
    model = ScriptedModel([*[step_of(step) for step in script], *["the end"] * 4], chunk_size=2)
    advisors = [ToolCallingAdvisor(**loop), ReturnDirectAdvisor(policy=policy), *more]
    client = ChatClient(model, tools=[good, bad, direct], advisors=advisors)
    outcome: Any
    events: list[Any] = []
    try:
        if streamed:
            async with client.stream("go") as stream:
                async for event in stream:
                    events.append(event)
                outcome = await stream.response()
        else:
            outcome = await client.call("go")
    except (ModelError, ToolLoopLimitError) as error:
        outcome = error
    return outcome, model.requests, events


def text_of(events: list[Any]) -> dict[int, str]:
    """The text of every round."""
    rounds = {event.round: "" for event in events if type(event) is RoundStarted}
    for event in events:
        if type(event) is TextDelta:
            rounds[event.round] += event.text
    return rounds


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(STEPS, max_size=6),
    loop=SETTINGS,
    policy=st.sampled_from(["all", "any", "first"]),
    more=st.lists(st.sampled_from(ADVISORS), unique=True),
    backends=st.tuples(BACKENDS, BACKENDS),
)
def test_any_script(
    script: list[Any], loop: dict[str, Any], policy: Any, more: list[Any], backends: tuple[str, str]
) -> None:
    called, requests, _ = anyio.run(partial(play, script, loop, policy, more, streamed=False), backend=backends[0])
    streamed, requests_streamed, events = anyio.run(
        partial(play, script, loop, policy, more, streamed=True), backend=backends[1]
    )

    for request in (*requests, *requests_streamed):
        check(request.messages)
    assert [shape(r.messages) for r in requests] == [shape(r.messages) for r in requests_streamed]

    started = Counter(event.call.id for event in events if type(event) is ToolStarted)
    finished = Counter(event.result.call_id for event in events if type(event) is ToolFinished)
    assert started == finished and all(count == 1 for count in started.values())

    if isinstance(called, Exception):
        assert type(streamed) is type(called) and str(streamed) == str(called)
        return
    for response in (called, streamed):
        check([UserMessage(content="go"), *response.new_messages])
        assert response.new_messages[-1] is response.message and not response.tool_calls
    assert shape(called.new_messages) == shape(streamed.new_messages)
    assert (called.text, called.stop_reason) == (streamed.text, streamed.stop_reason)
    assert called.metadata.keys() == streamed.metadata.keys()
    assert [r.content for r in called.direct_results] == [r.content for r in streamed.direct_results]
    if called.stop_reason == "limit":
        assert called.text
    last = [event for event in events if type(event) in (RoundStarted, Restarted)][-1]
    after = events[events.index(last) :]
    assert "".join(event.text for event in after if type(event) is TextDelta) == called.text
    if not {twice, retry} & set(more):
        said = [event for event in events if type(event) is RoundFinished]
        assert {event.round: event.text for event in said} == text_of(events), "each round's text is its message's"


async def play_by_hand(script: list[Any]) -> None:
    """Run the loop by hand, with all calls, or the first of them, or none."""
    model = ScriptedModel([*[step_of(step) for step in script], "the end"])
    client = ChatClient(model, tools=[good, bad, direct], tool_loop=False)
    messages: Any = (UserMessage(content="go"),)
    for played in range(len(script) + 1):
        response = await client.call(messages)
        if not response.tool_calls:
            check([*messages, *response.new_messages])
            return
        chosen = [None, [response.tool_calls[0]], []][played % 3]
        ran = await client.execute_tools(response, calls=chosen)
        check(ran.messages)
        assert len(ran.results) == len(response.tool_calls)
        assert [r.call_id for r in ran.results] == [call.id for call in response.tool_calls]
        messages = ran.messages
    for request in model.requests:
        check(request.messages)


@settings(max_examples=150, deadline=None)
@given(script=st.lists(STEPS.filter(lambda step: step != "error"), max_size=5), backend=BACKENDS)
def test_any_script_by_hand(script: list[Any], backend: str) -> None:
    anyio.run(play_by_hand, script, backend=backend)
