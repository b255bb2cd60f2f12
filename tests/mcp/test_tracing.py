"""One trace across MCP: the client's tool call, the server's request below it, and what each says of itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_client import raw
from opentelemetry import baggage, context
from served_http import serving
from served_tools import add
from traced import Traced, no_complaints

from advisorchain import ChatClient, ToolCall, ToolContext, ToolError, tool
from advisorchain.advisors import AuditAdvisor, RetryAdvisor
from advisorchain.audit import LoggingSink
from advisorchain.mcp import TRACE_CONTEXT, McpServer, McpTools, mcp_server
from advisorchain.testing import ScriptedModel

SECRET = "hunter2-7f3a"

SERVER = """
import json, sys
import anyio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from advisorchain import tool
from advisorchain.mcp import serve_tools

provider = TracerProvider()
out = open(sys.argv[1], "a")
line = lambda span: span.to_json(indent=None) + "\\n"
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=line)))

@tool
async def add(a: int, b: int) -> int:
    '''Add.'''
    with provider.get_tracer("library").start_as_current_span("SELECT"):
        return a + b

anyio.run(lambda: serve_tools([add], tracer_provider=provider))
"""


@tool
async def leaks() -> str:
    """It says too much."""
    raise ToolError(SECRET)


@tool
async def breaks() -> str:
    """It fails."""
    raise RuntimeError(SECRET)


def _client(tools: Any, traced: Traced | None, *calls: ToolCall, **settings: Any) -> ChatClient:
    telemetry = False if traced is None else traced.telemetry()
    return ChatClient(ScriptedModel([list(calls), "done"]), tools=[tools], telemetry=telemetry, **settings)


async def test_in_process(mcp: Callable[..., McpTools], mode: str, run: Any) -> None:
    traced = Traced()
    served_tools = mcp_server([add], telemetry=traced.telemetry(), advisors=[AuditAdvisor(LoggingSink())])
    tools = mcp(McpServer.in_process(served_tools, name="sums", era=mode))
    with no_complaints():
        client = _client(tools, traced, ToolCall("add", {"a": 1, "b": 2}), advisors=[RetryAdvisor()])
        await run(client, "Go.")
    traced.check()
    call = traced.one("execute_tool")
    about: Any = call.attributes
    assert about["mcp.method.name"] == "tools/call" and about["advisorchain.mcp.server"] == "sums"
    assert about["mcp.protocol.version"] >= "2025"
    request = traced.one("tools/call")
    assert request.name == "tools/call add" and request.kind.name == "SERVER"
    asked: Any = request.attributes
    assert asked["gen_ai.operation.name"] == "execute_tool" and asked["gen_ai.tool.name"] == "add"
    assert asked["mcp.method.name"] == "tools/call" and "error.type" not in asked
    assert request.context is not None and call.context is not None and request.parent is not None
    assert request.context.trace_id == call.context.trace_id
    below = [span.name for span in traced.spans if span.parent and span.parent.span_id == request.context.span_id]
    assert below == ["advisor audit"]  # its request covers the call: there is no second span
    metrics = traced.metrics()
    asked_for = {p.attributes["mcp.method.name"] for p in metrics["mcp.client.operation.duration"]}
    assert asked_for == {"tools/list", "tools/call"}
    assert {point.attributes["mcp.method.name"] for point in metrics["mcp.server.operation.duration"]} >= {
        "tools/call", "tools/list",
    }  # fmt: skip
    (listing,) = [span for span in traced.named("tools/list") if span.kind.name == "CLIENT"]
    assert (listing.attributes or {})["advisorchain.mcp.server"] == "sums"


async def test_over_stdio(mcp: Callable[..., McpTools], mode: str, run: Any, tmp_path: Path) -> None:
    script, spans = tmp_path / "server.py", tmp_path / "spans.jsonl"
    script.write_text(SERVER)
    traced = Traced()
    tools = mcp(McpServer.stdio(sys.executable, [str(script), str(spans)], name="sums", era=mode))
    await run(_client(tools, traced, ToolCall("add", {"a": 1, "b": 2})), "Go.")
    await tools.aclose()
    call = traced.one("execute_tool")
    assert call.context is not None
    assert (call.attributes or {})["network.transport"] == "pipe"
    found = {span["name"]: span for span in map(json.loads, spans.read_text().splitlines())}
    request = found["tools/call add"]
    assert request["parent_id"] == f"0x{call.context.span_id:016x}"
    assert request["context"]["trace_id"] == f"0x{call.context.trace_id:032x}"
    assert found["SELECT"]["parent_id"] == request["context"]["span_id"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_over_http(mcp: Callable[..., McpTools], run: Any) -> None:
    traced, server = Traced(), Traced()
    async with serving(add, telemetry=server.telemetry()) as url:
        tools = mcp(McpServer.http(url, name="sums"))
        await run(_client(tools, traced, ToolCall("add", {"a": 1, "b": 2})), "Go.")
        await tools.aclose()
    call, request = traced.one("execute_tool"), server.one("tools/call")
    assert (call.attributes or {})["network.transport"] == "tcp"
    assert request.parent is not None and call.context is not None
    assert request.parent.span_id == call.context.span_id and request.parent.is_remote
    server.check()


async def test_what_came_with_the_call_counts_before_what_is_current(mcp: Callable[..., McpTools]) -> None:
    traced = Traced()
    tools = mcp(McpServer.in_process(mcp_server([add], telemetry=traced.telemetry()), name="sums"))
    trace = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
    client = _client(tools, None, ToolCall("add", {"a": 1, "b": 2}))
    await client.call("Go.", context={TRACE_CONTEXT: trace})
    request = traced.one("tools/call")
    assert request.parent is not None
    assert f"{request.parent.trace_id:032x}" == "a" * 32 and f"{request.parent.span_id:016x}" == "b" * 16


async def test_an_untraced_server_records_nothing(mcp: Callable[..., McpTools], mode: str) -> None:
    traced = Traced()
    tools = mcp(McpServer.in_process(mcp_server([add], telemetry=False), name="sums", era=mode))
    await _client(tools, traced, ToolCall("add", {"a": 1, "b": 2})).call("Go.")
    assert not [span for span in traced.spans if span.kind.name == "SERVER"]
    traced.check()


async def test_errors_without_their_texts(mcp: Callable[..., McpTools], mode: str, run: Any) -> None:
    traced = Traced()
    served_tools = mcp_server([leaks, breaks], telemetry=traced.telemetry())
    tools = mcp(McpServer.in_process(served_tools, name="sums", era=mode))
    await run(_client(tools, traced, ToolCall("leaks", {}), ToolCall("breaks", {}), ToolCall(SECRET, {})), "Go.")
    traced.check()
    assert SECRET not in traced.exported()
    for span in [*traced.named("tools/call"), *traced.named("execute_tool")]:
        assert span.status.status_code.name == "ERROR" and span.status.description is None
    kinds = {
        span.name: (span.attributes or {})["error.type"] for span in traced.spans if "error" in str(span.attributes)
    }
    assert kinds == {
        "execute_tool leaks": "tool_error", "tools/call leaks": "tool_error",
        "execute_tool breaks": "tool_error", "tools/call breaks": "tool_error",
        "execute_tool _OTHER": "UnknownToolError",
    }  # fmt: skip


async def test_a_server_that_answers_with_an_error(mcp: Callable[..., McpTools], run: Any) -> None:
    traced = Traced()
    await run(_client(mcp(raw("odd", fail=-32050)), traced, ToolCall("add", {"a": 1, "b": 2})), "Go.")
    about: Any = traced.one("execute_tool").attributes
    assert about["error.type"] == "-32050" and about["rpc.response.status_code"] == "-32050"


class _Gateway:
    """Gives its tools when it is asked, and asks an agent for them."""

    def __init__(self, agent: ChatClient | None = None) -> None:
        self.agent = agent

    async def tools(self, request: Any) -> Any:
        if self.agent is not None:
            await self.agent.call("Which tools are there?")
        return [add]


async def test_what_a_client_invents_is_in_no_name(mode: str) -> None:
    """Neither a tool nor a method of its own making; a provider's tools have their names once they are known."""
    traced = Traced()

    class Odd(mcp_types.Request[None, str]):
        method: str = f"{SECRET}/list"
        params: None = None

    async with Client(mcp_server([_Gateway()], telemetry=traced.telemetry()), mode=mode) as client:
        await client.call_tool(SECRET, {})
        await client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(MCPError):
            await client.session.send_request(Odd(), mcp_types.EmptyResult)
    about: Any = traced.one("_OTHER").attributes
    assert about["error.type"] == about["rpc.response.status_code"] == "-32601"
    assert {span.name for span in traced.spans} >= {"tools/call _OTHER", "tools/call add", "_OTHER"}
    assert SECRET not in traced.exported()
    points = traced.metrics()["mcp.server.operation.duration"]
    assert {p.attributes.get("gen_ai.tool.name") for p in points} == {None, "_OTHER", "add"}
    assert {p.attributes["mcp.method.name"] for p in points} >= {"tools/call", "_OTHER"}


async def test_served_calls_take_as_long_as_they_take(mode: str) -> None:
    traced = Traced()

    @tool
    async def waits() -> str:
        """Wait."""
        await anyio.sleep(0.05)
        return "done"

    async with Client(mcp_server([waits, breaks], telemetry=traced.telemetry()), mode=mode) as client:
        await client.call_tool("waits", {})
        await client.call_tool("breaks", {})
    points = {p.attributes["gen_ai.tool.name"]: p for p in traced.metrics()["gen_ai.execute_tool.duration"]}
    assert points["waits"].sum >= 0.05 and points["breaks"].attributes["error.type"] == "RuntimeError"


async def test_a_served_call_covers_its_own_tool_call_only(mode: str) -> None:
    """Not those of an agent that is asked before the tool is known, nor those of the tool, nor of a call beside it."""
    traced = Traced()
    call = [ToolCall("add", {"a": 1, "b": 2})]
    agent = ChatClient(ScriptedModel([call, "all"] * 20), tools=[add], telemetry=traced.telemetry(), name="librarian")
    helper = ChatClient(ScriptedModel([call, "3"] * 4), tools=[add], name="helper")
    tools = [_Gateway(agent), helper.as_tool("ask", "Asks.")]
    async with Client(mcp_server(tools, telemetry=traced.telemetry()), mode=mode) as client:
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(client.call_tool, "ask", {"prompt": "1 + 2"})
        await client.call_tool("add", {"a": 1, "b": 2})
    traced.check()
    by_id = {span.context.span_id: span for span in traced.spans if span.context is not None}
    requests = [span for span in traced.spans if span.kind.name == "SERVER" and span.name.startswith("tools/call")]
    assert sorted(span.name for span in requests) == ["tools/call add"] + ["tools/call ask"] * 4
    for request in requests:
        assert (request.attributes or {})["gen_ai.tool.name"] == request.name.rpartition(" ")[2]
    executed = traced.named("execute_tool")
    assert {span.name for span in executed} == {"execute_tool add"} and len(executed) >= 5
    for span in executed:  # one of the librarian whenever it is asked, four of helpers
        assert span.parent is not None and by_id[span.parent.span_id].name.startswith("advisor")


async def test_requests_of_a_later_turn_know_nothing_of_an_earlier_one(mcp: Callable[..., McpTools], mode: str) -> None:
    """The connection was opened in a turn; that turn's span is no link and no parent of what comes later."""
    traced, server = Traced(), Traced()
    tools = mcp(McpServer.in_process(mcp_server([add], telemetry=server.telemetry()), name="sums", era=mode))
    for _ in range(2):
        await _client(tools, traced, ToolCall("add", {"a": 1, "b": 2})).call("Go.")
    first, second = traced.named("invoke_agent")
    requests = server.named("tools/call")
    assert [span.context.trace_id for span in requests if span.context] == [
        span.context.trace_id for span in (first, second) if span.context
    ]
    assert not [span for span in server.spans if span.links]


async def test_hostile_trace_contexts() -> None:
    traced = Traced()
    with no_complaints():
        async with Client(mcp_server([add], telemetry=traced.telemetry())) as client:
            for parent, state in (
                ("x" * 100_000, "y"), ("00-" + "0" * 32 + "-" + "0" * 16 + "-01", ""), (7, ["a"]), (None, {"a": 1}),
                ("00-" + "a" * 32 + "-" + "b" * 16 + "-01", "k=" + "v" * 100_000), ("\x00", "\x00"),
            ):  # fmt: skip
                meta: Any = {"traceparent": parent, "tracestate": state, "baggage": "secret=" + SECRET}
                result = await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)
                assert not result.is_error
    assert SECRET not in traced.exported() and len(traced.named("tools/call")) == 6


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Traced:
    """What the SDK records itself, as it does when the application has set a global provider."""
    traced = Traced()
    tracer = traced.tracer_provider.get_tracer("mcp-python-sdk")
    monkeypatch.setattr("mcp.shared._otel._tracer", tracer)
    return traced


@tool
async def carried(context: ToolContext) -> str:
    """What trace context came with the call."""
    return json.dumps({**(context.context.get(TRACE_CONTEXT) or {})})


@pytest.mark.parametrize("telemetry", [True, False])
async def test_the_sdk_adds_no_span_and_sends_no_baggage(
    mcp: Callable[..., McpTools], sdk: Traced, mode: str, telemetry: bool, run: Any
) -> None:
    traced = Traced()
    tools = mcp(McpServer.in_process(mcp_server([carried], telemetry=False), name="sums", era=mode))
    token = context.attach(baggage.set_baggage("user", SECRET))
    try:
        response = await run(_client(tools, traced if telemetry else None, ToolCall("carried", {})), "Go.")
    finally:
        context.detach(token)
    assert not sdk.spans
    (said,) = [json.loads(message.content) for message in response.new_messages if message.role == "tool"]
    if not telemetry:
        assert said == {}
        return
    call = traced.one("execute_tool")
    assert call.context is not None and set(said) == {"traceparent"}
    assert said["traceparent"].split("-")[1:3] == [f"{call.context.trace_id:032x}", f"{call.context.span_id:016x}"]


async def test_what_else_of_the_sdk_is_called_otherwise_brings_no_span_back(
    mcp: Callable[..., McpTools], sdk: Traced, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    monkeypatch.delattr("mcp.shared.jsonrpc_dispatcher._ABANDON_WRITE_TIMEOUT")
    await run(_client(mcp(raw("sums")), None, ToolCall("add", {"a": 1, "b": 2})), "Go.")
    assert not sdk.spans


async def test_the_sdk_tells_no_error_of_a_child_process(mcp: Callable[..., McpTools], sdk: Traced, run: Any) -> None:
    traced = Traced()
    await run(_client(mcp(raw("odd", fail=-32050)), traced, ToolCall("add", {"a": 1, "b": 2})), "Go.")
    assert traced.named("execute_tool") and not sdk.spans and "so it is" not in traced.exported()


async def test_a_client_of_the_sdk_that_is_not_ours_keeps_its_spans(sdk: Traced) -> None:
    async with Client(mcp_server([add], telemetry=False), mode="legacy") as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert "MCP send tools/call add" in {span.name for span in sdk.spans}
