"""The onion around every tool call: order, short-circuit, retry, changed arguments, failures, unknown tools."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    Advisor,
    ChatClient,
    ConfigurationError,
    Tool,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResult,
    TurnAbortedError,
    UnknownToolError,
    tool,
    tool_advisor,
)
from advisorchain.testing import ScriptedModel


@tool
def double(n: int) -> int:
    """Double."""
    if n < 0:
        raise ValueError("secret detail")
    return 2 * n


async def texts(run: Any, advisors: list[Any], *calls: ToolCall, tools: Any = (double,)) -> list[tuple[bool, str]]:
    """Error flag and text of what the model reads."""
    model = ScriptedModel([list(calls), "done"])
    response = await run(ChatClient(model, tools=tools, advisors=advisors), "go")
    assert response.text == "done"
    return [(m.is_error, m.text) for m in model.requests[1].messages if isinstance(m, ToolMessage)]


async def test_order_and_what_an_advisor_sees(run: Any) -> None:
    seen: list[Any] = []

    def watching(order: int, name: str) -> Any:
        @tool_advisor(order=order, name=name)
        async def watch(invocation: Any, call_next: Any) -> ToolResult:
            seen.append((name, invocation.call.name, invocation.tool is double, invocation.round))
            result = await call_next(invocation)
            seen.append((name, result.content))
            return result  # type: ignore[no-any-return]

        return watch

    class Both(Advisor):
        """Chat and tool calls."""

        order = 300

        async def advise(self, request: Any, call_next: Any) -> Any:
            seen.append("turn")
            return await call_next(request)

        async def advise_tool(self, invocation: Any, call_next: Any) -> Any:
            seen.append(("both", invocation.request.user_text))
            return await call_next(invocation)

    advisors = [watching(900, "inner"), Both(), watching(100, "outer"), watching(100, "second")]
    assert await texts(run, advisors, ToolCall("double", {"n": 2})) == [(False, "4")]
    assert seen == [
        "turn",
        ("outer", "double", True, 1),
        ("second", "double", True, 1),
        ("both", "go"),
        ("inner", "double", True, 1),
        ("inner", "4"),
        ("second", "4"),
        ("outer", "4"),
    ]


async def test_short_circuit_retry_and_changed_arguments(run: Any) -> None:
    attempts: list[int] = []

    @tool
    def flaky(n: int) -> int:
        """Fails the first time."""
        attempts.append(n)
        if len(attempts) == 1:
            raise OSError("down")
        return n

    @tool_advisor(order=100)
    async def cached(invocation: Any, call_next: Any) -> Any:
        if invocation.call.arguments == {"n": 0}:
            return ToolResult("from the cache")
        return await call_next(invocation)

    @tool_advisor(order=850)
    async def retry(invocation: Any, call_next: Any) -> Any:
        try:
            return await call_next(invocation)
        except OSError:
            changed = invocation.call.replace(arguments={"n": 41})
            return await call_next(invocation.replace(call=changed))

    found = await texts(
        run, [cached, retry], ToolCall("flaky", {"n": 0}, "a"), ToolCall("flaky", {"n": 1}, "b"), tools=[flaky]
    )
    assert found == [(False, "from the cache"), (False, "41")] and attempts == [1, 41]


async def test_every_attempt_gets_fresh_arguments(run: Any) -> None:
    seen: list[Any] = []

    def greedy(arguments: dict[str, Any]) -> str:
        seen.append((dict(arguments), list(arguments["list"])))
        arguments["list"].append(arguments.pop("x"))
        if len(seen) == 1:
            raise OSError("down")
        return "ok"

    @tool_advisor(order=850)
    async def retry(invocation: Any, call_next: Any) -> Any:
        try:
            return await call_next(invocation)
        except OSError:
            return await call_next(invocation)

    made = Tool.from_schema("greedy", greedy, description="Changes what it got.")
    assert await texts(run, [retry], ToolCall("greedy", '{"x": 1, "list": []}'), tools=[made]) == [(False, "ok")]
    assert seen[0][1] == seen[1][1] == [] and seen[1][0]["x"] == 1


async def test_an_advisor_sees_every_failure_as_its_exception(run: Any) -> None:
    seen: dict[str, BaseException] = {}

    @tool_advisor(order=100)
    async def watch(invocation: Any, call_next: Any) -> Any:
        try:
            return await call_next(invocation)
        except BaseException as error:
            seen[invocation.call.id] = error
            raise

    found = await texts(
        run,
        [watch],
        ToolCall("double", {"n": -1}, "failed"),
        ToolCall("ghost", {"n": 1}, "unknown"),
        ToolCall("double", "{", "malformed"),
        ToolCall("double", {"n": "x"}, "invalid"),
        ToolCall("double", {"n": 1}, "good"),
    )
    assert {key: type(error).__name__ for key, error in seen.items()} == {
        "failed": "ValueError",
        "unknown": "UnknownToolError",
        "malformed": "ToolArgumentsError",
        "invalid": "ToolArgumentsError",
    }
    assert isinstance(seen["unknown"], UnknownToolError | ToolError)
    assert [is_error for is_error, _ in found] == [True, True, True, True, False]


async def test_an_advisor_translates_or_hides_a_failure(run: Any) -> None:
    @tool_advisor(order=800)
    async def fallback(invocation: Any, call_next: Any) -> Any:
        try:
            return await call_next(invocation)
        except UnknownToolError:
            return ToolResult("a substitute")
        except ValueError:
            return ToolResult.error("translated", failure={"kind": "degraded"})

    found = await texts(run, [fallback], ToolCall("double", {"n": -1}), ToolCall("ghost"))
    assert found == [(True, "translated"), (False, "a substitute")]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("value", [None, "text", 7])
async def test_an_advisor_that_returns_no_result(run: Any, value: Any, count: int) -> None:
    @tool_advisor(order=100)
    async def forgetful(invocation: Any, call_next: Any) -> Any:
        await call_next(invocation)
        return value

    with pytest.raises(ConfigurationError, match=rf"'double' with {type(value).__name__}, not a ToolResult"):
        await texts(run, [forgetful], *[ToolCall("double", {"n": n}) for n in range(count)])


async def test_an_advisor_that_fails_or_aborts(run: Any) -> None:
    @tool_advisor(order=100)
    async def failing(invocation: Any, call_next: Any) -> Any:
        if invocation.call.arguments["n"] == 1:
            raise LookupError("in the advisor")
        return await call_next(invocation)

    found = await texts(run, [failing], ToolCall("double", {"n": 1}), ToolCall("double", {"n": 2}))
    assert found[0][0] and "LookupError" in found[0][1] and found[1] == (False, "4")

    @tool_advisor(order=100)
    async def aborting(invocation: Any, call_next: Any) -> Any:
        raise TurnAbortedError("the guard says no")

    with pytest.raises(TurnAbortedError, match="the guard says no"):
        await texts(run, [aborting], ToolCall("double", {"n": 1}), ToolCall("double", {"n": 2}))


async def test_an_audit_counts_every_call_once(run: Any) -> None:
    records: list[str] = []

    @tool_advisor(order=100)
    async def audit(invocation: Any, call_next: Any) -> Any:
        records.append(f"{invocation.round}:{invocation.call.name}")
        return await call_next(invocation)

    steps = [
        [ToolCall("double", {"n": 1}), ToolCall("ghost"), ToolCall("double", "{")],
        [ToolCall("double", {"n": -1})],
        "done",
    ]
    model = ScriptedModel(steps)
    response = await run(ChatClient(model, tools=[double], advisors=[audit]), "go")
    assert sorted(records) == ["1:double", "1:double", "1:ghost", "2:double"]
    assert response.request is not None and response.request.context.ledger.tool_calls == 4
    assert response.request.context.ledger.calls_by_tool == {"double": 3, "ghost": 1}
    assert response.request.context.ledger.rounds == 2 and response.request.context.ledger.model_calls == 3


async def test_a_result_object_may_be_shared_by_calls(run: Any) -> None:
    shared = ToolResult("shared")

    @tool_advisor(order=700)
    async def cache(invocation: Any, call_next: Any) -> Any:
        return shared

    found = await texts(run, [cache], ToolCall("double", {"n": 1}), ToolCall("ghost"))
    assert found == [(False, "shared"), (False, "shared")]
    assert shared.call_id == "" and shared.name == "", "nobody changes it"
