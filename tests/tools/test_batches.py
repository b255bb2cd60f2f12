"""A batch of calls: concurrent, bounded, in call order; and tools that never run beside another."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from advisorchain import (
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolStarted,
    TurnAbortedError,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


class Gauge:
    """How many calls run at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[str] = []

    async def work(self, name: str, seconds: float = 0.01) -> str:
        """Run for a while."""
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(name)
        await anyio.sleep(seconds)
        self.now -= 1
        self.order.append(name.upper())
        return name


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (3, 3), (8, 8), (100, 12), (None, 8)])
async def test_concurrency_is_bounded_and_results_keep_the_order(run: Any, concurrency: int | None, most: int) -> None:
    gauge = Gauge()

    @tool
    async def work(n: int) -> str:
        """Work; the first takes longest."""
        return await gauge.work(str(n), 0.03 - 0.002 * n)

    loop = ToolCallingAdvisor() if concurrency is None else ToolCallingAdvisor(concurrency=concurrency)
    model = ScriptedModel([[ToolCall("work", {"n": n}) for n in range(12)], "done"])
    response = await run(ChatClient(model, tools=[work], advisors=[loop]), "go")
    assert gauge.most == most
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == [str(n) for n in range(12)]


def test_concurrency_must_be_positive() -> None:
    with pytest.raises(ConfigurationError, match="concurrency"):
        ToolCallingAdvisor(concurrency=0)


async def test_a_tool_that_runs_alone(run: Any) -> None:
    gauge = Gauge()

    @tool
    async def beside(name: str) -> str:
        """May run beside others."""
        return await gauge.work(name)

    @tool(parallel=False)
    async def alone(name: str) -> str:
        """Runs alone."""
        assert gauge.now == 0
        return await gauge.work(name)

    names = [("beside", "a"), ("beside", "b"), ("alone", "c"), ("alone", "d"), ("beside", "e"), ("beside", "f")]
    model = ScriptedModel([[ToolCall(tool_name, {"name": name}) for tool_name, name in names], "done"])
    response = await run(ChatClient(model, tools=[beside, alone]), "go")
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == list("abcdef")
    assert gauge.most == 2
    assert gauge.order[4:8] == ["c", "C", "d", "D"], "alone, and in its place"


async def test_sync_tools_run_at_the_same_time(run: Any) -> None:
    all_are_there = threading.Barrier(8, timeout=20)

    @tool
    def meet() -> str:
        """Waits for the seven others."""
        all_are_there.wait()
        return "met"

    model = ScriptedModel([[ToolCall("meet") for _ in range(8)], "done"])
    response = await run(ChatClient(model, tools=[meet]), "go")
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == ["met"] * 8


async def test_calls_that_run_at_once_are_all_counted(run: Any) -> None:
    @tool
    def in_a_thread(n: int) -> int:
        """In a thread."""
        time.sleep(0.001)
        return n

    @tool
    async def in_a_task(n: int) -> int:
        """In a task."""
        await anyio.sleep(0.001)
        return n

    names = ["in_a_thread", "in_a_task", "ghost"]
    model = ScriptedModel([[ToolCall(name, {"n": n}) for n in range(15) for name in names], "done"])
    response = await run(ChatClient(model, tools=[in_a_thread, in_a_task]), "go")
    ledger = response.request.context.ledger
    assert ledger.calls_by_tool == dict.fromkeys(names, 15)
    assert (ledger.tool_calls, ledger.model_calls, ledger.rounds) == (45, 2, 1)


async def test_one_call_needs_no_task_and_no_thread(run: Any) -> None:
    where: list[Any] = []

    def here() -> tuple[int, int]:
        return anyio.get_current_task().id, threading.get_ident()

    @chat_advisor(order=300)
    async def around(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        where.append(here())
        return await call_next(request)

    @tool
    async def inside() -> str:
        """Look where it runs."""
        where.append(here())
        return ""

    await run(ChatClient(ScriptedModel([[ToolCall("inside")], "done"]), tools=[inside], advisors=[around]), "go")
    assert len(where) == 2 and where[0] == where[1]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
async def test_calls_of_one_round_do_not_see_each_others_context_variables(run: Any, concurrency: int) -> None:
    tenant = ContextVar("tenant", default="nobody")

    @tool
    async def act_as(name: str) -> str:
        """Set a context variable; it has nothing to wait for."""
        seen = tenant.get()
        tenant.set(name)
        return seen

    model = ScriptedModel([[ToolCall("act_as", {"name": str(n)}) for n in range(4)], "done"])
    client = ChatClient(model, tools=[act_as], advisors=[ToolCallingAdvisor(concurrency=concurrency)])
    response = await run(client, "go")
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == ["nobody"] * 4
    assert tenant.get() == "nobody"


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_what_ends_the_turn_lets_no_later_call_start(run: Any, concurrency: int) -> None:
    started: list[int] = []

    @tool
    async def act(n: int) -> str:
        """Act; it has nothing to wait for."""
        started.append(n)
        if n == 1:
            raise TurnAbortedError("stop")
        return ""

    model = ScriptedModel([[ToolCall("act", {"n": n}) for n in range(4)]])
    client = ChatClient(model, tools=[act], advisors=[ToolCallingAdvisor(concurrency=concurrency)])
    with pytest.raises(TurnAbortedError, match="stop"):
        await run(client, "go")
    assert started == [0, 1]


async def test_events_of_tools(run: Any) -> None:
    @tool(title="Doing work", return_direct=True)
    async def work(n: int, context: ToolContext) -> int:
        """Work."""
        await context.progress(n, 10, "working")
        if n == 2:
            raise ValueError
        return n

    model = ScriptedModel([["Let me see.", *[ToolCall("work", {"n": n}) for n in (1, 2, 3)]], "done"])
    response = await run(ChatClient(model, tools=[work]), "go")
    assert response.text == "done"
    if run.mode == "call":
        return
    started = [event for event in run.events if type(event) is ToolStarted]
    finished = [event for event in run.events if type(event) is ToolFinished]
    progress = [event for event in run.events if type(event) is ToolProgress]
    assert [event.call.arguments for event in started] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert {event.title for event in started} == {"Doing work"} and all(event.direct for event in started)
    assert sorted((event.result.name, event.result.is_error) for event in finished) == [
        ("work", False), ("work", False), ("work", True),
    ]  # fmt: skip
    assert {event.result.call_id for event in finished} == {event.call.id for event in started}
    assert all(event.seconds >= 0 for event in finished)
    assert sorted(event.progress for event in progress) == [1, 2, 3]
    assert {(event.total, event.message, event.round, event.path) for event in progress} == {(10, "working", 1, ())}
