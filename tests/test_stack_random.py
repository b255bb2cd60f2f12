"""Random stacks of the built-in advisors: whatever stands together, in whatever order, what each promises holds.

See `random_stack` for what is drawn. After every turn everything is looked at that a turn leaves behind: requests,
answer, events, memory, audit, spans, and what the advisors keep.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_stack import STACK, STEPS, World, shape, stored_turns
from stack_script import CONTENT, ONCE, SCRIPT, SECRET, Script, check_messages, check_request
from stream_reader import check as check_stream
from stream_reader import check_tools
from traced import Traced

from advisorchain import (
    AssistantMessage,
    AuditError,
    BudgetExceededError,
    ChatResponse,
    CircuitOpenError,
    Event,
    MemoryStoreError,
    Message,
    ModelError,
    Order,
    OutputError,
    RateLimitError,
    ToolLoopLimitError,
    TurnAbortedError,
    UserMessage,
)
from advisorchain.audit import records, verify
from advisorchain.memory import InMemoryStore
from advisorchain.shield import in_trio
from advisorchain.tool_index.kept_tools import BRANCH

ERRORS = (
    ModelError, OutputError, ToolLoopLimitError, TurnAbortedError,
    CircuitOpenError, BudgetExceededError, RateLimitError, AuditError, MemoryStoreError,
)  # fmt: skip
LATE = AuditError | MemoryStoreError
REFUSALS = (CircuitOpenError, BudgetExceededError, RateLimitError)
"""What a client may say to a turn in which nothing fails, after others in which much did."""

TURN = st.fixed_dictionaries(
    {
        "steps": STEPS,
        "number": st.booleans(),
        "prompt": st.sampled_from(["go", "book a look"]),
        "tool_choice": st.sampled_from([None, None, None, "required", "none", "book"]),
        "direct": st.sampled_from([{}, {}, {"look": True, "helper": True}, {"show": False}]),
    }
)
PLAIN = {"steps": [], "number": False, "prompt": "go", "tool_choice": None, "direct": {}}
"""A turn in which nothing fails."""
EXIT = st.one_of(
    st.just(("none", 0)),
    st.tuples(st.sampled_from(["step", "ticks", "break", "cancel"]), st.integers(1, 12)),
)


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of failures, each with its traceback, are not worth formatting."""
    logger = logging.getLogger("advisorchain")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


class Played:
    """One turn that was played, and how it ended."""

    def __init__(self, turn: dict[str, Any]) -> None:
        self.turn = turn
        self.script = Script(turn["steps"], "7" if turn["number"] else f"The end. {CONTENT}")
        self.response: ChatResponse[Any] | None = None
        self.error: Exception | None = None

    async def play(self, world: World, conversation: str | None, streamed: bool, leave: tuple[str, int]) -> None:
        SCRIPT.set(self.script)
        how, when = leave
        with anyio.CancelScope() as scope:
            if how == "step":
                self.script.scope, self.script.cancel_at = scope, when
            if how != "ticks":
                await self._play(world, conversation, streamed, leave, scope)
                return
            async with anyio.create_task_group() as group:

                async def cancel() -> None:
                    for _ in range(when):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()

                group.start_soon(cancel)
                await self._play(world, conversation, streamed, leave, scope)
                group.cancel_scope.cancel()

    async def _play(
        self, world: World, conversation: str | None, streamed: bool, leave: tuple[str, int], scope: anyio.CancelScope
    ) -> None:
        how, when = leave
        turn = self.turn
        wanted: dict[str, Any] = {"conversation_id": conversation, "return_direct": turn["direct"]}
        if turn["number"]:
            wanted["output_type"] = int
        if turn["tool_choice"] is not None:
            wanted["options"] = {"tool_choice": turn["tool_choice"]}
        try:
            if not streamed:
                self.response = await world.client.call(turn["prompt"], **wanted)
                return
            async with world.client.stream(turn["prompt"], **wanted) as stream:
                events: list[Event] = []
                async for event in stream:
                    events.append(event)
                    seen = len(events)
                    if seen == when and how == "break":
                        return
                    if seen == when and how == "cancel":
                        scope.cancel()
                self.response = await stream.response()
            check_stream(events, self.response)
        except ERRORS as error:
            self.error = error

    def check(self, world: World) -> None:
        """What holds for every turn, whatever became of it."""
        script = self.script
        for name, times in script.runs.items():
            assert times == 1 or name.split()[0] not in ONCE, f"{name} ran {times} times"
        for request in (*script.requests, *script.sub_requests):
            check_request(request)
        check_tools(script.events)
        budget = world.stack.get("budget")
        if budget is not None and budget[0] == Order.BUDGET and budget[1]["limit"] == "calls":
            assert script.asked <= budget[1]["most"]
        if self.error is not None:
            assert SECRET not in f"{self.error!r} {self.error}"
        response = self.response
        if response is None:
            return
        assert not response.tool_calls and response.new_messages[-1] is response.message
        check_messages((UserMessage(content="?"), *response.new_messages))
        assert response.usage.total_tokens == (script.used or None)
        assert SECRET not in repr(response.new_messages)
        rounds = sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in response.new_messages)
        loop = world.stack.get("tool_calling")
        assert rounds <= (loop[1].get("max_rounds", 25) if loop is not None else 25) + 2


async def check_memory(world: World, played: list[Played], conversation: str) -> None:
    """Each turn that was answered is stored once, whole; of the others nothing, or what was done and a note."""
    answers = Counter(turn.response.text for turn in played if turn.response is not None)
    for place, store in world.stores.items():
        if isinstance(store, InMemoryStore):
            logs = stored_turns(store)
        else:
            history = await store.load(conversation)
            logs = {(conversation, ""): [(turn.id, turn.messages) for turn in history.turns]}
        for (_, branch), turns in logs.items():
            if branch != BRANCH:  # the tools that a search has found
                check_log([messages for _, messages in turns])
        if place.endswith("-sub"):
            continue
        order, options = world.stack[place.rpartition("-")[2]]
        turns = logs.get((conversation, ""), [])
        assert answers <= Counter(messages[-1].text for _, messages in turns)
        more = [turn for turn in played if turn.response is None]  # one that was left may have ended all the same
        if not options["keep_failed"] or order < Order.TOOL_LOOP:
            # What fails at the end of a turn may come after the store's part of it.
            more = [turn for turn in more if turn.error is None or isinstance(turn.error, LATE)]
        assert len(turns) <= answers.total() + len(more)
        if order < Order.TOOL_LOOP:
            assert all(len(messages) == 2 for _, messages in turns)


def check_log(turns: list[tuple[Message, ...]]) -> None:
    """Whole turns that end in an answer, and no message twice."""
    for messages in turns:
        assert isinstance(messages[0], UserMessage) and isinstance(messages[-1], AssistantMessage)
        assert not messages[-1].tool_calls and not any(m.role == "system" for m in messages)
        check_messages(messages)
    ids = [getattr(message, "id", None) for messages in turns for message in messages]
    assert len(ids) == len(set(ids)), "a message is stored twice"


def check_audit(world: World) -> None:
    """The file is whole, what began has ended, once, and nothing was said that was not to be said."""
    for sink, required, values in world.sinks:
        assert verify(sink.path).ok
        data = sink.path.read_text()
        assert SECRET not in data
        assert values or CONTENT not in data
        found = list(records(sink.path))
        began: Counter[Any] = Counter()
        ended: Counter[Any] = Counter()
        for record in found:
            key = (record.get("turn"), record.get("call"))
            if record["kind"].endswith("_intent"):
                began[key] += 1
            elif record["kind"] in ("turn", "tool"):
                ended[key] += 1
                assert not required or ended[key] <= began[key] or sink.trouble.over
        assert not required or began == ended or sink.trouble.over
        assert all(number == 1 for (_, call), number in ended.items() if call is None)


def check_kept(world: World) -> None:
    """No turn is over and still known."""
    for advisor in [*world.advisors, *world.sub_advisors]:
        for name in ("_turns", "_flights"):
            assert not getattr(advisor, name, None), f"{advisor.name} keeps {name}"


async def check_world(world: World, played: list[Played], conversation: str) -> None:
    for turn in played:
        turn.check(world)
    await check_memory(world, played, conversation)
    check_audit(world)
    check_kept(world)


def tasks_living() -> int:
    return trio.lowlevel.current_statistics().tasks_living if in_trio() else len(asyncio.all_tasks())


# Call equals stream ---------------------------------------------------------------------------------------------------

SHARED = {"breaker", "rate_limit", "tool_cache"}


def one_at_a_time(stacks: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
    """Calls of one round run one after the other when what they share makes their order count."""
    if not any(kind in SHARED or options.get("fails") for stack in stacks for kind, _, options in stack):
        return stacks
    outer, inner = (
        [
            *[each for each in stack if each[0] != "tool_calling"],
            ("tool_calling", Order.TOOL_LOOP, {**_options_of(stack, "tool_calling"), "concurrency": 1}),
        ]
        for stack in stacks
    )
    return outer, inner


def _options_of(stack: list[Any], wanted: str) -> dict[str, Any]:
    return next((options for kind, _, options in stack if kind == wanted), {})


def may_differ(stack: list[Any], turns: list[dict[str, Any]]) -> bool:
    """Whether a call may repeat what a stream must not: something was emitted, and nobody opted in to `Restarted`."""
    repeats = [options for kind, _, options in stack if kind in ("retry", "model_fallback")]
    return any(options["on_partial"] == "raise" for options in repeats) and any(
        step[0] == "break" for turn in turns for step in turn["steps"]
    )


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stacks=st.tuples(STACK, STACK).map(one_at_a_time),
    turns=st.lists(TURN, min_size=1, max_size=3),
    backend=st.sampled_from(["asyncio", "trio"]),
)
def test_call_equals_stream(stacks: tuple[list[Any], list[Any]], turns: list[dict[str, Any]], backend: str) -> None:
    async def main(directory: Path) -> None:
        called, streamed = (World(*stacks, directory, name=name) for name in ("called", "streamed"))
        before = tasks_living()
        played: list[tuple[Played, Played]] = []
        for turn in turns:
            one, other = Played(turn), Played(turn)
            await one.play(called, "c", False, ("none", 0))
            await other.play(streamed, "c", True, ("none", 0))
            played.append((one, other))
            await check_world(called, [pair[0] for pair in played], "c")
            await check_world(streamed, [pair[1] for pair in played], "c")
            if may_differ(stacks[0], turns):
                continue
            assert str(one.error) == str(other.error) and type(one.error) is type(other.error)
            if one.response is None:
                assert other.response is None
                continue
            assert other.response is not None
            assert shape(other.response.new_messages) == shape(one.response.new_messages)
            assert other.response.stop_reason == one.response.stop_reason
            assert other.response.usage == one.response.usage
            assert [shape(r.messages) for r in other.script.requests] == [
                shape(r.messages) for r in one.script.requests
            ]
            assert [r.tools.names for r in other.script.requests] == [r.tools.names for r in one.script.requests]
        called.repair()
        streamed.repair()
        if not may_differ(stacks[0], turns):
            for place, store in called.stores.items():
                twin = streamed.stores[place.replace("called", "streamed")]
                assert shape(await twin.load("c")) == shape(await store.load("c"))
        assert tasks_living() == before
        called.close()
        streamed.close()

    with tempfile.TemporaryDirectory() as directory:
        anyio.run(main, Path(directory), backend=backend)


# Cancelled, left, and at once -----------------------------------------------------------------------------------------


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stack=STACK,
    sub_stack=STACK,
    turns=st.lists(st.tuples(TURN, st.booleans(), EXIT), min_size=1, max_size=4),
    at_once=st.booleans(),
    traced=st.booleans(),
    backend=st.sampled_from(["asyncio", "trio"]),
)
def test_left_anywhere(
    stack: list[Any], sub_stack: list[Any], turns: list[Any], at_once: bool, traced: bool, backend: str
) -> None:
    trace = Traced() if traced else None

    async def main(directory: Path) -> None:
        world = World(stack, sub_stack, directory, telemetry=trace.telemetry() if trace is not None else False)
        before = tasks_living()
        played = [Played(turn) for turn, _, _ in turns]
        if at_once:
            async with anyio.create_task_group() as group:
                for one, (_, streamed, leave) in zip(played, turns, strict=True):
                    group.start_soon(one.play, world, "c", streamed, leave)
        else:
            for number, (one, (_, streamed, leave)) in enumerate(zip(played, turns, strict=True)):
                await one.play(world, "c", streamed, leave)
                await check_world(world, played[: number + 1], "c")
        await check_world(world, played, "c")
        world.repair()
        last = Played(PLAIN)
        await last.play(world, "fresh", True, ("none", 0))
        assert last.response is not None or isinstance(last.error, REFUSALS), last.error
        last.check(world)
        await check_world(world, [last], "fresh")
        assert tasks_living() == before
        world.close()

    with tempfile.TemporaryDirectory() as directory:
        anyio.run(main, Path(directory), backend=backend)
    if trace is not None:
        trace.check()
        roots = [span.name.split()[0] for span in trace.spans if span.parent is None]
        assert roots == ["invoke_agent"] * (len(turns) + 1)
        said = " ".join(span.to_json() for span in trace.spans)
        assert SECRET not in said and CONTENT not in said
