"""Telemetry that fails: a sampler, a processor, an instrument, a propagator that raises costs no turn its answer."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import Sampler
from traced import Traced
from traced_scenarios import ADD, add, error_in_model, parallel_tools, retried_model, search, with_tools

from advisorchain import ChatClient, ModelError
from advisorchain.mcp import McpServer, McpTools, mcp_server
from advisorchain.telemetry import Telemetry
from advisorchain.testing import ScriptedModel

SECRET = "hunter2-7f3a"


class _Broken:
    """Whatever is asked of it raises, now or when it is called."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getattr__(self, name: str) -> Any:
        if name in self.names:
            return lambda *args, **kwargs: _Broken("record", "add", "set", "emit", "start_span")
        if name.startswith("_"):
            raise AttributeError(name)

        def fail(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(SECRET)

        return fail


class _Raising(_Broken):
    def __getattr__(self, name: str) -> Any:
        if name in ("get_tracer", "get_meter", "get_logger"):
            return lambda *args, **kwargs: _Makes()
        raise AttributeError(name)


class _Makes:
    """A tracer, meter and logger whose spans and instruments raise."""

    def start_span(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(SECRET)

    def emit(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(SECRET)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("create_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: _Broken()


class _BadSampler(Sampler):
    def should_sample(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(SECRET)

    def get_description(self) -> str:
        return "bad"


class _BadProcessor(SpanProcessor):
    def __init__(self, when: str) -> None:
        self.when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.when == "start":
            raise RuntimeError(SECRET)

    def on_end(self, span: Any) -> None:
        if self.when == "end":
            raise RuntimeError(SECRET)


def _with_processor(when: str) -> Telemetry:
    traced = Traced()
    traced.tracer_provider.add_span_processor(_BadProcessor(when))
    return traced.telemetry(capture_content="both")


KINDS: dict[str, Callable[[], Telemetry]] = {
    "providers": lambda: Telemetry(
        tracer_provider=_Broken(), meter_provider=_Broken(), logger_provider=_Broken()  # type: ignore[arg-type]
    ),
    "tracer, meter and logger": lambda: Telemetry(
        tracer_provider=_Raising(), meter_provider=_Raising(), logger_provider=_Raising(), capture_content="both"  # type: ignore[arg-type]
    ),
    "sampler": lambda: Traced(sampler=_BadSampler()).telemetry(),
    "processor at the start": lambda: _with_processor("start"),
    "processor at the end": lambda: _with_processor("end"),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.telemetry.guarded._told", set())


@every_kind
async def test_turns_go_on(kind: str, run: Any, caplog: pytest.LogCaptureFixture) -> None:
    telemetry = KINDS[kind]()
    with caplog.at_level(logging.WARNING):
        for make in (with_tools, parallel_tools, retried_model, search):
            response = await run(make(telemetry).client, "Go.")
            assert response.stop_reason == "final" and response.text
    told = [record for record in caplog.records if record.name == "advisorchain.telemetry"]
    assert len(told) == 1 and "Telemetry failed (RuntimeError)" in told[0].getMessage()
    assert SECRET not in caplog.text


@every_kind
async def test_an_error_stays_the_one_it_is(kind: str, run: Any) -> None:
    with pytest.raises(ModelError, match="no"):
        await run(error_in_model(KINDS[kind]()).client, "Go.")


@every_kind
async def test_served_calls_go_on(kind: str) -> None:
    served = mcp_server([add], telemetry=KINDS[kind]())
    async with McpTools([McpServer.in_process(served, name="sums")]) as tools:
        client = ChatClient(ScriptedModel([ADD, "3"]), tools=[tools], telemetry=KINDS[kind]())
        response = await client.call("Go.")
    assert [message.content for message in response.new_messages if message.role == "tool"] == ["3"]


async def test_a_propagator_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", _Broken(), raising=False)
    monkeypatch.setattr(propagate, "inject", _Broken().inject)
    monkeypatch.setattr(propagate, "extract", _Broken().extract)
    traced = Traced()
    served = mcp_server([add], telemetry=traced.telemetry())
    async with McpTools([McpServer.in_process(served, name="sums")]) as tools:
        response = await ChatClient(ScriptedModel([ADD, "3"]), tools=[tools], telemetry=traced.telemetry()).call("Go.")
    assert [message.content for message in response.new_messages if message.role == "tool"] == ["3"]


def test_a_global_provider_that_cannot_be_made() -> None:
    code = """
import anyio, logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(name)s")
from opentelemetry import trace
from advisorchain import ChatClient
from advisorchain.testing import ScriptedModel
client = ChatClient(ScriptedModel(["one", "two", "three"]))
for _ in range(3):
    print(anyio.run(client.call, "Go.").text)
"""
    environment = {"OTEL_PYTHON_TRACER_PROVIDER": "missing", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    said = [line for line in done.stdout.splitlines() if line in ("one", "two", "three", "advisorchain.telemetry")]
    assert said == ["advisorchain.telemetry", "one", "two", "three"], done.stdout + done.stderr


async def test_providers_that_are_shut_down(run: Any) -> None:
    traced = Traced()
    telemetry = traced.telemetry()
    await run(with_tools(telemetry).client, "Go.")
    traced.tracer_provider.shutdown()
    traced.meter_provider.shutdown()
    traced.logger_provider.shutdown()
    assert (await run(with_tools(telemetry).client, "Go.")).text == "3"
