"""Metrics, usage, and the time to the first chunk."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from traced import Traced
from traced_scenarios import ADD, add, fallback_tool, retried_model, search, short_circuit, with_tools

from advisorchain import ChatClient, ChatRequest, ChatResponse, ModelError, TextDelta, Usage
from advisorchain.messages import AssistantMessage
from advisorchain.telemetry import Telemetry
from advisorchain.testing import ScriptedModel


class Streamer:
    """A model that streams with pauses, and remembers through what it emitted."""

    name, provider, server_address, server_port = "streamer", "acme", "llm.example.org", 8443

    def __init__(self, chunks: int = 3) -> None:
        self.chunks = chunks
        self.emits: list[Any] = []

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        await anyio.sleep(0.02)
        for number in range(self.chunks):
            self.emits.append(request.emit)
            await request.emit(TextDelta(str(number)))
        return ChatResponse(
            AssistantMessage(content="".join(map(str, range(self.chunks)))),
            usage=Usage(input_tokens=5, output_tokens=None, cache_read_tokens=2),
            metadata={"id": "r1", "model": "streamer-2026", "finish_reason": "end_turn"},
        )


async def _stream(client: ChatClient) -> None:
    async with client.stream("Go.") as stream:
        await stream.response()


async def test_every_instrument_of_a_turn(traced: Traced) -> None:
    await with_tools(traced.telemetry()).client.call("Go.")
    found = traced.metrics()
    assert {name: sum(point.count for point in points) for name, points in found.items()} == {
        "gen_ai.client.operation.duration": 3,
        "gen_ai.client.token.usage": 6,
        "gen_ai.execute_tool.duration": 2,
        "gen_ai.invoke_agent.duration": 1,
        "gen_ai.invoke_agent.inference_calls": 1,
        "gen_ai.invoke_agent.tool_calls": 1,
    }
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in found["gen_ai.client.token.usage"]}
    assert tokens == {"input": 30, "output": 9}
    (calls,) = found["gen_ai.invoke_agent.tool_calls"]
    assert calls.sum == 2 and tuple(calls.explicit_bounds) == (1, 2, 4, 8, 16, 32, 64, 128)


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_usage_is_on_model_calls_and_totals_have_another_name(mode: str, traced: Traced) -> None:
    client = with_tools(traced.telemetry()).client
    await (client.call("Go.") if mode == "call" else _stream(client))
    for span in traced.spans:
        about = span.attributes or {}
        assert any(name.startswith("gen_ai.usage.") for name in about) == span.name.startswith("chat ")
        assert any(name.startswith("gen_ai.aggregated_usage.") for name in about) == ("invoke_agent" in span.name)
        if not span.name.startswith("chat "):
            assert "gen_ai.request.model" not in about  # some backends would take the span for a model call
    used = sum(int((span.attributes or {})["gen_ai.usage.input_tokens"]) for span in traced.named("chat"))  # type: ignore[arg-type]
    assert used == (traced.one("invoke_agent").attributes or {})["gen_ai.aggregated_usage.input_tokens"] == 30


async def test_missing_usage_is_missing(traced: Traced) -> None:
    await ChatClient(ScriptedModel(["Hello."]), telemetry=traced.telemetry()).call("Go.")
    assert "usage" not in traced.exported()
    assert "gen_ai.client.token.usage" not in traced.metrics()


async def test_a_model_that_says_much_of_itself(traced: Traced) -> None:
    client = ChatClient(Streamer(), telemetry=traced.telemetry(), options={"temperature": 0.5, "stop": ("x",)})
    await _stream(client)
    span = traced.one("chat")
    about: dict[str, Any] = dict(span.attributes or {})
    assert span.kind.name == "CLIENT" and span.name == "chat streamer"
    first = about.pop("gen_ai.response.time_to_first_chunk")
    assert 0.01 < first < 5
    assert about == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme", "gen_ai.request.model": "streamer",
        "server.address": "llm.example.org", "server.port": 8443, "advisorchain.round": 1,
        "gen_ai.request.stream": True, "gen_ai.request.temperature": 0.5, "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.response.id": "r1", "gen_ai.response.model": "streamer-2026",
        "gen_ai.response.finish_reasons": ("end_turn",), "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 2,
    }  # fmt: skip
    found = traced.metrics()
    (point,) = found["gen_ai.client.operation.time_to_first_chunk"]
    assert point.count == 1 and point.attributes["gen_ai.response.model"] == "streamer-2026"
    assert "gen_ai.client.operation.time_per_output_chunk" not in found


async def test_under_call_there_is_no_first_chunk(traced: Traced) -> None:
    await ChatClient(Streamer(), telemetry=traced.telemetry()).call("Go.")
    assert "gen_ai.response.time_to_first_chunk" not in (traced.one("chat").attributes or {})
    assert "gen_ai.client.operation.time_to_first_chunk" not in traced.metrics()


async def test_after_the_first_chunk_nothing_stands_between(traced: Traced) -> None:
    model, bare = Streamer(5), Streamer(5)
    await _stream(ChatClient(model, telemetry=traced.telemetry()))
    await _stream(ChatClient(bare, telemetry=False))
    assert [emit.__qualname__ for emit in model.emits[1:]] == [emit.__qualname__ for emit in bare.emits[1:]]
    assert model.emits[0].__qualname__ != bare.emits[0].__qualname__


async def test_chunk_metrics(traced: Traced) -> None:
    await _stream(ChatClient(Streamer(5), telemetry=traced.telemetry(chunk_metrics=True)))
    (point,) = traced.metrics()["gen_ai.client.operation.time_per_output_chunk"]
    assert point.count == 4


async def test_our_own_counts(traced: Traced) -> None:
    for make in (retried_model, short_circuit, fallback_tool, search):
        await make(traced.telemetry()).client.call("Go.")
    found = traced.metrics()
    retries = {point.attributes["advisorchain.retry.what"]: point.value for point in found["advisorchain.retries"]}
    assert retries == {"model": 2, "tool": 1}
    (circuits,) = found["advisorchain.advisor.short_circuits"][:1]
    assert circuits.attributes == {"advisorchain.advisor.name": "canned"} and circuits.value == 1
    (breaker,) = found["advisorchain.circuit_breaker.state"]
    assert breaker.value == 2
    (hits,) = found["advisorchain.retrieval.hits"]
    assert hits.count == 1 and hits.sum >= 1


async def test_errors_are_told_apart(traced: Traced) -> None:
    client = ChatClient(ScriptedModel([ModelError("no", status=429)]), telemetry=traced.telemetry())
    with pytest.raises(ModelError):
        await client.call("Go.")
    (point,) = traced.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == "429"
    (record,) = traced.log_exporter.get_finished_logs()
    assert record.log_record.event_name == "gen_ai.client.operation.exception"
    assert dict(record.log_record.attributes or {}) == {"exception.type": "ModelError"}
    assert record.log_record.span_id == traced.one("chat").context.span_id  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_metrics_without_a_tracer(mode: str) -> None:
    reader = InMemoryMetricReader()
    client = ChatClient(ScriptedModel([ADD, "3"]), tools=[add], meter_provider=MeterProvider([reader]))
    await (client.call("Go.") if mode == "call" else _stream(client))
    data = reader.get_metrics_data()
    assert data is not None and "gen_ai.invoke_agent.duration" in data.to_json()


async def test_spans_without_a_meter(traced: Traced) -> None:
    telemetry = Telemetry(tracer_provider=traced.tracer_provider)
    await ChatClient(ScriptedModel([ADD, "3"]), tools=[add], telemetry=telemetry).call("Go.")
    await ChatClient(ScriptedModel(["3"]), tracer_provider=traced.tracer_provider).call("Go.")
    assert len(traced.named("invoke_agent")) == 2


async def test_a_note_and_an_operation_of_a_plugin(traced: Traced) -> None:
    from advisorchain import chat_advisor

    async def look() -> list[str]:
        return ["a", "b"]

    @chat_advisor(order=240, name="rag")
    async def rag(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        found = await request.context.operation("retrieval", look(), target="handbook", attributes={"x": 1})
        request.context.note("my_plugin.found", {"my_plugin.count": len(found)})
        return await call_next(request)

    rag.span_kind = "RETRIEVER"
    for telemetry in (traced.telemetry(), False):
        client = ChatClient(ScriptedModel(["Hello."]), advisors=[rag], telemetry=telemetry)
        assert (await client.call("Go.")).text == "Hello."
    retrieval = traced.one("retrieval")
    assert retrieval.name == "retrieval handbook"
    assert (retrieval.attributes or {})["advisorchain.retrieval.hits"] == 2
    advisor = next(span for span in traced.spans if span.name == "advisor rag")
    assert [event.name for event in advisor.events] == ["my_plugin.found"]
    assert (advisor.attributes or {})["openinference.span.kind"] == "RETRIEVER"
    assert retrieval.parent is not None and advisor.context is not None
    assert retrieval.parent.span_id == advisor.context.span_id
