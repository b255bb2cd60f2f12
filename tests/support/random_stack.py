"""Random stacks of the built-in advisors: what they are drawn from, and the `World` in which they run.

A `World` is one client with its model, tools, advisors and a sub-agent, all made from drawn data, so that two worlds of
the same data play the same: one is called, the other one is streamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.lowlevel
from hypothesis import strategies as st
from pydantic import BaseModel
from stack_script import NAMES, SCRIPT, SECRET, TOOLS, Playing, assistant, notes_events, notes_runs

from advisorchain import ChatClient, MemoryStoreError, Message, Order
from advisorchain.advisors import (
    AuditAdvisor,
    AugmentationAdvisor,
    BudgetAdvisor,
    CircuitBreakerAdvisor,
    MemoryAdvisor,
    ModelFallbackAdvisor,
    RateLimitAdvisor,
    RetryAdvisor,
    ReturnDirectAdvisor,
    ToolCacheAdvisor,
    ToolCallingAdvisor,
    ToolFallbackAdvisor,
    ToolFilterAdvisor,
    ToolSearchAdvisor,
)
from advisorchain.audit import JsonLinesSink
from advisorchain.memory import InMemoryStore, LastMessages, LastTurns, SqliteStore, TokenWindow

# What stacks and scripts are drawn from -------------------------------------------------------------------------------

ARGUMENTS = st.sampled_from([*({"n": n} for n in (0, 1, 2, 3) for _ in range(4)), None, "{", '{"n": "x"}', {"m": 1}])
IDS = st.sampled_from([None, None, "a", "b"])
PROMPTS = st.sampled_from(["hello", "fail", *[f"use {name}" for name in NAMES]])


def _of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def _weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """`one_of` with weights."""
    return st.sampled_from([choice for weight, choice in choices for _ in range(weight)]).flatmap(lambda choice: choice)


CALLS = _weighted(
    (6, st.tuples(st.sampled_from([*NAMES, *NAMES, "ghost"]), ARGUMENTS, IDS)),
    (1, st.tuples(st.just("helper"), st.builds(lambda what: {"prompt": what}, PROMPTS), IDS)),
)
STEP = _weighted(
    (6, st.tuples(st.just("call"), _of("", "Let me see. "), st.lists(CALLS, min_size=1, max_size=3), st.just(False))),
    (1, st.tuples(st.just("call"), st.just("Cut"), st.lists(CALLS, min_size=1, max_size=2), st.just(True))),
    (1, st.tuples(st.just("down"), _of(True, True, False))),
    (1, st.tuples(st.just("break"), st.just("Half of it. "))),
)
STEPS = st.lists(STEP, max_size=6)


def _kind(kind: str, orders: list[int], **options: Any) -> st.SearchStrategy[tuple[str, int, dict[str, Any]]]:
    return st.tuples(st.just(kind), st.sampled_from(orders), st.fixed_dictionaries(options))


TROUBLE = _of(0, 0, 0, 0, 1, 2, 3, 4)
MEMORY = {
    "store": _of("memory", "memory", "memory", "sqlite"),
    "window": _of(None, None, LastTurns(1), LastMessages(3), TokenWindow(60)),
    "keep_failed": st.booleans(),
    "fails": TROUBLE,
}
KINDS = [
    _kind("memory", [Order.MEMORY, 120, 300, Order.MEMORY_INSIDE, 520, 655, 720, 860], **MEMORY),
    _kind("memory2", [Order.MEMORY, 150, Order.MEMORY_INSIDE, 610], **MEMORY),
    _kind("audit", [Order.AUDIT, 230, 560, 720], required=st.booleans(), values=st.booleans(), fails=TROUBLE),
    _kind(
        "retry", [Order.RETRY, 560, 910],
        attempts=_of(2, 3), on_partial=_of("raise", "restart"), tool=_of(None, 2), timeout=_of(None, 30.0),
    ),
    _kind("model_fallback", [Order.FALLBACK, 630, 870], on_partial=_of("raise", "restart"), nested=st.booleans()),
    _kind("tool_fallback", [Order.FALLBACK, 300, 870], language=_of("en", "zh")),
    _kind("breaker", [Order.CIRCUIT_BREAKER, 820, 580], failures=_of(1, 2), models=st.booleans()),
    _kind("rate_limit", [Order.RATE_LIMIT, 300], calls=_of(2, 5), by=_of("model", "tool")),
    _kind("tool_cache", [Order.TOOL_CACHE, 560, 870], tools=_of(None, ("look", "flaky", "show", "book", "helper"))),
    _kind("budget", [Order.BUDGET, 570], limit=_of("calls", "tokens"), per=_of("turn", "conversation"), most=_of(2, 4)),
    _kind(
        "tool_search", [Order.TOOL_SEARCH, 580, 670],
        auto_load=st.booleans(), prefetch=_of(0, 2), scope=_of("turn", "conversation"),
    ),
    _kind("tool_filter", [Order.TOOL_FILTER, 300, 680], by=_of("admin", "book", "show*")),
    _kind("augmentation", [Order.AUGMENTATION, 560, 690], required=st.booleans(), consumer=_of(None, "fine", "fails")),
    _kind(
        "return_direct", [Order.RETURN_DIRECT, 540],
        policy=_of("all", "any", "first"), errors=st.booleans(), hint=st.booleans(),
    ),
    _kind(
        "tool_calling", [Order.TOOL_LOOP],
        max_rounds=_of(1, 2, 25), max_repeats=_of(1, 3), max_calls=_of(None, 3),
        on_limit=_of("answer", "stop", "raise"), concurrency=_of(1, 8),
    ),
]  # fmt: skip
STACK = st.lists(st.one_of(KINDS), max_size=9, unique_by=lambda each: each[0])


class Reason(BaseModel):
    """Why a tool is called."""

    reason: str = "none"


def _consumer(kind: str | None) -> Any:
    if kind is None:
        return None

    async def consumer(call: Any) -> None:
        await SCRIPT.get().step()
        if kind == "fails":
            raise ConnectionError(SECRET)

    return consumer


class Trouble:
    """Lets the operation ``at`` fail, counted from 1; 0: none."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.operations = 0
        self.over = False

    def strikes(self) -> bool:
        self.operations += 1
        self.over = self.over or self.operations == self.at
        return self.operations == self.at


class TroubledStore(InMemoryStore):
    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self.trouble = trouble

    async def load(self, conversation_id: str, **bounds: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        if self.trouble.strikes():
            raise MemoryStoreError("The store is away.")
        return await super().load(conversation_id, **bounds)

    async def append(self, conversation_id: str, turn_id: str, messages: Any, *, branch: str = "") -> None:
        await anyio.lowlevel.checkpoint()
        if self.trouble.strikes():
            raise MemoryStoreError("The store is full.")
        await super().append(conversation_id, turn_id, messages, branch=branch)


class TroubledSink(JsonLinesSink):
    def __init__(self, path: Path, trouble: Trouble) -> None:
        super().__init__(path)
        self.trouble = trouble

    def write(self, record: Any, *, durable: bool = False) -> Any:
        if self.trouble.strikes():
            raise OSError(f"disk full {SECRET}")
        return super().write(record, durable=durable)


class World:
    """A client with a stack of advisors, and all that it leaves behind."""

    def __init__(
        self, stack: list[Any], sub_stack: list[Any], directory: Path, telemetry: Any = False, name: str = "world"
    ) -> None:
        self.directory = directory
        self.name = name
        self.stack = {kind: (order, options) for kind, order, options in stack}
        self.stores: dict[str, Any] = {}
        self.sinks: list[tuple[TroubledSink, bool, bool]] = []
        self.troubles: list[Trouble] = []
        self.helper: ChatClient | None = None
        self.sub_advisors = [self._advisor(*each, sub=True) for each in sub_stack]
        sub_advisors = [*self.sub_advisors, notes_runs]
        self.helper = helper = ChatClient(assistant, tools=TOOLS, advisors=sub_advisors, telemetry=telemetry)
        self.advisors = [self._advisor(*each, sub=False) for each in stack]
        self.client = ChatClient(
            Playing("playing"),
            tools=[*TOOLS, helper.as_tool("helper", "Helps.")],
            advisors=[notes_events, *self.advisors, notes_runs],
            telemetry=telemetry,
            system="Be brief.",
        )

    def _trouble(self, options: dict[str, Any]) -> Trouble:
        self.troubles.append(Trouble(options["fails"]))
        return self.troubles[-1]

    def repair(self) -> None:
        """Nothing fails any more."""
        for trouble in self.troubles:
            trouble.at = 0

    def close(self) -> None:
        for store in self.stores.values():
            if isinstance(store, SqliteStore):
                store.close()
        for sink, _, _ in self.sinks:
            sink.close()

    def _advisor(self, kind: str, order: int, options: dict[str, Any], *, sub: bool) -> Any:
        match kind:
            case "memory" | "memory2":
                place = f"{self.name}-{kind}{'-sub' if sub else ''}"
                store: Any = TroubledStore(self._trouble(options))
                if options["store"] == "sqlite":
                    store = SqliteStore(self.directory / f"{place}.db")
                self.stores[place] = store
                return MemoryAdvisor(
                    store,
                    order=order,
                    window=options["window"],
                    name=kind,
                    keep_failed=options["keep_failed"] and order > Order.TOOL_LOOP,
                    branch=sub,
                    history="replace" if sub else "error",  # as a model, the sub-agent gets the conversation
                )
            case "audit":
                path = self.directory / f"{self.name}{'-sub' if sub else ''}.jsonl"
                sink = TroubledSink(path, self._trouble(options))
                self.sinks.append((sink, options["required"], options["values"]))
                return AuditAdvisor(sink, order=order, required=options["required"], values=options["values"])
            case "retry":
                policy = {"attempts": options["attempts"], "wait": 0, "attempt_timeout": options["timeout"]}
                tool_policy = None if options["tool"] is None else {**policy, "attempts": options["tool"]}
                return RetryAdvisor(order=order, model=policy, tool=tool_policy, on_partial=options["on_partial"])
            case "model_fallback":
                nested = self.helper if options["nested"] else None
                other: Any = nested.as_model("other") if nested is not None else Playing("other")
                return ModelFallbackAdvisor([other], order=order, on_partial=options["on_partial"])
            case "tool_fallback":
                return ToolFallbackAdvisor(order=order, contact="desk@example.com", **options)
            case "breaker":
                return CircuitBreakerAdvisor(order=order, clock=lambda: 0.0, **options)
            case "rate_limit":
                return RateLimitAdvisor(order=order, per=1e6, **options)
            case "tool_cache":
                return ToolCacheAdvisor(order=order, clock=lambda: 0.0, **options)
            case "budget":
                if options["limit"] == "calls":
                    return BudgetAdvisor(order=order, per=options["per"], max_calls=options["most"])
                return BudgetAdvisor(order=order, per=options["per"], max_tokens=10 * options["most"])
            case "tool_search":
                return ToolSearchAdvisor("regex", order=order, threshold=3, **options)
            case "tool_filter":
                return ToolFilterAdvisor(order=order, deny=[options["by"]])
            case "augmentation":
                consumer = _consumer(options["consumer"])
                return AugmentationAdvisor(Reason, consumer, order=order, required=options["required"])
            case "return_direct":
                return ReturnDirectAdvisor(order=order, **options)
            case _:
                return ToolCallingAdvisor(order=order, **options)


def shape(messages: Any) -> list[Any]:
    """Messages without what differs from turn to turn: ids."""
    return [
        (m.role, m.text, [(c.name, c.arguments) for c in getattr(m, "tool_calls", ())], getattr(m, "is_error", None))
        for m in messages
    ]


def stored_turns(store: Any) -> dict[tuple[str, str], list[tuple[str, tuple[Message, ...]]]]:
    """All that a store of this process has."""
    return {
        (conversation, branch): [(turn.id, turn.messages) for turn in turns.values()]
        for conversation, branches in store._conversations.items()
        for branch, turns in branches.items()
    }
