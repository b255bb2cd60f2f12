"""ToolCacheAdvisor: what is cached, for whom, how long; one execution for identical calls at once."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from typing import Any

import anyio
import pytest

from advisorchain import (
    ChatClient,
    ConfigurationError,
    ContextKey,
    ImagePart,
    Order,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvocation,
    ToolNext,
    ToolResult,
    TurnAbortedError,
    tool,
    tool_advisor,
)
from advisorchain.advisors import RetryAdvisor, ToolCacheAdvisor
from advisorchain.testing import ScriptedModel

USER = ContextKey[str]("test.user")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Shop:
    """Counts what runs."""

    def __init__(self, name: str = "shop") -> None:
        self.name = name
        self.runs: list[Any] = []

    @tool(read_only=True, tags=["stock"])
    async def stock(self, product: str, depot: str = "main") -> dict[str, Any]:
        """Stock."""
        self.runs.append((product, depot))
        return {"product": product, "left": [3], "shop": self.name}

    @tool
    async def order(self, product: str) -> str:
        """Order."""
        self.runs.append(product)
        return f"ordered {product}"

    @tool(read_only=True)
    async def mine(self, context: ToolContext) -> str:
        """Of the user."""
        self.runs.append("mine")
        return f"for {context.context.get(USER)}"

    @tool(read_only=True, repeatable=True)
    async def poll(self) -> str:
        """Poll."""
        self.runs.append("poll")
        return "pending"

    @tool(read_only=True)
    async def fails(self) -> str:
        """Fail."""
        self.runs.append("fails")
        raise ValueError("no")

    @tool(read_only=True, return_direct=True)
    async def picture(self) -> list[Any]:
        """A picture."""
        self.runs.append("picture")
        return [ImagePart(data=b"png")]


class Seen:
    """Collects the results outside the cache."""

    def __init__(self) -> None:
        self.results: list[ToolResult] = []
        self.advisor = tool_advisor(order=650, name="seen")(self._see)

    async def _see(self, invocation: Any, call_next: Any) -> ToolResult:
        result: ToolResult = await call_next(invocation)
        self.results.append(result)
        return result

    @property
    def hits(self) -> list[bool]:
        return [(result.metadata or {}).get("cache") == "hit" for result in self.results]


async def ask(run: Any, cache: ToolCacheAdvisor, shop: Any, *calls: ToolCall, **settings: Any) -> Seen:
    """The calls, one per round."""
    seen = Seen()
    model = ScriptedModel([*([call] for call in calls), "done"])
    await run(ChatClient(model, tools=[shop], advisors=[cache, seen.advisor]), "go", **settings)
    return seen


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


async def test_an_identical_call_is_answered_from_the_cache(run: Any) -> None:
    shop, cache = Shop(), ToolCacheAdvisor()
    calls = [
        call("stock", product="lamp", depot="a"),
        ToolCall("stock", '{ "depot": "a",\n "product": "lamp" }'),
        call("stock", product="lamp", depot="b"),
        call("stock", product="lamp"),
    ]
    seen = await ask(run, cache, shop, *calls)
    assert seen.hits == [False, True, False, False]
    assert [json.loads(r.content) for r in seen.results[:2]] == [{"product": "lamp", "left": [3], "shop": "shop"}] * 2
    assert seen.results[1].artifact == seen.results[0].artifact
    seen.results[1].artifact["left"].append(4)  # whoever changes an answer does not change the next
    again = await ask(run, cache, shop, calls[0])
    assert again.hits == [True]
    assert again.results[0].artifact["left"] == [3]
    assert len(shop.runs) == 3


@pytest.mark.parametrize(
    ("tools", "cached"),
    [
        (None, {"stock"}),
        (["order", "poll"], {"order", "poll"}),
        (["stock"], {"stock"}),  # its name, and its tag
        (lambda each: each.name != "stock", {"order", "poll"}),
        ([], set()),
    ],
)
async def test_which_tools_are_cached(run: Any, tools: Any, cached: set[str]) -> None:
    shop = Shop()
    calls = {"stock": {"product": "x"}, "order": {"product": "x"}, "poll": {}, "mine": {}}
    cache = ToolCacheAdvisor(tools=tools)
    for name, arguments in calls.items():
        seen = await ask(run, cache, shop, ToolCall(name, arguments), ToolCall(name, arguments))
        assert seen.hits[1] is (name in cached), name


async def test_errors_are_not_cached(run: Any) -> None:
    shop, cache = Shop(), ToolCacheAdvisor()
    await ask(run, cache, shop, call("fails"), call("fails"))
    assert shop.runs == ["fails"] * 2

    @tool_advisor(order=800, name="degrades")
    async def degrade(invocation: Any, call_next: Any) -> ToolResult:
        await call_next(invocation)
        return ToolResult("not now", failure={"kind": "degraded"})

    seen = Seen()
    model = ScriptedModel([[call("stock", product="x")], [call("stock", product="x")], "done"])
    await run(ChatClient(model, tools=[shop], advisors=[cache, seen.advisor, degrade]), "go")
    assert seen.hits == [False, False]


@pytest.mark.parametrize("by", ["key", "function"])
async def test_scopes_do_not_mix(run: Any, by: str) -> None:
    shop = Shop()
    scope: Any = USER if by == "key" else lambda invocation: invocation.context.get(USER)
    cache = ToolCacheAdvisor(scope=scope)
    for user, hits in [("ada", [False, True]), ("bob", [False, True]), ("ada", [True, True]), (None, [False, False])]:
        context = {} if user is None else {USER: user}
        seen = await ask(run, cache, shop, call("mine"), call("mine"), context=context)
        assert seen.hits == hits
        assert {r.content for r in seen.results} == {f"for {user}"}


async def test_a_scope_that_cannot_be_a_key(run: Any) -> None:
    cache = ToolCacheAdvisor(scope=lambda invocation: ["ada"])  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match=r"scope of advisor 'tool_cache' gave \['ada'\] for a call of 'mine'"):
        await ask(run, cache, Shop(), call("mine"))


async def test_tools_of_one_name_do_not_mix(run: Any) -> None:
    cache = ToolCacheAdvisor()
    for name in ("a", "b", "a"):
        seen = await ask(run, cache, Shop(name), call("stock", product="x"))
        assert json.loads(seen.results[0].content)["shop"] == name
        assert seen.hits == [False]
    handlers = [lambda arguments: "one", lambda arguments: "two"]
    for handler, text in zip(handlers, ("one", "two"), strict=True):
        made = Tool.from_schema("same", handler, description="Same.", read_only=True)
        seen = await ask(run, cache, made, call("same"))
        assert seen.results[0].content == text
    # A server's tools are made anew each time they are listed.
    for hit in (False, True):
        made = Tool.from_schema("same", handlers[0], description="Same.", read_only=True, source="server").replace()
        assert (await ask(run, cache, made, call("same"))).hits == [hit]


async def test_ttl_and_size(run: Any) -> None:
    shop, clock = Shop(), Clock()
    cache = ToolCacheAdvisor(ttl=10, max_entries=2, clock=clock)

    async def hit(product: str) -> bool:
        return (await ask(run, cache, shop, call("stock", product=product))).hits[0]

    assert not await hit("a")
    clock.now += 9.99
    assert await hit("a"), "reading does not prolong it, and it is not over yet"
    clock.now += 0.01
    assert not await hit("a")
    assert not await hit("b")
    assert await hit("a")
    assert not await hit("c")  # b was not asked for the longest
    assert await hit("a")
    assert not await hit("b")
    cache.clear()
    assert not await hit("b")


async def test_a_cached_direct_result_is_returned_direct(run: Any) -> None:
    shop, cache = Shop(), ToolCacheAdvisor()
    for _ in range(2):
        model = ScriptedModel([[call("picture")]])
        response = await run(ChatClient(model, tools=[shop], advisors=[cache]), "go")
        assert response.stop_reason == "return_direct"
        assert response.message.content == (ImagePart(data=b"png"),)
        (result,) = response.direct_results
        assert result.artifact == [ImagePart(data=b"png")]
    assert (result.metadata or {})["cache"] == "hit"
    assert shop.runs == ["picture"]


def counting(outcomes: list[Any], callers: int = 1) -> tuple[Tool, list[int]]:
    """A tool that takes a moment, and then returns or raises the next outcome; and how many runs it had.

    The first run ends when there are so many ``callers``.
    """
    runs: list[int] = []

    @tool(read_only=True, timeout=None)
    async def work() -> str:
        """Work."""
        runs.append(len(runs))
        outcome = outcomes[min(len(runs), len(outcomes)) - 1]
        while len(runs) == 1 and len(CAME) < callers:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(0.05)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            await anyio.sleep_forever()
        return str(outcome)

    return work, runs


CAME: list[str] = []
"""The calls that have come to the cache."""


@tool_advisor(order=Order.TOOL_CACHE - 1)
async def note(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
    CAME.append(invocation.call.id)
    return await call_next(invocation)


async def many(
    run: Any, made: Tool, cache: ToolCacheAdvisor, count: int, cancel_first: float | None = None
) -> list[str]:
    answers: list[str] = []
    CAME.clear()

    async def one(scope: anyio.CancelScope) -> None:
        def answer(request: Any) -> str:
            return str(request.messages[-1].text)

        model = ScriptedModel([[call("work")], answer])
        with scope:
            own_run = type(run)(run.mode)
            answers.append((await own_run(ChatClient(model, tools=[made], advisors=[note, cache]), "go")).text)

    first = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(one, first)
        await anyio.sleep(0.02)
        for _ in range(count - 1):
            group.start_soon(one, anyio.CancelScope())
        if cancel_first is not None:
            await anyio.sleep(cancel_first)
            first.cancel()
    return answers


async def test_single_flight(run: Any) -> None:
    made, runs = counting(["fine", "again"])
    answers = await many(run, made, ToolCacheAdvisor(), 200)
    assert answers == ["fine"] * 200
    assert len(runs) == 1


async def test_when_the_one_who_runs_is_cancelled_another_takes_over(run: Any) -> None:
    made, runs = counting([None, "fine"])
    with anyio.fail_after(10):
        answers = await many(run, made, ToolCacheAdvisor(), 50, cancel_first=0.1)
    assert answers == ["fine"] * 49
    assert len(runs) == 2


async def test_a_shared_error_is_shared_and_forgotten(run: Any) -> None:
    made, runs = counting([ValueError("no"), "fine"], callers=20)
    cache = ToolCacheAdvisor()
    answers = await many(run, made, cache, 20)
    assert len(answers) == 20
    assert all("ValueError" in answer for answer in answers)
    assert len(runs) == 1
    assert await many(run, made, cache, 1) == ["fine"]


@pytest.mark.parametrize("grouped", [False, True])
async def test_what_ends_the_turn_of_the_first_ends_no_other(run: Any, grouped: bool) -> None:
    error: Exception = TurnAbortedError("the first one's budget")
    made, runs = counting([ExceptionGroup("group", [error]) if grouped else error, "fine"], callers=3)
    cache = ToolCacheAdvisor()
    answers: list[str] = []
    CAME.clear()

    async def one() -> None:
        model = ScriptedModel([[call("work")], "done"])
        with suppress(TurnAbortedError):
            answers.append(
                (await type(run)(run.mode)(ChatClient(model, tools=[made], advisors=[note, cache]), "go")).text
            )

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(one)
    assert answers == ["done"] * 2
    assert len(runs) == 2


async def test_nobody_changes_what_is_kept(run: Any) -> None:
    failures = [ConnectionResetError()]

    @tool(read_only=True)
    async def stock() -> ToolResult:
        """Stock."""
        if failures:
            raise failures.pop()
        return ToolResult("3", structured={"left": [3]}, artifact={"left": [3]})

    cache = ToolCacheAdvisor()
    for attempts in (2, None, None):
        seen = Seen()
        model = ScriptedModel([[call("stock")], "done"])
        advisors = [seen.advisor, cache, RetryAdvisor(tool={"wait": 0})]
        await run(ChatClient(model, tools=[stock], advisors=advisors), "go")
        (result,) = seen.results
        assert (result.structured, result.artifact) == ({"left": [3]}, {"left": [3]})
        result.structured["left"].append(4)
        result.artifact["left"].append(4)
        assert (result.metadata or {}).get("attempts") == attempts, "a hit takes none"


async def test_a_call_within_a_call_never_waits_for_itself(run: Any) -> None:
    """Nor do two for each other: each runs in a sub-agent of the other."""
    depth = {"a": 0, "b": 0}
    begun = {"a": anyio.Event(), "b": anyio.Event()}
    cache = ToolCacheAdvisor(tools=["a", "b"])

    def nested(name: str, other: str) -> Tool:
        async def handle(arguments: dict[str, Any]) -> str:
            depth[name] += 1
            if depth[name] > 1:
                return "bottom"
            begun[name].set()
            await begun[other].wait()
            steps = [[call(other), call(name)], lambda request: "/".join(m.text for m in request.messages[-2:])]
            return (await ChatClient(ScriptedModel(steps), tools=tools, advisors=[cache]).call("go")).text

        return Tool.from_schema(name, handle, description="Nested.", timeout=None)

    tools = [nested("a", "b"), nested("b", "a")]
    model = ScriptedModel([[call("a"), call("b")], "done"])
    with anyio.fail_after(10):
        await run(ChatClient(model, tools=tools, advisors=[cache]), "go")
    assert [result.content for result in model.requests[-1].tool_results] == ["bottom/bottom"] * 2


def test_threads_share_a_cache(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    numbers = [
        tool(name=f"t{number}", description="A number.", read_only=True)(lambda number=number: number)
        for number in range(4)
    ]
    cache = ToolCacheAdvisor(ttl=0.0001, max_entries=2)

    async def turns() -> None:
        for _ in range(60):
            model = ScriptedModel([[ToolCall(f"t{number}") for number in range(4)] * 2, "done"])
            await ChatClient(model, tools=numbers, advisors=[cache]).call("go")
            assert not any(result.is_error for result in model.requests[-1].tool_results)
            done.append(1)

    done: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=anyio.run, args=(turns,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(done) == 4 * 60 and not caplog.records


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ttl": 0}, "ttl must be"),
        ({"ttl": "60"}, "ttl must be"),
        ({"ttl": float("nan")}, "ttl must be"),
        ({"max_entries": 0}, "max_entries must be"),
        ({"max_entries": None}, "max_entries must be"),
        ({"scope": "user"}, "scope must be"),
        ({"tools": 5}, "tools must be"),
        ({"clock": 5}, "clock must be"),
        ({"tools": ["stock", 5]}, "tools must be"),
    ],
)
def test_bad_settings(settings: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolCacheAdvisor(**settings)
