"""One scripted turn of a stack of advisors: what its models say, what its tools do, and what was seen of it.

The turn's `Script` is in the context variable `SCRIPT`, so that turns that run at once can share models and tools.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel

from advisorchain import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Emit,
    Event,
    ModelError,
    TextDelta,
    ToolCall,
    ToolContext,
    ToolError,
    ToolPermissionError,
    TurnAbortedError,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.messages import check_pairing

SECRET = "hunter2-secret"
"""In the messages of exceptions that are no `ToolError`: for the log only."""
CONTENT = "7-content"
"""In what tools and models say: in no audit without values, and in no span."""

# One turn -------------------------------------------------------------------------------------------------------------


class Script:
    """What the model does in one turn, and what was seen of the turn."""

    def __init__(self, steps: list[Any], final: str) -> None:
        self.steps = list(steps)
        self.final = final
        self.asked = 0
        """How often the chain's own model was asked."""
        self.used = 0
        """Tokens of all answers of all models."""
        self.requests: list[ChatRequest] = []
        self.sub_requests: list[ChatRequest] = []
        self.runs: Counter[str] = Counter()
        """By call id: how often the tool itself ran."""
        self.tries: Counter[str] = Counter()
        """By call: how often a tool that fails at first was tried."""
        self.events: list[Event] = []
        self.cancel_at = -1
        self.scope: anyio.CancelScope | None = None
        self.steps_taken = 0

    async def step(self) -> None:
        """A place in the midst of a model or tool call, at which the turn may be cancelled."""
        self.steps_taken += 1
        if self.scope is not None and self.steps_taken == self.cancel_at:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    def usage(self) -> Usage:
        self.used += 10
        return Usage(7, 3)


SCRIPT = ContextVar[Script]("script")
CALL = ContextVar[str]("call")

# The tools ------------------------------------------------------------------------------------------------------------


async def _fails_first() -> None:
    """Fails at the first attempt of a call."""
    script, call = SCRIPT.get(), CALL.get()
    await script.step()
    script.tries[call] += 1
    if script.tries[call] == 1:
        raise ConnectionError(f"lost {SECRET}")


@tool(read_only=True)
async def look(n: int = 0) -> str:
    """Look something up."""
    await SCRIPT.get().step()
    return f"seen {CONTENT} {n}"


@tool
def count(n: int = 0) -> str:
    """Count, in a thread."""
    return f"counted {CONTENT} {n}"


@tool(idempotent=True)
async def flaky(n: int = 0) -> str:
    """Fails at first; may be repeated."""
    await _fails_first()
    return f"flaky {CONTENT} {n}"


@tool
async def book(n: int = 0) -> str:
    """Fails at first; may not be repeated."""
    await _fails_first()
    return f"booked {CONTENT} {n}"


@tool(return_direct=True)
async def show(n: int = 0) -> str:
    """Returns directly."""
    await SCRIPT.get().step()
    return f"shown {CONTENT} {n}"


@tool(return_direct=True, read_only=True)
async def show_flaky(n: int = 0) -> str:
    """Returns directly, when it does not fail."""
    await _fails_first()
    return f"shown {CONTENT} {n}"


@tool(timeout=0.01, idempotent=True)
async def hang(n: int = 0) -> str:
    """Never answers."""
    await anyio.sleep(60)
    return "never"


@tool(parallel=False)
async def fail(n: int = 0) -> str:
    """Fails in several ways."""
    if n == 0:
        raise ToolError(f"told {CONTENT}")
    if n == 1:
        raise ToolPermissionError("do it")
    if n == 2:
        return "MCP error -32001: Request timed out"
    raise ExceptionGroup("group", [KeyError(SECRET)])


@tool
async def steer(context: ToolContext, n: int = 0) -> str:
    """Adds a message to the transcript."""
    context.request.steer(UserMessage(content=f"steered {n}"))
    await SCRIPT.get().step()
    return "steered"


@tool
async def abort(n: int = 0) -> str:
    """Ends the turn."""
    await SCRIPT.get().step()
    raise TurnAbortedError("stop")


@tool(tags=["admin"])
async def admin(n: int = 0) -> str:
    """Is not for everybody."""
    return f"admin {CONTENT}"


TOOLS = [look, count, flaky, book, show, show_flaky, hang, fail, steer, abort, admin]
NAMES = [each.name for each in TOOLS]
ONCE = {each.name for each in TOOLS if not each.idempotent and not each.read_only}


@tool_advisor(order=999, name="notes_runs")
async def notes_runs(invocation: Any, call_next: Any) -> Any:
    """Counts how often the tool itself runs."""
    if invocation.tool.source != "unknown":
        turn = invocation.context.turn
        CALL.set(f"{turn.id} {invocation.call.id}")
        SCRIPT.get().runs[f"{invocation.tool.name} {'/'.join(turn.path)} {invocation.call.id}"] += 1
    return await call_next(invocation)


@chat_advisor(order=5, name="notes_events")
async def notes_events(request: Any, call_next: Any) -> Any:
    """Sees every event, also of a stream that is left."""

    async def note(event: Event, emit: Emit) -> None:
        SCRIPT.get().events.append(event)
        await emit(event)

    return await call_next(request.tap(note) if request.streaming else request)


# The models -----------------------------------------------------------------------------------------------------------


def check_request(request: ChatRequest) -> None:
    """Every call has its result, no id is used twice, and nothing secret is told to the model."""
    check_messages(request.messages)
    assert SECRET not in repr([message.text for message in request.messages])


def check_messages(messages: Any) -> None:
    check_pairing(messages)
    ids = Counter(call.id for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls)
    assert all(number == 1 for number in ids.values()), ids


class Playing:
    """Plays the turn's script; after its end it gives the final answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        script = SCRIPT.get()
        script.asked += 1
        script.requests.append(request)
        await script.step()
        step = script.steps.pop(0) if script.steps else ("say", script.final)
        if request.options.tool_choice == "none" and step[0] == "call":
            step = ("say", script.final)
        if step[0] == "down":
            raise ModelError("The model is down.", transient=step[1])
        text = step[1]
        await self._emit(request, text[: len(text) // 2])
        if step[0] == "break":
            raise ModelError("The connection broke.", transient=True)
        await self._emit(request, text[len(text) // 2 :])
        calls = tuple(ToolCall(*each) for each in step[2]) if step[0] == "call" else ()
        reason = "length" if step[0] == "call" and step[3] else "final"
        message = AssistantMessage(content=text, tool_calls=calls)
        return ChatResponse(message, stop_reason=reason, usage=script.usage())

    async def _emit(self, request: ChatRequest, text: str) -> None:
        if text and request.streaming:
            await request.emit(TextDelta(text))
        await SCRIPT.get().step()


async def assistant(request: ChatRequest) -> ChatResponse[Any]:
    """The sub-agent's model: what it does depends on the prompt, and on what was done."""
    script = SCRIPT.get()
    script.sub_requests.append(request)
    await script.step()
    prompt = request.user_text
    done = sum(message.role == "tool" for message in request.messages)
    if prompt.startswith("fail"):
        raise ModelError("The sub-agent's model is down.", transient=True)
    if done == 0 and prompt.startswith("use ") and request.options.tool_choice != "none":
        calls = (ToolCall(prompt[4:], {"n": 1}, id="sub"), ToolCall("look", {"n": 5}, id="sub2"))
        return ChatResponse(AssistantMessage(tool_calls=calls), usage=script.usage())
    if request.streaming:
        await request.emit(TextDelta(f"sub {CONTENT}"))
    return ChatResponse(AssistantMessage(content=f"sub {CONTENT}"), usage=script.usage())
