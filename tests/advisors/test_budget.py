"""BudgetAdvisor: nothing is spent beyond the budget, per turn and per conversation."""

from __future__ import annotations

import contextlib
from typing import Any

import anyio
import pytest

from advisorchain import (
    BudgetExceededError,
    ChatClient,
    ConfigurationError,
    ModelError,
    Runtime,
    SharedStateError,
    ToolCall,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import (
    BudgetAdvisor,
    CircuitBreakerAdvisor,
    InMemoryBudget,
    ModelFallbackAdvisor,
    ModelPrice,
    RetryAdvisor,
    Spent,
)
from advisorchain.testing import ScriptedModel

USAGE = Usage(80, 20)
PRICES = {"m": ModelPrice(input=1.0, output=10.0, cache_read=0.1), "cheap": ModelPrice(0.1, 0.1)}


@tool(repeatable=True)
async def look() -> str:
    """Look."""
    return "seen"


def model(*steps: Any, name: str = "m", usage: Usage | None = USAGE) -> ScriptedModel:
    return ScriptedModel(steps or [[ToolCall("look")]] * 50, name=name, usage=usage)


@pytest.mark.parametrize(
    ("settings", "calls", "limit", "spent"),
    [
        ({"max_tokens": 250}, 3, "tokens", 300),
        ({"max_tokens": 300}, 3, "tokens", 300),
        ({"max_calls": 4}, 4, "calls", 4),
        ({"max_cost": 0.0007, "prices": PRICES}, 3, "cost", 0.00084),
        ({"max_tokens": 10_000, "max_calls": 2}, 2, "calls", 2),
    ],
)
async def test_the_call_that_would_spend_more_is_not_made(
    run: Any, settings: Any, calls: int, limit: str, spent: float
) -> None:
    chat = ChatClient(model(), tools=[look], advisors=[BudgetAdvisor(**settings)])
    with pytest.raises(BudgetExceededError, match=f"{limit} per turn is spent") as raised:
        await run(chat, "go")
    assert len(chat.model.requests) == calls  # type: ignore[attr-defined]
    assert raised.value.limit == limit
    assert raised.value.spent == pytest.approx(spent)
    assert raised.value.allowed == settings[f"max_{limit}"]
    # Another turn has a budget of its own.
    with pytest.raises(BudgetExceededError):
        await run(chat, "go")
    assert len(chat.model.requests) == 2 * calls  # type: ignore[attr-defined]


async def test_large_numbers_are_told_in_full(run: Any) -> None:
    used = Usage(3_000_000, 1)
    chat = ChatClient(model("a", "b", usage=used), advisors=[BudgetAdvisor(max_tokens=2_000_000, per="conversation")])
    await run(chat, "go", conversation_id="c")
    with pytest.raises(BudgetExceededError, match="2,000,000 tokens per conversation is spent: 3,000,001"):
        await run(chat, "go", conversation_id="c")


async def test_wall_time(run: Any) -> None:
    now = [0.0]

    def step(request: Any) -> list[ToolCall]:
        now[0] += 4
        return [ToolCall("look")]

    chat = ChatClient(
        model(*[step] * 9),
        tools=[look],
        advisors=[BudgetAdvisor(max_seconds=10)],
        runtime=Runtime(clock=lambda: now[0]),
    )
    with pytest.raises(BudgetExceededError, match="seconds per turn is spent: 12"):
        await run(chat, "go")
    assert len(chat.model.requests) == 3  # type: ignore[attr-defined]


async def test_reentry_and_failed_attempts_count(run: Any) -> None:
    @chat_advisor(order=250, name="again")
    async def again(request: Any, call_next: Any) -> Any:
        while True:
            with contextlib.suppress(ModelError):
                await call_next(request.muted())

    steps = ["a", ModelError("down"), "b", ModelError("down"), *["c"] * 9]
    chat = ChatClient(model(*steps), advisors=[again, BudgetAdvisor(max_calls=5)])
    with pytest.raises(BudgetExceededError):
        await run(chat, "go")
    assert len(chat.model.requests) == 5  # type: ignore[attr-defined]


async def test_concurrent_calls_share_the_budget(run: Any) -> None:
    @chat_advisor(order=300, name="fan")
    async def fan(request: Any, call_next: Any) -> Any:
        answers: list[Any] = []

        async def one() -> None:
            try:
                answers.append(await call_next(request.muted().fork()))
            except BudgetExceededError:
                answers.append(None)

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(one)
        assert sum(answer is not None for answer in answers) == 3
        return next(answer for answer in answers if answer is not None)

    async def slow(request: Any) -> str:
        await anyio.sleep(0.01)
        return "x"

    for settings in ({"max_calls": 3}, {"max_tokens": 3500}):
        chat = ChatClient(model(*[slow] * 10), advisors=[fan, BudgetAdvisor(**settings)], options={"max_tokens": 1000})  # type: ignore[arg-type]
        await run(chat, "go")


async def test_what_a_call_may_take_is_checked_before_it(run: Any) -> None:
    chat = ChatClient(model("hi"), advisors=[BudgetAdvisor(max_tokens=500)], options={"max_tokens": 501})
    with pytest.raises(BudgetExceededError, match="is spent: 0, and the next call may take 501"):
        await run(chat, "go")
    assert chat.model.requests == []  # type: ignore[attr-defined]


async def test_a_conversation_has_one_budget(run: Any) -> None:
    advisor = BudgetAdvisor(max_tokens=350, per="conversation")
    chat = ChatClient(model(*["hi"] * 20), advisors=[advisor])
    for _ in range(4):
        await run(chat, "go", conversation_id="a")
    with pytest.raises(BudgetExceededError, match="350 tokens per conversation is spent: 400"):
        await run(chat, "go", conversation_id="a")
    await run(chat, "go", conversation_id="b")
    await run(chat, "go")
    assert len(chat.model.requests) == 6  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"max_calls": 3}, 3),
        ({"max_tokens": 3500}, 3),
        ({"max_cost": 0.035, "prices": {"m": ModelPrice(1.0, 10.0)}}, 3),
    ],
    ids=["calls", "tokens", "cost"],
)
async def test_turns_at_once_do_not_overspend_together(run: Any, settings: Any, allowed: int) -> None:
    calls: list[int] = []

    async def slow(request: Any) -> str:
        calls.append(1)
        await anyio.sleep(0.02)
        return "x"

    state = InMemoryBudget()
    advisor = BudgetAdvisor(per="conversation", state=state, **settings)
    chat = ChatClient(model(*[slow] * 10), advisors=[advisor], options={"max_tokens": 1000})

    async def turn() -> None:
        with contextlib.suppress(BudgetExceededError):
            await type(run)(run.mode)(chat, "go", conversation_id="a")

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(turn)
    assert len(calls) == allowed
    spent = await state.add("a", Spent())
    assert (spent.calls, spent.tokens) == (allowed, 100 * allowed), "claims are given back, what was used is kept"


@pytest.mark.parametrize("when", ["asked", "answered"])
async def test_a_cancelled_check_leaves_no_claim(run: Any, when: str) -> None:
    class Slow(InMemoryBudget):
        async def add(self, conversation_id: str, spent: Spent) -> Spent:
            if when == "asked":
                scope.cancel()
                await anyio.sleep(0.01)
            total = await super().add(conversation_id, spent)
            scope.cancel()
            await anyio.sleep(0.01)
            return total

    state = Slow()
    chat = ChatClient(
        model("never"),
        advisors=[BudgetAdvisor(max_calls=3, per="conversation", state=state)],
        options={"max_tokens": 500},
    )
    with anyio.CancelScope() as scope:
        await run(chat, "go", conversation_id="a")
    assert scope.cancelled_caught and chat.model.requests == []  # type: ignore[attr-defined]
    left = await InMemoryBudget.add(state, "a", Spent())
    assert (left.calls, left.tokens) == (0, 0)


class Broken(InMemoryBudget):
    """Its server goes away after so many answers."""

    def __init__(self, answers: int = 0, hangs: bool = False) -> None:
        super().__init__()
        self.answers = answers
        self.hangs = hangs

    async def add(self, conversation_id: str, spent: Spent) -> Spent:
        self.answers -= 1
        if self.answers >= 0:
            return await super().add(conversation_id, spent)
        if self.hangs:
            await anyio.sleep_forever()
        raise ConnectionError("redis://ada:secret@cache is down")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_state_that_fails_refuses_the_call_and_is_no_failure_of_the_model(
    run: Any, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr("advisorchain.advisors.budget.POST_SECONDS", 0.05)
    breaker = CircuitBreakerAdvisor(models=True, failures=1)
    advisors = [
        ModelFallbackAdvisor([model("no help either", name="second")]),
        RetryAdvisor(model={"wait": 0.01}),
        breaker,
        BudgetAdvisor(max_calls=3, per="conversation", state=(state := Broken(hangs=hangs))),
    ]
    chat = ChatClient(model("never"), advisors=advisors)
    said = r"'budget' did not answer within 0\.05 seconds\.$" if hangs else r"'budget' failed \(ConnectionError\)\.$"
    with anyio.fail_after(10), pytest.raises(SharedStateError, match=said):
        await run(chat, "go", conversation_id="a")
    assert chat.model.requests == []  # type: ignore[attr-defined]
    assert state.answers == -1, "asked once: neither repeated nor asked for another model"
    assert breaker.states() == {"m": "closed"}


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_state_that_fails_after_the_call_leaves_its_outcome(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hangs: bool
) -> None:
    monkeypatch.setattr("advisorchain.advisors.budget.POST_SECONDS", 0.05)
    for step in ("paid for", ModelError("The key is wrong.")):
        caplog.clear()
        budget = BudgetAdvisor(max_calls=3, per="conversation", state=Broken(answers=1, hangs=hangs))
        chat = ChatClient(model(step), advisors=[budget])
        with anyio.fail_after(10):
            if isinstance(step, str):
                assert (await run(chat, "go", conversation_id="a")).text == step
            else:
                with pytest.raises(ModelError, match="The key is wrong"):
                    await run(chat, "go", conversation_id="a")
        assert "is not counted" in caplog.text


async def test_a_call_that_was_not_counted_is_counted_with_the_next_one(run: Any) -> None:
    state = InMemoryBudget()

    class Once(InMemoryBudget):
        failed = False

        async def add(self, conversation_id: str, spent: Spent) -> Spent:
            if spent.tokens and not self.failed:
                self.failed = True
                raise ConnectionError
            return await state.add(conversation_id, spent)

    budget = BudgetAdvisor(max_calls=3, per="conversation", state=Once())
    chat = ChatClient(model([ToolCall("look")], "seen"), tools=[look], advisors=[budget])
    await run(chat, "go", conversation_id="a")
    spent = await state.add("a", Spent())
    assert (spent.calls, spent.tokens) == (2, 200)


async def test_a_conversations_seconds_and_calls_add_up(run: Any) -> None:
    now = [0.0]

    def step(request: Any) -> str:
        now[0] += 4
        return "hi"

    runtime = Runtime(clock=lambda: now[0])
    chat = ChatClient(model(*[step] * 9), advisors=[BudgetAdvisor(max_seconds=10, per="conversation")], runtime=runtime)
    for _ in range(3):
        await run(chat, "go", conversation_id="a")
        now[0] += 100  # between the turns no time is spent
    with pytest.raises(BudgetExceededError, match="spent: 12"):
        await run(chat, "go", conversation_id="a")


async def test_a_model_without_a_price(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatClient(model(name="new"), tools=[look], advisors=[BudgetAdvisor(max_cost=1, prices=PRICES)])
    with pytest.raises(BudgetExceededError, match="Model 'new' has no price; prices are known for 'cheap', 'm'"):
        await run(chat, "go")
    assert chat.model.requests == []  # type: ignore[attr-defined]
    advisor = BudgetAdvisor(max_cost=0.0007, prices=PRICES, on_unknown_price="warn")
    chat = ChatClient(model(name="new"), tools=[look], advisors=[advisor])
    with pytest.raises(BudgetExceededError):
        await run(chat, "go")
    assert len(chat.model.requests) == 3, "the dearest price is taken"  # type: ignore[attr-defined]
    assert caplog.text.count("has no price") == 1
    assert ModelPrice(1.0, 10.0, cache_read=0.1).cost(
        Usage(1_000_000, 100_000, cache_read_tokens=500_000)
    ) == pytest.approx(1.55)


async def test_a_model_that_reports_no_usage_is_not_free(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatClient(model(usage=None), tools=[look], advisors=[BudgetAdvisor(max_tokens=20)])
    with pytest.raises(BudgetExceededError):
        await run(chat, "x" * 40)
    assert 1 <= len(chat.model.requests) <= 2  # type: ignore[attr-defined]
    assert caplog.text.count("reports no usage") == 1


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "settings", [{"max_tokens": 450}, {"max_calls": 5}, {"max_cost": 0.0045, "prices": {"m": ModelPrice(10, 10)}}]
)
async def test_sub_agents_spend_from_the_same_budget(run: Any, shared: bool, settings: Any) -> None:
    advisor = BudgetAdvisor(**settings)
    inner = ChatClient(model(*([ToolCall("look")], "seen") * 9), tools=[look], advisors=[advisor] if shared else [])
    outer = model(*[[ToolCall("ask", {"prompt": "look"})]] * 9)
    chat = ChatClient(outer, tools=[inner.as_tool("ask", "Ask.")], advisors=[advisor])
    with pytest.raises(BudgetExceededError):
        await run(chat, "go")
    made = len(outer.requests) + len(inner.model.requests)  # type: ignore[attr-defined]
    assert made == (5 if shared else 6), "without the advisor, a sub-agent is stopped at its next call only"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "settings", [{"max_tokens": 450}, {"max_calls": 5}, {"max_cost": 0.0045, "prices": {"m": ModelPrice(10, 10)}}]
)
@pytest.mark.parametrize("per", ["turn", "conversation"])
async def test_a_client_as_the_model_spends_once(run: Any, caplog: Any, shared: bool, settings: Any, per: Any) -> None:
    """Neither its own usage and an estimate on top, nor its model's call and one of the outer model."""

    @chat_advisor(order=700)
    async def asks_again(request: Any, call_next: Any) -> Any:
        while True:
            await call_next(request)

    advisor = BudgetAdvisor(per=per, **settings)
    inner = ChatClient(model(*["seen"] * 9), advisors=[advisor] if shared else [])
    chat = ChatClient(inner.as_model(), advisors=[advisor, asks_again])
    with pytest.raises(BudgetExceededError):
        await run(chat, "x" * 4000, conversation_id="c")
    assert len(inner.model.requests) == 5  # type: ignore[attr-defined]
    assert "estimated" not in caplog.text


async def test_a_conversation_learns_of_a_sub_agent_that_answers_directly(run: Any) -> None:
    """No model call of the turn's own comes after it."""
    inner = ChatClient(model(*["seen"] * 9))
    tools = [inner.as_tool("ask", "Ask.", return_direct=True)]
    outer = model(*[[ToolCall("ask", {"prompt": "look"})]] * 9)
    chat = ChatClient(outer, tools=tools, advisors=[BudgetAdvisor(max_calls=4, per="conversation")])
    for _ in range(2):
        await run(chat, "go", conversation_id="c")
    with pytest.raises(BudgetExceededError, match="spent: 4"):
        await run(chat, "go", conversation_id="c")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_tokens": 0},
        {"max_tokens": "5"},
        {"max_calls": float("nan")},
        {"max_cost": 1},
        {"max_cost": 1, "prices": ["m"]},
        {"max_cost": 1, "prices": {"m": 2.0}},
        {"max_cost": 1, "prices": {"m": {"input": 1.0}}},
        {"max_cost": 1, "prices": {"m": {"input": 1.0, "output": -1.0}}},
        {"max_cost": 1, "prices": {"m": {"input": 1.0, "output": 1.0, "cached": 1.0}}},
        {"max_calls": 1, "per": "day"},
        {"max_calls": 1, "on_unknown_price": "x"},
        {"max_calls": 1, "state": {}},
    ],
)
def test_bad_settings(settings: Any) -> None:
    with pytest.raises(ConfigurationError):
        BudgetAdvisor(**settings)


def test_prices_as_a_file_has_them() -> None:
    advisor = BudgetAdvisor(max_cost=1, prices={"m": {"input": 1.0, "output": 10.0, "cache_read": 0.1}})
    assert advisor.prices == {"m": PRICES["m"]}
