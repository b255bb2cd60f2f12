"""The tool loop: rounds, transcript, steering, usage, third-party loops."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatResponse,
    ConfigurationError,
    ModelError,
    RoundFinished,
    RoundStarted,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolInvocation,
    ToolMessage,
    TranscriptError,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def call(a: int = 1, b: int = 2) -> ToolCall:
    """A call of add."""
    return ToolCall("add", {"a": a, "b": b})


def text_by_round(run: Any) -> dict[int, str]:
    """The streamed text of every round."""
    rounds: dict[int, str] = {event.round: "" for event in run.events if type(event) is RoundStarted}
    for event in run.events:
        if type(event) is TextDelta:
            rounds[event.round] += event.text
    return rounds


async def test_no_tool_one_tool_many_rounds(run: Any) -> None:
    for rounds in (0, 1, 5):
        steps = [[f"Round {n}.", call(n, n)] for n in range(1, rounds + 1)]
        model = ScriptedModel([*steps, "The answer."])
        response = await run(ChatClient(model, tools=[add]), "go")
        model.assert_finished()
        assert response.text == "The answer." and response.stop_reason == "final" and response.tool_calls == ()
        assert [m.role for m in response.new_messages] == [*["assistant", "tool"] * rounds, "assistant"]
        assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == [
            str(2 * n) for n in range(1, rounds + 1)
        ]
        assert response.request is not None and response.request.messages == model.requests[-1].messages
        assert not response.request.streaming, "nobody listens to it any more"
        for index, request in enumerate(model.requests):
            assert len(request.messages) == 1 + 2 * index and request.round == index + 1
        if run.mode == "stream":
            expected = {n: f"Round {n}." for n in range(1, rounds + 1)} | {rounds + 1: "The answer."}
            assert text_by_round(run) == expected
            finished = [event for event in run.events if type(event) is RoundFinished]
            assert [(e.round, e.text, e.calls) for e in finished] == [
                (n, text, 0 if n == rounds + 1 else 1) for n, text in expected.items()
            ]


async def test_tool_results_are_stamped_and_of_this_round_only(run: Any) -> None:
    seen: list[Any] = []

    @chat_advisor(order=600)
    async def watch(request: Any, call_next: Any) -> Any:
        seen.append(request.tool_results)
        return await call_next(request)

    model = ScriptedModel([[call(1, 1), ToolCall("ghost")], [call(2, 2)], "done"])
    await run(ChatClient(model, tools=[add.replace(return_direct=True)], advisors=[watch]), "go")
    assert seen[0] == () and len(seen) == 3 and len(seen[2]) == 1
    first, ghost = seen[1]
    assert (first.name, first.content, first.artifact, first.return_direct, first.is_error) == (
        "add",
        "2",
        2,
        True,
        False,
    )
    assert first.call_id and (first.source, first.trusted) == ("local", True)
    assert (ghost.name, ghost.is_error, ghost.return_direct) == ("ghost", True, False)


async def test_inner_changes_to_messages_last_one_round(run: Any) -> None:
    @chat_advisor(order=620)
    async def augment(request: Any, call_next: Any) -> Any:
        return await call_next(request.replace(messages=[*request.messages, UserMessage(content=f"r{request.round}")]))

    model = ScriptedModel([[call()], [call()], "done"])
    response = await run(ChatClient(model, tools=[add], advisors=[augment]), "go")
    assert [request.messages[-1].text for request in model.requests] == ["r1", "r2", "r3"]
    assert [len(request.messages) for request in model.requests] == [2, 4, 6]
    assert all(m.role != "user" for m in response.new_messages)


async def test_steering_lasts(run: Any) -> None:
    @chat_advisor(order=620)
    async def steer(request: Any, call_next: Any) -> Any:
        if request.round == 2:
            request = request.steer(UserMessage(content="be brief"))
        return await call_next(request)

    model = ScriptedModel([[call()], [call()], "done"])
    response = await run(ChatClient(model, tools=[add], advisors=[steer]), "go")
    assert [[m.text for m in request.messages if m.role == "user"] for request in model.requests] == [
        ["go"], ["go", "be brief"], ["go", "be brief"],
    ]  # fmt: skip
    assert [m.role for m in response.new_messages] == ["assistant", "tool", "user", "assistant", "tool", "assistant"]


async def test_steering_from_a_tool(run: Any) -> None:
    @tool
    def steering(context: ToolContext) -> str:
        """Steers."""
        context.request.steer(UserMessage(content="from the tool"))
        return "ok"

    model = ScriptedModel([[ToolCall("steering"), call()], [call()], "done"])
    response = await run(ChatClient(model, tools=[steering, add]), "go")
    roles = ["user", "assistant", "tool", "tool", "user"]
    assert [m.role for m in model.requests[1].messages] == roles, "after the results, before the model is asked"
    assert [m.role for m in model.requests[2].messages] == [*roles, "assistant", "tool"]
    assert [m.role for m in response.new_messages] == [*roles[1:], "assistant", "tool", "assistant"]


async def test_tools_that_steer_at_the_same_time(run: Any) -> None:
    @tool
    async def steering(number: int, context: ToolContext) -> str:
        """Steers; the first call takes longest."""
        await anyio.sleep(0.004 - 0.001 * number)
        context.request.steer(UserMessage(content=f"note {number}"))
        return "ok"

    @tool
    def steering_in_a_thread(context: ToolContext) -> str:
        """Steers from a thread."""
        context.request.steer(UserMessage(content="note 3"))
        return "ok"

    calls = [*[ToolCall("steering", {"number": number}) for number in range(3)], ToolCall("steering_in_a_thread")]
    model = ScriptedModel([calls, [call()], "done"])
    await run(ChatClient(model, tools=[steering, steering_in_a_thread, add]), "go")
    for request in model.requests[1:]:
        notes = sorted(m.text for m in request.messages if m.role == "user" and m.text != "go")
        assert notes == [f"note {number}" for number in range(4)]


async def test_an_advisor_and_a_tool_steer_in_one_round(run: Any) -> None:
    @chat_advisor(order=600)
    async def advisor(request: Any, call_next: Any) -> Any:
        if request.round == 1:
            request = request.steer(UserMessage(content="from the advisor"))
        return await call_next(request)

    @tool
    def steering(context: ToolContext) -> str:
        """Steers."""
        context.request.steer(UserMessage(content="from the tool"))
        return "ok"

    model = ScriptedModel([[ToolCall("steering")], [call()], "done"])
    await run(ChatClient(model, tools=[steering, add], advisors=[advisor]), "go")
    expected = ["go", "from the advisor", "", "ok", "from the tool"]
    assert [m.text for m in model.requests[1].messages] == expected
    assert [m.text for m in model.requests[2].messages][:5] == expected


async def test_steering_under_a_retry(run: Any) -> None:
    message = UserMessage(content="steered")

    @chat_advisor(order=620)
    async def steer(request: Any, call_next: Any) -> Any:
        return await call_next(request.steer(message) if request.round == 1 else request)

    @chat_advisor(order=560)
    async def retry(request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ModelError:
            return await call_next(request)

    model = ScriptedModel([ModelError("down", transient=True), [call()], "done"])
    await run(ChatClient(model, tools=[add], advisors=[steer, retry]), "go")
    texts = [[m.text for m in request.messages if m.role == "user"] for request in model.requests]
    assert texts == [["go", "steered"]] * 3


async def test_a_forced_choice_holds_for_the_first_round(run: Any) -> None:
    for choice in ("required", "add"):
        model = ScriptedModel([[call()], [call(2, 3)], "done"])
        await run(ChatClient(model, tools=[add]), "go", options={"tool_choice": choice})
        choices = [request.options.tool_choice for request in model.requests]
        assert choices[0] == choice and choices[1] in (None, "auto") and choices[2] in (None, "auto")


async def test_the_context_lasts_for_the_turn(run: Any) -> None:
    @chat_advisor(order=620)
    async def count(request: Any, call_next: Any) -> Any:
        request.context["count"] = request.context.get("count", 0) + 1
        return await call_next(request)

    model = ScriptedModel([[call()], [call()], "done", "next turn"])
    client = ChatClient(model, tools=[add], advisors=[count])
    response = await run(client, "go")
    assert response.request.context["count"] == 3
    assert (await run(client, "go")).request.context["count"] == 1


async def test_outer_advisors_run_once_inner_ones_every_round(run: Any) -> None:
    seen: list[str] = []

    def watching(order: int) -> Any:
        @chat_advisor(order=order, name=f"at_{order}")
        async def watch(request: Any, call_next: Any) -> Any:
            seen.append(f"{order} in")
            response = await call_next(request)
            seen.append(f"{order} out {len(response.tool_calls)}")
            return response

        return watch

    model = ScriptedModel([[call()], "done"])
    await run(ChatClient(model, tools=[add], advisors=[watching(501), watching(499)]), "go")
    assert seen == ["499 in", "501 in", "501 out 1", "501 in", "501 out 0", "499 out 0"]


async def test_an_inner_retry_is_one_round(run: Any) -> None:
    @chat_advisor(order=850)
    async def retry(request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except ModelError:
            return await call_next(request)

    error = ModelError("overloaded", transient=True)
    model = ScriptedModel([error, [call()], error, "done"])
    response = await run(ChatClient(model, tools=[add], advisors=[retry]), "go")
    assert response.text == "done" and len(model.requests) == 4 and len(response.new_messages) == 3


async def test_a_model_error_arrives_as_itself_after_complete_rounds(run: Any) -> None:
    ended: list[Any] = []

    @chat_advisor(order=300)
    async def watch(request: Any, call_next: Any) -> Any:
        async def at_end(end: Any) -> None:
            ended.append(end)

        request.context.at_turn_end(at_end)
        return await call_next(request)

    error = ModelError("down")
    client = ChatClient(ScriptedModel([[call()], error]), tools=[add], advisors=[watch])
    with pytest.raises(ModelError) as caught:
        await run(client, "go")
    assert caught.value is error and ended[0].error is error and ended[0].response is None
    assert [m.role for m in ended[0].messages] == ["user", "assistant", "tool"], "the complete rounds"


async def test_reentry_with_feedback_keeps_both_answers(run: Any) -> None:
    @chat_advisor(order=250)
    async def feedback(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        again = (*request.messages, *response.new_messages, UserMessage(content="try again"))
        return await call_next(request.replace(messages=again))

    model = ScriptedModel([[call()], "first", [call()], "second"])
    response = await run(ChatClient(model, tools=[add], advisors=[feedback]), "go")
    assert response.text == "second"
    assert [m.text for m in model.requests[2].messages if m.role != "tool"] == ["go", "", "first", "try again"]


async def test_callers_messages_are_checked_once(run: Any) -> None:
    client = ChatClient(ScriptedModel(["hi"]), tools=[add])
    open_call = AssistantMessage(tool_calls=(ToolCall("add", {}, "c1"),))
    with pytest.raises(TranscriptError, match="'c1'"):
        await run(client, [UserMessage(content="go"), open_call])
    with pytest.raises(TranscriptError, match="'c2'"):
        await run(client, [UserMessage(content="go"), ToolMessage(content="x", call_id="c2", name="add")])


async def test_the_system_message_stays_first_in_every_round(run: Any) -> None:
    model = ScriptedModel([[call()], "done"])
    response = await run(ChatClient(model, tools=[add], system="Be kind."), "go")
    assert all(type(request.messages[0]) is SystemMessage for request in model.requests)
    assert all(m.role != "system" for m in response.new_messages)


USAGE = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=4, reasoning_tokens=1)


async def test_usage_is_summed_and_counted_once(run: Any) -> None:
    model = ScriptedModel([[call()], [call()], "done"], usage=USAGE)
    seen: list[Any] = []

    @chat_advisor(order=300)
    async def reporting(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        seen.append(response.usage)
        return response.replace(usage=Usage(999, 999))

    response = await run(ChatClient(model, tools=[add], advisors=[reporting]), "go")
    assert response.usage == Usage(30, 6, 12, None, 3), "missing stays missing, and nobody else can say otherwise"
    assert seen == [response.usage], "advisors around the loop see the sum"


async def test_usage_that_only_some_calls_report(run: Any) -> None:
    def answer(text: str, usage: Usage | None, *calls: ToolCall) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content=text, tool_calls=calls), usage=usage)

    model = ScriptedModel([answer("", None, call()), answer("", Usage(output_tokens=5), call()), answer("x", None)])
    response = await run(ChatClient(model, tools=[add]), "go")
    assert response.usage == Usage(output_tokens=5)
    response = await run(ChatClient(ScriptedModel(["hi"])), "go")
    assert response.usage == Usage()


async def test_usage_of_discarded_attempts_counts(run: Any) -> None:
    @chat_advisor(order=300)
    async def twice(request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    model = ScriptedModel(["one", "two"], usage=USAGE)
    response = await run(ChatClient(model, advisors=[twice]), "go")
    assert response.usage.input_tokens == 20 and response.new_messages == (response.message,)


class PlainLoop:
    """A third party's loop: no subclass, only the three members and the flag."""

    name = "plain_loop"
    order = 450
    is_tool_loop = True

    async def advise(self, request: Any, call_next: Any) -> Any:
        """Loop."""
        messages: Any = request.messages
        new: list[Any] = []
        results: tuple[Any, ...] = ()
        while True:
            response = await call_next(
                request.replace(messages=messages, tool_results=results, round=len(new) // 2 + 1)
            )
            if not response.tool_calls:
                return response.replace(new_messages=(*new, *response.new_messages))
            (only,) = response.tool_calls
            made = request.tools.get(only.name)
            result = await request.execute(ToolInvocation(only, made, request))
            results = (result.stamped(only.id, only.name, made.is_direct(request.context), "local", True),)
            new += [response.message, results[0].message()]
            messages = (*request.messages, *new)


async def test_a_third_partys_loop(run: Any) -> None:
    model = ScriptedModel([[call(2, 2)], "done"])
    client = ChatClient(model, tools=[add], advisors=[PlainLoop()])
    assert (await run(client, "go")).text == "done"
    assert model.requests[1].messages[-1].text == "4"
    assert [row.name for row in client.chain.explain().rows] == ["plain_loop", "return_direct"]
    direct = ChatClient(ScriptedModel([[call(3, 3)]]), tools=[add.replace(return_direct=True)], advisors=[PlainLoop()])
    assert (await run(direct, "go")).text == "6", "return direct works with it"
    with pytest.raises(ConfigurationError, match=r"plain_loop.*tool_calling|tool_calling.*plain_loop"):
        ChatClient(model, advisors=[PlainLoop(), ToolCallingAdvisor()])


async def test_a_loop_at_another_order_and_name(run: Any) -> None:
    model = ScriptedModel([[call()], "done"])
    loop = ToolCallingAdvisor(order=900, name="late")
    client = ChatClient(model, tools=[add], advisors=[loop])
    assert (await run(client, "go")).text == "done" and "late" in client.explain()


async def test_an_inner_advisor_that_forgets_to_return(run: Any) -> None:
    class Forgetful(Advisor):
        """Forgets."""

        order = 600

        async def advise(self, request: Any, call_next: Any) -> Any:
            await call_next(request)

    with pytest.raises(ConfigurationError, match="NoneType"):
        await run(ChatClient(ScriptedModel(["hi"]), advisors=[Forgetful()]), "go")


async def test_a_short_circuit_inside_the_loop(run: Any) -> None:
    @chat_advisor(order=600)
    async def guard(request: Any, call_next: Any) -> Any:
        if request.round == 2:
            return ChatResponse(AssistantMessage(content="blocked"), stop_reason="filtered")
        return await call_next(request)

    model = ScriptedModel([["Looking.", call()]])
    response = await run(ChatClient(model, tools=[add], advisors=[guard]), "go")
    assert (response.text, response.stop_reason) == ("blocked", "filtered")
    if run.mode == "stream":
        assert text_by_round(run) == {1: "Looking.", 2: "blocked"}
