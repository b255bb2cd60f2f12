"""Which turn, advisor and tool call is whose: of sub-agents, providers of their own, advisors and loops of others."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from traced import Traced
from traced_scenarios import ADD, USAGE, add, nested

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ToolCall,
    ToolContext,
    ToolInvocation,
    ToolResult,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import AuditAdvisor, ModelFallbackAdvisor, RetryAdvisor
from advisorchain.audit import LoggingSink
from advisorchain.mcp import McpServer, McpTools, mcp_server
from advisorchain.telemetry import otel
from advisorchain.telemetry.failures import is_cancellation
from advisorchain.testing import ScriptedModel


class Mine(Advisor):
    order = 410

    async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        return await call_next(request)


class MyRetry(RetryAdvisor):
    """A built-in one with something of one's own."""


class Duck:
    order = 420

    async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        return await call_next(request)


@chat_advisor(order=430)
async def of_a_function(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
    return await call_next(request)


@tool_advisor(order=440)
async def of_a_tool_function(invocation: ToolInvocation, call_next: Any) -> ToolResult:
    return await call_next(invocation)


async def test_whoever_is_not_built_in_is_custom(traced: Traced, run: Any) -> None:
    advisors = [Mine(), MyRetry(), Duck(), of_a_function, of_a_tool_function, AuditAdvisor(LoggingSink())]
    telemetry = traced.telemetry(advisor_spans="custom")
    client = ChatClient(ScriptedModel([ADD, "3"]), tools=[add], advisors=advisors, telemetry=telemetry)
    await run(client, "Go.")
    assert {span.name for span in traced.named("advisor")} == {
        "advisor mine", "advisor my_retry", "advisor duck", "advisor of_a_function", "advisor of_a_tool_function",
    }  # fmt: skip


async def test_a_sub_agent_is_in_the_trace_of_its_turn(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the application has set a global provider: else its spans would have a parent that is elsewhere."""
    elsewhere = Traced()
    monkeypatch.setattr(otel, "DEFAULT", elsewhere.telemetry())
    await nested(True).client.call("Go.")  # type: ignore[arg-type]
    assert len(elsewhere.named("invoke_agent")) == 2
    elsewhere.exporter.clear()
    await nested(False).client.call("Go.")  # type: ignore[arg-type]
    assert not elsewhere.spans, "a turn that is not traced leaves nothing, its sub-agents included"
    await nested(traced.telemetry()).client.call("Go.")
    assert {span.name for span in traced.named("invoke_agent")} == {
        "invoke_agent chat_client", "invoke_agent calculator",
    }  # fmt: skip
    assert not elsewhere.spans


async def test_a_sub_agent_with_providers_of_its_own(traced: Traced, run: Any) -> None:
    elsewhere = Traced()
    inner = ChatClient(ScriptedModel([ADD, "3"], usage=USAGE), tools=[add], telemetry=elsewhere.telemetry())
    steps = [[ToolCall("calculator", {"prompt": "1 + 2"})], "It is 3."]
    tools = [inner.as_tool("calculator", "Calculates.")]
    await run(ChatClient(ScriptedModel(steps, usage=USAGE), tools=tools, telemetry=traced.telemetry()), "Go.")
    assert len(traced.named("chat")) == 2 and len(elsewhere.named("chat")) == 2
    assert {span.context.trace_id for span in (*traced.spans, *elsewhere.spans) if span.context} == {
        traced.one("invoke_agent").context.trace_id  # type: ignore[union-attr]
    }


async def test_an_untraced_sub_agent_leaves_its_tool_call(traced: Traced, run: Any) -> None:
    inner = ChatClient(ScriptedModel([ADD, "3"], usage=USAGE), tools=[add], telemetry=False)
    steps = [[ToolCall("calculator", {"prompt": "1 + 2"})], "It is 3."]
    tools = [inner.as_tool("calculator", "Calculates.")]
    await run(ChatClient(ScriptedModel(steps, usage=USAGE), tools=tools, telemetry=traced.telemetry()), "Go.")
    assert [span.name for span in traced.spans if not span.name.startswith("advisor")] == [
        "invoke_agent chat_client", "chat scripted", "execute_tool calculator", "chat scripted",
    ]  # fmt: skip


async def test_a_client_as_a_model_counts_once(traced: Traced, run: Any) -> None:
    inner = ChatClient(ScriptedModel([ADD, "3"], usage=USAGE), tools=[add], name="inner")
    await run(ChatClient(inner.as_model(), telemetry=traced.telemetry()), "Go.")
    assert len(traced.named("chat")) == 2
    tokens = {p.attributes["gen_ai.token.type"]: p.sum for p in traced.metrics()["gen_ai.client.token.usage"]}
    assert tokens == {"input": 20, "output": 6}
    outer: Any = next(span for span in traced.spans if span.name == "invoke_agent chat_client").attributes
    assert outer["gen_ai.aggregated_usage.input_tokens"] == 20 and outer["advisorchain.model_calls"] == 2


async def test_a_fallback_has_its_own_name(traced: Traced, run: Any) -> None:
    from advisorchain import ModelError

    other = ScriptedModel(["From the other."], name="other")
    first = ScriptedModel([ModelError("down", transient=True)], name="first")
    await run(ChatClient(first, advisors=[ModelFallbackAdvisor([other])], telemetry=traced.telemetry()), "Go.")
    assert [span.name for span in traced.named("chat")] == ["chat first", "chat other"]


async def test_what_a_tool_calls_past_the_loop_is_not_described_on_it(traced: Traced) -> None:
    """A loop of somebody else runs a remote tool itself: what MCP says of that call is not said of another one."""
    async with McpTools([McpServer.in_process(mcp_server([add], telemetry=False), name="sums")]) as remote:

        @chat_advisor(order=500, name="own_loop")
        async def own_loop(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
            found = request.tools.get("add")
            assert found is not None
            result = await request.execute(ToolInvocation(ToolCall("add", {"a": 1, "b": 2}), found, request, 1))
            return ChatResponse(AssistantMessage(content=result.content))

        inner = ChatClient(ScriptedModel([]), tools=[remote], advisors=[own_loop], name="inner")
        steps = [[ToolCall("inner", {"prompt": "1 + 2"})], "done"]
        client = ChatClient(ScriptedModel(steps), tools=[inner.as_tool("inner", "Asks.")], telemetry=traced.telemetry())
        response = await client.call("Go.")
    assert [json.loads(m.content) for m in response.new_messages if m.role == "tool"] == [3]
    assert not [name for name in traced.one("execute_tool").attributes or {} if "mcp" in name]
    assert "mcp.client.operation.duration" not in {
        name for name, points in traced.metrics().items() if any("gen_ai.tool.name" in p.attributes for p in points)
    }


async def test_what_is_said_of_an_attempt_is_not_said_of_the_next(traced: Traced, run: Any) -> None:
    attempts = 0

    @tool(idempotent=True)
    async def remote(context: ToolContext) -> str:
        """Fail first."""
        nonlocal attempts
        attempts += 1
        turn = context.context.turn
        assert turn.observer is not None
        turn.observer.describe_tool_call(turn, context.call.id, {"mcp.method.name": "tools/call"})
        if attempts == 1:
            turn.observer.describe_tool_call(turn, context.call.id, {"rpc.response.status_code": "-32050"})
            raise ConnectionError("reset by peer")
        return "fine"

    async def at_once(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    advisors = [RetryAdvisor(sleep=at_once)]
    steps = [[ToolCall("remote", {})], "done"]
    await run(ChatClient(ScriptedModel(steps), tools=[remote], advisors=advisors, telemetry=traced.telemetry()), "Go.")
    about: Any = traced.one("execute_tool").attributes
    assert attempts == 2 and about["mcp.method.name"] == "tools/call" and "rpc.response.status_code" not in about


async def test_parallel_remote_calls_are_not_mixed_up(traced: Traced, run: Any) -> None:
    @tool
    async def local(n: int) -> int:
        """Wait."""
        await anyio.sleep(0.01)
        return n

    servers = [McpServer.in_process(mcp_server([add.replace(name=f"add_{n}")], telemetry=False), name=f"server_{n}")
               for n in range(3)]  # fmt: skip
    async with McpTools(servers) as remote:
        calls = [ToolCall(f"add_{n}", {"a": n, "b": 1}) for n in range(3)] + [ToolCall("local", {"n": 1})]
        client = ChatClient(ScriptedModel([calls, "done"]), tools=[remote, local], telemetry=traced.telemetry())
        await run(client, "Go.")
    found = {span.name: (span.attributes or {}).get("advisorchain.mcp.server") for span in traced.named("execute_tool")}
    assert found == {
        "execute_tool add_0": "server_0", "execute_tool add_1": "server_1", "execute_tool add_2": "server_2",
        "execute_tool local": None,
    }  # fmt: skip


def test_a_group_of_cancellations_is_one() -> None:
    import asyncio

    cancelled = asyncio.CancelledError()
    assert is_cancellation(BaseExceptionGroup("", [cancelled, BaseExceptionGroup("", [GeneratorExit()])]))
    assert not is_cancellation(BaseExceptionGroup("", [cancelled, ValueError()]))
