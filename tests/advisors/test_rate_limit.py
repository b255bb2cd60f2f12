"""RateLimitAdvisor: token buckets with a clock of the test's own."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from failing_state import FAULTS, FailingState, SlowToSave, cancelled_in

from advisorchain import ChatClient, ConfigurationError, ContextKey, RateLimitError, ToolCall, Usage, tool
from advisorchain.advisors import RateLimitAdvisor
from advisorchain.shared_state import InMemorySharedState
from advisorchain.testing import ScriptedModel

USER = ContextKey[str]("test.user")


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def answers(count: int, **settings: Any) -> ScriptedModel:
    return ScriptedModel(["hi"] * count, **settings)


@pytest.fixture(params=["own", "shared"])
def state(request: pytest.FixtureRequest) -> Any:
    return None if request.param == "own" else InMemorySharedState()


async def test_large_numbers_are_told_in_full(run: Any) -> None:
    limit = RateLimitAdvisor(tokens=2_000_000, per=86_400, clock=Time())
    chat = ChatClient(answers(2, usage=Usage(3_000_000, 1)), advisors=[limit])
    await run(chat, "go")
    with pytest.raises(RateLimitError, match=r"2,000,000 tokens in 86,400 s; there is room again in 130,000 s\."):
        await run(chat, "go")


async def test_calls_above_the_limit_are_refused(run: Any, state: Any) -> None:
    time = Time()
    chat = ChatClient(answers(9), advisors=[RateLimitAdvisor(calls=3, per=60, clock=time, state=state)])
    for _ in range(3):
        await run(chat, "go")
    with pytest.raises(RateLimitError, match=r"Model 'scripted' is limited to 3 calls in 60 s; .* in 20 s") as raised:
        await run(chat, "go")
    assert raised.value.retry_after == pytest.approx(20)
    assert len(chat.model.requests) == 3  # type: ignore[attr-defined]
    time.now += 19.9
    with pytest.raises(RateLimitError):
        await run(chat, "go")
    time.now += 0.2
    await run(chat, "go")
    time.now += 1000  # the bucket does not grow beyond its capacity
    for _ in range(3):
        await run(chat, "go")
    with pytest.raises(RateLimitError):
        await run(chat, "go")


async def test_a_call_waits_up_to_its_deadline(run: Any, state: Any) -> None:
    time = Time()
    limit = RateLimitAdvisor(calls=1, per=10, max_wait=25, clock=time, sleep=time.sleep, state=state)
    chat = ChatClient(answers(9), advisors=[limit])
    for _ in range(3):
        await run(chat, "go")
    assert time.slept == [10, 10]


async def test_who_waits_is_served_in_order_and_who_cannot_is_refused_at_once(run: Any, state: Any) -> None:
    time = Time()
    waits: list[float] = []
    alarms: list[tuple[float, anyio.Event]] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 3))
        alarms.append((seconds, anyio.Event()))
        await alarms[-1][1].wait()

    limit = RateLimitAdvisor(calls=2, per=10, burst=1, max_wait=20, clock=time, sleep=sleep, state=state)
    done: list[int] = []
    refused: list[int] = []

    async def one(number: int) -> None:
        try:
            await type(run)(run.mode)(ChatClient(answers(1), advisors=[limit]), "go")
            done.append(number)
        except RateLimitError:
            refused.append(number)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)
            await anyio.wait_all_tasks_blocked()
        for _, alarm in sorted(alarms, key=itemgetter(0)):
            alarm.set()
            await anyio.wait_all_tasks_blocked()
    assert sorted(refused) == [5, 6, 7]
    assert done == [0, 1, 2, 3, 4]
    assert waits == [5, 10, 15, 20]


async def test_a_cancelled_wait_gives_its_place_back(run: Any, state: Any) -> None:
    time = Time()
    limit = RateLimitAdvisor(
        calls=1, per=10, max_wait=15, clock=time, sleep=lambda s: anyio.sleep_forever(), state=state
    )
    chat = ChatClient(answers(2), advisors=[limit])
    await run(chat, "go")
    for _ in range(5):  # each would wait 10 s longer, were the places kept
        with anyio.move_on_after(0.02) as scope:
            await run(chat, "go")
        assert scope.cancelled_caught


async def test_scopes_and_names(run: Any) -> None:
    time = Time()
    limit = RateLimitAdvisor(calls=1, scope=USER, clock=time)
    chat = ChatClient(answers(9), advisors=[limit])
    await run(chat, "go", context={USER: "ada"})
    await run(chat, "go", context={USER: "bob"})
    await run(chat, "go")
    for context in ({USER: "ada"}, {USER: "bob"}, {}):
        with pytest.raises(RateLimitError):
            await run(chat, "go", context=context)
    other = ChatClient(answers(9), advisors=[RateLimitAdvisor(calls=1, names=["gpt"], clock=time)])
    await run(other, "go")
    await run(other, "go")
    await run(other, "go", options={"model": "gpt"})
    with pytest.raises(RateLimitError, match="Model 'gpt'"):
        await run(other, "go", options={"model": "gpt"})


@pytest.mark.parametrize("by", ["tool", "source"])
async def test_tools(run: Any, by: Any) -> None:
    ran: list[str] = []

    @tool
    async def a() -> str:
        """A."""
        ran.append("a")
        return "a"

    @tool
    async def b() -> str:
        """B."""
        ran.append("b")
        return "b"

    limit = RateLimitAdvisor(calls=1, by=by, clock=Time())
    model = ScriptedModel([[ToolCall(name)] for name in "aab"] + ["done"])
    await run(ChatClient(model, tools=[a, b], advisors=[limit]), "go")
    assert ran == (["a", "b"] if by == "tool" else ["a"])
    results = [m for m in model.requests[-1].messages if m.role == "tool"]
    assert [m.is_error for m in results] == [False, True, by == "source"]
    assert "RateLimitError" in results[1].text


async def test_tokens_are_paid_off_before_the_next_call(run: Any, state: Any) -> None:
    time = Time()
    limit = RateLimitAdvisor(tokens=600, per=60, clock=time, max_wait=50, sleep=time.sleep, state=state)
    chat = ChatClient(answers(9, usage=Usage(300, 100)), advisors=[limit])
    await run(chat, "go")  # 200 left
    await run(chat, "go")  # 400 on average: waits for 200 more
    assert time.slept == [20]
    await run(chat, "go")
    assert time.slept == [20, 40]
    failing = ChatClient(ScriptedModel([RuntimeError("no")] * 9), advisors=[limit])
    time.now += 60
    for _ in range(5):  # what fails takes nothing
        with pytest.raises(RuntimeError):
            await run(failing, "go")
    await run(chat, "go")
    assert time.slept == [20, 40]


async def test_the_tokens_of_a_client_as_the_model_are_limited(run: Any) -> None:
    inner = ChatClient(answers(9, usage=Usage(7, 3)))
    chat = ChatClient(inner.as_model("inner"), advisors=[RateLimitAdvisor(tokens=10, per=60, clock=Time())])
    response = await run(chat, "go")
    assert response.usage == Usage(7, 3), "counted once"
    with pytest.raises(RateLimitError, match="Model 'inner' is limited to 10 tokens"):
        await run(chat, "go")


async def test_a_model_without_usage_is_said_once(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatClient(answers(2), advisors=[RateLimitAdvisor(tokens=10)])
    await run(chat, "go")
    await run(chat, "go")
    assert caplog.text.count("reports no usage") == 1


async def test_two_advisors_share_a_state(run: Any) -> None:
    state, time = InMemorySharedState(), Time()
    clients = [ChatClient(answers(5), advisors=[RateLimitAdvisor(calls=4, clock=time, state=state)]) for _ in range(2)]
    passed = 0

    async def one(number: int) -> None:
        nonlocal passed
        try:
            await type(run)(run.mode)(clients[number % 2], "go")
            passed += 1
        except RateLimitError:
            pass

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(one, number)
    assert passed == 4


# A shared state that does not work ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_its_state_each_process_limits_for_itself(
    run: Any, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ANSWER_SECONDS", "CONTENTION_SECONDS"):
        monkeypatch.setattr(f"advisorchain.state_access.{name}", 0.05)
    state, time = FailingState(fault), Time()
    chat = ChatClient(answers(9), advisors=[RateLimitAdvisor(calls=3, per=60, clock=time, state=state)])
    await run(chat, "go")
    asked = state.asked
    for _ in range(2):
        await run(chat, "go")
    with pytest.raises(RateLimitError):
        await run(chat, "go")
    assert state.asked == asked  # it is left alone for a while
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Advisor 'rate_limit': its shared state failed" in caplog.text


async def test_a_state_that_goes_away_and_comes_back(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.state_access.AWAY_SECONDS", 0.05)
    state, time = FailingState(), Time()
    chat = ChatClient(answers(20), advisors=[RateLimitAdvisor(calls=2, tokens=1000, per=60, clock=time, state=state)])
    await run(chat, "go")
    state.fault = "raises"
    for _ in range(2):
        await run(chat, "go")
    with pytest.raises(RateLimitError):
        await run(chat, "go")
    state.fault = ""
    await anyio.sleep(0.06)
    await run(chat, "go")
    with pytest.raises(RateLimitError):
        await run(chat, "go")


@pytest.mark.parametrize("value", [{}, {"level": "x", "time": None}])
async def test_a_value_that_is_no_bucket_is_replaced(run: Any, value: Any) -> None:
    state, time = InMemorySharedState(), Time()
    key = "rate_limit|model|scripted|calls"
    assert await state.save(key, value, 0)
    chat = ChatClient(answers(9), advisors=[RateLimitAdvisor(calls=3, per=60, clock=time, state=state)])
    await run(chat, "go")
    assert (await state.load(key))[0] == {"level": 2.0, "time": time.now}


async def test_a_process_whose_clock_is_behind_gains_nothing(run: Any) -> None:
    state, clocks = InMemorySharedState(), [Time(), Time()]
    clocks[1].now -= 100
    chats = [
        ChatClient(answers(9), advisors=[RateLimitAdvisor(calls=4, per=60, clock=clock, state=state)])
        for clock in clocks
    ]
    for number in range(4):
        await run(chats[number % 2], "go")
    for chat in chats:
        with pytest.raises(RateLimitError):
            await run(chat, "go")


@pytest.mark.parametrize("how", ["scope", "task"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not yet stored"])
async def test_who_is_cancelled_while_the_state_saves_has_taken_nothing(how: str, stored: bool) -> None:
    state = SlowToSave(1, stored=stored)
    chat = ChatClient(answers(2), advisors=[RateLimitAdvisor(calls=1, per=60, clock=Time(), state=state)])
    await cancelled_in(state, lambda: chat.call("go"), how)
    assert not chat.model.requests  # type: ignore[attr-defined]
    await chat.call("go")
    with pytest.raises(RateLimitError):
        await chat.call("go")


def test_a_limit_may_wait_for_ever() -> None:
    assert RateLimitAdvisor(calls=1, max_wait=float("inf")).max_wait == float("inf")


def test_a_state_that_forgets_too_early() -> None:
    class Forgets(InMemorySharedState):
        ttl = 60.0

    RateLimitAdvisor(calls=5, per=60, state=Forgets())
    for settings in ({"per": 61}, {"per": 30, "max_wait": 31}, {"per": 60, "burst": 6}):
        with pytest.raises(ConfigurationError, match=r"this rate limit needs them for .* longer ttl="):
            RateLimitAdvisor(calls=5, state=Forgets(), **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"calls": 0},
        {"calls": 1, "per": 0},
        {"calls": 1, "burst": 0.5},
        {"calls": 1, "max_wait": -1},
        {"calls": "5"},
        {"calls": True},
        {"tokens": float("nan")},
        {"calls": 1, "per": "60"},
        {"calls": 1, "burst": "2"},
        {"calls": 1, "max_wait": "1"},
        {"calls": 1, "max_wait": float("nan")},
        {"calls": 1, "names": 5},
        {"calls": 1, "names": [5]},
        {"calls": 1, "clock": 5},
        {"calls": 1, "sleep": 5},
        {"calls": 1, "by": "x"},
        {"tokens": 1, "by": "tool"},
        {"calls": 1, "scope": "user"},
        {"calls": 1, "state": object()},
    ],
)
def test_bad_settings(settings: Any) -> None:
    with pytest.raises(ConfigurationError):
        RateLimitAdvisor(**settings)
