"""An independent reader: what a turn leaves is sent over OTLP/HTTP to Phoenix, and read from its REST interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from phoenix import Phoenix, running_phoenix

from advisorchain import ChatClient, ToolCall, Usage, tool
from advisorchain.advisors import MemoryAdvisor, RetryAdvisor, ToolSearchAdvisor
from advisorchain.memory import InMemoryStore
from advisorchain.telemetry import Telemetry
from advisorchain.testing import ScriptedModel

pytestmark = [pytest.mark.phoenix, pytest.mark.timeout(1200)]

USAGE = Usage(input_tokens=20, output_tokens=5, cache_read_tokens=8)


@pytest.fixture(scope="module")
def phoenix() -> Iterator[Phoenix]:
    with running_phoenix() as running:
        yield running


@tool
async def trip_status(id: str) -> str:
    """The status of a trip."""
    return f"{id} is approved."


@pytest.mark.parametrize("mode", ["call", "stream"])
def test_kinds_tokens_and_messages(mode: str, phoenix: Phoenix) -> None:
    project = f"advisorchain-{mode}"
    provider = TracerProvider(resource=Resource({"openinference.project.name": project}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(phoenix.traces_url)))
    others = [trip_status.replace(name=f"other_{number}") for number in range(40)]
    steps = [
        [ToolCall("tool_search", {"query": "status of a trip"})],
        [ToolCall("trip_status", {"id": "TR001"})],
        "TR001 is approved.",
    ]
    client = ChatClient(
        ScriptedModel(steps, usage=USAGE, name="scripted-1"),
        tools=[trip_status, *others],
        advisors=[MemoryAdvisor(InMemoryStore()), RetryAdvisor(), ToolSearchAdvisor()],
        system="You are a travel desk.",
        name="travel_desk",
        telemetry=Telemetry(tracer_provider=provider, capture_content="span"),
    )

    async def ask() -> None:
        if mode == "call":
            await client.call("Status of TR001?", conversation_id="user-42")
        else:
            async with client.stream("Status of TR001?", conversation_id="user-42") as stream:
                await stream.response()

    anyio.run(ask)
    provider.shutdown()
    spans = phoenix.spans(project, 20)

    kinds = Counter((span["name"].split()[0], span["span_kind"]) for span in spans)
    assert kinds[("chat", "LLM")] == 3
    assert kinds[("execute_tool", "TOOL")] == 2
    assert kinds[("invoke_agent", "AGENT")] == 1
    assert kinds[("retrieval", "RETRIEVER")] == 1
    advisors = {kind: count for (name, kind), count in kinds.items() if name == "advisor"}
    assert set(advisors) == {"CHAIN"} and advisors["CHAIN"] > 8
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    assert {span["status_code"] for span in spans} <= {"OK", "UNSET"}

    def attributes(name: str) -> list[dict[str, Any]]:
        found = [span for span in spans if span["name"].startswith(name)]
        return [span["attributes"] for span in sorted(found, key=lambda span: span["start_time"])]

    first, second, last = attributes("chat")
    assert (first["llm.token_count.prompt"], first["llm.token_count.completion"]) == (20, 5)
    assert first["llm.model_name"] == "scripted-1"
    assert first["session.id"] == "user-42"
    sent = {key: value for key, value in first.items() if key.startswith("llm.input_messages")}
    assert any(text.startswith("You are a travel desk.") for text in sent.values())
    assert "Status of TR001?" in sent.values()
    called = {key: value for key, value in second.items() if key.startswith("llm.output_messages")}
    assert "trip_status" in called.values()
    assert "TR001 is approved." in [value for key, value in last.items() if key.startswith("llm.output_messages")]
    _, tool_call = attributes("execute_tool")
    assert tool_call["tool.name"] == "trip_status"
    assert tool_call["tool.parameters.id"] == "TR001" and tool_call["output.value"] == "TR001 is approved."
    (turn,) = attributes("invoke_agent")
    assert "llm.token_count.prompt" not in turn  # else every token counts twice
