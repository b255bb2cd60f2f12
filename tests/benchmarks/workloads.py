"""The workloads, and the two sides that do them: a bare loop, and advisorchain.

Both sides follow the same script, build their native answer on every model call, and read name, description and schema
of every tool, as a provider's adapter must. `check` proves that a side did all the work.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import bare_loop

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Message,
    Order,
    TextDelta,
    ToolCall,
    UserMessage,
)
from advisorchain.advisors import (
    AuditAdvisor,
    CircuitBreakerAdvisor,
    RetryAdvisor,
    ToolCallingAdvisor,
    ToolFallbackAdvisor,
)
from advisorchain.audit import JsonLinesSink

PROMPT = "What is 1+1?"
FINAL = "The answer is 42."
PIECES = [f"w{number} " for number in range(200)]


@dataclass(frozen=True)
class Workload:
    """What one request consists of.

    Attributes:
        name: W1 to W8, as in the documentation.
        title: in words.
        rounds: tool rounds before the answer.
        parallel: tool calls per round.
        advisors: advisors around every model call that do nothing.
        tools: how many tools there are; one of them is called.
        chunks: over 0: the answer is streamed in that many pieces.
        history: messages before the prompt.
        delay: seconds that every model call sleeps.
        concurrent: requests at once.
    """

    name: str
    title: str
    rounds: int = 0
    parallel: int = 1
    advisors: int = 0
    tools: int = 1
    chunks: int = 0
    history: int = 0
    delay: float = 0.0
    concurrent: int = 1

    @property
    def model_calls(self) -> int:
        """Model calls per request."""
        return self.rounds + 1


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("W1", "no tool call, no advisor"),
        Workload("W2", "5 tool rounds", rounds=5),
        Workload("W3", "5 tool rounds, 10 advisors", rounds=5, advisors=10),
        Workload("W4", "8 tool calls at once", rounds=1, parallel=8),
        Workload("W5a", "200 streamed pieces", chunks=200),
        Workload("W5b", "200 streamed pieces, 10 advisors", chunks=200, advisors=10),
        Workload("W6", "1,000 requests at once, 3 tool rounds", rounds=3, delay=0.05, concurrent=1000),
        Workload("W7a", "100 tool rounds", rounds=100),
        Workload("W7b", "5 tool rounds after 1,000 messages", rounds=5, history=1000),
        Workload("W8", "300 tools, 1 tool round", rounds=1, tools=300),
    )
}


class Counts:
    """What both sides have done since `reset`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again."""
        self.model_calls = self.tool_calls = self.advisor_calls = self.tools_seen = self.pieces = 0


DONE = Counts()


class Script:
    """Where one request stands."""

    __slots__ = ("index", "workload")

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.index = 0

    def next(self) -> list[tuple[str, str, str]] | None:
        """The next answer's tool calls (id, name, arguments), or None: the answer is the final text."""
        index = self.index
        self.index = index + 1
        DONE.model_calls += 1
        if index >= self.workload.rounds:
            return None
        return [(f"c{index}_{k}", "add", f'{{"a": {index}, "b": {k}}}') for k in range(self.workload.parallel)]


SCRIPT: contextvars.ContextVar[Script] = contextvars.ContextVar("script")


def read_tools(tools: list[tuple[str, Any, Any]]) -> None:
    """Stands for what an adapter does with the tools."""
    DONE.tools_seen += len(tools)


def tool_functions(count: int) -> list[Callable[..., Any]]:
    """``count`` functions; the first is ``add``, the one that is called."""

    def make(name: str) -> Callable[..., Any]:
        async def add(a: int, b: int) -> int:
            DONE.tool_calls += 1
            return a + b

        add.__name__ = add.__qualname__ = name
        add.__doc__ = f"Add two integers (variant {name})."
        return add

    return [make("add" if number == 0 else f"add_{number}") for number in range(count)]


class Side(Protocol):
    """One of the two; built once for a workload."""

    async def request(self) -> str:
        """Do one request; the answer's text."""
        ...


class Bare:
    """The bare loop. It has no advisors, whatever the workload says."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.loop = bare_loop.BareLoop(self._model, self._streamed, tool_functions(workload.tools))
        self.history = [
            bare_loop.Message("assistant" if number % 2 else "user", f"message {number}")
            for number in range(workload.history)
        ]

    async def _model(self, messages: list[bare_loop.Message], schemas: bare_loop.Schemas) -> bare_loop.Message:
        script = SCRIPT.get()
        calls = script.next()
        read_tools(schemas)
        if script.workload.delay:
            await asyncio.sleep(script.workload.delay)
        if calls is None:
            return bare_loop.Message("assistant", FINAL)
        return bare_loop.Message("assistant", None, [bare_loop.Call(id, name, text) for id, name, text in calls])

    async def _streamed(self, messages: list[bare_loop.Message], schemas: bare_loop.Schemas) -> AsyncIterator[str]:
        script = SCRIPT.get()
        script.next()
        read_tools(schemas)
        for piece in PIECES[: script.workload.chunks]:
            yield piece

    async def request(self) -> str:
        """Do one request; the answer's text."""
        SCRIPT.set(Script(self.workload))
        if not self.workload.chunks:
            return await self.loop.run(PROMPT, self.history)
        pieces: list[str] = []
        async for piece in self.loop.stream(PROMPT):
            pieces.append(piece)
        DONE.pieces += len(pieces)
        return "".join(pieces)


class NoOp(Advisor):
    """An advisor around every model call that only counts."""

    order = Order.AUGMENTATION

    def __init__(self, number: int) -> None:
        self.name = f"noop_{number}"

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Count, and go on."""
        DONE.advisor_calls += 1
        return await call_next(request)


def scratch_directory() -> Path:
    """A new directory that is gone when the process ends."""
    directory = Path(tempfile.mkdtemp(prefix="advisorchain-benchmark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


EXTRAS: dict[str, Callable[[], list[Any]]] = {
    "resilience": lambda: [ToolFallbackAdvisor(), RetryAdvisor(), CircuitBreakerAdvisor()],
    "audit": lambda: [AuditAdvisor(JsonLinesSink(scratch_directory() / "audit.jsonl"))],
}
"""Built-in advisors whose price is measured: what a workload costs with them, over what it costs without."""


class Advised:
    """A `ChatClient` as it comes, with the round limit lifted; ``extra`` names advisors of `EXTRAS`."""

    def __init__(self, workload: Workload, extra: str | None = None) -> None:
        self.workload = workload
        self.client = ChatClient(
            self._model,
            tools=tool_functions(workload.tools),
            advisors=[
                ToolCallingAdvisor(max_rounds=None),
                *map(NoOp, range(workload.advisors)),
                *(EXTRAS[extra]() if extra is not None else ()),
            ],
        )
        self.history: list[Message] = [
            AssistantMessage(content=f"message {number}") if number % 2 else UserMessage(content=f"message {number}")
            for number in range(workload.history)
        ]

    async def _model(self, request: ChatRequest) -> ChatResponse[Any]:
        script = SCRIPT.get()
        calls = script.next()
        read_tools([(tool.name, tool.description, tool.input_schema) for tool in request.tools])
        workload = script.workload
        if workload.delay:
            await asyncio.sleep(workload.delay)
        if workload.chunks:
            pieces: list[str] = []
            for piece in PIECES[: workload.chunks]:
                pieces.append(piece)
                await request.emit(TextDelta(piece))
            return ChatResponse(AssistantMessage(content="".join(pieces)))
        if calls is None:
            return ChatResponse(AssistantMessage(content=FINAL))
        made = tuple([ToolCall(name, text, id) for id, name, text in calls])
        return ChatResponse(AssistantMessage(tool_calls=made))

    async def request(self) -> str:
        """Do one request; the answer's text."""
        SCRIPT.set(Script(self.workload))
        if not self.workload.chunks:
            prompt = [*self.history, UserMessage(content=PROMPT)] if self.history else PROMPT
            return (await self.client.call(prompt)).text
        pieces: list[str] = []
        async with self.client.stream(PROMPT) as stream:
            async for event in stream:
                if type(event) is TextDelta:
                    pieces.append(event.text)
        DONE.pieces += len(pieces)
        return "".join(pieces)


SIDES: dict[str, Callable[[Workload], Side]] = {"bare": Bare, "advisorchain": Advised}


async def check(side: Side, workload: Workload) -> None:
    """Do one request and see that nothing was left out.

    Raises:
        AssertionError: says what differs.
    """
    DONE.reset()
    text = await side.request()
    advisors = 0 if isinstance(side, Bare) else workload.advisors
    found = (text, DONE.model_calls, DONE.tool_calls, DONE.advisor_calls, DONE.tools_seen, DONE.pieces)
    expected = (
        "".join(PIECES[: workload.chunks]) if workload.chunks else FINAL,
        workload.model_calls,
        workload.rounds * workload.parallel,
        workload.model_calls * advisors,
        workload.model_calls * workload.tools,
        workload.chunks,
    )
    if found != expected:
        raise AssertionError(f"{workload.name}, {type(side).__name__}: did {found}, not {expected}")
