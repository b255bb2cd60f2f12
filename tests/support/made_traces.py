"""Traces made by hand with the OpenTelemetry SDK, as the telemetry of advisorchain makes them; fixed ids and times."""

# ruff: noqa: SIM117 - nested as the spans are

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

BEGIN = 1_790_000_000_000_000_000
MILLISECOND = 1_000_000

OUTSIDE = (("audit", 100, "AuditAdvisor"), ("memory", 200, "MemoryAdvisor"), ("deadline", 400, "DeadlineAdvisor"))
INSIDE = (
    ("tool_search", 600, "ToolSearchAdvisor"),
    ("return_direct", 650, "ReturnDirectAdvisor"),
    ("retry", 850, "RetryAdvisor"),
    ("budget", 950, "BudgetAdvisor"),
)
TOOL_SIDE = (("tool_cache", 700, "ToolCacheAdvisor"), ("retry", 850, "RetryAdvisor"))


class _Counted(IdGenerator):
    def __init__(self) -> None:
        self._count = 0

    def generate_span_id(self) -> int:
        self._count += 1
        return self._count

    def generate_trace_id(self) -> int:
        self._count += 1
        return (0xAC << 64) + self._count


class TraceMaker:
    """Makes spans below each other on a clock of its own."""

    def __init__(self, begin: int = BEGIN) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=_Counted(), resource=Resource({"service.name": "made"}))
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._ours = provider.get_tracer("advisorchain", "1.0")
        self._other = provider.get_tracer("opentelemetry.instrumentation.httpx")
        self.now = begin
        self._open: list[Span] = []

    def wait(self, milliseconds: float) -> None:
        """Let the clock go on."""
        self.now += int(milliseconds * MILLISECOND)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, Any] | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        other: bool = False,
    ) -> Iterator[Span]:
        """A span below the one that is open now."""
        context = set_span_in_context(self._open[-1]) if self._open else None
        tracer = self._other if other else self._ours
        span = tracer.start_span(name, context, kind, dict(attributes or {}), start_time=self.now)
        assert isinstance(span, Span)
        self._open.append(span)
        try:
            yield span
        finally:
            self._open.pop()
            span.end(self.now)

    def spans(self) -> list[ReadableSpan]:
        """What is finished, in the order of its end."""
        return list(self._exporter.get_finished_spans())

    @contextmanager
    def advisors(
        self, rungs: tuple[tuple[str, int, str], ...], wraps: str = "chat", extra: Mapping[str, Any] | None = None
    ) -> Iterator[list[Span]]:
        """Advisors around each other, each of which goes on."""
        if not rungs:
            yield []
            return
        name, order, kind = rungs[0]
        with self.advisor(name, order, kind, wraps, extra) as span:
            self.wait(0.2)
            with self.advisors(rungs[1:], wraps, extra) as inner:
                yield [span, *inner]
            self.wait(0.1)
            span.set_attribute("advisorchain.advisor.next_calls", 1)
            span.set_attribute("advisorchain.advisor.outcome", "proceeded")

    def advisor(
        self, name: str, order: int, kind: str, wraps: str = "chat", extra: Mapping[str, Any] | None = None
    ) -> Any:
        """A span ``advisor {name}``."""
        return self.span(
            f"advisor {name}",
            {
                "advisorchain.advisor.name": name,
                "advisorchain.advisor.order": order,
                "advisorchain.advisor.type": kind,
                "advisorchain.advisor.wraps": wraps,
                "openinference.span.kind": "CHAIN",
                **(extra or {}),
            },
        )

    def chat(
        self,
        milliseconds: float,
        read: int,
        written: int,
        extra: Mapping[str, Any] | None = None,
        model: str = "gpt-4o-mini",
    ) -> None:
        """A model call."""
        start = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": 0.2,
            "server.address": "api.openai.com",
            "server.port": 443,
            **(extra or {}),
        }
        with self.span(f"chat {model}", start, SpanKind.CLIENT) as span:
            self.wait(2)
            with self.span(
                "POST", {"http.request.method": "POST", "http.response.status_code": 200}, SpanKind.CLIENT, other=True
            ):
                self.wait(milliseconds - 4)
            self.wait(2)
            span.set_attribute("gen_ai.response.model", f"{model}-2026-07-18")
            span.set_attribute("gen_ai.response.finish_reasons", ["stop"])
            span.set_attribute("gen_ai.usage.input_tokens", read)
            span.set_attribute("gen_ai.usage.output_tokens", written)


def said(role: str, text: str) -> dict[str, Any]:
    """A message of content attributes."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asked(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    """A message with a tool call."""
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}


def answered(call_id: str, response: Any) -> dict[str, Any]:
    """A message with a tool's result."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


QUESTION = "Is train TR001 on time, and what will the weather be in Lisbon when I arrive?"
ANSWER = "TR001 left 12 minutes late and arrives at 18:42. Lisbon will be sunny, 24 °C.\n\nThe platform is still open."


def travel_turn(*, content: bool = True) -> list[ReadableSpan]:
    """Three rounds, nine advisors: parallel tools, a retry, a failed tool, a sub-agent, a short-circuit at the end."""
    made = TraceMaker()
    system = [said("system", "You are a travel desk. Answer in two sentences.")]
    transcript = [said("user", QUESTION)]

    def captured(output: dict[str, Any]) -> dict[str, str]:
        if not content:
            return {}
        return {
            "gen_ai.system_instructions": json.dumps(system[0]["parts"]),
            "gen_ai.input.messages": json.dumps(transcript),
            "gen_ai.output.messages": json.dumps([output]),
        }

    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "travel desk",
        "gen_ai.conversation.id": "user-42",
        "advisorchain.mode": "stream",
        "advisorchain.turn.id": "turn-1",
    }
    with made.span("invoke_agent travel desk", agent) as turn:
        with made.advisors(OUTSIDE):
            with made.span(
                "search_memory",
                {
                    "gen_ai.operation.name": "search_memory",
                    "gen_ai.memory.store.id": "sqlite",
                    "gen_ai.memory.record.count": 6,
                },
            ):
                made.wait(9)
            with made.advisor(
                "tool_calling", 500, "ToolCallingAdvisor", extra={"advisorchain.tool_loop": True}
            ) as loop:
                calls = asked("train_status", "c1", train="TR001")
                calls["parts"] += asked("weather", "c2", city="Lisbon")["parts"]
                _model_round(made, 1, captured(calls), 310, 812, 46)
                transcript.append(calls)
                _parallel_tools(made, content)
                transcript += [answered("c1", {"late": 12}), answered("c2", "unavailable")]
                calls = asked("research", "c3", question="weather in Lisbon tonight")
                _model_round(made, 2, captured(calls), 420, 1034, 31, retried=True)
                transcript.append(calls)
                _sub_agent(made)
                transcript.append(answered("c3", ANSWER))
                _short_circuit(made, 3)
                loop.set_attribute("advisorchain.advisor.outcome", "proceeded")
                loop.set_attribute("advisorchain.advisor.next_calls", 3)
        if content:
            turn.set_attribute("gen_ai.input.messages", json.dumps([said("user", QUESTION)]))
            turn.set_attribute("gen_ai.output.messages", json.dumps([said("assistant", ANSWER)]))
        for name, value in (
            ("advisorchain.stop_reason", "return_direct"),
            ("advisorchain.rounds", 2),
            ("advisorchain.model_calls", 4),
            ("advisorchain.tool_calls", 3),
            ("gen_ai.aggregated_usage.input_tokens", 3390),
            ("gen_ai.aggregated_usage.output_tokens", 162),
            ("gen_ai.aggregated_usage.cache_read.input_tokens", 768),
        ):
            turn.set_attribute(name, value)
    return made.spans()


def _model_round(
    made: TraceMaker,
    number: int,
    captured: dict[str, str],
    milliseconds: float,
    read: int,
    written: int,
    retried: bool = False,
) -> None:
    extra = {"advisorchain.round": number}
    with made.advisors(INSIDE[:2], extra=extra):
        with made.span(
            "retrieval tools",
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": "tools",
                "advisorchain.retrieval.hits": 4,
                **extra,
            },
        ):
            made.wait(4)
        with made.advisor("retry", 850, "RetryAdvisor", extra=extra) as retry:
            if retried:
                _failed_call(made, extra)
                made.wait(90)
                retry.add_event("advisorchain.retry", _attempt("model"), timestamp=made.now)
                retry.add_event(
                    "advisorchain.call_next",
                    {
                        "advisorchain.call_next.number": 2,
                        "advisorchain.call_next.previous": "ModelError",
                    },
                    timestamp=made.now,
                )
            with made.advisors(INSIDE[3:], extra=extra):
                made.chat(milliseconds, read, written, {**extra, **captured})
            retry.set_attribute("advisorchain.advisor.outcome", "proceeded")
            retry.set_attribute("advisorchain.advisor.next_calls", 2 if retried else 1)


def _attempt(what: str) -> dict[str, Any]:
    return {"advisorchain.retry.what": what, "advisorchain.retry.attempt": 2}


def _failed_call(made: TraceMaker, extra: dict[str, Any]) -> None:
    asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", **extra}
    with made.advisor("budget", 950, "BudgetAdvisor", extra=extra) as budget:
        with made.span("chat gpt-4o-mini", asked, SpanKind.CLIENT) as failed:
            made.wait(140)
            failed.set_attribute("error.type", "503")
            failed.set_status(Status(StatusCode.ERROR, "The provider is overloaded."))
        budget.set_attribute("advisorchain.advisor.outcome", "error")
        budget.set_status(Status(StatusCode.ERROR))


def _tool(name: str, call_id: str, round_number: int, **extra: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
        "advisorchain.round": round_number,
        **extra,
    }


def _parallel_tools(made: TraceMaker, content: bool) -> None:
    begin = made.now
    with made.span("execute_tool train_status", _tool("train_status", "c1", 1)) as span:
        with made.advisors(TOOL_SIDE, "tool", {"advisorchain.round": 1}):
            made.wait(180)
        if content:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"train": "TR001"}))
            span.set_attribute("gen_ai.tool.call.result", json.dumps({"late": 12, "arrives": "18:42"}))
    end, made.now = made.now, begin
    mcp = {"mcp.method.name": "tools/call", "mcp.session.id": "s-1", "network.transport": "pipe"}
    with made.span("execute_tool weather", _tool("weather", "c2", 1, **mcp)) as span:
        with made.advisor("tool_cache", 700, "ToolCacheAdvisor", "tool", {"advisorchain.round": 1}) as cache:
            with made.advisor("retry", 850, "RetryAdvisor", "tool", {"advisorchain.round": 1}) as retry:
                made.wait(120)
                retry.add_event("advisorchain.retry", _attempt("tool"), timestamp=made.now)
                retry.add_event("advisorchain.call_next", {"advisorchain.call_next.number": 2}, timestamp=made.now)
                made.wait(130)
                retry.set_attribute("advisorchain.advisor.next_calls", 2)
                for failed in (retry, cache):
                    failed.set_attribute("advisorchain.advisor.outcome", "error")
                    failed.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", "ToolTimeoutError")
        span.set_status(Status(StatusCode.ERROR, "weather did not return within 0.1 s"))
    made.now = max(end, made.now)
    made.wait(1)


def _sub_agent(made: TraceMaker) -> None:
    with made.span("execute_tool research", _tool("research", "c3", 2, **{"advisorchain.tool.direct": True})):
        with made.advisors(TOOL_SIDE, "tool", {"advisorchain.round": 2}):
            agent = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "researcher",
                "advisorchain.path": "researcher",
                "advisorchain.mode": "stream",
            }
            with made.span("invoke_agent researcher", agent) as inner:
                with made.advisor(
                    "tool_calling", 500, "ToolCallingAdvisor", extra={"advisorchain.tool_loop": True}
                ) as loop:
                    with made.advisors(INSIDE[2:3], extra={"advisorchain.round": 1}):
                        made.chat(260, 544, 85, {"advisorchain.round": 1}, "claude-haiku-4-5")
                    loop.set_attribute("advisorchain.advisor.outcome", "proceeded")
                inner.set_attribute("gen_ai.aggregated_usage.input_tokens", 1544)
                inner.set_attribute("gen_ai.aggregated_usage.output_tokens", 85)


def _short_circuit(made: TraceMaker, number: int) -> None:
    extra = {"advisorchain.round": number}
    with made.advisors(INSIDE[:1], extra=extra):
        with made.advisor("return_direct", 650, "ReturnDirectAdvisor", extra=extra) as direct:
            made.wait(1.5)
            direct.set_attribute("advisorchain.advisor.outcome", "short_circuited")
            direct.set_attribute("advisorchain.advisor.next_calls", 0)


def many_spans(count: int = 10_000) -> list[ReadableSpan]:
    """One turn of exactly so many spans, most of them in rounds of a tool loop."""
    made = TraceMaker()
    left = count - 2
    with (
        made.span(
            "invoke_agent busy desk", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "busy desk"}
        ),
        made.advisor("tool_calling", 500, "ToolCallingAdvisor", extra={"advisorchain.tool_loop": True}),
    ):
        number = 0
        while left:
            number += 1
            extra = {"advisorchain.round": number}
            steps: list[Callable[[], Any]] = [
                lambda extra=extra: made.advisor("retry", 850, "RetryAdvisor", extra=extra),
                lambda extra=extra: made.span("chat gpt-4o-mini", {"gen_ai.operation.name": "chat", **extra}),
                *(
                    lambda number=number, index=index: made.span(
                        f"execute_tool tool_{index}", _tool(f"tool_{index}", f"c{number}-{index}", number)
                    )
                    for index in range(8)
                ),
            ]
            for step in steps[:left]:
                with step():
                    made.wait(3)
            left -= len(steps[:left])
    return made.spans()


def write_sdk_file(path: Path, spans: list[ReadableSpan]) -> Path:
    """A trace file as ``--trace-file`` writes it."""
    path.write_text("".join(span.to_json(indent=None) + "\n" for span in spans), encoding="utf-8")
    return path
