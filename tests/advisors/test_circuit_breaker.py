"""CircuitBreakerAdvisor: when it opens, the single probe, what counts, and what the model is offered."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import Any

import anyio
import pytest
from failing_state import FAULTS, FailingState, SlowToSave, cancelled_in
from hypothesis import given, settings
from hypothesis import strategies as st

from advisorchain import (
    ChatClient,
    CircuitOpenError,
    ConfigurationError,
    ModelError,
    Runtime,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Turn,
    tool,
)
from advisorchain.advisors import CircuitBreakerAdvisor, RetryAdvisor, ToolFallbackAdvisor
from advisorchain.circuit import Admission, Circuit, CircuitRules
from advisorchain.shared_state import InMemorySharedState
from advisorchain.testing import ScriptedModel


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["own state", "shared state"])
def state(request: pytest.FixtureRequest) -> InMemorySharedState | None:
    return None if request.param == "own state" else InMemorySharedState()


class Service:
    """A tool whose next outcomes are set; counts the calls that reach it, and how many are there at once."""

    def __init__(self, name: str = "rates", source: str = "local", seconds: float = 0.0, **settings: Any) -> None:
        self.error: BaseException | None = None
        self.calls = self.now = self.most = 0
        self.seconds = seconds
        self.tool = Tool.from_schema(name, self._handle, description=name, source=source, **settings)

    async def _handle(self, arguments: dict[str, Any]) -> str:
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.seconds:
                await anyio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            return "ok"
        finally:
            self.now -= 1


async def ask(run: Any, breaker: CircuitBreakerAdvisor, *services: Service, call: str | None = None) -> ToolResult:
    """One turn that calls a tool; its result."""
    model = ScriptedModel([ToolCall(call or services[0].tool.name), "done"])
    made = ChatClient(model, tools=[service.tool for service in services], advisors=[breaker])
    await run(made, "Rates?")
    return model.requests[-1].tool_results[0]


async def test_the_life_of_a_circuit(run: Any, clock: Clock, state: InMemorySharedState | None) -> None:
    service = Service()
    breaker = CircuitBreakerAdvisor(failures=3, reset_after=60, clock=clock, state=state)
    service.error = ConnectionResetError()
    for _ in range(3):
        assert breaker.states().get("rates", "closed") == "closed"
        await ask(run, breaker, service)
    assert breaker.states() == {"rates": "open"}
    await ask(run, breaker, service)
    assert service.calls == 3, "refused"
    clock.now += 59
    await ask(run, breaker, service)
    assert service.calls == 3
    clock.now += 1
    await ask(run, breaker, service)
    assert service.calls == 4 and breaker.states() == {"rates": "open"}, "the probe failed"
    clock.now += 59
    await ask(run, breaker, service)
    assert service.calls == 4, "open for another 60 s"
    clock.now += 1
    service.error = None
    assert (await ask(run, breaker, service)).content == "ok"
    assert breaker.states() == {"rates": "closed"}
    assert [(entry.at, entry.state, entry.reason) for entry in breaker.history("rates")] == [
        (100, "open", "3 failures in a row"),
        (160, "half_open", "time for a probe"),
        (160, "open", "the probe failed"),
        (220, "half_open", "time for a probe"),
        (220, "closed", "the probe succeeded"),
    ]


async def test_a_success_starts_the_count_again(run: Any, clock: Clock, state: InMemorySharedState | None) -> None:
    service = Service()
    breaker = CircuitBreakerAdvisor(failures=3, clock=clock, state=state)
    for error in (TimeoutError(), TimeoutError(), None, TimeoutError(), TimeoutError(), None):
        service.error = error
        await ask(run, breaker, service)
    assert breaker.states() == {"rates": "closed"}


async def test_many_failures_in_a_while_open_it_too(run: Any, clock: Clock) -> None:
    for step, expected in ((6.0, "open"), (7.0, "closed")):
        service = Service()
        breaker = CircuitBreakerAdvisor(failures=3, window=(10, 54.0), clock=clock)
        for number in range(19):
            service.error = TimeoutError() if number % 2 == 0 else None
            await ask(run, breaker, service)
            clock.now += step / 2
        assert breaker.states() == {"rates": expected}
    assert breaker.history("rates") == ()


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (TimeoutError(), True),
        (ConnectionRefusedError(), True),
        (RuntimeError("crashed"), True),
        (ToolError("no such row"), False),
        (PermissionError(), False),
    ],
    ids=repr,
)
async def test_what_counts(run: Any, clock: Clock, error: Exception, counts: bool) -> None:
    service = Service()
    service.error = error
    breaker = CircuitBreakerAdvisor(failures=2, clock=clock)
    for _ in range(4):
        await ask(run, breaker, service)
    assert service.calls == (2 if counts else 4)
    assert breaker.states()["rates"] == ("open" if counts else "closed")


async def test_the_tools_own_timeout_counts(run: Any, clock: Clock) -> None:
    service = Service(seconds=5, timeout=0.01)
    breaker = CircuitBreakerAdvisor(failures=2, clock=clock)
    for _ in range(3):
        await ask(run, breaker, service)
    assert service.calls == 2


async def test_invalid_arguments_and_unknown_tools_say_nothing(run: Any, clock: Clock) -> None:
    @tool
    async def add(a: int) -> int:
        """Add."""
        return a

    breaker = CircuitBreakerAdvisor(failures=1, clock=clock)
    for call in (ToolCall("add", {"a": "x"}), ToolCall("nonsense")):
        model = ScriptedModel([call, "done"])
        await run(ChatClient(model, tools=[add], advisors=[breaker]), "Add")
    assert breaker.states() == {"add": "closed"}
    assert breaker.circuit("add").failures == 0 and not breaker.circuit("add").proven


async def test_counts_can_be_told(run: Any, clock: Clock) -> None:
    service = Service()
    service.error = ToolError("busy")
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, counts=lambda error: "busy" in str(error))
    await ask(run, breaker, service)
    assert breaker.states() == {"rates": "open"}


async def test_an_open_circuit_is_not_retried_and_is_degraded(run: Any, clock: Clock) -> None:
    service = Service(idempotent=True)
    service.error = TimeoutError()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    model = ScriptedModel([[ToolCall("rates"), ToolCall("rates"), ToolCall("rates")], "done"])
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, patience=60)
    advisors = [ToolFallbackAdvisor(), RetryAdvisor(sleep=sleep), breaker]
    await run(ChatClient(model, tools=[service.tool], advisors=advisors), "Rates?")
    assert service.calls == 1
    assert slept == [1.0], "by the one that reached the source; its second attempt met the open circuit"
    results = model.requests[-1].tool_results
    assert [result.failure["class"] for result in results if result.failure] == ["transient"] * 3
    assert {result.failure["exception"] for result in results if result.failure} == {"CircuitOpenError"}
    assert sorted(result.failure["attempts"] for result in results if result.failure) == [1, 1, 2]


# Many at once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 0.01])
async def test_500_calls_at_once(clock: Clock, seconds: float, state: InMemorySharedState | None) -> None:
    """At most the configured failures reach the source; then one probe; then everything."""
    service = Service(seconds=seconds)
    service.error = ConnectionResetError()
    breaker = CircuitBreakerAdvisor(failures=3, reset_after=60, clock=clock, state=state, patience=30)
    outcomes: Counter[str] = Counter()

    async def turn() -> None:
        model = ScriptedModel([ToolCall("rates"), "done"])
        made = ChatClient(model, tools=[service.tool], advisors=[ToolFallbackAdvisor(), breaker])
        response = await made.call("Rates?")
        assert response.text == "done"
        failure = model.requests[-1].tool_results[0].failure if model.requests[-1].tool_results else None
        outcomes[failure["exception"] if failure else "ok"] += 1

    async def all_at_once() -> None:
        service.calls = 0
        outcomes.clear()
        async with anyio.create_task_group() as group:
            for _ in range(500):
                group.start_soon(turn)

    await all_at_once()
    assert service.calls == 3
    assert outcomes["ConnectionResetError"] == 3 and outcomes["ok"] == 0

    clock.now += 60
    service.seconds = 0.05
    await all_at_once()
    assert service.calls == 1, "one probe in half-open"
    assert breaker.states() == {"rates": "open"}

    clock.now += 60
    service.error = None
    await all_at_once()
    assert service.calls >= 1 and service.most <= 500
    assert breaker.states() == {"rates": "closed"}
    await all_at_once()
    assert service.calls == 500, "closed and proven: all pass"
    assert outcomes == {"ok": 500}


async def test_a_new_source_that_works_is_soon_open_to_all(clock: Clock) -> None:
    service = Service(seconds=0.02)
    breaker = CircuitBreakerAdvisor(failures=3, clock=clock, patience=30)
    model_calls = [ToolCall("rates") for _ in range(8)]

    async def turn() -> None:
        model = ScriptedModel([model_calls, "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")
        assert [result.content for result in model.requests[-1].tool_results] == ["ok"] * 8

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(turn)
    assert service.calls == 40
    assert service.most > 3


async def test_nobody_waits_longer_than_patience(clock: Clock) -> None:
    service = Service(seconds=0.5)
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, patience=0.05)
    model = ScriptedModel([[ToolCall("rates")] * 3, "done"])
    await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")
    assert service.most == 3, "at once, although none has succeeded yet"


async def test_a_cancelled_probe_gives_its_place_back(clock: Clock, state: InMemorySharedState | None) -> None:
    service = Service()
    service.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, state=state)

    async def turn() -> ToolResult:
        model = ScriptedModel([ToolCall("rates"), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")
        return model.requests[-1].tool_results[0]

    await turn()
    clock.now += 60
    service.error, service.seconds = None, 30
    with anyio.move_on_after(0.05) as scope:
        await turn()
    assert scope.cancelled_caught
    assert breaker.states() == {"rates": "open"}
    service.seconds = 0
    assert (await turn()).content == "ok", "the next call is the probe, at once"


def told_badly(error: BaseException) -> bool:
    return bool(error.code)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "settings",
    [
        {"counts": lambda error: isinstance(error, TimeoutError) or told_badly(error)},
        {"matchers": {"local": lambda result: result.nothing}},
        {"matchers": {"local": lambda result: "odd"}},
    ],
    ids=["counts", "matcher", "class"],
)
async def test_a_probe_gives_its_place_back_when_a_function_of_the_callers_fails(
    clock: Clock, state: InMemorySharedState | None, settings: dict[str, Any]
) -> None:
    service = Service()
    service.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, state=state, **settings)

    async def turn() -> None:
        model = ScriptedModel([ToolCall("rates"), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")

    await turn()
    clock.now += 60
    service.error = ValueError() if "counts" in settings else None
    for calls in (2, 3):
        with suppress(ConfigurationError):
            await turn()
        assert service.calls == calls and breaker.states() == {"rates": "open"}


async def test_a_probe_with_invalid_arguments_gives_its_place_back(clock: Clock) -> None:
    fails = True

    @tool
    async def rates(day: int) -> str:
        """Rates."""
        if fails:
            raise TimeoutError
        return "ok"

    breaker = CircuitBreakerAdvisor(failures=1, clock=clock)

    async def turn(day: Any) -> ToolResult:
        model = ScriptedModel([ToolCall("rates", {"day": day}), "done"])
        await ChatClient(model, tools=[rates], advisors=[breaker]).call("Rates?")
        return model.requests[-1].tool_results[0]

    await turn(1)
    clock.now += 60
    fails = False
    assert "integer" in (await turn("x")).content
    assert breaker.states() == {"rates": "open"}
    assert (await turn(1)).content == "ok"


async def test_a_late_outcome_of_an_earlier_time_is_ignored(clock: Clock) -> None:
    """A call that began before the circuit opened does not close it."""
    slow, fast = Service("slow", "server", seconds=0.2), Service("fast", "server")
    breaker = CircuitBreakerAdvisor(failures=2, clock=clock)

    async def turn(service: Service) -> None:
        model = ScriptedModel([ToolCall(service.tool.name), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("?")

    await turn(fast)
    fast.error = TimeoutError()
    async with anyio.create_task_group() as group:
        group.start_soon(turn, slow)
        await anyio.sleep(0.05)
        await turn(fast)
        await turn(fast)
        assert breaker.states() == {"server": "open"}
    assert breaker.states() == {"server": "open"}


# Sources -------------------------------------------------------------------------------------------------------------


async def test_tools_of_one_server_share_a_circuit_and_local_tools_have_their_own(run: Any, clock: Clock) -> None:
    rates, news = Service("rates", "bank"), Service("news", "bank")
    mine, yours = Service("mine"), Service("yours")
    rates.error = mine.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock)
    everything = (rates, news, mine, yours)
    for name in ("rates", "mine", "news", "yours"):
        await ask(run, breaker, *everything, call=name)
    assert [service.calls for service in everything] == [1, 0, 1, 1]
    assert breaker.states() == {"bank": "open", "mine": "open", "yours": "closed"}


async def test_a_call_of_what_was_left_out_is_degraded_not_unknown(run: Any, clock: Clock) -> None:
    rates = Service("rates", "bank", title="Exchange rates")
    rates.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock)
    await ask(run, breaker, rates)
    model = ScriptedModel([ToolCall("rates"), ToolCall("nonsense"), "done"])
    made = ChatClient(model, tools=[rates.tool], advisors=[ToolFallbackAdvisor(), breaker])
    await run(made, "Rates?")
    result = model.requests[1].tool_results[0]
    assert '"Exchange rates" is temporarily unavailable' in result.content
    assert result.failure is not None
    assert (result.failure["exception"], result.failure["source"]) == ("CircuitOpenError", "bank")
    assert "There is no tool 'nonsense'" in model.requests[2].tool_results[0].content
    assert rates.calls == 1


async def test_sources_can_be_told(run: Any, clock: Clock) -> None:
    one, two, free = Service("db_one"), Service("db_two"), Service("free")
    one.error = free.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(
        failures=1, clock=clock, source=lambda tool: "database" if tool.name.startswith("db_") else None
    )
    for name in ("db_one", "db_two", "free", "free"):
        await ask(run, breaker, one, two, free, call=name)
    assert (one.calls, two.calls, free.calls) == (1, 0, 2)
    assert breaker.states() == {"database": "open"}


async def test_the_tools_of_an_open_source_are_not_offered(run: Any, clock: Clock, state: Any) -> None:
    rates = Service("rates", "bank", title="Rates")
    other = Service("weather")
    rates.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, reset_after=60, clock=clock, state=state)
    model = ScriptedModel([ToolCall("rates"), "done", "hello", "hello again"])
    made = ChatClient(model, tools=[rates.tool, other.tool], advisors=[breaker], system="A desk.")
    await run(made, "Rates?")
    await run(made, "Hi")
    clock.now += 60
    await run(made, "Hi")
    assert [request.tools.names for request in model.requests] == [
        ["rates", "weather"], ["weather"], ["weather"], ["rates", "weather"],
    ]  # fmt: skip
    assert "out of service at the moment: Rates." in model.requests[2].messages[0].text
    assert model.requests[3].messages[0].text == "A desk."


@pytest.mark.parametrize("choice", ["required", "rates"])
async def test_a_forced_choice_of_what_is_left_out_is_lifted(run: Any, clock: Clock, choice: str) -> None:
    rates = Service("rates")
    rates.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, notice=None)
    await ask(run, breaker, rates)
    model = ScriptedModel(["no rates today"])
    made = ChatClient(model, tools=[rates.tool], advisors=[breaker], options={"tool_choice": choice})
    await run(made, "Rates?")
    assert model.requests[0].options.tool_choice == "auto"
    assert [message.role for message in model.requests[0].messages] == ["user"]


async def test_models(run: Any, clock: Clock) -> None:
    down = ModelError("down", transient=True)
    model = ScriptedModel([down, down, "back"], name="gpt")
    breaker = CircuitBreakerAdvisor(failures=2, clock=clock, models=True)
    made = ChatClient(model, advisors=[breaker])
    for _ in range(2):
        with pytest.raises(ModelError):
            await run(made, "Hi")
    with pytest.raises(CircuitOpenError, match="gpt") as caught:
        await run(made, "Hi")
    assert caught.value.source == "gpt" and caught.value.retry_after == 60
    clock.now += 60
    assert (await run(made, "Hi")).text == "back"
    assert breaker.states() == {"gpt": "closed"}


async def test_a_models_own_no_does_not_count(run: Any, clock: Clock) -> None:
    model = ScriptedModel([ModelError("bad request", status=400), ModelError("bad key", status=401), "hello"])
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, models=True)
    made = ChatClient(model, advisors=[breaker])
    for _ in range(2):
        with pytest.raises(ModelError):
            await run(made, "Hi")
    assert (await run(made, "Hi")).text == "hello"


async def test_the_clock_is_the_turns(run: Any, clock: Clock) -> None:
    service = Service()
    service.error = TimeoutError()
    breaker = CircuitBreakerAdvisor(failures=1)
    made = ChatClient(
        ScriptedModel([ToolCall("rates"), "done"]), tools=[service.tool], advisors=[breaker],
        runtime=Runtime(clock=clock),
    )  # fmt: skip
    await run(made, "Rates?")
    assert breaker.history("rates")[0].at == 100


# Shared state --------------------------------------------------------------------------------------------------------


async def test_two_processes_share_a_circuit(run: Any, clock: Clock) -> None:
    state = InMemorySharedState()
    one, two = (CircuitBreakerAdvisor(failures=3, clock=clock, state=state) for _ in range(2))
    service = Service()
    service.error = TimeoutError()
    for breaker in (one, two, one):
        await ask(run, breaker, service)
    await ask(run, two, service)
    assert service.calls == 3
    assert two.states() == {"rates": "open"}
    assert two.history("rates") == one.history("rates")


async def test_one_probe_for_all_processes(clock: Clock) -> None:
    class Slow(InMemorySharedState):
        """Every load and save gives others a turn, as a network does."""

        async def load(self, key: str) -> Any:
            found = await super().load(key)
            await anyio.sleep(0.001)
            return found

    state = Slow()
    breakers = [CircuitBreakerAdvisor(failures=1, clock=clock, state=state) for _ in range(20)]
    service = Service(seconds=0.05)
    service.error = TimeoutError()

    async def turn(breaker: CircuitBreakerAdvisor) -> None:
        model = ScriptedModel([ToolCall("rates"), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")

    await turn(breakers[0])
    clock.now += 60
    async with anyio.create_task_group() as group:
        for breaker in breakers:
            group.start_soon(turn, breaker)
    assert service.calls == 2


async def test_the_probe_of_a_process_that_died_is_lost_after_a_while(run: Any, clock: Clock) -> None:
    state = InMemorySharedState()
    dead, alive = (CircuitBreakerAdvisor(failures=1, reset_after=10, clock=clock, state=state) for _ in range(2))
    service = Service()
    service.error = TimeoutError()
    await ask(run, dead, service)
    clock.now += 10
    await dead._admitted("rates", Turn(Runtime()))
    service.error = None
    await ask(run, alive, service)
    assert service.calls == 1
    clock.now += 120
    await ask(run, alive, service)
    assert service.calls == 2 and alive.states() == {"rates": "closed"}
    assert [entry.reason for entry in alive.history("rates")][-2:] == ["the probe was lost", "the probe succeeded"]


async def test_a_source_that_takes_longer_than_a_probe_is_waited_for_comes_back(clock: Clock) -> None:
    """Its first probe is taken for lost, and the next one is under way when it answers: it works."""
    rules = CircuitRules(failures=1, reset_after=10, lease=120)
    circuit = Circuit().failed(Admission(True, False, 0), 0.0, rules)
    circuit, first = circuit.admit(10.0, rules)
    circuit, second = circuit.admit(130.0, rules)
    assert first.probe and second.probe
    closed = circuit.succeeded(first, 160.0)
    assert closed.state == "closed"
    assert closed.failed(second, 280.0, rules) is closed, "of another time"
    opened = circuit.failed(second, 140.0, rules)
    assert opened.succeeded(first, 160.0) is opened, "what was said last counts"


async def test_a_probe_that_hangs_is_given_up(clock: Clock) -> None:
    """Or one call without a timeout would keep everybody from the source for as long as it takes."""
    breaker = CircuitBreakerAdvisor(failures=1, reset_after=10, clock=clock)
    service = Service()
    service.error = TimeoutError()

    async def turn() -> None:
        model = ScriptedModel([ToolCall("rates"), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")

    await turn()
    clock.now += 10
    service.error, service.seconds = None, float("inf")
    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await anyio.wait_all_tasks_blocked()
        service.seconds = 0
        for seconds, calls, state in ((119, 2, "half_open"), (1, 3, "closed")):
            clock.now += seconds
            await turn()
            assert (service.calls, breaker.states()) == (calls, {"rates": state})
        group.cancel_scope.cancel()
    assert breaker.states() == {"rates": "closed"}, "what the old one says no longer counts"


async def test_all_processes_together_make_no_more_calls_on_trial_than_failures_are_left(clock: Clock) -> None:
    class Slow(InMemorySharedState):
        async def load(self, key: str) -> Any:
            found = await super().load(key)
            await anyio.sleep(0.001)
            return found

    state = Slow()
    breakers = [CircuitBreakerAdvisor(failures=3, clock=clock, state=state, patience=30) for _ in range(4)]
    service = Service(seconds=0.02)
    service.error = TimeoutError()

    async def turn(breaker: CircuitBreakerAdvisor) -> None:
        model = ScriptedModel([[ToolCall("rates")] * 5, "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")

    async with anyio.create_task_group() as group:
        for breaker in breakers:
            group.start_soon(turn, breaker)
    assert service.calls == 3
    assert state._values["circuit_breaker|circuit|rates"][0]["trials"] == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ask", "succeed", "fail", "release", "wait"]), st.integers(0, 9))))
def test_never_more_calls_on_trial_than_failures_are_left(steps: list[tuple[str, int]]) -> None:
    rules = CircuitRules(failures=3, reset_after=10, window=None, lease=100)
    circuit, out, now = Circuit(), [], 0.0
    for step, number in steps:
        now += 0.25
        if step == "wait":
            now += number * 15
        elif step == "ask":
            left = max(1, rules.failures - circuit.failures)
            new, admission = circuit.admit(now, rules, wait=True)
            alive = [trial for trial in new.trials if now - trial < rules.lease]
            if admission.trial is not None:
                assert len(alive) <= left and admission.trial in alive
            assert admission.full is (circuit.state == "closed" and not circuit.calm and not admission.admitted)
            assert not admission.full or (new is circuit and len(alive) >= left)
            circuit = new
            if admission.admitted:
                out.append(admission)
        elif out:
            admission = out.pop(number % len(out))
            if step == "fail":
                circuit = circuit.failed(admission, now, rules)
            else:
                circuit = (circuit.succeeded if step == "succeed" else circuit.released)(admission, now)
        assert set(circuit.trials) <= {admission.trial for admission in out}, "the place of a call that ended is free"
        assert Circuit.from_json(json.loads(json.dumps(circuit.to_json()))) == circuit
        assert circuit.state == "closed" or not circuit.trials


async def test_a_call_on_trial_of_a_process_that_died_is_lost_after_a_while(clock: Clock) -> None:
    state = InMemorySharedState()
    dead, alive = (CircuitBreakerAdvisor(failures=1, clock=clock, state=state, patience=0.05) for _ in range(2))
    await dead._admitted("rates", Turn(Runtime()))
    assert (await alive._admitted("rates", Turn(Runtime()))).trial is None  # waited, and passed
    clock.now += 120
    assert (await alive._admitted("rates", Turn(Runtime()))).trial == clock.now


@pytest.mark.parametrize("how", ["scope", "task"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not yet stored"])
@pytest.mark.parametrize("error", [None, TimeoutError()], ids=["works", "fails"])
@pytest.mark.parametrize("probe", [True, False], ids=["probe", "trial"])
@pytest.mark.parametrize("saving", ["admission", "outcome"])
async def test_a_call_cancelled_while_the_state_saves_holds_no_place(
    clock: Clock, how: str, stored: bool, error: BaseException | None, probe: bool, saving: str
) -> None:
    before = 2 if probe else 0  # saves of the call that opened the circuit
    state = SlowToSave(before + (1 if saving == "admission" else 2), stored=stored)
    breaker = CircuitBreakerAdvisor(failures=1 if probe else 3, clock=clock, state=state)
    service = Service()

    async def turn() -> None:
        model = ScriptedModel([ToolCall("rates"), "done"])
        await ChatClient(model, tools=[service.tool], advisors=[breaker]).call("Rates?")

    if probe:
        service.error = TimeoutError()
        await turn()
        clock.now += 60
    made, service.error = service.calls, error
    await cancelled_in(state, turn, how)
    circuit = Circuit.from_json((await state.load("circuit_breaker|circuit|rates"))[0])  # type: ignore[arg-type]
    assert circuit.state == ("open" if probe and (saving == "admission" or error) else "closed")
    assert circuit.trials == ()
    assert circuit.proven is (saving == "outcome" and error is None)
    assert service.calls == made + (saving == "outcome"), "nothing is called for who has left"


async def test_breakers_of_one_name_share_and_others_do_not(run: Any, clock: Clock) -> None:
    state = InMemorySharedState()
    one, same, other = (
        CircuitBreakerAdvisor(failures=1, clock=clock, state=state, name=name) for name in ("a", "a", "b")
    )
    service = Service()
    service.error = TimeoutError()
    for breaker in (one, same, other):
        await ask(run, breaker, service)
    assert service.calls == 2


# A shared state that does not work ------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.state_access.ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("advisorchain.state_access.CONTENTION_SECONDS", 0.05)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("impatient")
async def test_without_its_state_each_process_breaks_for_itself(
    run: Any, clock: Clock, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = FailingState(fault)
    breaker = CircuitBreakerAdvisor(failures=3, clock=clock, state=state)
    service = Service()
    await ask(run, breaker, service)  # works
    service.error = TimeoutError()
    asked = state.asked
    for _ in range(3):
        result = await ask(run, breaker, service)
        assert "Connection refused" not in result.content and "Traceback" not in result.content
    assert service.calls == 4 and breaker.states() == {"rates": "open"}
    assert state.asked == asked  # it is left alone for a while
    model = ScriptedModel(["done"])
    await run(ChatClient(model, tools=[service.tool], advisors=[breaker]), "Rates?")
    assert model.requests[0].tools.names == []
    service.error = None
    clock.now += 60
    await ask(run, breaker, service)
    assert breaker.states() == {"rates": "closed"}
    assert [record.levelname for record in caplog.records if "shared state" in record.message] == ["WARNING"]
    assert "Advisor 'circuit_breaker': its shared state failed" in caplog.text


async def test_a_state_that_comes_back_is_used_again(
    run: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("advisorchain.state_access.AWAY_SECONDS", 0.05)
    state = FailingState()
    one, two = (CircuitBreakerAdvisor(failures=3, clock=clock, state=state) for _ in range(2))
    service = Service()
    service.error = TimeoutError()
    await ask(run, one, service)
    await ask(run, two, service)
    state.fault = "raises"
    await ask(run, one, service)  # what it has last seen goes on: the first failure, and this one
    assert one.circuit("rates").failures == 2 and one.states() == {"rates": "closed"}
    await ask(run, one, service)
    assert one.states() == {"rates": "open"} and two.states() == {"rates": "closed"}
    state.fault = ""
    await anyio.sleep(0.06)
    await ask(run, two, service)
    await ask(run, one, service)
    assert one.states() == two.states() == {"rates": "open"}
    assert one.history("rates") == two.history("rates")
    assert "works again" in caplog.text


async def test_a_state_that_goes_away_during_the_probe(run: Any, clock: Clock) -> None:
    state = FailingState()
    breaker = CircuitBreakerAdvisor(failures=1, reset_after=10, clock=clock, state=state)
    service = Service()
    service.error = TimeoutError()
    await ask(run, breaker, service)
    clock.now += 10
    service.error = None

    async def probe(arguments: dict[str, Any]) -> str:
        state.fault = "raises"
        return "1.10"

    service.tool = Tool.from_schema("rates", probe, description="rates")
    assert (await ask(run, breaker, service)).content == "1.10"
    assert breaker.states() == {"rates": "closed"}


def damaged(**fields: Any) -> dict[str, Any]:
    return {**Circuit().to_json(), **fields}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"state": 1},
        {"state": "open", "failures": None, "history": 5},
        damaged(state="open", until=None),
        damaged(state="ajar"),
        damaged(state=["closed"]),
        damaged(failures="many"),
        damaged(recent=["now"]),
        damaged(trials=["now"]),
        damaged(history=[["now", "closed", ""]]),
    ],
    ids=str,
)
async def test_a_value_that_is_no_circuit_is_replaced(run: Any, clock: Clock, value: Any) -> None:
    state = InMemorySharedState()
    assert await state.save("circuit_breaker|circuit|rates", value, 0)
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock, state=state)
    service = Service()
    service.error = TimeoutError()
    await ask(run, breaker, service)
    assert breaker.states() == {"rates": "open"}
    assert (await state.load("circuit_breaker|circuit|rates"))[0]["state"] == "open"  # type: ignore[index]


def test_a_state_that_forgets_too_early() -> None:
    class Forgets(InMemorySharedState):
        ttl = 60.0

    CircuitBreakerAdvisor(state=Forgets())
    for wrong in ({"reset_after": 61}, {"window": (3, 61)}):
        with pytest.raises(ConfigurationError, match=r"Give it a longer ttl="):
            CircuitBreakerAdvisor(state=Forgets(), **wrong)  # type: ignore[arg-type]


# Set up --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"failures": 0},
        {"failures": 2.5},
        {"reset_after": 0},
        {"window": (0, 10)},
        {"window": 10},
        {"window": (1, 2, 3)},
        {"patience": -1},
        {"failures": True},
        {"reset_after": float("inf")},
        {"window": (5, float("nan"))},
        {"window": ("a", 1)},
        {"counts": 5},
        {"source": "server"},
        {"clock": 5},
        {"notice": "{names} are away"},
        {"notice": 5},
        {"state": 5},
    ],
    ids=repr,
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        CircuitBreakerAdvisor(**settings)


def test_an_unknown_source_is_a_new_one() -> None:
    breaker = CircuitBreakerAdvisor()
    assert breaker.states() == {}
    assert breaker.history("nobody") == ()
    assert breaker.circuit("nobody").state == "closed"


class Disguised:
    """A tool whose source reports a broken connection as a result."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tool = Tool.from_schema("rates", self._handle, description="rates", source="bank")

    async def _handle(self, arguments: dict[str, Any]) -> str:
        return self.text


async def test_a_failure_in_disguise_counts_before_and_after_the_source_is_known_to_work(
    run: Any, clock: Clock, state: InMemorySharedState | None
) -> None:
    service = Disguised("fine")
    breaker = CircuitBreakerAdvisor(failures=2, clock=clock, state=state)
    call = [ToolCall("rates", {})]

    async def turn() -> str:
        model = ScriptedModel([call, "done"])
        response = await run(ChatClient(model, tools=[service.tool], advisors=[breaker]), "go")
        assert response.text == "done"
        return str(model.requests[-1].messages[-1].content)

    service.text = "MCP error -32000: Connection closed"
    assert await turn() == service.text  # the result itself stays as it is
    service.text = "fine"
    await turn()
    service.text = "MCP error -32000: Connection closed"
    await turn()
    assert breaker.states()["bank"] == "closed"
    await turn()
    assert breaker.states()["bank"] == "open"
    clock.now += 61
    await turn()  # the probe reports the same
    assert breaker.states()["bank"] == "open"
    service.text, clock.now = "fine", clock.now + 61
    await turn()
    assert breaker.states()["bank"] == "closed"


async def test_what_is_a_failure_in_disguise_can_be_said_by_source(run: Any, clock: Clock) -> None:
    service = Disguised("BUSY")
    breaker = CircuitBreakerAdvisor(
        failures=1, clock=clock, matchers={"bank": lambda result: "transient" if result.content == "BUSY" else None}
    )
    await run(
        ChatClient(ScriptedModel([[ToolCall("rates", {})], "done"]), tools=[service.tool], advisors=[breaker]), "go"
    )
    assert breaker.states()["bank"] == "open"


async def test_invalid_parameters_in_a_result_are_no_failure_of_the_source(run: Any, clock: Clock) -> None:
    service = Disguised("MCP error -32602: Invalid arguments")
    breaker = CircuitBreakerAdvisor(failures=1, clock=clock)
    await run(
        ChatClient(ScriptedModel([[ToolCall("rates", {})], "done"]), tools=[service.tool], advisors=[breaker]), "go"
    )
    assert breaker.states()["bank"] == "closed"
