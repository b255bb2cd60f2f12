"""What an advisor may do with ``call_next``: not at all, twice, at the same time; and what counts as an advisor."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ContextKey,
    Restarted,
    TextDelta,
    Tool,
    ToolCall,
    ToolInvocation,
    ToolNext,
    ToolResult,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisor import derived_name
from advisorchain.async_callable import checked_async, passes_on
from advisorchain.messages import AssistantMessage
from advisorchain.testing import ScriptedModel

OUTSIDE, INSIDE = 300, 600
BRANCH = ContextKey[int]("test.branch")
both_sides = pytest.mark.parametrize("order", [OUTSIDE, INSIDE])


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(text: str) -> ChatResponse[Any]:
    return ChatResponse(AssistantMessage(content=text))


def calling() -> list[Any]:
    return ["let me add ", ToolCall("add", {"a": 1, "b": 2})]


# How often the rest is called ----------------------------------------------------------------------------------------


@both_sides
async def test_zero_times_is_a_short_circuit(run: Any, order: int) -> None:
    @chat_advisor(order=order)
    async def cached(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return answer("from the cache")

    model = ScriptedModel([])
    response = await run(ChatClient(model, tools=[add], advisors=[cached]), "?")
    assert (response.text, response.stop_reason, model.requests) == ("from the cache", "final", [])
    assert [message.text for message in response.new_messages] == ["from the cache"]
    assert not any(isinstance(event, Restarted) for event in run.events)


async def test_an_inner_short_circuit_may_call_tools(run: Any) -> None:
    @chat_advisor(order=INSIDE)
    async def planner(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if request.round == 1:
            return ChatResponse(AssistantMessage(content="planned ", tool_calls=(ToolCall("add", {"a": 1, "b": 2}),)))
        return await call_next(request)

    model = ScriptedModel(["3"])
    response = await run(ChatClient(model, tools=[add], advisors=[planner]), "?")
    assert response.text == "3"
    assert [message.text for message in response.new_messages] == ["planned ", "3", "3"]


@both_sides
async def test_twice_gives_the_second_answer(run: Any, order: int) -> None:
    @chat_advisor(order=order)
    async def again(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    model = ScriptedModel(["first try", "second try"], usage=Usage(10, 1))
    response = await run(ChatClient(model, tools=[add], advisors=[again]), "?")
    assert response.text == "second try"
    assert [message.text for message in response.new_messages] == ["second try"], "a discarded attempt leaves no trace"
    assert response.usage == Usage(20, 2), "but it was paid for"


@both_sides
async def test_twice_with_tools(run: Any, order: int) -> None:
    @chat_advisor(order=order)
    async def again(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)

    outside = [calling(), "first 3", calling(), "second 3"]
    inside = [calling(), calling(), "first 3", "second 3"]
    model = ScriptedModel(outside if order == OUTSIDE else inside)
    response = await run(ChatClient(model, tools=[add], advisors=[again]), "?")
    model.assert_finished()
    assert response.text == "second 3"
    assert [message.role for message in response.new_messages] == ["assistant", "tool", "assistant"]


async def test_feedback_keeps_the_first_answer(run: Any) -> None:
    @chat_advisor(order=OUTSIDE)
    async def critic(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        first = await call_next(request)
        more = (*first.new_messages, UserMessage(content="shorter"))
        return await call_next(request.replace(messages=(*request.messages, *more)))

    model = ScriptedModel([calling(), "It is three.", "3"])
    response = await run(ChatClient(model, tools=[add], advisors=[critic]), "?")
    assert response.text == "3"
    assert [message.role for message in response.new_messages] == [
        "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip


@both_sides
async def test_concurrently_muted_and_forked(run: Any, order: int) -> None:
    """A fan-out: each branch has a context of its own, nothing of it is streamed, one answer is."""
    seen: dict[int, Any] = {}

    @chat_advisor(order=order)
    async def fan_out(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        answers: list[str] = [""] * 5
        request.context[BRANCH] = -1

        async def branch(index: int) -> None:
            side = request.muted().fork()
            side.context[BRANCH] = index
            answers[index] = (await call_next(side)).text
            seen[index] = side.context[BRANCH]

        async with anyio.create_task_group() as group:
            for index in range(5):
                group.start_soon(branch, index)
        assert request.context[BRANCH] == -1
        return answer("|".join(answers))

    async def reply(request: ChatRequest) -> str:
        branch = request.context[BRANCH]
        await anyio.sleep(0.001 * (5 - branch))
        assert request.context[BRANCH] == branch
        assert not request.streaming
        return f"secret of {branch}"

    response = await run(ChatClient(ScriptedModel([reply] * 5), advisors=[fan_out]), "?")
    assert response.text == "|".join(f"secret of {index}" for index in range(5))
    assert seen == {index: index for index in range(5)}
    assert not any(isinstance(event, Restarted) for event in run.events)


async def test_concurrent_loops_run_the_tools_that_they_offered(run: Any) -> None:
    """Two loops of one turn at the same time, each with its own tool of one name and with the same call id."""

    def secret_tool(branch: int) -> Tool:
        async def handle(arguments: dict[str, Any]) -> str:
            return f"result of branch {branch}"

        return Tool.from_schema("lookup", handle, description="Looks it up.")

    @chat_advisor(order=OUTSIDE)
    async def fan_out(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        answers = [""] * 2

        async def branch(index: int) -> None:
            side = request.muted().fork()
            side.context[BRANCH] = index
            answers[index] = (await call_next(side)).text

        async with anyio.create_task_group() as group:
            for index in range(2):
                group.start_soon(branch, index)
        return answer(" and ".join(answers))

    @chat_advisor(order=INSIDE)
    async def own_tool(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        branch = request.context[BRANCH]
        response = await call_next(request.replace(tools=[secret_tool(branch)]))
        await anyio.sleep(0.02 if branch == 0 else 0.04)  # the other loop goes on meanwhile
        return response

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        last = request.messages[-1]
        if last.role == "tool":
            return answer(f"branch {request.context[BRANCH]}: {last.text}")
        call = ToolCall("lookup", {}, id="call_0")
        return ChatResponse(AssistantMessage(tool_calls=(call,)))

    response = await run(ChatClient(model, advisors=[fan_out, own_tool]), "?")
    assert response.text == "branch 0: result of branch 0 and branch 1: result of branch 1"


async def test_tool_advisors_may_call_next_zero_or_many_times(run: Any) -> None:
    @tool_advisor(order=700)
    async def cache(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        if invocation.call.arguments == {"a": 0, "b": 0}:
            return ToolResult("cached")
        await call_next(invocation)
        result = await call_next(invocation)
        return result

    ran: list[int] = []

    @tool
    async def count(a: int, b: int) -> int:
        """Count."""
        ran.append(a)
        return len(ran)

    step = [ToolCall("count", {"a": 0, "b": 0}), ToolCall("count", {"a": 1, "b": 1})]
    response = await run(ChatClient(ScriptedModel([step, "ok"]), tools=[count], advisors=[cache]), "?")
    assert [message.text for message in response.new_messages[1:3]] == ["cached", "2"]
    assert ran == [1, 1]


@both_sides
async def test_a_timeout_of_an_advisor_arrives_as_itself(run: Any, order: int) -> None:
    cancelled: list[bool] = []

    @chat_advisor(order=order)
    async def deadline(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        with anyio.fail_after(0.05):
            return await call_next(request)

    async def hangs(request: ChatRequest) -> ChatResponse[Any]:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        raise AssertionError

    with pytest.raises(TimeoutError):
        await run(ChatClient(hangs, advisors=[deadline]), "?")
    assert cancelled == [True]


async def test_a_chain_may_be_long(run: Any) -> None:
    def one(number: int) -> Any:
        @chat_advisor(order=number, name=f"advisor_{number}")
        async def add_one(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            response = await call_next(request)
            return response.replace(metadata={"depth": response.metadata.get("depth", 0) + 1})

        return add_one

    client = ChatClient(ScriptedModel(["deep"]), advisors=[one(number) for number in range(200)])
    assert (await run(client, "?")).metadata == {"depth": 200}


async def test_what_an_advisor_asks_beside_is_not_heard(run: Any) -> None:
    """Another client's turn, and a muted question to another model: neither is text of this turn."""
    judge = ChatClient(ScriptedModel(["judged", "judged again"], chunk_size=3))

    @chat_advisor(order=OUTSIDE)
    async def asks(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        assert (await judge.call("Is it good?")).text == "judged"
        async with judge.stream("And now?") as stream:
            assert [piece async for piece in stream.text()] == ["jud", "ged", " ag", "ain"]
        beside = request.muted().fork().replace(model=ScriptedModel(["beside"], chunk_size=3))
        assert (await call_next(beside)).text == "beside"
        return await call_next(request)

    client = ChatClient(ScriptedModel([calling(), "three"], chunk_size=3), tools=[add], advisors=[asks])
    response = await run(client, "?")
    assert [m.role for m in response.new_messages] == ["assistant", "tool", "assistant"]
    assert response.request.context.ledger.model_calls == 3, "of the judge's turns nothing is counted"
    assert "".join(event.text for event in run.events if isinstance(event, TextDelta)) in ("", "let me add three")
    assert not any(isinstance(event, Restarted) for event in run.events)


async def test_every_way_in_leads_through_all_advisors() -> None:
    passed: list[str] = []

    @chat_advisor(order=OUTSIDE)
    async def chat(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        passed.append("chat")
        return await call_next(request)

    @tool_advisor(order=OUTSIDE)
    async def around_tools(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        passed.append("tool")
        return await call_next(invocation)

    def client(**settings: Any) -> ChatClient:
        return ChatClient(ScriptedModel([calling(), "3"]), tools=[add], advisors=[chat, around_tools], **settings)

    async def stream() -> str:
        async with client().stream("?") as stream:
            return (await stream.response()).text

    def stream_sync() -> str:
        with client().stream_sync("?") as stream:
            return stream.response().text

    async def by_hand() -> str:
        asked = client(tool_loop=False)
        execution = await asked.execute_tools(await asked.call("?"))
        return execution.results[0].content

    def around(inner: Any, *steps: Any) -> ChatClient:
        return ChatClient(ScriptedModel([*steps, "3"]), tools=[inner])

    ways = {
        "call": lambda: client().call("?"),
        "stream": stream,
        "call_sync": lambda: anyio.to_thread.run_sync(lambda: client().call_sync("?")),
        "stream_sync": lambda: anyio.to_thread.run_sync(stream_sync),
        "execute_tools": by_hand,
        "as_tool": lambda: around(client().as_tool("sub", "Adds."), [ToolCall("sub", {"prompt": "?"})]).call("?"),
        "as_model": lambda: ChatClient(client().as_model()).call("?"),
    }
    for way, go in ways.items():
        passed.clear()
        answered = await go()
        assert (passed, getattr(answered, "text", answered)) == (["chat", "tool"], "3"), way


# What an advisor gets and gives --------------------------------------------------------------------------------------


async def test_an_advisor_that_ignores_streaming_gets_the_whole_answer(run: Any) -> None:
    seen: list[str] = []

    @chat_advisor(order=INSIDE)
    async def reader(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        seen.append(response.text)
        return response

    model = ScriptedModel([calling(), "The sum is 3."], chunk_size=1)
    await run(ChatClient(model, tools=[add], advisors=[reader]), "?")
    assert seen == ["let me add ", "The sum is 3."]


async def test_changes_to_a_request_are_seen_further_inside_only(run: Any) -> None:
    @chat_advisor(order=INSIDE)
    async def note(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(messages=(*request.messages, UserMessage(content="be brief"))))

    model = ScriptedModel([calling(), "3"])
    response = await run(ChatClient(model, tools=[add], advisors=[note]), "?")
    assert [message.text for message in model.requests[1].messages].count("be brief") == 1
    assert "be brief" not in [message.text for message in response.new_messages]


@both_sides
async def test_a_forgotten_return_is_explained(run: Any, order: int) -> None:
    @chat_advisor(order=order, name="forgetful")
    async def forgetful(request: ChatRequest, call_next: ChatNext) -> Any:
        await call_next(request)

    with pytest.raises(ConfigurationError, match=r"NoneType.*return"):
        await run(ChatClient(ScriptedModel(["x"]), advisors=[forgetful]), "?")


async def test_any_object_with_the_right_members_is_an_advisor(run: Any) -> None:
    class Shout:
        name = "shout"
        order = 300
        streams = "hold"

        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            response = await call_next(request)
            return response.replace(message=AssistantMessage(content=response.text.upper()))

    assert (await run(ChatClient(ScriptedModel(["quiet"]), advisors=[Shout()]), "?")).text == "QUIET"


async def test_a_plain_method_may_pass_on_what_is_next(run: Any) -> None:
    class Passes:
        name, order = "passes", INSIDE
        calls = 0

        @passes_on
        def advise(self, request: ChatRequest, call_next: ChatNext) -> Any:
            self.calls += 1
            return call_next(request)

    passes = Passes()
    assert checked_async(passes.advise, "advise") == passes.advise, "nothing is put around it"
    assert (await run(ChatClient(ScriptedModel(["hello"]), advisors=[passes]), "Hi")).text == "hello"
    assert passes.calls == 1


async def test_a_method_set_on_the_instance_counts(run: Any) -> None:
    class Configured(Advisor):
        order = 300

    async def advise(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return answer("from the instance")

    advisor = Configured()
    advisor.advise = advise  # type: ignore[method-assign]
    client = ChatClient(ScriptedModel([]), advisors=[advisor])
    assert (await run(client, "?")).text == "from the instance"
    assert [row.wraps for row in client.chain.explain().rows if row.name == "configured"] == ["chat"]


def test_names_are_derived_from_the_class() -> None:
    expected = {
        "TokenBudgetAdvisor": "token_budget", "RAGAdvisor": "rag", "HTTPCache": "http_cache", "Advisor2": "advisor2",
        "PIIRedactor": "pii_redactor", "snake_case": "snake_case",
    }  # fmt: skip
    assert {name: derived_name(type(name, (), {})) for name in expected} == expected


def test_function_advisors_take_the_functions_name() -> None:
    @chat_advisor(order=1)
    async def first(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)

    @tool_advisor(order=2, name="other")
    async def second(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        return await call_next(invocation)

    assert (first.name, first.order, second.name, second.order) == ("first", 1, "other", 2)
    assert repr(first) == "<FunctionAdvisor 'first' order=1>"
