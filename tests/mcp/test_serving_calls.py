"""A call from outside goes through the tool onion: advisors, progress, cancellation, what it knows of its caller."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from served_tools import add, text_of

from advisorchain import (
    ChatClient,
    ImagePart,
    TextPart,
    Tool,
    ToolCall,
    ToolContext,
    tool,
    tool_advisor,
)
from advisorchain.advisors import AuditAdvisor, CircuitBreakerAdvisor, ToolCacheAdvisor, ToolFallbackAdvisor
from advisorchain.audit import JsonLinesSink, records
from advisorchain.mcp import MCP_CALLER, MCP_META, TRACE_CONTEXT, McpServer, McpTools, mcp_server
from advisorchain.mcp.exposure import ExposedTools
from advisorchain.testing import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\nrest"


# Progress and cancellation -------------------------------------------------------------------------------------------


async def test_progress_reaches_the_client(mode: str) -> None:
    @tool
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.progress(1, 3, "one")
        await context.progress(1, 3, "not more than before: not sent")
        await context.progress(float("nan"))
        await context.progress(3, 3)
        return "done"

    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(mcp_server([work]), mode=mode) as client:
        result = await client.call_tool("work", {}, progress_callback=on_progress)
        unasked = await client.call_tool("work", {})

    assert text_of(result) == text_of(unasked) == "done"
    assert seen == [(1, 3, "one"), (3, 3, None)]


async def test_a_call_that_the_client_cancels_is_cancelled_here(mode: str) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    ends: list[Any] = []

    @tool_advisor(order=100)
    async def watch(invocation: Any, call_next: Any) -> Any:
        invocation.context.at_turn_end(lambda end: ends.append(end.error))
        return await call_next(invocation)

    async with Client(mcp_server([wait, add], advisors=[watch]), mode=mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wait", {})
            with anyio.fail_after(10):
                await started.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await ended.wait()
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2}

    assert isinstance(ends[0], BaseException)
    assert not isinstance(ends[0], Exception)
    assert ends[1] is None


# The onion -----------------------------------------------------------------------------------------------------------


async def test_every_call_is_audited(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    server = mcp_server([add], advisors=[AuditAdvisor(JsonLinesSink(path))])
    async with Client(server, mode=mode) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("add", {"a": "x"})
        await client.call_tool("nothing", {})

    written = [record for record in records(path) if record["kind"] == "tool"]
    assert [(record["tool"], record["outcome"]) for record in written] == [
        ("add", "ok"), ("add", "invalid_arguments"), ("nothing", "unknown_tool")
    ]  # fmt: skip
    assert len({record["turn"] for record in written}) == 3
    assert all(record["conversation"] is None for record in written)


async def test_the_breaker_opens_for_clients_too(mode: str) -> None:
    attempts = 0

    async def stock() -> str:
        """Ask the stock."""
        nonlocal attempts
        attempts += 1
        raise ConnectionError("secret host is down")

    breaker = CircuitBreakerAdvisor()
    advisors = [breaker, ToolFallbackAdvisor()]
    tools = [Tool.from_function(stock, source="stock")]
    async with Client(mcp_server(tools, advisors=advisors), mode=mode) as client:
        results = [await client.call_tool("stock", {}) for _ in range(6)]

    assert attempts == 3
    assert all(result.is_error for result in results)
    assert "secret" not in "".join(text_of(result) for result in results)


async def test_the_cache_serves_all_clients(mode: str) -> None:
    calls = 0

    @tool(read_only=True)
    async def rate(currency: str) -> str:
        """Tell the rate."""
        nonlocal calls
        calls += 1
        return f"{currency}: {calls}"

    server = mcp_server([rate], advisors=[ToolCacheAdvisor()])
    async with Client(server, mode=mode) as first, Client(server, mode=mode) as second:
        one = await first.call_tool("rate", {"currency": "EUR"})
        two = await second.call_tool("rate", {"currency": "EUR"})

    assert text_of(one) == text_of(two) == "EUR: 1"
    assert calls == 1


async def test_what_runs_at_the_end_of_a_turn_sees_the_result(mode: str) -> None:
    ends: list[Any] = []

    @tool_advisor(order=100)
    async def watch(invocation: Any, call_next: Any) -> Any:
        invocation.context.at_turn_end(ends.append)
        return await call_next(invocation)

    async with Client(mcp_server([add], advisors=[watch]), mode=mode) as client:
        await client.call_tool("add", {"a": 1, "b": 2})

    (end,) = ends
    assert end.error is None
    assert end.response.text == '{"sum":3}'
    assert end.response.direct_results[0].structured == {"sum": 3}


async def test_a_failure_at_the_end_of_a_turn_does_not_leak(mode: str) -> None:
    def fail(end: Any) -> None:
        raise RuntimeError("secret")

    @tool_advisor(order=100)
    async def watch(invocation: Any, call_next: Any) -> Any:
        invocation.context.at_turn_end(fail)
        return await call_next(invocation)

    async with Client(mcp_server([add], advisors=[watch]), mode=mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.is_error
    assert "secret" not in result.model_dump_json()


async def test_a_whole_client_is_one_tool(mode: str) -> None:
    model = ScriptedModel([[ToolCall("add", {"a": 20, "b": 22})], "It is 42."])
    desk = ChatClient(model, tools=[add]).as_tool("desk", "Answers questions about sums.")
    async with Client(mcp_server([desk]), mode=mode) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("desk", {"prompt": "20 + 22?"})

    assert listed.input_schema["required"] == ["prompt"]
    assert text_of(result) == "It is 42."
    assert result.structured_content is None
    model.assert_finished()


async def test_a_client_whose_model_fails_leaks_nothing(mode: str) -> None:
    desk = ChatClient(ScriptedModel([RuntimeError("api key sk-123")])).as_tool("desk", "Answers.")
    async with Client(mcp_server([desk]), mode=mode) as client:
        result = await client.call_tool("desk", {"prompt": "?"})

    assert result.is_error
    assert "sk-123" not in result.model_dump_json()


# What a tool knows about its caller ----------------------------------------------------------------------------------


async def test_a_tool_knows_its_caller_and_the_listed_meta(mode: str) -> None:
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        shared = context.context
        seen.append((shared[MCP_CALLER], shared[MCP_META], shared.get(TRACE_CONTEXT), context.conversation_id))
        return ""

    trace = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "tracestate": "x=1"}
    async with Client(mcp_server([look], request_meta=["org/tenant"]), mode=mode) as client:
        await client.call_tool("look", {}, meta={"org/tenant": "t1", "org/secret": "s", **trace})
        await client.call_tool("look", {})
        protocol = client.protocol_version

    caller, meta, found, conversation = seen[0]
    assert caller.name == "mcp"
    assert caller.protocol == protocol
    assert caller.client_id is None
    assert dict(meta) == {"org/tenant": "t1"}
    assert found == trace
    assert conversation is None
    assert dict(seen[1][1]) == {}


async def test_two_sessions_at_once_do_not_mix(mode: str) -> None:
    inside = 0
    both = anyio.Event()

    @tool
    async def meet(name: str, context: ToolContext) -> str:
        """Meet."""
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        return f"{name} in {context.context.turn.id}"

    server = mcp_server([meet])
    results: dict[str, str] = {}

    async def call(client: Client, name: str) -> None:
        results[name] = text_of(await client.call_tool("meet", {"name": name}))

    async with Client(server, mode=mode) as first, Client(server, mode=mode) as second:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(call, first, "ann")
                group.start_soon(call, second, "bob")

    assert results["ann"].startswith("ann in ")
    assert results["bob"].startswith("bob in ")
    assert results["ann"].split()[-1] != results["bob"].split()[-1]


async def test_tools_of_other_servers_are_served_on(mode: str) -> None:
    @tool(return_direct=True, read_only=True, tags=["x"])
    async def work(context: ToolContext) -> list[Any]:
        """Work."""
        await context.progress(1, 2, "half")
        return [TextPart(text="done"), ImagePart(data=PNG, media_type="image/png")]

    seen: list[Any] = []

    async def on_progress(*report: Any) -> None:
        seen.append(report)

    inner = McpServer.in_process(mcp_server([work, add]), name="inner", trusted=True)
    async with McpTools([inner]) as remote, Client(mcp_server([remote]), mode=mode) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        result = await client.call_tool("work", {}, progress_callback=on_progress)
        total = await client.call_tool("add", {"a": 1, "b": 2})
        wrong = await client.call_tool("add", {"a": "x"})

    assert listed["work"].meta == {
        "advisorchain/tags": ["x"], "advisorchain/returnDirect": True, "returnDirect": True
    }  # fmt: skip
    assert listed["work"].annotations.read_only_hint is True
    assert listed["add"].output_schema["properties"] == {"sum": {"type": "integer"}}
    assert text_of(result) == "done"
    assert base64.b64decode(result.content[1].data) == PNG
    assert seen == [(1, 2, "half")]
    assert total.structured_content == {"sum": 3}
    assert wrong.is_error


async def test_exposed_tools_need_no_server() -> None:
    exposed = ExposedTools([add])
    result, found = await exposed.call("add", {"a": 1, "b": 1})

    assert result.structured == {"sum": 2}
    assert found.name == "add"


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "advisorchain")
