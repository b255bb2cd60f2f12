"""However a turn is left, every span ends once, children first, and nothing stays current."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from traced import Traced
from traced_scenarios import ADD, add, slow

from advisorchain import ChatClient, ChatRequest, ChatResponse, TextDelta, ToolCall
from advisorchain.advisors import RetryAdvisor
from advisorchain.testing import ScriptedModel


def _client(traced: Traced, *steps: Any, **settings: Any) -> ChatClient:
    settings.setdefault("tools", [add, slow])
    return ChatClient(ScriptedModel(steps), advisors=[RetryAdvisor()], telemetry=traced.telemetry(), **settings)


async def _text(client: ChatClient) -> AsyncIterator[str]:
    """What every server-sent-events endpoint does."""
    async with client.stream("Go.") as stream:
        async for piece in stream.text():
            yield piece


async def test_a_stream_that_is_left_early(traced: Traced) -> None:
    client = _client(traced, [ToolCall("slow", {})], "late")
    async with client.stream("Go.") as stream:
        async for _ in stream:
            break
    traced.check()
    (turn,) = traced.named("invoke_agent")
    assert (turn.attributes or {})["advisorchain.cancelled"] is True
    assert turn.status.status_code.name == "UNSET"


async def test_a_reader_is_never_inside_the_turns_spans(traced: Traced) -> None:
    client = _client(traced, ADD, "one two three")
    tracer = traced.tracer_provider.get_tracer("reader")
    async with client.stream("Go.") as stream:
        async for event in stream:
            assert not trace.get_current_span().get_span_context().is_valid
            if isinstance(event, TextDelta):
                tracer.start_span("write").end()
    assert traced.named("write")
    assert all(span.parent is None for span in traced.named("write"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio itself complains of every generator that is dropped
async def test_a_generator_that_is_dropped(traced: Traced) -> None:
    pieces = _text(_client(traced, "one two three", tools=[]))
    assert await anext(pieces)
    del pieces
    gc.collect()
    for _ in range(20):
        await anyio.sleep(0.01)
    traced.check()
    assert traced.named("invoke_agent")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # as above
async def test_a_generator_that_is_closed_by_another_task(traced: Traced) -> None:
    pieces = _text(_client(traced, "one two three", tools=[]))
    await anext(pieces)
    async with anyio.create_task_group() as group:
        group.start_soon(pieces.aclose)  # type: ignore[attr-defined]
    traced.check()
    assert traced.named("invoke_agent")


async def test_a_stream_that_is_never_entered_leaves_no_span(traced: Traced) -> None:
    stream = _client(traced, "never").stream("Go.")
    del stream
    gc.collect()
    assert traced.lives.started == []


async def test_a_cancelled_call(traced: Traced) -> None:
    client = _client(traced, [ToolCall("slow", {}), ToolCall("slow", {})], "late")
    with anyio.move_on_after(0.05) as scope:
        await client.call("Go.")
    assert scope.cancelled_caught
    traced.check()
    for span in [*traced.named("invoke_agent"), *traced.named("execute_tool")]:
        assert (span.attributes or {})["advisorchain.cancelled"] is True
        assert "error.type" not in (span.attributes or {})


def test_sync_calls_are_below_the_callers_span(traced: Traced) -> None:
    client = _client(traced, ADD, "3", ADD, "3")
    with traced.tracer_provider.get_tracer("application").start_as_current_span("job") as outer:
        client.call_sync("Go.")
        with client.stream_sync("Go.") as stream:
            assert "".join(stream.text()) == "3"
    traced.check()
    turns = traced.named("invoke_agent")
    assert [span.parent.span_id for span in turns if span.parent is not None] == [outer.get_span_context().span_id] * 2


def test_a_loop_that_is_closed_under_a_running_turn(traced: Traced) -> None:
    async def asleep(request: ChatRequest) -> ChatResponse[str]:
        await asyncio.sleep(60)
        raise AssertionError("it never wakes up")

    loop = asyncio.new_event_loop()
    task = loop.create_task(ChatClient(asleep, advisors=[RetryAdvisor()], telemetry=traced.telemetry()).call("Go."))
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that it never ends is what this is about
    del task, loop
    gc.collect()
    traced.check()
    assert traced.named("invoke_agent")
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_turn_of_an_execution_by_hand(traced: Traced) -> None:
    async def main() -> None:
        client = _client(traced, ADD, tool_loop=False)
        response = await client.call("Go.")
        assert (await client.execute_tools(response)).results[0].content == "3"

    anyio.run(main)
    traced.check()
    assert [span.name for span in traced.spans][-2:] == ["execute_tool add", "advisor retry"]


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_opentelemetry_is_not_imported_for_nothing() -> None:
    said = _python("""
        import anyio, sys
        from advisorchain import ChatClient
        from advisorchain.testing import ScriptedModel
        anyio.run(ChatClient(ScriptedModel(["Hello."])).call, "Go.")
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """)
    assert said.strip() == "[]"


def test_the_global_providers_are_found_when_they_come() -> None:
    said = _python("""
        import anyio
        from advisorchain import ChatClient
        from advisorchain.testing import ScriptedModel
        client = ChatClient(ScriptedModel(["one", "two", "three"]))
        off = ChatClient(ScriptedModel(["four"]), telemetry=False)
        anyio.run(client.call, "Go.")
        from opentelemetry import trace
        anyio.run(client.call, "Go.")
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
        trace.set_tracer_provider(provider)
        anyio.run(client.call, "Go.")
        anyio.run(off.call, "Go.")
    """)
    assert said.split("\n")[:-1] == [
        "chat scripted", "advisor return_direct", "advisor tool_calling", "invoke_agent chat_client",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_no_span_objects_when_it_is_off(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace import Tracer

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a span was made")

    monkeypatch.setattr(Tracer, "start_span", fail)
    monkeypatch.setattr(trace.NoOpTracer, "start_span", fail)
    for telemetry in (False, True):
        client = ChatClient(ScriptedModel([ADD, "3"]), tools=[add], telemetry=telemetry)
        if mode == "call":
            await client.call("Go.")
        else:
            async with client.stream("Go.") as stream:
                await stream.response()
