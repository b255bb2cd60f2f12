"""What happens once on every exit: ``finalize_loop``, and a `ToolFinished` for every `ToolStarted`."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from advisorchain import (
    ChatClient,
    ConfigurationError,
    Order,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnAbortedError,
    UserMessage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


class Finalized(ToolCallingAdvisor):
    """Notes how it ended, and takes its time for it."""

    def __init__(self) -> None:
        super().__init__(name="finalized")
        self.outcomes: list[Any] = []

    async def finalize_loop(self, outcome: Any, state: Any) -> None:
        await anyio.sleep(0.05)
        self.outcomes.append(outcome)


async def test_finalized_when_initializing_fails(run: Any) -> None:
    class Fails(Finalized):
        async def initialize_loop(self, request: Any) -> Any:
            raise ValueError("no")

    loop = Fails()
    with pytest.raises(ValueError, match="no"):
        await run(ChatClient(ScriptedModel([]), advisors=[loop]), "go")
    assert [type(outcome) for outcome in loop.outcomes] == [ValueError]


async def test_a_successful_finalize_is_not_interrupted() -> None:
    loop = Finalized()
    with anyio.move_on_after(0.02):
        await ChatClient(ScriptedModel(["hi"]), advisors=[loop]).call("go")
    assert [outcome.text for outcome in loop.outcomes] == ["hi"]


@pytest.mark.parametrize("hook", ["initialize_loop", "before_round", "after_round"])
async def test_a_hook_that_returns_nothing_is_named(run: Any, hook: str) -> None:
    async def nothing(self: Any, *args: Any) -> None:
        return None

    loop = type("Forgetful", (ToolCallingAdvisor,), {hook: nothing})()
    with pytest.raises(ConfigurationError, match=hook):
        await run(ChatClient(ScriptedModel(["hi"]), advisors=[loop]), "go")


async def test_a_tap_that_fails_at_a_start_leaves_no_start_without_its_end() -> None:
    seen: list[Any] = []

    @chat_advisor(order=100)
    async def fragile(request: Any, call_next: Any) -> Any:
        async def tap(event: Any, emit: Any) -> None:
            if isinstance(event, ToolStarted | ToolFinished):
                seen.append(type(event))
            await emit(event)
            if isinstance(event, ToolStarted):
                raise RuntimeError("the tap broke")

        return await call_next(request.tap(tap))

    @tool
    def one() -> int:
        """One."""
        return 1

    client = ChatClient(ScriptedModel([[ToolCall("one")]]), tools=[one], advisors=[fragile])
    with pytest.raises(RuntimeError, match="the tap broke"):
        async with client.stream("go") as stream:
            await stream.response()
    assert seen == [ToolStarted, ToolFinished]


async def test_an_abort_is_not_told_as_a_cancellation() -> None:
    @tool
    def guard() -> str:
        """Stops the turn."""
        raise TurnAbortedError("stop now")

    events: list[Any] = []
    with pytest.raises(TurnAbortedError, match="stop now"):
        async with ChatClient(ScriptedModel([[ToolCall("guard")]]), tools=[guard]).stream("go") as stream:
            async for event in stream:
                events.append(event)
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.result.is_error and "TurnAbortedError" in finished.result.content


async def test_steering_of_a_discarded_attempt_is_not_kept(run: Any) -> None:
    attempts: list[str] = []

    @chat_advisor(order=Order.AUGMENTATION)
    async def steering(request: Any, call_next: Any) -> Any:
        attempts.append(f"note {len(attempts) + 1}")
        return await call_next(request.steer(UserMessage(content=attempts[-1])))

    @chat_advisor(order=Order.MEMORY_INSIDE)
    async def again(request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)

    response = await run(ChatClient(ScriptedModel(["first", "second"]), advisors=[steering, again]), "go")
    assert [message.text for message in response.new_messages] == ["note 2", "second"]
