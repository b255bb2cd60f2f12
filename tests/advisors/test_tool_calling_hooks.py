"""The hooks of the tool loop: one async version each, for call and stream."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ModelError,
    ToolCall,
    ToolMessage,
    TurnAbortedError,
    UserMessage,
    tool,
)
from advisorchain.advisors import LoopState, ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


@tool
async def work(n: int = 0) -> int:
    """Work."""
    if n < 0:
        await anyio.sleep_forever()
    if n == 99:
        raise TurnAbortedError("stop")
    return n


class Hooked(ToolCallingAdvisor):
    """Writes down when its hooks are called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.seen: list[Any] = []

    async def initialize_loop(self, request: Any) -> Any:
        """Once."""
        self.seen.append("initialize")
        return request

    async def before_round(self, request: Any, state: LoopState) -> Any:
        """Each round."""
        self.seen.append(("before", state.round, len(request.messages), len(state.results)))
        return request

    async def after_round(self, response: Any, state: LoopState) -> Any:
        """Each round."""
        self.seen.append(("after", state.round, len(response.tool_calls)))
        return response

    async def finalize_loop(self, outcome: Any, state: LoopState) -> Any:
        """Once."""
        kind = type(outcome).__name__ if isinstance(outcome, BaseException) else outcome.text
        self.seen.append(("finalize", kind, len(state.new_messages)))
        return None


async def test_order_and_number(run: Any) -> None:
    loop = Hooked()
    model = ScriptedModel([[ToolCall("work"), ToolCall("work")], [ToolCall("work", {"n": 1})], "done"])
    await run(ChatClient(model, tools=[work], advisors=[loop]), "go")
    assert loop.seen == [
        "initialize",
        ("before", 1, 1, 0),
        ("after", 1, 2),
        ("before", 2, 4, 2),
        ("after", 2, 1),
        ("before", 3, 6, 1),
        ("after", 3, 0),
        ("finalize", "done", 6),
    ]


async def test_finalize_at_a_limit_and_at_return_direct(run: Any) -> None:
    loop = Hooked(max_rounds=1)
    model = ScriptedModel([[ToolCall("work")], [ToolCall("work", {"n": 1})], "last"])
    await run(ChatClient(model, tools=[work], advisors=[loop]), "go")
    assert [entry for entry in loop.seen if entry[0] == "finalize"] == [("finalize", "last", 5)]
    loop = Hooked()
    direct = work.replace(return_direct=True)
    await run(ChatClient(ScriptedModel([[ToolCall("work", {"n": 7})]]), tools=[direct], advisors=[loop]), "go")
    assert loop.seen[-1] == ("finalize", "7", 3) and loop.seen[-2] == ("after", 2, 0)


@pytest.mark.parametrize(
    ("steps", "error", "kept"),
    [
        ([ModelError("down")], ModelError, 0),
        ([[ToolCall("work")], ModelError("down")], ModelError, 2),
        ([[ToolCall("work")], [ToolCall("work", {"n": 99})]], TurnAbortedError, 2),
    ],
)
async def test_finalize_on_an_error(run: Any, steps: list[Any], error: type[Exception], kept: int) -> None:
    loop = Hooked()
    with pytest.raises(error):
        await run(ChatClient(ScriptedModel(steps), tools=[work], advisors=[loop]), "go")
    assert [entry for entry in loop.seen if entry[0] == "finalize"] == [("finalize", error.__name__, kept)]


@pytest.mark.parametrize("fails", [False, True])
async def test_finalize_on_a_cancellation(run: Any, fails: bool) -> None:
    reached = anyio.Event()
    finalized: list[str] = []

    class Awaiting(ToolCallingAdvisor):
        async def after_round(self, response: Any, state: LoopState) -> Any:
            reached.set()
            return response

        async def finalize_loop(self, outcome: Any, state: LoopState) -> Any:
            await anyio.sleep(0.02)
            finalized.append(type(outcome).__name__)
            if fails:
                raise RuntimeError("the finaliser failed too")

    seen: list[BaseException] = []
    client = ChatClient(ScriptedModel([[ToolCall("work", {"n": -1})]]), tools=[work], advisors=[Awaiting()])

    async def ask() -> None:
        try:
            await run(client, "go")
        except BaseException as error:
            seen.append(error)
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await reached.wait()
        await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert len(finalized) == 1 and finalized[0] in ("CancelledError", "Cancelled"), "it was awaited to its end"
    assert isinstance(seen[0], anyio.get_cancelled_exc_class()), "the error is the cancellation"


async def test_a_finaliser_that_fails_beside_an_error(run: Any) -> None:
    class Failing(ToolCallingAdvisor):
        async def finalize_loop(self, outcome: Any, state: LoopState) -> Any:
            raise RuntimeError("the finaliser failed too")

    with pytest.raises(ModelError, match="down"):
        await run(ChatClient(ScriptedModel([ModelError("down")]), advisors=[Failing()]), "go")
    with pytest.raises(RuntimeError, match="the finaliser failed too"):
        await run(ChatClient(ScriptedModel(["hi"]), advisors=[Failing()]), "go")


async def test_finalize_may_change_the_response(run: Any) -> None:
    class Signing(ToolCallingAdvisor):
        async def finalize_loop(self, outcome: Any, state: LoopState) -> Any:
            return outcome.replace(message=AssistantMessage(content=f"{outcome.text} (signed)"))

    model = ScriptedModel([[ToolCall("work")], "done"])
    response = await run(ChatClient(model, tools=[work], advisors=[Signing()]), "go")
    assert response.text == "done (signed)" and response.new_messages[-1].text == "done (signed)"


async def test_initialize_may_change_the_request_for_good(run: Any) -> None:
    class Preparing(ToolCallingAdvisor):
        async def initialize_loop(self, request: Any) -> Any:
            return request.replace(messages=[*request.messages, UserMessage(content="prepared")], tools=[work])

    model = ScriptedModel([[ToolCall("work")], "done"])
    response = await run(ChatClient(model, advisors=[Preparing()]), "go")
    assert all(request.messages[1].text == "prepared" for request in model.requests)
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == ["0"]


async def test_before_round_changes_one_round_only(run: Any) -> None:
    class Filtering(ToolCallingAdvisor):
        async def before_round(self, request: Any, state: LoopState) -> Any:
            if state.round != 2:
                return request
            changed = [*request.messages, UserMessage(content="round two")]
            return request.replace(messages=changed, tools=[], options=request.options.replace(seed=2))

    model = ScriptedModel([[ToolCall("work")], [ToolCall("work")], "done"])
    response = await run(ChatClient(model, tools=[work], advisors=[Filtering()]), "go")
    assert [len(request.tools) for request in model.requests] == [1, 0, 1]
    assert [request.options.seed for request in model.requests] == [None, 2, None]
    assert [request.messages[-1].role for request in model.requests] == ["user", "user", "tool"]
    results = [m for m in response.new_messages if isinstance(m, ToolMessage)]
    assert [m.is_error for m in results] == [False, True], "what was not offered does not run"


async def test_before_round_may_steer(run: Any) -> None:
    class Steering(ToolCallingAdvisor):
        async def before_round(self, request: Any, state: LoopState) -> Any:
            return request.steer(UserMessage(content="steered")) if state.round == 1 else request

    model = ScriptedModel([[ToolCall("work")], "done"])
    response = await run(ChatClient(model, tools=[work], advisors=[Steering()]), "go")
    assert [request.messages[1].text for request in model.requests] == ["steered", "steered"]
    assert response.new_messages[0].text == "steered"


async def test_after_round_may_change_the_calls(run: Any) -> None:
    class Editing(ToolCallingAdvisor):
        async def after_round(self, response: Any, state: LoopState) -> Any:
            if not response.tool_calls:
                return response
            calls = tuple(call.replace(arguments={"n": 42}) for call in response.tool_calls)
            return response.replace(message=response.message.model_copy(update={"tool_calls": calls}))

    model = ScriptedModel([[ToolCall("work", {"n": 1})], "done"])
    response = await run(ChatClient(model, tools=[work], advisors=[Editing()]), "go")
    assert [m.text for m in response.new_messages if isinstance(m, ToolMessage)] == ["42"]
    assert response.new_messages[0].tool_calls[0].arguments == {"n": 42}


async def test_stop(run: Any) -> None:
    class Stopping(Hooked):
        async def after_round(self, response: Any, state: LoopState) -> Any:
            if state.round == 2:
                state.stop("enough")
            return response

    loop = Stopping()
    model = ScriptedModel([[ToolCall("work")], ["I would go on.", ToolCall("work", {"n": 1})]])
    response = await run(ChatClient(model, tools=[work], advisors=[loop]), "go")
    assert response.text == "I would go on." and response.tool_calls == ()
    assert response.metadata["stopped"] == "enough" and len(response.metadata["dropped_calls"]) == 1
    assert loop.seen[-1] == ("finalize", "I would go on.", 3)


async def test_no_state_is_shared_between_turns(run: Any) -> None:
    loop = Hooked()
    client = ChatClient(
        ScriptedModel([[ToolCall("work")], "one", [ToolCall("work")], "two"]), tools=[work], advisors=[loop]
    )
    await run(client, "go")
    await run(client, "go")
    assert loop.seen[: len(loop.seen) // 2] == [
        entry if entry[0] != "finalize" else ("finalize", "one", 3) for entry in loop.seen[len(loop.seen) // 2 :]
    ]
