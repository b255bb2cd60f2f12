"""What a trace says of a call: who was asked, where, and what the answer says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from advisorchain import ChatClient
from advisorchain_openai import OpenAIModel, OpenAIResponsesModel

if TYPE_CHECKING:
    from aimock import Aimock


@pytest.mark.parametrize(("kind", "finish"), [(OpenAIModel, "stop"), (OpenAIResponsesModel, "completed")])
async def test_the_span_of_a_call(aimock: Aimock, run: Any, kind: Any, finish: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "Hi.", "id": "answer_1", "usage": usage}}])
    spans = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    async with kind("gpt-4o", base_url=aimock.openai_url, api_key="k") as model:
        await run(ChatClient(model, tracer_provider=tracing), "hello")
    (span,) = [span for span in spans.get_finished_spans() if span.name == "chat gpt-4o"]
    found: dict[str, Any] = dict(span.attributes or {})
    host, _, port = aimock.address.removeprefix("http://").partition(":")
    expected = {
        "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o", "gen_ai.response.id": "answer_1",
        "gen_ai.response.model": "gpt-4o", "gen_ai.response.finish_reasons": (finish,), "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2, "server.address": host, "server.port": int(port),
    }  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected
