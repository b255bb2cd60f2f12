"""Fallback, retry and breaker together: who does what, and what is left on record."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import anyio
import pytest

from advisorchain import ChatClient, ModelError, Runtime, Tool, ToolCall, ToolResult
from advisorchain.advisors import CircuitBreakerAdvisor, ModelFallbackAdvisor, RetryAdvisor, ToolFallbackAdvisor
from advisorchain.testing import ScriptedModel

BUSY = ModelError("overloaded", transient=True)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def service(outcomes: list[Any], **settings: Any) -> Tool:
    async def handle(arguments: dict[str, Any]) -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return str(outcome)

    return Tool.from_schema("budget", handle, description="Budget.", title="Budget", source="erp", **settings)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_the_order_of_registration_does_not_matter(run: Any, order: tuple[int, ...]) -> None:
    time = Time()
    breaker = CircuitBreakerAdvisor(failures=3, clock=time)
    advisors: list[Any] = [ToolFallbackAdvisor(), RetryAdvisor(sleep=time.sleep), breaker]
    tool = service([TimeoutError(), TimeoutError(), TimeoutError()], idempotent=True)
    model = ScriptedModel([ToolCall("budget"), ToolCall("budget"), "done"])
    made = ChatClient(model, tools=[tool], advisors=[advisors[index] for index in order], runtime=Runtime(clock=time))
    await run(made, "Budget?")
    first, second = (request.tool_results[0].failure for request in model.requests[1:])
    assert first == {
        "class": "transient", "kind": "degraded", "exception": "TimeoutError", "attempts": 2, "source": "erp",
    }  # fmt: skip
    assert second is not None
    assert second["exception"] == "CircuitOpenError", "the third attempt opened the circuit, the fourth was refused"
    assert second["attempts"] == 2
    assert breaker.states() == {"erp": "open"}


async def test_a_repaired_call_leaves_no_failure(run: Any) -> None:
    time = Time()
    model = ScriptedModel([ToolCall("budget"), "done"])
    advisors: list[Any] = [ToolFallbackAdvisor(), RetryAdvisor(sleep=time.sleep), CircuitBreakerAdvisor(clock=time)]
    tool = service([ConnectionResetError(), "80 EUR"], read_only=True, return_direct=True)
    response = await run(ChatClient(model, tools=[tool], advisors=advisors), "Budget?")
    assert (response.text, response.stop_reason) == ("80 EUR", "return_direct")
    result: ToolResult = response.direct_results[0]
    assert (result.failure, result.metadata) == (None, {"attempts": 2})


async def test_fails_and_recovers_within_one_turn(run: Any) -> None:
    """The source is down, left alone, probed and back, and the guidance comes and goes with it."""
    time = Time()
    breaker = CircuitBreakerAdvisor(failures=2, reset_after=30, clock=time)

    def later(request: Any) -> Any:
        time.now += 30
        return ToolCall("budget")

    model = ScriptedModel([ToolCall("budget"), ToolCall("budget"), later, ToolCall("budget"), "done"])
    tool = service([TimeoutError(), TimeoutError(), "80 EUR", "81 EUR"])
    made = ChatClient(model, tools=[tool], advisors=[ToolFallbackAdvisor(), breaker], runtime=Runtime(clock=time))
    await run(made, "Budget?")
    offered = [request.tools.names for request in model.requests]
    assert offered == [["budget"], ["budget"], [], ["budget"], ["budget"]]
    guided = ["Do not give up" in request.messages[0].text for request in model.requests]
    assert guided == [False, True, True, True, False]


async def test_a_model_that_hangs_is_replaced(run: Any) -> None:
    async def hang(request: Any) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    time = Time()
    first, second = ScriptedModel([hang] * 2, name="first"), ScriptedModel(["hello"], name="second")
    advisors: list[Any] = [
        ModelFallbackAdvisor([second]),
        RetryAdvisor(model={"attempts": 2, "attempt_timeout": 0.02}, sleep=time.sleep),
        CircuitBreakerAdvisor(models=True),
    ]
    with anyio.fail_after(10):
        response = await run(ChatClient(first, advisors=advisors), "Hi")
    assert response.text == "hello"
    assert response.metadata == {"model": "second"}


@pytest.mark.parametrize("seed", range(5))
async def test_turns_at_once_share_nothing_but_the_breaker(seed: int) -> None:
    """100 concurrent turns with failures at random: each has its own attempts, failures and guidance."""
    choose = random.Random(seed)

    async def no_wait(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    async def handle(arguments: dict[str, Any]) -> str:
        await anyio.lowlevel.checkpoint()
        if arguments["fails"]:
            raise TimeoutError
        return "ok"

    schema = {"type": "object", "properties": {"fails": {"type": "boolean"}}, "required": ["fails"]}
    tool = Tool.from_schema("budget", handle, description="Budget.", input_schema=schema, idempotent=True)
    advisors = [ToolFallbackAdvisor(), RetryAdvisor(sleep=no_wait), CircuitBreakerAdvisor(failures=10**6, window=None)]
    shared = ChatClient(lambda request: request.context["model"](request), tools=[tool], advisors=advisors)

    async def turn(fails: bool) -> None:
        model = ScriptedModel([ToolCall("budget", {"fails": fails}), "done"])
        await shared.call("Budget?", context={"model": model})
        result = model.requests[1].tool_results[0]
        assert (result.failure is not None) == fails
        if fails:
            assert result.failure is not None and result.failure["attempts"] == 2
        assert ("Do not give up" in model.requests[1].messages[0].text) == fails

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(turn, choose.random() < 0.5)
