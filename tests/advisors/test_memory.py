"""`MemoryAdvisor`: what is loaded, what is stored, and that the next turn is always accepted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    MemoryStoreError,
    Message,
    Order,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolError,
    ToolLoopLimitError,
    ToolMessage,
    TurnAbortedError,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import MemoryAdvisor, ToolCallingAdvisor
from advisorchain.memory import InMemoryStore, LastMessages, LastTurns, SqliteStore, TokenWindow
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel

ADD = ToolCall("add", {"a": 1, "b": 2}, "c0")
SHOW = ToolCall("show", {}, "c0")
INSIDE = Order.MEMORY_INSIDE
POSITIONS = pytest.mark.parametrize("order", [Order.MEMORY, INSIDE], ids=["outside", "inside"])


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(return_direct=True)
async def show() -> str:
    """Show."""
    return "shown"


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError("no luck")


@tool
async def abort() -> str:
    """End the turn."""
    raise TurnAbortedError("stop")


TOOLS = [add, show, fail, abort]


def assert_accepted(messages: Sequence[Message]) -> None:
    """What a strict provider demands: pairs complete, no id twice, system first, user and assistant in turns."""
    check_pairing(messages)
    ids = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert len(ids) == len(set(ids)), f"call ids twice: {ids}"
    roles = [message.role for message in messages]
    while roles and roles[0] == "system":
        del roles[0]
    assert "system" not in roles and roles[0] == "user"
    last = ""
    for role in roles:
        expected = {"user": ("", "assistant"), "assistant": ("user", "tool"), "tool": ("assistant", "tool")}[role]
        assert last in expected, f"{last!r} before {role!r} in {roles}"
        last = role
    assert last in ("user", "tool")


class Checked(ScriptedModel):
    """A scripted model that refuses what a strict provider refuses."""

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        assert_accepted(request.messages)
        return await super().__call__(request)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def roles(messages: Sequence[Message]) -> list[str]:
    return [message.role for message in messages]


@pytest.fixture(params=["in memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "in memory":
        yield InMemoryStore()
        return
    store = SqliteStore(tmp_path / "memory.db")
    yield store
    store.close()


def client_of(store: Any, steps: Sequence[Any], *advisors: Any, **settings: Any) -> tuple[ChatClient, Checked]:
    """A client with memory, and its model."""
    model = Checked(steps)
    order = settings.pop("order", Order.MEMORY)
    client_settings = {key: settings.pop(key) for key in ("tool_loop", "system") if key in settings}
    memory = MemoryAdvisor(store, order=order, **settings)
    return ChatClient(model, tools=TOOLS, advisors=[memory, *advisors], **client_settings), model


# What is loaded and stored -------------------------------------------------------------------------------------------


@POSITIONS
async def test_a_conversation(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, [[ADD], "three", [ADD], "again three", "bye"], order=order, system="Be brief.")
    for prompt in ("1+2?", "and again?", "bye"):
        await run(client, prompt, conversation_id="c")
    model.assert_finished()
    last = model.requests[-1].messages
    assert [message.role for message in last].count("system") == 1 and last[0].text == "Be brief."
    stored = await store.load("c")
    if order == INSIDE:
        turn = ["user", "assistant", "tool", "assistant"]
        assert roles(stored) == [*turn, *turn, "user", "assistant"]
        assert last[1:-1] == stored[:8]
    else:
        assert texts(stored) == ["1+2?", "three", "and again?", "again three", "bye", "bye"]
        assert last[1:-1] == stored[:4]
    assert [len(turn.messages) for turn in stored.turns] == ([4, 4, 2] if order == INSIDE else [2, 2, 2])
    assert_accepted(last)


async def test_conversations_are_apart(run: Any, store: Any) -> None:
    client, model = client_of(store, ["a1", "b1", "a2"])
    for prompt, conversation in (("a?", "a"), ("b?", "b"), ("a again?", "a")):
        await run(client, prompt, conversation_id=conversation)
    assert texts(model.requests[1].messages) == ["b?"]
    assert texts(model.requests[2].messages) == ["a?", "a1", "a again?"]


async def test_without_a_conversation_there_is_no_memory(
    run: Any, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client, model = client_of(store, ["one", "two"])
    with caplog.at_level(logging.DEBUG, "advisorchain"):
        await run(client, "1?")
        await run(client, "2?")
    assert texts(model.requests[1].messages) == ["2?"]
    assert await store.conversations() == ()
    said = [record for record in caplog.records if "without conversation_id has no memory" in record.getMessage()]
    assert len(said) == 1 and "'memory'" in said[0].getMessage()


async def test_an_empty_conversation_id_is_refused(run: Any, store: Any) -> None:
    """A header that is missing: its users must not read each other's messages."""
    client, model = client_of(store, [])
    with pytest.raises(ConfigurationError, match="a text or None, not '': everybody without one would share"):
        await run(client, "my PIN is 4711", conversation_id="")
    assert model.requests == [] and await store.conversations() == ()


@POSITIONS
async def test_system_messages_are_never_stored(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, ["one", "two"], order=order, system="First.")
    await run(client, [SystemMessage(content="Second."), UserMessage(content="1?")], conversation_id="c")
    await run(client, "2?", conversation_id="c", system="Third.")
    assert roles(await store.load("c")) == ["user", "assistant"] * 2
    assert texts(model.requests[1].messages) == ["Third.", "1?", "one", "2?"]


@POSITIONS
async def test_a_constant_message_is_stored_once_per_turn(run: Any, store: Any, order: int) -> None:
    client, _ = client_of(store, ["one", "two"], order=order)
    go_on = UserMessage(content="go on")
    await run(client, [go_on], conversation_id="c")
    await run(client, [go_on], conversation_id="c")
    assert texts(await store.load("c")) == ["go on", "one", "go on", "two"]


async def test_loaded_and_appended_once_per_turn(run: Any) -> None:
    done: list[Any] = []

    class Counted(InMemoryStore):
        async def load(self, conversation_id: str, **more: Any) -> Any:
            done.append("load")
            return await super().load(conversation_id, **more)

        async def append(self, conversation_id: str, turn_id: str, messages: Any, **more: Any) -> None:
            done.append(texts(messages))
            await super().append(conversation_id, turn_id, messages, **more)

    client, _ = client_of(Counted(), [[ADD], [ADD], "done", "bye"], order=INSIDE)
    await run(client, "hi", conversation_id="c")
    await run(client, "thanks", conversation_id="c")
    turn = ["hi", "", "3", "", "3", "done"]
    assert done == ["load", turn, "load", ["thanks", "bye"]], "what is stored is not stored again"


@POSITIONS
async def test_what_a_guard_let_through_is_stored(run: Any, store: Any, order: int) -> None:
    @chat_advisor(order=Order.GUARD_INPUT, name="guard")
    async def guard(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        last = request.messages[-1]
        hidden = last.model_copy(update={"content": last.text.replace("4711", "[PIN]")})
        return await call_next(request.replace(messages=(*request.messages[:-1], hidden)))

    client, model = client_of(store, ["noted", "no"], guard, order=order)
    await run(client, "my PIN is 4711", conversation_id="c")
    await run(client, "what is it?", conversation_id="c")
    assert "4711" not in model.requests[0].messages[-1].text
    assert texts(await store.load("c"))[0] == "my PIN is [PIN]"
    assert texts(model.requests[1].messages)[0] == "my PIN is [PIN]"


@POSITIONS
async def test_a_guard_of_a_turn_whose_tools_the_caller_runs(run: Any, store: Any, order: int) -> None:
    @chat_advisor(order=Order.GUARD_INPUT, name="guard")
    async def guard(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(messages=request.messages))

    client, _ = client_of(store, [[ADD], "3"], guard, order=order, tool_loop=False)
    response = await run(client, "1+2?", conversation_id="c")
    ran = await client.execute_tools(response)
    await run(client, ran.messages, conversation_id="c")
    stored = texts(await store.load("c"))
    assert stored == (["1+2?", "", "3", "3"] if order == INSIDE else ["1+2?", "3"])


@pytest.mark.parametrize("around", [False, True], ids=["alone", "with an advisor around it"])
async def test_what_was_retrieved_outside_a_memory_is_not_stored(run: Any, store: Any, around: bool) -> None:
    @chat_advisor(order=Order.RETRIEVAL, name="retrieval")
    async def retrieval(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        *before, last = request.messages
        found = last.model_copy(update={"content": f"{last.text} (retrieved)"})
        return await call_next(request.replace(messages=(*before, found)))

    @chat_advisor(order=Order.AUDIT, name="outer")
    async def outer(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)

    client, model = client_of(store, ["1"], retrieval, *([outer] if around else []), order=Order.DEADLINE)
    await run(client, "one", conversation_id="c")
    assert texts(model.requests[0].messages) == ["one (retrieved)"]
    assert texts(await store.load("c")) == ["one", "1"]


@POSITIONS
async def test_a_guard_and_retrieval_and_another_memory(run: Any, store: Any, order: int) -> None:
    """What the guard let through is stored, what was retrieved is not, wherever the memories stand."""

    @chat_advisor(order=Order.GUARD_INPUT, name="guard")
    async def guard(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        *before, last = request.messages
        return await call_next(request.replace(messages=(*before, UserMessage(content=last.text.upper()))))

    @chat_advisor(order=Order.RETRIEVAL, name="retrieval")
    async def retrieval(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        *before, last = request.messages
        found = last.model_copy(update={"content": f"{last.text} (retrieved)"})
        return await call_next(request.replace(messages=(*before, found)))

    other = InMemoryStore()
    further_out = MemoryAdvisor(other, order=Order.MEMORY - 1, name="further out")
    client, model = client_of(store, ["1", "2"], guard, retrieval, further_out, order=order)
    await run(client, "one", conversation_id="c")
    await run(client, "two", conversation_id="c")
    assert texts(await store.load("c")) == texts(await other.load("c")) == ["ONE", "1", "TWO", "2"]
    assert texts(model.requests[1].messages) == ["ONE", "1", "TWO (retrieved)"]


async def test_examples_from_further_outside_are_not_stored(run: Any, store: Any) -> None:
    examples = (UserMessage(content="2+2?"), AssistantMessage(content="4"))

    @chat_advisor(order=Order.GUARD_INPUT, name="few_shot")
    async def few_shot(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(messages=(*examples, *request.messages)))

    client, _ = client_of(store, ["3", "5"], few_shot)
    for prompt in ("1+2?", "2+3?"):
        await run(client, prompt, conversation_id="c")
    assert texts(await store.load("c")) == ["1+2?", "3", "2+3?", "5"]


@POSITIONS
async def test_prompts_rewritten_further_inside_are_not_stored(run: Any, store: Any, order: int) -> None:
    @chat_advisor(order=Order.RETRIEVAL, name="retrieval")
    async def retrieval(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        last = request.messages[-1]
        more = last.model_copy(update={"content": f"{last.text}\n<documents>"})
        return await call_next(request.replace(messages=(*request.messages[:-1], more)))

    client, model = client_of(store, ["one"], retrieval, order=order)
    await run(client, "1?", conversation_id="c")
    assert texts(model.requests[0].messages) == ["1?\n<documents>"]
    assert texts(await store.load("c")) == ["1?", "one"]


@POSITIONS
async def test_what_the_user_saw_is_stored(run: Any, store: Any, order: int) -> None:
    class Redact(Advisor):
        order = Order.GUARD_OUTPUT
        streams = "hold"

        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            response = await call_next(request)
            return response.replace(message=AssistantMessage(content="***"))

    client, _ = client_of(store, [[ADD], "secret"], Redact(), order=order)
    await run(client, "1?", conversation_id="c")
    assert texts(await store.load("c")) == (["1?", "***"] if order == Order.MEMORY else ["1?", "", "3", "***"])


@POSITIONS
async def test_discarded_attempts_are_not_stored_feedback_inside_is(run: Any, store: Any, order: int) -> None:
    @chat_advisor(order=Order.OUTPUT, name="feedback")
    async def feedback(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        first = await call_next(request)
        said = UserMessage(content="shorter, please")
        return await call_next(request.replace(messages=(*request.messages, *first.new_messages, said)))

    client, model = client_of(store, ["a long answer", "short"], feedback, order=order)
    await run(client, "1?", conversation_id="c")
    stored = texts(await store.load("c"))
    assert stored == (["1?", "short"] if order == Order.MEMORY else ["1?", "a long answer", "shorter, please", "short"])
    assert len(model.requests) == 2


@POSITIONS
async def test_concurrent_attempts_of_one_turn_are_stored_once(run: Any, store: Any, order: int) -> None:
    @chat_advisor(order=Order.GUARD_INPUT, name="best_of")
    async def best_of(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        found: list[ChatResponse[Any]] = []

        async def attempt() -> None:
            found.append(await call_next(request.fork().muted()))

        async with anyio.create_task_group() as group:
            group.start_soon(attempt)
            group.start_soon(attempt)
        return found[1]

    client, model = client_of(store, ["a", "b", "c", "d"], best_of, order=order)
    first = await run(client, "1?", conversation_id="c")
    assert texts(await store.load("c")) == ["1?", first.text]
    second = await run(client, "2?", conversation_id="c")
    assert texts(model.requests[3].messages) == ["1?", first.text, "2?"]
    assert texts(await store.load("c")) == ["1?", first.text, "2?", second.text]
    (memory,) = [entry.advisor for entry in client.chain.entries if isinstance(entry.advisor, MemoryAdvisor)]
    assert not memory._turns, "nothing is left behind"


# The next turn is always accepted ------------------------------------------------------------------------------------


async def abort_step(request: ChatRequest) -> Any:
    raise ConnectionError("the model is down")


async def cut_step(request: ChatRequest) -> Any:
    return ChatResponse(AssistantMessage(tool_calls=(ADD,)), stop_reason="length")


ENDS: dict[str, tuple[list[Any], dict[str, Any], type[BaseException] | None]] = {
    "an answer": ([[ADD], "three"], {}, None),
    "parallel calls": ([[ADD, ToolCall("add", {"a": 3, "b": 4}, "c1")], "done"], {}, None),
    "an error result": ([[ToolCall("fail", {}, "c0")], "sorry"], {}, None),
    "return direct": ([[SHOW]], {}, None),
    "return direct in round 2": ([[ADD], [SHOW]], {}, None),
    "limit, answer": ([[ADD], [ADD], "enough"], {"max_rounds": 1}, None),
    "limit, stop": ([[ADD], [ADD]], {"max_rounds": 1, "on_limit": "stop"}, None),
    "limit, raise": ([[ADD], [ADD]], {"max_rounds": 1, "on_limit": "raise"}, ToolLoopLimitError),
    "an error in round 1": ([abort_step], {}, ConnectionError),
    "an error in round 2": ([[ADD], abort_step], {}, ConnectionError),
    "a tool ends the turn": ([[ADD], [ToolCall("abort", {}, "c0")]], {}, TurnAbortedError),
    "cut answers": ([cut_step] * 2, {}, None),
}


@pytest.mark.parametrize(
    "window",
    [None, LastTurns(1), LastMessages(1), LastMessages(3), TokenWindow(5)],
    ids=["none", "1 turn", "1", "3", "5 tokens"],
)
@pytest.mark.parametrize("keep_failed", [False, True], ids=["", "keep_failed"])
@pytest.mark.parametrize("end", ENDS)
async def test_inside_the_next_turn_is_accepted(run: Any, end: str, keep_failed: bool, window: Any) -> None:
    store = InMemoryStore()
    steps, limits, error = ENDS[end]
    loop = ToolCallingAdvisor(**limits)
    client, model = client_of(
        store, ["hello", *steps, [ADD], "next", "last"], loop, order=INSIDE, keep_failed=keep_failed, window=window
    )
    await run(client, "hi", conversation_id="c")
    if error is None:
        await run(client, "do it", conversation_id="c")
    else:
        with pytest.raises(error):
            await run(client, "do it", conversation_id="c")
    stored = await store.load("c")
    if error is not None and not (keep_failed and end != "an error in round 1"):
        assert texts(stored) == ["hi", "hello"], "nothing of a failed turn"
    else:
        assert len(stored.turns) == 2 and texts(stored)[2] == "do it"
        assert stored[-1].role == "assistant"
        if error is not None:
            assert stored[-1].text == f"(This turn ended early, without an answer: {error.__name__}.)"
    assert (await run(client, "next?", conversation_id="c")).text == "next"
    assert (await run(client, "last?", conversation_id="c")).text == "last"
    model.assert_finished()
    check_pairing(await store.load("c"))


@POSITIONS
async def test_a_failed_first_call_leaves_no_orphan(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, [ConnectionError("down"), "hello"], order=order)
    with pytest.raises(ConnectionError):
        await run(client, "hi", conversation_id="c")
    assert await store.conversations() == ()
    await run(client, "hi again", conversation_id="c")
    assert texts(model.requests[1].messages) == ["hi again"]


@pytest.mark.parametrize(
    ("order", "keep_failed"),
    [(Order.MEMORY, False), (INSIDE, False), (INSIDE, True)],
    ids=["outside", "inside", "inside, keep_failed"],
)
async def test_cancelled_while_a_tool_runs(run: Any, store: Any, order: int, keep_failed: bool) -> None:
    scope = anyio.CancelScope()

    @tool
    async def slow() -> str:
        """Take long."""
        scope.cancel()
        await anyio.sleep(30)
        return "never"

    client, model = client_of(
        store, [[ADD], [ToolCall("slow", {}, "c0")], "next"], order=order, keep_failed=keep_failed
    )
    with scope:
        await run(client, "do it", conversation_id="c", tools=[slow])
    assert scope.cancelled_caught
    stored = await store.load("c")
    assert roles(stored) == (["user", "assistant", "tool", "assistant"] if keep_failed else [])
    assert (await run(client, "next?", conversation_id="c")).text == "next"
    model.assert_finished()


@POSITIONS
async def test_a_stream_that_is_left_early_stores_nothing(store: Any, order: int) -> None:
    async def step(request: ChatRequest) -> Any:
        await request.emit(TextDelta("a long"))
        await anyio.sleep(30)

    client, _ = client_of(store, [step, "next"], order=order)
    async with client.stream("hi", conversation_id="c") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert await store.load("c") == ()
    assert (await client.call("next?", conversation_id="c")).text == "next"


@POSITIONS
async def test_a_message_that_is_there_twice_is_stored_twice(run: Any, store: Any, order: int) -> None:
    """Also an answer that a model gives again and again, the same object with the same call."""
    again = ChatResponse(AssistantMessage(tool_calls=(ADD,)))
    client, model = client_of(store, [again, again, "done", "bye"], order=order)
    await run(client, "do it", conversation_id="c")
    assert len(await store.load("c")) == (6 if order == INSIDE else 2)
    await run(client, "bye", conversation_id="c")
    model.assert_finished()
    hello = UserMessage(content="hello?")
    model = ScriptedModel(["hi"])
    await run(ChatClient(model, advisors=[MemoryAdvisor(store, order=order)]), [hello, hello], conversation_id="d")
    assert texts(await store.load("d")) == ["hello?", "hello?", "hi"]


# Tool calls in the caller's hands ------------------------------------------------------------------------------------


@POSITIONS
async def test_calls_unanswered_for_ever(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, ["hello", [ADD], [ADD], "fine"], order=order, tool_loop=False)
    await run(client, "hi", conversation_id="c")
    for _ in range(2):
        response = await run(client, "do it", conversation_id="c")
        assert response.tool_calls
    assert texts(await store.load("c")) == ["hi", "hello"]
    await run(client, "never mind", conversation_id="c")
    assert texts(model.requests[3].messages) == ["hi", "hello", "never mind"]


@POSITIONS
async def test_executed_tools_go_on_with_their_turn(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, ["hello", [ADD], [ADD], "six", "bye"], order=order, tool_loop=False)
    await run(client, "hi", conversation_id="c")
    response = await run(client, "do it", conversation_id="c")
    while response.tool_calls:
        ran = await client.execute_tools(response)
        response = await run(client, ran.messages, conversation_id="c")
    stored = await store.load("c")
    assert [len(turn.messages) for turn in stored.turns] == [2, 6 if order == INSIDE else 2]
    assert stored.turns[1].id.startswith(f"{ran.messages.turn_id}.")
    assert texts(stored)[2] == "do it" and texts(stored)[-1] == "six"
    assert roles(model.requests[3].messages) == ["user", "assistant", "user", *["assistant", "tool"] * 2]
    await run(client, "bye", conversation_id="c")


@POSITIONS
async def test_a_transcript_that_is_sent_twice(run: Any, store: Any, order: int) -> None:
    """Its second answer is a turn of its own: a turn has one answer."""
    client, model = client_of(store, [[ADD], "three", "3", "bye"], order=order, tool_loop=False)
    ran = await client.execute_tools(await run(client, "do it", conversation_id="c"))
    for _ in range(2):
        await run(client, ran.messages, conversation_id="c")
    assert model.requests[1].messages == model.requests[2].messages
    assert len((await store.load("c")).turns) == 2
    await run(client, "bye", conversation_id="c")


@POSITIONS
@pytest.mark.parametrize("how", ["small window", "posted", "at once"])
async def test_a_transcript_that_is_sent_twice_without_its_first_turn_in_sight(
    run: Any, store: Any, order: int, how: str
) -> None:
    settings: dict[str, Any] = {"small window": {"window": LastMessages(1)}, "posted": {"history": "replace"}}.get(
        how, {}
    )
    both = anyio.Event()

    async def step(request: ChatRequest) -> str:
        if len(model.requests) == 3:
            both.set()
        if how == "at once":
            await both.wait()
        return f"answer {len(model.requests)}"

    client, model = client_of(store, [[ADD], step, step], order=order, tool_loop=False, **settings)
    asked = await run(client, POSTED if how == "posted" else "do it", conversation_id="c")
    ran = await client.execute_tools(asked)
    if how == "at once":
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(lambda: client.call(ran.messages, conversation_id="c"))
    else:
        for _ in range(2):
            await run(client, ran.messages, conversation_id="c")
    follow, model = client_of(store, ["fine"], order=order)
    await run(follow, "and?", conversation_id="c")
    assert [message.role for message in model.requests[0].messages].count("user") == 3
    assert [len(turn.messages) for turn in (await store.load("c")).turns] == [4 if order == INSIDE else 2] * 2 + [2]


# A history of the caller's own ---------------------------------------------------------------------------------------

POSTED = [UserMessage(content="a?"), AssistantMessage(content="a"), UserMessage(content="b?")]


@POSITIONS
@pytest.mark.parametrize("prompt", [POSTED, POSTED[1], POSTED[:2]], ids=["history", "answer", "no question"])
async def test_a_posted_history_is_an_error(run: Any, store: Any, order: int, prompt: Any) -> None:
    client, model = client_of(store, [], order=order)
    with pytest.raises(ConfigurationError, match=r"advisor 'memory' .* conversation 'c': send only the new message"):
        await run(client, prompt, conversation_id="c")
    assert model.requests == [] and await store.conversations() == ()


async def test_a_posted_history_without_a_conversation_is_fine(run: Any, store: Any) -> None:
    client, model = client_of(store, ["b"])
    await run(client, POSTED)
    assert texts(model.requests[0].messages) == ["a?", "a", "b?"]


@POSITIONS
async def test_a_posted_history_replaces(run: Any, store: Any, order: int) -> None:
    client, model = client_of(store, ["hello", "b", "bye"], order=order, history="replace")
    await run(client, "hi", conversation_id="c")
    await run(client, POSTED, conversation_id="c")
    assert texts(model.requests[1].messages) == ["a?", "a", "b?"]
    assert texts(await store.load("c")) == ["hi", "hello", "b?", "b"], "only what is new is stored"
    await run(client, "bye", conversation_id="c")
    assert texts(model.requests[2].messages) == ["hi", "hello", "b?", "b", "bye"]


@POSITIONS
async def test_a_posted_history_and_executed_tools(run: Any, store: Any, order: int) -> None:
    client, _ = client_of(store, ["hello", [ADD], "b"], order=order, history="replace", tool_loop=False)
    await run(client, "hi", conversation_id="c")
    ran = await client.execute_tools(await run(client, POSTED, conversation_id="c"))
    await run(client, ran.messages, conversation_id="c")
    stored = texts(await store.load("c"))
    assert stored == ["hi", "hello", "b?", *(["", "3"] if order == INSIDE else []), "b"]


@POSITIONS
async def test_several_user_messages_are_one_turn(run: Any, store: Any, order: int) -> None:
    model = ScriptedModel(["both"])
    client = ChatClient(model, advisors=[MemoryAdvisor(store, order=order)])
    await run(client, [UserMessage(content="a"), UserMessage(content="b")], conversation_id="c")
    assert texts(await store.load("c")) == ["a", "b", "both"]


# Call ids ------------------------------------------------------------------------------------------------------------


async def test_providers_that_count_from_0(run: Any, store: Any) -> None:
    client, model = client_of(store, [[ADD], [ADD], "x", [ADD], "y", "z"], order=INSIDE)
    for prompt in ("1", "2", "3"):
        await run(client, prompt, conversation_id="c")  # Checked looks at the ids of every request
    model.assert_finished()


async def test_ids_that_were_stored_twice(run: Any, store: Any) -> None:
    """As two turns that ran at once do: the model sees them renamed, the same way in every turn."""
    for number in range(3):
        pair = (
            AssistantMessage(tool_calls=(ADD, ToolCall("search", {}, "c0", executed_by="provider"))),
            ToolMessage(content=str(number), call_id="c0", name="add"),
        )
        answer = AssistantMessage(content="done")
        await store.append("c", f"turn{number}", [UserMessage(content="go"), *pair, answer])
    model = ScriptedModel(["x", "y"])
    client = ChatClient(model, tools=TOOLS, advisors=[MemoryAdvisor(store, order=INSIDE)])
    for _ in range(2):
        await run(client, "go", conversation_id="c")
    for request in model.requests:
        calls = [c for m in request.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        assert [c.id for c in calls if c.executed_by == "client"] == ["c0_turn0", "c0_turn1", "c0"]
        assert [c.id for c in calls if c.executed_by == "provider"] == ["c0"] * 3, "not ours to rename"
        results = [(m.call_id, m.text) for m in request.messages if isinstance(m, ToolMessage)]
        assert results == [("c0_turn0", "0"), ("c0_turn1", "1"), ("c0", "2")]
    assert [m.call_id for m in await store.load("c") if isinstance(m, ToolMessage)] == ["c0"] * 3


async def test_no_call_id_is_longer_than_providers_take(run: Any, store: Any) -> None:
    """A transcript that is sent twice is stored as two turns of the same calls: those of the first get another name."""
    for call_id in ("call_" + "x" * 24, "y" * 60):
        client, model = client_of(
            store, [[ToolCall("add", {"a": 1, "b": 2}, call_id)], "1", "2", "3"], order=INSIDE, tool_loop=False
        )
        ran = await client.execute_tools(await run(client, "go", conversation_id=call_id))
        for prompt in (ran.messages, ran.messages, "and?"):
            await run(client, prompt, conversation_id=call_id)
        renamed, kept = (m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage))
        assert kept == call_id and len(renamed) <= 64


async def test_long_ids_that_differ_at_their_end_were_stored_twice(run: Any, store: Any) -> None:
    calls = [ToolCall("add", {"a": n, "b": n}, f"functions.{'look_up_' * 5}:{n}") for n in range(2)]
    for number in range(2):
        results = [ToolMessage(content="2", call_id=str(call.id), name="add") for call in calls]
        asked = [UserMessage(content="go"), AssistantMessage(tool_calls=tuple(calls))]
        await store.append("c", f"turn{number}", [*asked, *results, AssistantMessage(content="done")])
    client, model = client_of(store, ["x"], order=INSIDE)
    await run(client, "go", conversation_id="c")  # Checked: no id twice
    ids = [m.call_id for m in model.requests[0].messages if isinstance(m, ToolMessage)]
    assert ids[2:] == [call.id for call in calls] and all(len(id) <= 32 + len("_turn0") for id in ids[:2])


async def test_a_broken_turn_of_another_program_is_left_out(
    run: Any, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append("c", "good", [UserMessage(content="a"), AssistantMessage(content="b")])
    await store.append("c", "bad", [UserMessage(content="c"), AssistantMessage(tool_calls=(ADD,))])
    client, model = client_of(store, ["x"], order=INSIDE)
    await run(client, "go", conversation_id="c")
    assert texts(model.requests[0].messages) == ["a", "b", "go"]
    assert any("turn bad is left out" in record.getMessage() for record in caplog.records)


# Two advisors, two turns, deletion -----------------------------------------------------------------------------------


async def test_two_advisors_with_two_stores(run: Any, store: Any) -> None:
    whole = InMemoryStore()
    steps = [[ADD], "three", [ADD], "four", "five", "six"]
    inner = MemoryAdvisor(whole, order=INSIDE, window=LastTurns(2), name="whole")
    client, model = client_of(store, steps, inner)
    for prompt in ("1?", "2?", "3?", "4?"):
        await run(client, prompt, conversation_id="c")  # Checked: nothing twice, roles in turns
    assert texts(await store.load("c")) == ["1?", "three", "2?", "four", "3?", "five", "4?", "six"]
    assert texts(await whole.load("c")) == ["1?", "", "3", "three", "2?", "", "3", "four", "3?", "five", "4?", "six"]
    # The turns that the inner one knows as it knows them, the others as the outer one does.
    last = texts(model.requests[-1].messages)
    assert last == ["1?", "three", "2?", "", "3", "four", "3?", "five", "4?"]


async def test_two_advisors_on_one_store(run: Any, store: Any) -> None:
    client, model = client_of(store, ["one", "two"], MemoryAdvisor(store, order=Order.MEMORY, name="other"))
    for prompt in ("1?", "2?"):
        await run(client, prompt, conversation_id="c")
    assert texts(model.requests[1].messages) == ["1?", "one", "2?"]
    assert texts(await store.load("c")) == ["1?", "one", "2?", "two"]


@pytest.mark.parametrize("prompt", [["go on"], ["go on", "please"]], ids=["one", "two"])
@pytest.mark.parametrize("inner_order", [Order.MEMORY, INSIDE], ids=["outside", "inside"])
async def test_two_advisors_and_constant_messages(run: Any, inner_order: int, prompt: list[str]) -> None:
    """The caller's objects are in the stores, too: what is in the history is told from what is sent now."""
    messages = [UserMessage(content=text) for text in prompt]
    stores = [InMemoryStore(), InMemoryStore()]
    model = ScriptedModel(["1", "2", "3"])
    advisors = [MemoryAdvisor(stores[0]), MemoryAdvisor(stores[1], order=inner_order, name="inner")]
    client = ChatClient(model, advisors=advisors)
    for number in range(3):
        await run(client, messages, conversation_id="c")
        expected = [text for answer in range(1, number + 2) for text in [*prompt, str(answer)]]
        assert texts(model.requests[-1].messages) == expected[:-1]
        assert [texts(await store.load("c")) for store in stores] == [expected] * 2


@POSITIONS
async def test_two_turns_at_once_do_not_interleave(run: Any, store: Any, order: int) -> None:
    both = [anyio.Event(), anyio.Event()]
    steps_left = {"1?": 0, "2?": 0}

    async def step(request: ChatRequest) -> Any:
        prompt = request.user_text
        steps_left[prompt] += 1
        both[prompt == "2?"].set()
        await both[prompt == "1?"].wait()
        return [ADD] if steps_left[prompt] < 3 else f"answer {prompt}"

    client, _ = client_of(store, [step] * 6, order=order)
    async with anyio.create_task_group() as group:
        for prompt in ("1?", "2?"):
            group.start_soon(lambda prompt=prompt: client.call(prompt, conversation_id="c"))
    stored = await store.load("c")
    assert len(stored.turns) == 2
    for turn in stored.turns:
        assert len(turn.messages) == (6 if order == INSIDE else 2)
        assert turn.messages[-1].text == f"answer {turn.messages[0].text}"
    follow, model = client_of(store, ["fine"], order=order)
    await run(follow, "and?", conversation_id="c")
    assert_accepted(model.requests[0].messages)


@POSITIONS
async def test_deleted_while_a_turn_runs(run: Any, store: Any, order: int) -> None:
    async def step(request: ChatRequest) -> Any:
        await store.delete("c")
        return "two"

    client, model = client_of(store, ["one", step, "three"], order=order)
    for prompt in ("1?", "2?"):
        await run(client, prompt, conversation_id="c")
    assert texts(await store.load("c")) == ["2?", "two"], "a conversation that begins with this turn"
    await run(client, "3?", conversation_id="c")
    assert texts(model.requests[2].messages) == ["2?", "two", "3?"]


# Stores that fail ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["load", "append"])
@POSITIONS
async def test_a_store_that_fails_fails_the_call(run: Any, order: int, method: str) -> None:
    store: Any = InMemoryStore()
    works = getattr(store, method)

    async def broken(*args: Any, **more: Any) -> Any:
        raise MemoryStoreError("out of order")

    client, model = client_of(store, ["one", "two"], order=order)
    setattr(store, method, broken)
    with pytest.raises(MemoryStoreError, match="out of order"):
        await run(client, "1?", conversation_id="c")
    assert not any(type(event).__name__ == "Finished" for event in run.events)
    assert len(model.requests) == (method == "append")
    setattr(store, method, works)
    assert (await run(client, "2?", conversation_id="c")).text in ("one", "two")
    assert len(await store.load("c")) == 2


async def test_a_store_that_raises_without_waiting(run: Any) -> None:
    client, _ = client_of(InMemoryStore(), ["one"], order=INSIDE)
    bad: Any = {"role": "user"}
    with pytest.raises(Exception, match="messages"):
        await run(client, [bad], conversation_id="c")


class Hangs(InMemoryStore):
    async def append(self, *args: Any, **more: Any) -> None:
        await anyio.sleep(60)


async def test_an_append_that_hangs_is_the_stores_failure(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.advisors.memory.APPEND_SECONDS", 0.05)
    client, _ = client_of(Hangs(), ["one"])
    with pytest.raises(
        MemoryStoreError, match=r"advisor 'memory' \(Hangs\) did not say within 0.05 s .* conversation 'c'"
    ):
        await run(client, "1?", conversation_id="c")


async def test_an_append_that_hangs_is_given_up(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.turn_end.TURN_END_SECONDS", 0.05)
    client, _ = client_of(Hangs(), ["one"])
    with pytest.raises(TimeoutError, match="took over"):
        await run(client, "1?", conversation_id="c")


async def test_a_store_that_gives_plain_tuples(run: Any) -> None:
    class Plain(InMemoryStore):
        async def load(self, *args: Any, **more: Any) -> Any:
            return (UserMessage(content="a"),)

    client, _ = client_of(Plain(), [])
    with pytest.raises(ConfigurationError, match=r"store of advisor 'memory' \(Plain\) gave tuple, not a History"):
        await run(client, "1?", conversation_id="c")


# Arguments -----------------------------------------------------------------------------------------------------------


class Lossy(InMemoryStore):
    lossless = False


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MemoryAdvisor(InMemoryStore), "takes a memory store"),  # type: ignore[arg-type]
        (lambda: MemoryAdvisor("memory.db"), "takes a memory store"),  # type: ignore[arg-type]
        (lambda: MemoryAdvisor(InMemoryStore(), window=20), "takes a window"),  # type: ignore[arg-type]
        (lambda: MemoryAdvisor(InMemoryStore(), window=LastTurns), "takes a window"),  # type: ignore[arg-type]
        (lambda: MemoryAdvisor(InMemoryStore(), history="merge"), "'error' or 'replace'"),  # type: ignore[arg-type]
        (lambda: MemoryAdvisor(Lossy(), order=INSIDE, name="mine"), "'mine' .*inside the tool loop.*Lossy"),
        (lambda: LastTurns(0), "LastTurns: turns must be an int of at least 1"),
        (lambda: LastMessages(True), "LastMessages: messages must be"),
        (lambda: TokenWindow(1.5), "TokenWindow: tokens must be"),  # type: ignore[arg-type]
        (lambda: TokenWindow(5, "o200k"), "counter"),  # type: ignore[arg-type]
    ],
)
def test_arguments(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


async def test_a_lossy_store_outside(run: Any) -> None:
    store = Lossy()
    client, _ = client_of(store, [[ADD], "three"])
    await run(client, "1?", conversation_id="c")
    assert texts(await store.load("c")) == ["1?", "three"]
    with pytest.raises(ConfigurationError, match=r"'memory'.*must be outside the tool loop"):
        client_of(Lossy(), [], ToolCallingAdvisor(order=100))


def test_keep_failed_is_for_inside() -> None:
    with pytest.raises(ConfigurationError, match=r"'memory'.*must be inside the tool loop"):
        client_of(InMemoryStore(), [], keep_failed=True)
