"""RetryAdvisor: what is repeated, what never is, when, and what shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ChatRequest,
    ChatResponse,
    CircuitOpenError,
    ConfigurationError,
    ModelError,
    Order,
    Restarted,
    Runtime,
    TextDelta,
    ToolCall,
    ToolError,
    ToolPermissionError,
    TurnAbortedError,
    tool,
)
from advisorchain.advisors import AuditAdvisor, RetryAdvisor, RetryPolicy, ToolCallingAdvisor, ToolFallbackAdvisor
from advisorchain.failures import ATTEMPTS
from advisorchain.testing import ScriptedModel

BUSY = ModelError("overloaded", transient=True)


class Records:
    """An audit sink."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write(self, record: Any, *, durable: bool = False) -> None:
        self.written.append(dict(record))


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


@pytest.fixture
def time() -> Time:
    return Time()


def client(model: Any, time: Time, tools: Any = (), /, **settings: Any) -> ChatClient:
    advisors = [RetryAdvisor(sleep=time.sleep, **settings)]
    return ChatClient(model, tools=tools, advisors=advisors, runtime=Runtime(clock=time.clock, jitter=lambda: 0.5))


def failing(errors: list[Any], **settings: Any) -> tuple[Any, list[int]]:
    """A tool that raises these errors, then answers; and how often it was called."""
    calls: list[int] = []

    @tool(name="book", description="Book.", **settings)
    async def book() -> str:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "booked"

    return book, calls


# Model calls ---------------------------------------------------------------------------------------------------------


async def test_a_transient_failure_is_repeated(run: Any, time: Time) -> None:
    model = ScriptedModel([BUSY, BUSY, "hello"])
    response = await run(client(model, time), "Hi")
    assert response.text == "hello"
    assert response.metadata["attempts"] == 3
    assert time.slept == [0.375, 0.75], "0.5 and 1: half of it is random, and the random number is 0.5"


async def test_the_first_attempt_leaves_no_mark(run: Any, time: Time) -> None:
    response = await run(client(ScriptedModel(["hello"]), time), "Hi")
    assert "attempts" not in response.metadata


async def test_exhausted_attempts_raise_the_last_error(run: Any, time: Time) -> None:
    errors = [ModelError(f"overloaded {number}", transient=True) for number in range(3)]
    model = ScriptedModel(errors)
    with pytest.raises(ModelError, match="overloaded 2") as caught:
        await run(client(model, time), "Hi")
    assert caught.value is errors[2]
    model.assert_finished()


@pytest.mark.parametrize(
    "error",
    [ModelError("bad request", status=400), TypeError("a bug"), CircuitOpenError("scripted"), TurnAbortedError("stop")],
    ids=repr,
)
async def test_what_is_never_repeated(run: Any, time: Time, error: Exception) -> None:
    model = ScriptedModel([error, "never"])
    with pytest.raises(type(error)):
        await run(client(model, time), "Hi")
    assert len(model.requests) == 1
    assert time.slept == []


async def test_the_bug_of_an_inner_advisor_is_not_repeated(run: Any, time: Time) -> None:
    class Buggy(Advisor):
        order = Order.BUDGET
        calls = 0

        async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
            self.calls += 1
            return None + 1  # type: ignore[operator, no-any-return]

    buggy = Buggy()
    made = ChatClient(ScriptedModel(["never"]), advisors=[RetryAdvisor(sleep=time.sleep), buggy])
    with pytest.raises(TypeError):
        await run(made, "Hi")
    assert buggy.calls == 1


async def test_retry_after_is_honoured(run: Any, time: Time) -> None:
    model = ScriptedModel([ModelError("slow down", transient=True, retry_after=40.0), "hello"])
    response = await run(client(model, time), "Hi")
    assert response.text == "hello"
    assert time.slept == [40.0], "over max_wait: the provider knows"


async def test_retry_after_respects_the_deadline(run: Any, time: Time) -> None:
    model = ScriptedModel([ModelError("quota", transient=True, retry_after=3600.0), "never"])
    with pytest.raises(ModelError, match="quota"):
        await run(client(model, time), "Hi")
    assert time.slept == [], "nobody waits for what cannot help"
    assert len(model.requests) == 1


async def test_the_deadline_counts_from_the_first_attempt(run: Any, time: Time) -> None:
    def slow(request: ChatRequest) -> Any:
        time.now += 59.8
        return BUSY

    model = ScriptedModel([slow, "never"])
    with pytest.raises(ModelError):
        await run(client(model, time, model=RetryPolicy(wait=0.5, jitter=0)), "Hi")
    assert time.slept == []


async def test_waits_grow_up_to_their_bound(run: Any, time: Time) -> None:
    policy = RetryPolicy(attempts=6, wait=1, factor=3, max_wait=10, jitter=0, deadline=None)
    model = ScriptedModel([BUSY] * 5 + ["hello"])
    await run(client(model, time, model=policy), "Hi")
    assert time.slept == [1, 3, 9, 10, 10]


async def test_jitter_stays_in_its_share() -> None:
    policy = RetryPolicy(wait=8, jitter=0.25)
    assert policy.pause(1, BUSY, 0.0) == 8
    assert policy.pause(1, BUSY, 1.0) == 6
    for factor in (2.0, 3, 10.0):
        policy = RetryPolicy(wait=8, factor=factor)
        assert policy.pause(100_000, BUSY, 0.0) == policy.max_wait, "no overflow"


async def test_each_attempt_has_its_timeout(run: Any, time: Time) -> None:
    calls = 0

    async def hangs(request: ChatRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return "hello"

    model = ScriptedModel([hangs, hangs])
    response = await run(client(model, time, model={"attempt_timeout": 0.02}), "Hi")
    assert response.text == "hello"
    assert response.metadata["attempts"] == 2


async def test_an_attempt_is_cut_at_the_deadline(run: Any, time: Time) -> None:
    async def hangs(request: ChatRequest) -> str:
        time.now = 0.1
        await anyio.sleep_forever()
        raise AssertionError

    model = ScriptedModel([BUSY, hangs])
    made = client(model, time, model=RetryPolicy(wait=0, deadline=0.1))
    with anyio.fail_after(10), pytest.raises(ModelError, match="did not answer"):
        await run(made, "Hi")


async def test_cancellation_in_a_back_off_is_immediate(run: Any) -> None:
    model = ScriptedModel([BUSY, "never"])
    made = ChatClient(model, advisors=[RetryAdvisor(model=RetryPolicy(wait=30, max_wait=30, jitter=0))])
    start = anyio.current_time()
    with anyio.move_on_after(0.05) as scope:
        await run(made, "Hi")
    assert scope.cancelled_caught
    assert anyio.current_time() - start < 10
    assert len(model.requests) == 1


async def test_only_the_failed_model_call_is_repeated(run: Any, time: Time) -> None:
    book, calls = failing([])
    model = ScriptedModel([ToolCall("book"), BUSY, "done"])
    response = await run(client(model, time, [book]), "Book")
    assert response.text == "done"
    assert len(calls) == 1
    assert response.metadata["attempts"] == 2


async def test_the_attempts_of_a_whole_turn(run: Any, time: Time) -> None:
    """Also of a call that is answered directly, and in the audit record of one that failed for good."""
    look, _ = failing([ConnectionResetError()] * 2, idempotent=True)
    show = tool(name="show", description="Show.", return_direct=True)(lambda: "shown")
    model = ScriptedModel([BUSY, ToolCall("book", id="c1"), BUSY, BUSY, ToolCall("show", id="c2")])
    made = ChatClient(
        model,
        tools=[look, show],
        advisors=[RetryAdvisor(sleep=time.sleep), AuditAdvisor(records := Records())],
    )
    response = await run(made, "Look")
    assert response.stop_reason == "return_direct"
    (turn,) = {turn for turn, _ in response.request.context[ATTEMPTS]}
    assert response.request.context[ATTEMPTS] == {(turn, 1): 2, (turn, "c1"): 2, (turn, 2): 3}
    assert [record.get("attempts") for record in records.written if record["kind"] == "tool"] == [2, None]


async def test_model_none_repeats_no_model_call(run: Any, time: Time) -> None:
    with pytest.raises(ModelError):
        await run(client(ScriptedModel([BUSY, "never"]), time, model=None), "Hi")


# Streams -------------------------------------------------------------------------------------------------------------


def breaks_after(text: str) -> Callable[[ChatRequest], Any]:
    async def step(request: ChatRequest) -> Any:
        for half in (text[: len(text) // 2], text[len(text) // 2 :]):
            await request.emit(TextDelta(half))
        return BUSY

    return step


async def test_a_stream_that_broke_after_two_chunks_is_not_repeated(time: Time) -> None:
    model = ScriptedModel([breaks_after("half an"), "never"])
    texts: list[str] = []
    with pytest.raises(ModelError, match="overloaded"):
        async with client(model, time).stream("Hi") as stream:
            async for event in stream:
                assert not isinstance(event, Restarted)
                if isinstance(event, TextDelta):
                    texts.append(event.text)
    assert "".join(texts) == "half an"
    assert len(model.requests) == 1


async def test_under_call_it_is_repeated(time: Time) -> None:
    model = ScriptedModel([breaks_after("half an"), "whole"])
    assert (await client(model, time).call("Hi")).text == "whole"


async def test_on_partial_restart_withdraws_and_repeats(run: Any, time: Time) -> None:
    model = ScriptedModel([breaks_after("half an"), "whole"])
    response = await run(client(model, time, on_partial="restart"), "Hi")
    assert response.text == "whole"
    assert sum(isinstance(event, Restarted) for event in run.events) == (run.mode == "stream")


async def test_what_an_earlier_round_has_emitted_does_not_count(run: Any, time: Time) -> None:
    book, _ = failing([])
    model = ScriptedModel([["I book.", ToolCall("book")], BUSY, "done"])
    assert (await run(client(model, time, [book]), "Book")).text == "done"


class Again(Advisor):
    """Asks twice, as an evaluation with feedback does."""

    order = Order.GUARD_ROUND

    async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        await call_next(request)
        return await call_next(request)  # type: ignore[no-any-return]


class Refuses(Advisor):
    """Fails before the model is reached, the second time."""

    order = Order.RATE_LIMIT

    def __init__(self) -> None:
        self.calls = 0

    async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        self.calls += 1
        if self.calls == 2:
            raise ConnectionResetError
        return await call_next(request)  # type: ignore[no-any-return]


async def test_what_an_outer_advisors_first_call_emitted_does_not_count(run: Any, time: Time) -> None:
    """The round has text, but not of the attempt that failed."""
    model = ScriptedModel(["first", BUSY, "second"])
    made = ChatClient(model, advisors=[RetryAdvisor(sleep=time.sleep), Again()])
    assert (await run(made, "Hi")).text == "second"
    model = ScriptedModel(["first", "second"])
    made = ChatClient(model, advisors=[RetryAdvisor(sleep=time.sleep), Again(), Refuses()])
    assert (await run(made, "Hi")).text == "second"


async def test_a_holding_advisor_makes_a_repetition_safe(run: Any, time: Time) -> None:
    class Holds(Advisor):
        order = Order.GUARD_OUTPUT
        streams = "hold"

        async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
            return await call_next(request)  # type: ignore[no-any-return]

    model = ScriptedModel([breaks_after("half an"), "whole"])
    made = ChatClient(model, advisors=[RetryAdvisor(sleep=time.sleep), Holds()])
    assert (await run(made, "Hi")).text == "whole"


# Tool calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["idempotent", "read_only"])
async def test_a_tool_that_may_run_twice_is_repeated(run: Any, time: Time, hint: str) -> None:
    book, calls = failing([ConnectionResetError()], **{hint: True})
    model = ScriptedModel([ToolCall("book"), "done"])
    made = client(model, time, [book])
    response = await run(made, "Book")
    assert len(calls) == 2
    assert time.slept == [1.0]
    (message,) = [message for message in response.new_messages if message.role == "tool"]
    assert message.text == "booked"
    assert model.requests[-1].tool_results[0].metadata == {"attempts": 2}


async def test_any_other_tool_is_called_once_after_a_timeout(run: Any, time: Time) -> None:
    calls = 0

    @tool(timeout=0.02)
    async def book() -> str:
        """Book."""
        nonlocal calls
        calls += 1
        await anyio.sleep_forever()
        raise AssertionError

    model = ScriptedModel([ToolCall("book"), "done"])
    await run(client(model, time, [book]), "Book")
    assert calls == 1
    assert model.requests[-1].tool_results[0].is_error


async def test_a_timeout_of_an_idempotent_tool_is_repeated(run: Any, time: Time) -> None:
    calls = 0

    @tool(timeout=0.02, idempotent=True)
    async def look() -> str:
        """Look."""
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return "seen"

    model = ScriptedModel([ToolCall("look"), "done"])
    await run(client(model, time, [look]), "Look")
    assert model.requests[-1].tool_results[0].content == "seen"


@pytest.mark.parametrize("error", [ConnectionRefusedError(), httpx2.ConnectError("refused")], ids=repr)
async def test_a_call_that_was_never_sent_is_repeated(run: Any, time: Time, error: Exception) -> None:
    book, calls = failing([error])
    await run(client(ScriptedModel([ToolCall("book"), "done"]), time, [book]), "Book")
    assert len(calls) == 2


@pytest.mark.parametrize("leaks", [1, 2])
async def test_a_cancellation_that_a_transport_leaked_is_a_failure(run: Any, time: Time, leaks: int) -> None:
    """On trio, where nothing else raises it, just so."""
    look, calls = failing([asyncio.CancelledError()] * leaks, idempotent=True)
    model = ScriptedModel([ToolCall("book"), "done"])
    await run(client(model, time, [look]), "Look")
    assert len(calls) == 2
    assert model.requests[-1].tool_results[0].is_error == (leaks == 2)


async def test_a_cancelled_tool_call_is_not_repeated(run: Any, time: Time) -> None:
    calls: list[int] = []

    @tool(idempotent=True)
    async def look() -> str:
        """Look."""
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionResetError
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    made = client(ScriptedModel([ToolCall("look"), "never"]), time, [look], tool={"attempts": 5})
    with anyio.CancelScope() as scope:
        await run(made, "Look")
    assert scope.cancelled_caught and len(calls) == 2


async def test_once_it_may_have_been_sent_it_is_not_repeated(run: Any, time: Time) -> None:
    book, calls = failing([ConnectionRefusedError(), ConnectionResetError()])
    made = client(ScriptedModel([ToolCall("book"), "done"]), time, [book], tool={"attempts": 5})
    await run(made, "Book")
    assert len(calls) == 2


@pytest.mark.parametrize(
    "error",
    [ValueError("bug"), PermissionError(), ToolPermissionError("book"), ToolError("no"), CircuitOpenError("book")],
    ids=repr,
)
async def test_a_tool_failure_that_stays(run: Any, time: Time, error: Exception) -> None:
    book, calls = failing([error], idempotent=True)
    await run(client(ScriptedModel([ToolCall("book"), "done"]), time, [book]), "Book")
    assert len(calls) == 1
    assert time.slept == []


def answering(texts: list[str], **settings: Any) -> tuple[Any, list[str]]:
    """A tool that gives these texts in turn; and what it gave."""
    given: list[str] = []

    @tool(name="look", description="Look.", **settings)
    async def look() -> str:
        given.append(texts[len(given)])
        return given[-1]

    return look, given


CLOSED = "MCP error -32000: Connection closed"


@pytest.mark.parametrize(
    ("texts", "settings", "calls"),
    [
        ([CLOSED, "seen"], {"idempotent": True}, 2),
        ([CLOSED, CLOSED], {"idempotent": True}, 2),
        ([CLOSED], {}, 1),
        (["MCP error -32602: invalid params"], {"idempotent": True}, 1),
    ],
    ids=["repaired", "stays", "may have happened", "for the model to repair"],
)
async def test_a_failure_in_disguise(run: Any, time: Time, texts: list[str], settings: Any, calls: int) -> None:
    look, given = answering(texts, **settings)
    model = ScriptedModel([ToolCall("look"), "done"])
    await run(client(model, time, [look]), "Look")
    assert given == texts and len(given) == calls
    result = model.requests[-1].tool_results[0]
    assert result.content == texts[-1], "never turned into an answer, nor into an error of ours"
    assert (result.metadata or {}).get("attempts") == (2 if calls == 2 else None)


async def test_disguises_by_source_and_attempts_in_the_record(run: Any, time: Time) -> None:
    matchers: Any = {"local": lambda result: "transient" if result.content == "BUSY" else None}
    look, given = answering(["BUSY"] * 2, read_only=True)
    model = ScriptedModel([ToolCall("look"), "done"])
    advisors = [RetryAdvisor(sleep=time.sleep, matchers=matchers), ToolFallbackAdvisor(matchers=matchers)]
    await run(ChatClient(model, tools=[look], advisors=advisors), "Look")
    failure = model.requests[-1].tool_results[0].failure
    assert failure is not None and (failure["kind"], failure["attempts"], len(given)) == ("degraded", 2, 2)


async def test_overrides_by_tool(run: Any, time: Time) -> None:
    book, calls = failing([ConnectionResetError()] * 3)
    look, looks = failing([ConnectionResetError()], idempotent=True)
    look = look.replace(name="look")
    model = ScriptedModel([ToolCall("book"), ToolCall("look"), "done"])
    overrides = {"book": {"attempts": 4, "replay": True, "wait": 0.1}, "look": None}
    await run(client(model, time, [book, look], tools=overrides), "Book")
    assert len(calls) == 4
    assert len(looks) == 1
    assert time.slept == [0.1] * 3


async def test_replay_false_forbids_what_the_hints_allow(run: Any, time: Time) -> None:
    book, calls = failing([ConnectionResetError()], idempotent=True)
    made = client(ScriptedModel([ToolCall("book"), "done"]), time, [book], tools={"book": {"replay": False}})
    await run(made, "Book")
    assert len(calls) == 1


async def test_two_calls_of_one_round_are_repeated_apart(run: Any, time: Time) -> None:
    book, calls = failing([ConnectionResetError(), ConnectionResetError()], idempotent=True)
    model = ScriptedModel([[ToolCall("book"), ToolCall("book")], "done"])
    await run(client(model, time, [book]), "Book")
    assert len(calls) == 4
    assert [result.content for result in model.requests[-1].tool_results] == ["booked", "booked"]


async def test_an_exhausted_tool_failure_stays_an_error(run: Any, time: Time) -> None:
    book, calls = failing([ConnectionResetError("secret")] * 2, idempotent=True)
    model = ScriptedModel([ToolCall("book"), "done"])
    await run(client(model, time, [book]), "Book")
    result = model.requests[-1].tool_results[0]
    assert len(calls) == 2
    assert result.is_error and "ConnectionResetError" in result.content and "secret" not in result.content


async def test_arguments_are_not_shared_between_attempts(run: Any, time: Time) -> None:
    seen: list[list[int]] = []

    @tool(idempotent=True)
    async def add(numbers: list[int]) -> int:
        """Add."""
        seen.append(list(numbers))
        numbers.clear()
        if len(seen) == 1:
            raise ConnectionResetError
        return 0

    model = ScriptedModel([ToolCall("add", {"numbers": [1, 2]}), "done"])
    await run(client(model, time, [add]), "Add")
    assert seen == [[1, 2], [1, 2]]


# Set up --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"model": {"attempts": 0}},
        {"model": {"wait": -1}},
        {"model": {"jitter": 1.5}},
        {"model": {"atempts": 2}},
        {"tool": {"attempt_timeout": 0}},
        {"tool": 3},
        {"tools": {"book": "never"}},
        {"on_partial": "repeat"},
        {"matchers": {"crm": "BUSY"}},
        {"matchers": ["crm"]},
        {"model": {"attempts": True}},
        {"model": {"wait": float("nan")}},
        {"model": {"deadline": "60"}},
        {"tools": {"book": {"replay": "false"}}},
        {"tools": ["book"]},
        {"sleep": 3},
        {"failures": "transient"},
    ],
    ids=repr,
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RetryAdvisor(**settings)


def test_it_stands_inside_the_loop() -> None:
    with pytest.raises(ConfigurationError, match="inside"):
        ChatClient(ScriptedModel([]), advisors=[RetryAdvisor(order=300), ToolCallingAdvisor()])


async def test_a_mapping_of_one_tool_starts_from_the_policy_for_tools() -> None:
    advisor = RetryAdvisor(tool={"attempts": 7}, tools={"book": {"wait": 2}})
    assert advisor.tools["book"] == RetryPolicy(attempts=7, wait=2, factor=1.0, jitter=0.0)
