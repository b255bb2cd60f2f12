"""The turn's context: typed keys, forks, and ``at_turn_end``."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Context,
    ContextKey,
    Finished,
    ModelError,
    OutputError,
    Runtime,
    ToolCall,
    Turn,
    TurnEnd,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

COUNT = ContextKey[int]("test.count")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def context(**values: Any) -> Context:
    return Context(Turn(Runtime()), dict(values))


# Keys and forks ------------------------------------------------------------------------------------------------------


def test_keys_of_one_name_are_one_key() -> None:
    ctx = context()
    ctx[COUNT] = 1
    assert ctx[ContextKey[int]("test.count")] == 1 and ctx["test.count"] == 1
    assert ContextKey("a") != ContextKey("b") and COUNT in ctx and "other" not in ctx
    assert repr(COUNT) == "ContextKey('test.count')"


def test_reading() -> None:
    ctx = context(a=None)
    assert ctx["a"] is None and ctx.get("a", 5) is None, "None is a value"
    assert ctx.get("b") is None and ctx.get("b", 5) == 5
    assert ctx.setdefault("b", 6) == 6 and ctx["b"] == 6
    assert ctx.setdefault("a", 6) is None
    with pytest.raises(KeyError):
        ctx["c"]


def test_a_fork_reads_through_and_writes_for_itself() -> None:
    parent = context(a=1, b=1)
    child = parent.fork()
    child["a"] = 2
    assert (child["a"], parent["a"], child["b"]) == (2, 1, 1)
    parent["b"] = 3
    assert child["b"] == 3, "reads fall through to what the parent is now"
    grandchild = child.fork()
    assert grandchild.setdefault("a", 9) == 2 and sorted(grandchild) == ["a", "b"]
    grandchild["c"] = 1
    assert "c" not in child and child.ledger is parent.ledger and child.turn is parent.turn


async def test_what_is_written_in_round_one_is_there_in_round_two(run: Any) -> None:
    seen: list[int] = []

    @chat_advisor(order=600)
    async def count(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        request.context[COUNT] = request.context.get(COUNT, 0) + 1
        seen.append(request.context[COUNT])
        return await call_next(request)

    client = ChatClient(ScriptedModel([[ToolCall("add", {"a": 1, "b": 2})], "3", "4"]), tools=[add], advisors=[count])
    settings = {COUNT: 10}
    await run(client, "?", context=settings)
    await run(client, "?")
    assert seen == [11, 12, 1], "and gone with the turn"
    assert settings == {COUNT: 10}, "the caller's mapping is not written to"


# at_turn_end ---------------------------------------------------------------------------------------------------------


class Ending:
    """An advisor that registers callbacks in every round."""

    name, order = "ending", 300

    def __init__(self, *callbacks: Any) -> None:
        self.callbacks = callbacks

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        for callback in self.callbacks:
            request.context.at_turn_end(callback)
        return await call_next(request)


def noting(log: list[Any], name: str, error: BaseException | None = None, seconds: float = 0.0) -> Any:
    async def note(end: TurnEnd) -> None:
        if seconds:
            await anyio.sleep(seconds)
        log.append((name, end))
        if error is not None:
            raise error

    return note


def named(log: list[Any]) -> list[str]:
    return [name for name, _ in log]


async def test_on_success_in_reverse_order(run: Any) -> None:
    log: list[Any] = []
    steps = [[ToolCall("add", {"a": 1, "b": 2})], "3"]
    advisor = Ending(noting(log, "first"), noting(log, "second"), noting(log, "third"))
    response = await run(ChatClient(ScriptedModel(steps), tools=[add], advisors=[advisor]), "1 + 2?")
    assert named(log) == ["third", "second", "first"]
    for _, end in log:
        assert end.response is response and end.error is None
        assert [message.role for message in end.messages] == ["user", "assistant", "tool", "assistant"]


async def test_on_an_error(run: Any) -> None:
    log: list[Any] = []
    error = ModelError("down")
    steps = [[ToolCall("add", {"a": 1, "b": 2})], error]
    client = ChatClient(ScriptedModel(steps), tools=[add], advisors=[Ending(noting(log, "a"), noting(log, "b"))])
    with pytest.raises(ModelError) as caught:
        await run(client, "?")
    assert caught.value is error and named(log) == ["b", "a"]
    for _, end in log:
        assert end.response is None and end.error is error
        assert [message.role for message in end.messages] == ["user", "assistant", "tool"], "its complete rounds"


async def test_on_an_answer_that_does_not_fit(run: Any) -> None:
    log: list[Any] = []
    client = ChatClient(ScriptedModel(["no number"]), advisors=[Ending(noting(log, "a"))])
    with pytest.raises(OutputError) as caught:
        await run(client, "?", output_type=int)
    assert [end.error for _, end in log] == [caught.value]


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_on_cancellation(mode: str) -> None:
    log: list[Any] = []

    async def hangs(request: ChatRequest) -> ChatResponse[Any]:
        await anyio.sleep_forever()
        raise AssertionError

    client = ChatClient(hangs, advisors=[Ending(noting(log, "a", seconds=0.05), noting(log, "b", seconds=0.05))])
    with anyio.move_on_after(0.05) as scope:
        if mode == "call":
            await client.call("?")
        else:
            async with client.stream("?") as stream:
                await stream.response()
    assert scope.cancelled_caught and named(log) == ["b", "a"], "shielded, and before the caller goes on"
    for _, end in log:
        assert end.response is None and isinstance(end.error, anyio.get_cancelled_exc_class())


async def test_cancelled_while_they_run(run: Any) -> None:
    log: list[str] = []

    async def commit(end: TurnEnd) -> None:
        scope.cancel()
        await anyio.sleep(0.05)
        log.append("committed")

    with anyio.CancelScope() as scope:
        await run(ChatClient(ScriptedModel(["ok"]), advisors=[Ending(commit)]), "?")
    assert log == ["committed"]


async def test_a_failing_callback_fails_the_call_before_finished(run: Any) -> None:
    log: list[Any] = []
    error = OSError("store is full")
    advisor = Ending(noting(log, "first"), noting(log, "second", error), noting(log, "third"))
    with pytest.raises(OSError, match="full") as caught:
        await run(ChatClient(ScriptedModel(["ok"]), advisors=[advisor]), "?")
    assert caught.value is error and named(log) == ["third", "second", "first"]
    assert not any(isinstance(event, Finished) for event in run.events)
    ends = dict(log)
    assert ends["third"].response is not None
    assert ends["first"].response is None and ends["first"].error is error, "those after it know that the turn failed"


async def test_a_second_failing_callback_is_logged(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    first, second = OSError("first"), OSError("second")
    client = ChatClient(ScriptedModel(["ok"]), advisors=[Ending(noting(log, "b", second), noting(log, "a", first))])
    with pytest.raises(OSError, match="first"):
        await run(client, "?")
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [second]


async def test_a_callback_that_fails_after_an_error_is_logged(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    error, other = ModelError("down"), OSError("store is full")
    client = ChatClient(ScriptedModel([error]), advisors=[Ending(noting(log, "a"), noting(log, "b", other))])
    with pytest.raises(ModelError) as caught:
        await run(client, "?")
    assert caught.value is error and named(log) == ["b", "a"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info is not None and record.exc_info[1] is other


async def test_they_may_not_take_for_ever(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("advisorchain.turn_end.TURN_END_SECONDS", 0.05)
    log: list[Any] = []
    client = ChatClient(ScriptedModel(["ok"]), advisors=[Ending(noting(log, "a"), noting(log, "b", seconds=60))])
    with anyio.fail_after(10), pytest.raises(TimeoutError, match=r"0\.05"):
        await run(client, "?")
    assert named(log) == [] and "0.05" in caplog.text


async def test_they_may_not_take_for_ever_after_an_error(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("advisorchain.turn_end.TURN_END_SECONDS", 0.05)
    error = ModelError("down")
    client = ChatClient(ScriptedModel([error]), advisors=[Ending(noting([], "b", seconds=60))])
    with anyio.fail_after(10), pytest.raises(ModelError) as caught:
        await run(client, "?")
    assert caught.value is error and "0.05" in caplog.text


async def test_a_callback_may_register_another(run: Any) -> None:
    log: list[Any] = []

    async def more(end: TurnEnd) -> None:
        contexts[0].at_turn_end(noting(log, "late"))

    contexts: list[Context] = []

    @chat_advisor(order=100)
    async def register(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        contexts.append(request.context)
        request.context.at_turn_end(more)
        return await call_next(request)

    await run(ChatClient(ScriptedModel(["ok"]), advisors=[register]), "?")
    assert named(log) == ["late"]


async def test_a_fork_registers_with_the_turn(run: Any) -> None:
    log: list[Any] = []

    @chat_advisor(order=300)
    async def forked(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        request.fork().context.at_turn_end(noting(log, "a"))
        return await call_next(request)

    await run(ChatClient(ScriptedModel(["ok"]), advisors=[forked]), "?")
    assert named(log) == ["a"]


async def test_a_short_circuit_is_a_turn_too(run: Any) -> None:
    log: list[Any] = []

    @chat_advisor(order=400)
    async def cached(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="cached"))

    response = await run(ChatClient(ScriptedModel([]), advisors=[Ending(noting(log, "a")), cached]), "?")
    ((_, end),) = log
    assert end.response is response
    assert [message.text for message in end.messages] == ["?", "cached"], "the transcript ends with the answer"


async def test_the_transcript_is_the_answer_that_was_given(run: Any) -> None:
    """An outer advisor changes the answer, and another discards a first attempt."""
    log: list[Any] = []

    @chat_advisor(order=350, streams="hold")
    async def redact(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        await call_next(request)
        response = await call_next(request)
        return response.replace(message=AssistantMessage(content="redacted"))

    client = ChatClient(ScriptedModel(["one", "two"]), advisors=[Ending(noting(log, "a")), redact])
    await run(client, "?")
    ((_, end),) = log
    assert [message.text for message in end.messages] == ["?", "redacted"]


async def test_a_turn_knows_whether_it_goes_on_with_an_earlier_one(run: Any) -> None:
    model = ScriptedModel([[ToolCall("nothing", {}, "c0")], "done", "new"])
    client = ChatClient(model, tool_loop=False)
    ran = await client.execute_tools(await run(client, "go"))
    await run(client, ran.messages)
    await run(client, "something else")
    assert [request.context.turn.continues for request in model.requests] == [False, True, False]
