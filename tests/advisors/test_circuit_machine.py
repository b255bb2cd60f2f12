"""The circuit breaker against a model of it: any order of calls, outcomes and time."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from advisorchain import (
    ChatRequest,
    CircuitOpenError,
    Context,
    Runtime,
    Tool,
    ToolCall,
    ToolError,
    ToolInvocation,
    ToolResult,
    ToolSet,
    Turn,
)
from advisorchain.advisors import CircuitBreakerAdvisor
from advisorchain.circuit import Circuit


async def _handle(arguments: dict[str, Any]) -> str:
    raise AssertionError


TOOL = Tool.from_schema("rates", _handle, description="Rates.")


class Suspended:
    def __await__(self) -> Generator[None, None, None]:
        yield


class Cancelled(BaseException):
    """What an event loop throws into a call."""


class Call:
    """A call on its way: suspended at the source."""

    def __init__(self, running: Coroutine[Any, Any, ToolResult], epoch: int, probe: bool) -> None:
        self.running = running
        self.epoch = epoch
        self.probe = probe


class BreakerMachine(RuleBasedStateMachine):
    @initialize(failures=st.integers(1, 4), window=st.sampled_from([None, (2, 5.0), (5, 30.0)]))
    def start(self, failures: int, window: tuple[int, float] | None) -> None:
        self.now = 0.0
        self.failures, self.window = failures, window
        self.breaker = CircuitBreakerAdvisor(
            failures=failures, reset_after=10, window=window, patience=0, clock=lambda: self.now
        )
        self.calls: list[Call] = []
        # The model: written from the documentation, not from the code.
        self.state = "closed"
        self.row = 0
        self.times: list[float] = []
        self.probe_from = 0.0
        self.epoch = 0

    def _to(self, state: str) -> None:
        self.state = state
        self.epoch += 1

    def _send(self) -> Call | CircuitOpenError:
        async def source(invocation: ToolInvocation) -> ToolResult:
            await Suspended()
            return ToolResult("ok")

        request = ChatRequest((), tools=ToolSet([TOOL]), context=Context(Turn(Runtime())), execute=source)
        invocation = ToolInvocation(ToolCall("rates"), TOOL, request)
        running = self.breaker.advise_tool(invocation, source)
        try:
            running.send(None)
        except CircuitOpenError as error:
            return error
        return Call(running, self.epoch, False)

    @rule()
    def call(self) -> None:
        found = self._send()
        if self.state == "closed":
            assert isinstance(found, Call)
            self.calls.append(found)
        elif self.now >= self.probe_from:
            assert isinstance(found, Call), "a probe is due, or the one under way is given up"
            self._to("half_open")
            self.probe_from = self.now + 120
            found.epoch, found.probe = self.epoch, True
            self.calls.append(found)
        else:
            assert isinstance(found, CircuitOpenError)
            assert found.retry_after == (self.probe_from - self.now if self.state == "open" else None)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), outcome=st.sampled_from(["ok", "no", "down", "cancelled"]))
    def finish(self, data: st.DataObject, outcome: str) -> None:
        call = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        if outcome == "ok":
            with pytest.raises(StopIteration):
                call.running.send(None)
        else:
            error = {"no": ToolError("no"), "down": ConnectionResetError(), "cancelled": Cancelled()}[outcome]
            with pytest.raises(type(error)):
                call.running.throw(error)
        if call.epoch != self.epoch and not (call.probe and self.state == "half_open" and outcome in ("ok", "no")):
            return
        if call.probe:
            if outcome in ("ok", "no"):
                self._to("closed")
                self.row, self.times = 0, []
            else:
                self._to("open")
                self.probe_from = self.now + (10 if outcome == "down" else 0)
        elif outcome in ("ok", "no"):
            self.row = 0
        elif outcome == "down":
            self.row += 1
            self.times.append(self.now)
            many = False
            if self.window is not None:
                number, seconds = self.window
                latest = self.times[-number:]
                many = len(latest) == number and self.now - latest[0] <= seconds
            if self.row >= self.failures or many:
                self._to("open")
                self.probe_from = self.now + 10

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.5, 10.0, 10.0, 40.0, 120.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "breaker"):
            return
        assert self.breaker.states().get("rates", "closed") == self.state
        probes = [call for call in self.calls if call.probe and call.epoch == self.epoch]
        assert len(probes) == (self.state == "half_open"), "exactly one probe"
        circuit = self.breaker.circuit("rates")
        assert Circuit.from_json(circuit.to_json()) == circuit

    def teardown(self) -> None:
        for call in getattr(self, "calls", []):
            call.running.close()


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
