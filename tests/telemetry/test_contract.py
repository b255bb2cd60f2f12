"""One contract for twenty kinds of turns: the span tree under call equals that under stream, and is sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from traced import Traced
from traced_scenarios import SCENARIOS, Scenario, nested, with_tools

from advisorchain.telemetry import Telemetry

Make = Callable[[Telemetry], Scenario]
every_kind = pytest.mark.parametrize("make", SCENARIOS, ids=lambda make: make.__name__)


async def _run(make: Make, mode: str, telemetry: Telemetry) -> None:
    scenario = make(telemetry)
    if scenario.error is None:
        await _ask(scenario, mode)
        return
    with pytest.raises(scenario.error):
        if scenario.timeout is None:
            await _ask(scenario, mode)
        else:
            with anyio.fail_after(scenario.timeout):
                await _ask(scenario, mode)


async def _ask(scenario: Scenario, mode: str) -> Any:
    if mode == "call":
        return await scenario.client.call("How much?", **scenario.settings)
    async with scenario.client.stream("How much?", **scenario.settings) as stream:
        async for _ in stream:
            pass
        return await stream.response()


@every_kind
async def test_the_tree_is_the_same_under_call_and_stream(make: Make, traced: Traced) -> None:
    streamed = Traced()
    await _run(make, "call", traced.telemetry())
    await _run(make, "stream", streamed.telemetry())
    traced.check()
    streamed.check()
    ordered = make(Telemetry()).ordered
    assert traced.tree(ordered=ordered) == streamed.tree(ordered=ordered)
    (root,) = traced.tree()
    assert root[0].startswith("invoke_agent chat_client internal")


@every_kind
async def test_nothing_is_left_current(make: Make, traced: Traced) -> None:
    from opentelemetry import trace

    for mode in ("call", "stream"):
        await _run(make, mode, traced.telemetry())
        assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("mode", ["call", "stream"])
@every_kind
async def test_without_advisor_spans_the_rest_is_the_same(make: Make, mode: str, traced: Traced) -> None:
    bare = Traced()
    await _run(make, mode, traced.telemetry())
    await _run(make, mode, bare.telemetry(advisor_spans="none"))
    bare.check()
    assert not bare.named("advisor")
    kept = [span.name for span in traced.spans if not span.name.startswith("advisor ")]
    assert sorted(kept) == sorted(span.name for span in bare.spans)


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_a_hundred_at_once(mode: str, traced: Traced) -> None:
    telemetry = traced.telemetry()
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(_run, nested if number % 2 else with_tools, mode, telemetry)
    traced.check()
    trees = traced.tree()
    assert len(trees) == 100
    alone = Traced()
    await _run(nested, mode, alone.telemetry())
    await _run(with_tools, mode, alone.telemetry())
    assert set(trees) == set(alone.tree())


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_below_the_callers_own_span(mode: str, traced: Traced) -> None:
    with traced.tracer_provider.get_tracer("application").start_as_current_span("GET /chat") as outer:
        await _run(with_tools, mode, traced.telemetry())
    (tree,) = traced.tree()
    assert tree[0].startswith("GET /chat")
    (turn,) = traced.named("invoke_agent")
    assert turn.parent is not None and turn.parent.span_id == outer.get_span_context().span_id


async def test_what_a_tool_does_is_below_its_call(traced: Traced) -> None:
    from advisorchain import ChatClient, ToolCall, tool
    from advisorchain.testing import ScriptedModel

    tracer = traced.tracer_provider.get_tracer("application")

    @tool
    def in_a_thread() -> str:
        """Look it up."""
        with tracer.start_as_current_span("SELECT"):
            return "found"

    steps = [[ToolCall("in_a_thread", {}), ToolCall("in_a_thread", {})], "done"]
    await ChatClient(ScriptedModel(steps), tools=[in_a_thread], telemetry=traced.telemetry()).call("Go.")
    traced.check()
    calls = {span.context.span_id for span in traced.named("execute_tool") if span.context is not None}
    parents = {span.parent.span_id for span in traced.named("SELECT") if span.parent is not None}
    assert len(calls) == 2 and parents == calls
