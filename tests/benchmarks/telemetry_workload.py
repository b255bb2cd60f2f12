"""What tracing costs: a turn with ten advisors and one model call, to the same turn with ``telemetry=False``.

In a process of its own (``python telemetry_workload.py KIND PAIRS``), because imported once OpenTelemetry's SDK makes
every garbage collection longer for the other workloads.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, Literal, get_args

from measurement import Measured, Sample, paired, quick_imports

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    TextDelta,
)

Kind = Literal["absent", "unset", "dropped", "recorded", "chunk"]
"""OpenTelemetry is not imported; imported, but without a provider; every trace is sampled out; recorded with a batch
processor; recorded, and one more streamed chunk is what is measured."""

TURNS = {"absent": 300, "unset": 300, "dropped": 100, "recorded": 40}
"""How many turns make a batch of some milliseconds."""
CHUNKS = 2_000


class Model:
    """Answers at once; under stream in ``chunks`` pieces."""

    name = "bench"

    def __init__(self, chunks: int = 1) -> None:
        self.chunks = chunks

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        if request.streaming:
            for _ in range(self.chunks):
                await request.emit(TextDelta("x"))
        return ChatResponse(AssistantMessage(content="x" * self.chunks))


class Passing(Advisor):
    """Does nothing."""

    def __init__(self, number: int) -> None:
        self.name, self.order = f"passing_{number}", 300 + 50 * number

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)


def client(settings: dict[str, Any], chunks: int = 1, advisors: int = 10) -> ChatClient:
    """A client with ten advisors."""
    return ChatClient(Model(chunks), advisors=[Passing(number) for number in range(advisors)], **settings)


def tracing(kind: Kind) -> dict[str, Any]:
    """The settings of the client that is traced."""
    if kind == "absent":
        return {}
    from opentelemetry import trace

    assert trace is not None
    if kind == "unset":
        return {}
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased

    class Nowhere(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF if kind == "dropped" else ALWAYS_ON))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return {"tracer_provider": provider}


def turns(asked: ChatClient, count: int) -> Sample:
    """CPU seconds of a turn."""

    async def sample() -> float:
        start = time.process_time()
        for _ in range(count):
            await asked.call("Go.")
        return (time.process_time() - start) / count

    return sample


def chunks(settings: dict[str, Any]) -> Sample:
    """CPU seconds of one more chunk."""
    many, one = client(settings, CHUNKS, 0), client(settings, 1, 0)

    async def streamed(asked: ChatClient) -> float:
        start = time.process_time()
        async with asked.stream("Go.") as stream:
            async for _ in stream:
                pass
        return time.process_time() - start

    async def sample() -> float:
        return (await streamed(many) - await streamed(one)) / (CHUNKS - 1)

    return sample


async def price(kind: Kind, pairs: int) -> Measured:
    """The traced side to the untraced one."""
    off: dict[str, Any] = {"telemetry": False}
    if kind == "chunk":
        return await paired(chunks(tracing("recorded")), chunks(off), pairs)
    count = TURNS[kind]
    ours, bare = turns(client(tracing(kind)), count), turns(client(off), 300)
    await bare(), await ours()
    return await paired(ours, bare, pairs)


async def price_apart(kind: Kind, pairs: int) -> Measured:
    """`price` in a process of its own."""
    command = [sys.executable, __file__, kind, str(pairs)]
    done = subprocess.run(command, env=quick_imports(), check=True, capture_output=True, text=True)  # noqa: ASYNC221
    return Measured(*json.loads(done.stdout))


if __name__ == "__main__":
    assert sys.argv[1] in get_args(Kind)
    chosen: Any = sys.argv[1]
    print(json.dumps(astuple(asyncio.run(price(chosen, int(sys.argv[2]))))))
