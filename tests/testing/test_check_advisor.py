"""`check_advisor`: every built-in advisor passes, and every kind of wrong advisor is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ToolInvocation,
    ToolNext,
    ToolResult,
)
from advisorchain import advisors as built_in
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
from advisorchain.audit import LoggingSink
from advisorchain.memory import InMemoryStore
from advisorchain.shared_state import InMemorySharedState
from advisorchain.testing import ScriptedModel, check_advisor


class Thought(BaseModel):
    """An extra argument."""

    thought: str = ""


BUILT_IN: dict[str, Callable[[], Any]] = {
    "AuditAdvisor": lambda: AuditAdvisor(LoggingSink()),
    "AugmentationAdvisor": lambda: AugmentationAdvisor(Thought, lambda call: None),
    "BudgetAdvisor": lambda: BudgetAdvisor(max_calls=1000),
    "CircuitBreakerAdvisor": CircuitBreakerAdvisor,
    "CircuitBreakerAdvisor, models": lambda: CircuitBreakerAdvisor(models=True),
    "CircuitBreakerAdvisor, shared": lambda: CircuitBreakerAdvisor(state=InMemorySharedState()),
    "MemoryAdvisor": lambda: MemoryAdvisor(InMemoryStore()),
    "ModelFallbackAdvisor": lambda: ModelFallbackAdvisor([ScriptedModel([])]),
    "RateLimitAdvisor": lambda: RateLimitAdvisor(calls=1000),
    "RetryAdvisor": RetryAdvisor,
    "RetryAdvisor, timed": lambda: RetryAdvisor(model={"attempt_timeout": 20}, tool={"attempt_timeout": 20}),
    "ReturnDirectAdvisor": ReturnDirectAdvisor,
    "ToolCacheAdvisor": ToolCacheAdvisor,
    "ToolCallingAdvisor": ToolCallingAdvisor,
    "ToolFallbackAdvisor": ToolFallbackAdvisor,
    "ToolFilterAdvisor": lambda: ToolFilterAdvisor(deny=["check_echo"], allow=lambda tool, request: True),
    "ToolFilterAdvisor, allowing": lambda: ToolFilterAdvisor(allow=["check_*"]),
    "ToolSearchAdvisor": lambda: ToolSearchAdvisor(threshold=0),
    "ToolSearchAdvisor, remembering": lambda: ToolSearchAdvisor(
        threshold=0, scope="conversation", prefetch=2, store=InMemoryStore()
    ),
    "ToolSearchAdvisor, strict": lambda: ToolSearchAdvisor(threshold=0, auto_load=False),
}


@pytest.mark.parametrize("make", BUILT_IN.values(), ids=BUILT_IN)
async def test_built_in_advisors(make: Callable[[], Any]) -> None:
    await check_advisor(make)


def test_no_built_in_advisor_is_left_out() -> None:
    advisors = {name for name in built_in.__all__ if name.endswith("Advisor")}
    assert advisors == {name.partition(",")[0] for name in BUILT_IN}


# Wrong advisors -------------------------------------------------------------------------------------------------------


class Wrong(Advisor):
    order = 600


class Shouts(Wrong):
    """Changes what was streamed."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        return response.replace(message=response.message.model_copy(update={"content": response.text.upper()}))


class Holds(Shouts):
    """The same, done right."""

    streams = "hold"


class CallsOnly(Wrong):
    """Does its work under call only."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        return response if request.streaming else response.replace(metadata={**response.metadata, "seen": True})


class Once(Wrong):
    """Cannot be entered again: it pops what it needs."""

    def __init__(self) -> None:
        self.left = [1, 2]

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if not self.left:
            return None  # type: ignore[return-value]
        self.left.pop()
        return await call_next(request)


class Swallows(Wrong):
    """Turns whatever happens to a tool into a result, a cancellation too."""

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        try:
            return await call_next(invocation)
        except BaseException:
            return ToolResult("never mind")


class SwallowsAnswers(Wrong):
    """The same around the model."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        try:
            return await call_next(request)
        except BaseException:
            return ChatResponse(AssistantMessage(content="never mind"))


class Remembers(Wrong):
    """Keeps the running request in itself."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        self.request = request
        await anyio.lowlevel.checkpoint()
        return await call_next(self.request)


class ChangesRequest(Wrong):
    """Changes the request that it was given."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        request.messages = (*request.messages,)
        request.options = request.options.replace(temperature=0)
        return await call_next(request)


class ChangesMetadata(Wrong):
    """Writes into the response's metadata."""

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        response.metadata["seen"] = True  # type: ignore[index]
        return response


class ChangesResult(Wrong):
    """Writes into a tool's result."""

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        result = await call_next(invocation)
        result.content += "!"
        return result


async def test_a_holding_advisor_passes() -> None:
    await check_advisor(Holds)


async def test_the_context_reaches_the_turns_and_the_maker_may_be_async() -> None:
    seen: list[Any] = []

    class Reads(Wrong):
        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            seen.append(request.context.get("tenant"))
            return await call_next(request)

    async def make() -> Reads:
        return Reads()

    await check_advisor(make, context={"tenant": "acme"})
    assert set(seen) == {"acme"}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Shouts, 'Shouts: Under call and stream.*streams = "hold"'),
        (CallsOnly, "CallsOnly: Under call and stream.*'seen'"),
        (Once, "Once: It may be entered twice.*It raised.*NoneType"),
        (Swallows, "Swallows: A cancellation must pass.*in the tool, it made a tool result"),
        (SwallowsAnswers, "SwallowsAnswers: A cancellation must pass.*in the model, it made a response"),
        (Remembers, "Remembers: Turns at the same time must not meet"),
        (ChangesRequest, r"Changed in place: ChatRequest.messages, ChatRequest.options"),
        (ChangesMetadata, r"Changed in place: ChatResponse.metadata"),
        (ChangesResult, r"Changed in place: ToolResult.content"),
    ],
)
async def test_wrong_advisors_are_found(wrong: Callable[[], Any], text: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){text}"):
        await check_advisor(wrong)


async def test_one_that_ends_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.testing.advisor.SECONDS", 0.1)

    class EndsLate(Wrong):
        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            try:
                return await call_next(request)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.2)
                raise

    with pytest.raises(AssertionError, match=r"EndsLate: A cancellation must pass.*it took 0\.\d s to end"):
        await check_advisor(EndsLate)
