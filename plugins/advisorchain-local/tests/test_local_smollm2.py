"""A real small language model in this process. Shapes are asserted, never wording."""

from __future__ import annotations

import gc
import json
import multiprocessing
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import jsonschema
import pytest
from pydantic import BaseModel, Field

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ConfigurationError,
    ModelError,
    TextDelta,
    Tool,
    ToolMessage,
    chat_advisor,
    tool,
)
from advisorchain.testing import check_model
from advisorchain_local import LocalModel
from advisorchain_local import engine as engine_module
from advisorchain_local.weights import find_weights

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(900)]

OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "max_tokens": 16}
JSON_OPTIONS = {**OPTIONS, "max_tokens": 80}
# More threads wait for one another by spinning: beside any other busy process they are slower than one by far.
SETTINGS: dict[str, Any] = {"threads": 1, "context_tokens": 2048}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Iterator[LocalModel]:
    """Keeps the weights loaded from test to test."""
    model = LocalModel("smollm2", **SETTINGS)
    anyio.run(model.load)
    yield model
    anyio.run(model.aclose)


@pytest.fixture
async def model() -> AsyncIterator[LocalModel]:
    async with LocalModel("smollm2", options=OPTIONS, **SETTINGS) as model:
        yield model


class Weather(BaseModel):
    city: Literal["Paris", "Rome", "Oslo"]
    degrees: Annotated[int, Field(ge=-99, le=99)]
    rain: bool


@tool
def get_weather(city: Annotated[str, Field(max_length=40)]) -> str:
    """Current weather of a city."""
    return f"18 degrees and sun in {city}"


@tool(return_direct=True)
def travel_status(request_id: Literal["TR001", "TR002", "TR003"]) -> str:
    """Status of a travel request."""
    return f"{request_id}: approved, 5000"


async def test_an_answer(model: LocalModel, run: Any) -> None:
    response = await run(ChatClient(model, system="You answer in one sentence."), "What is the capital of France?")
    assert response.text and model.name == "smollm2"
    assert response.stop_reason in ("final", "length")
    assert response.usage.input_tokens > 10
    assert 0 < response.usage.output_tokens <= 16
    if run.mode == "stream":
        assert len([event for event in run.events if isinstance(event, TextDelta)]) > 3


async def test_call_and_stream_give_the_same(model: LocalModel) -> None:
    client = ChatClient(model)
    called = await client.call("Name a colour.")
    async with client.stream("Name a colour.") as stream:
        streamed = await stream.response()
    assert streamed.text == called.text


async def test_an_answer_that_is_cut(model: LocalModel, run: Any) -> None:
    response = await run(ChatClient(model), "Tell me a very long story.", options={"max_tokens": 5})
    assert (response.stop_reason, response.usage.output_tokens) == ("length", 5)


async def test_what_was_read_before_is_in_the_cache(model: LocalModel) -> None:
    client = ChatClient(model, system="You are brief. " * 20, options={"max_tokens": 2})
    first, second = await client.call("Hello"), await client.call("Hello")
    assert second.usage.cache_read_tokens is not None
    assert second.usage.cache_read_tokens > 50
    assert first.usage.input_tokens == second.usage.input_tokens


async def test_structured_output(model: LocalModel, run: Any) -> None:
    response = await run(ChatClient(model), "What is the weather in Rome?", output_type=Weather, options=JSON_OPTIONS)
    assert isinstance(response.output, Weather)


async def test_structured_output_that_is_no_object(model: LocalModel, run: Any) -> None:
    numbers = Annotated[list[Annotated[int, Field(ge=0, le=9)]], Field(min_length=2, max_length=3)]
    response = await run(ChatClient(model), "Say some numbers.", output_type=numbers, options=JSON_OPTIONS)
    assert 2 <= len(response.output) <= 3


@pytest.mark.parametrize("choice", ["required", "travel_status", "get_weather"])
async def test_a_tool_choice_is_enforced(model: LocalModel, run: Any, choice: str) -> None:
    client = ChatClient(model, tools=[get_weather, travel_status], tool_loop=False)
    response = await run(client, "Tell me a joke.", options={**JSON_OPTIONS, "tool_choice": choice})
    [call] = response.tool_calls
    offered = {each.name: each for each in (get_weather, travel_status)}
    assert call.name in offered if choice == "required" else call.name == choice
    jsonschema.validate(call.arguments, dict(offered[call.name].input_schema))
    assert response.text == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"a": {"$ref": "#/$defs/X"}, "$defs": {"X": {"type": "string", "maxLength": 5}}},
        {"a": {"$ref": "#/definitions/X"}, "definitions": {"X": {"type": "string", "maxLength": 5}}},
        {"b": {"type": "string", "maxLength": 5}, "a": {"$ref": "#/properties/b"}},
        {"a": {"type": "string", "maxLength": 5}, "again": {"$ref": "#"}},
    ],
)
async def test_references_in_a_schema(model: LocalModel, fields: dict[str, Any]) -> None:
    """As tools of MCP servers have them: to definitions, to another field, to the whole."""
    tables = {name: fields[name] for name in fields if name in ("$defs", "definitions")}
    properties = {name: fields[name] for name in fields if name not in tables}
    schema = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False, **tables}
    other = {**schema, "$defs": {"X": {"type": "integer"}}}
    tools = [
        Tool.from_schema(name, lambda arguments: "x", description="Takes a.", input_schema=one)
        for name, one in (("second", other), ("first", schema))
    ]
    client = ChatClient(model, tools=tools, tool_loop=False)
    response = await client.call("Call first with a = yes.", options={**JSON_OPTIONS, "tool_choice": "required"})
    (call,) = response.tool_calls
    response = await client.call("Call first with a = yes.", options={**JSON_OPTIONS, "tool_choice": "first"})
    (call,) = response.tool_calls
    if response.stop_reason != "length":
        jsonschema.validate(call.arguments, schema)


async def test_no_tool_may_be_called(model: LocalModel, run: Any) -> None:
    client = ChatClient(model, tools=[get_weather])
    response = await run(client, "What is the weather in Paris?", options={"tool_choice": "none"})
    assert response.text and not response.tool_calls


async def test_the_model_decides(model: LocalModel, run: Any) -> None:
    client = ChatClient(model, tools=[get_weather, travel_status], tool_loop=False)
    response = await run(client, "What is the weather in Paris?", options=JSON_OPTIONS)
    assert bool(response.text) != bool(response.tool_calls), "a call or an answer"


async def test_return_direct(model: LocalModel, run: Any) -> None:
    client = ChatClient(model, tools=[travel_status])
    response = await run(client, "Status of TR001?", options={**JSON_OPTIONS, "tool_choice": "required"})
    assert response.stop_reason == "return_direct"
    assert response.text.startswith("TR00") and response.text.endswith(": approved, 5000")


async def test_the_model_calls_a_tool_and_reads_its_result(model: LocalModel, run: Any) -> None:
    @chat_advisor(order=600)
    async def first_a_call_then_an_answer(request: Any, call_next: Any) -> Any:
        choice = "get_weather" if request.round <= 1 else "none"
        return await call_next(request.replace(options=request.options.replace(tool_choice=choice)))

    client = ChatClient(model, tools=[get_weather, travel_status], advisors=[first_a_call_then_an_answer])
    response = await run(client, "What is the weather in Paris?", options=JSON_OPTIONS)
    kinds = [type(message) for message in response.new_messages]
    assert kinds == [AssistantMessage, ToolMessage, AssistantMessage]
    assert response.new_messages[1].text.startswith("18 degrees")
    assert response.text


async def test_the_contract() -> None:
    options = {**OPTIONS, "max_tokens": 40}
    await check_model(lambda: LocalModel("smollm2", options=options, **SETTINGS))


# Threads, time, memory ------------------------------------------------------------------------------------------------


async def test_the_event_loop_goes_on(model: LocalModel) -> None:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await anyio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await ChatClient(model).call("word " * 300, options={"max_tokens": 30})
        group.cancel_scope.cancel()
    seconds = time.perf_counter() - start
    assert longest < max(0.25, seconds / 4), f"blocked for {longest:.2f} of {seconds:.2f} s"


async def test_a_cancelled_call_stops_the_engine(model: LocalModel, run: Any) -> None:
    client = ChatClient(model)
    reached = time.perf_counter()
    with anyio.move_on_after(1.0):
        await run(client, "Count from one to one thousand.", options={"max_tokens": 1900})
    assert time.perf_counter() - reached < 10, "it does not wait for the engine"
    start = time.perf_counter()
    # 1,900 tokens take half a minute and more.
    assert (await client.call("Hello!", options={"max_tokens": 2})).usage
    assert time.perf_counter() - start < 12


async def test_leaving_a_stream_stops_the_engine(model: LocalModel) -> None:
    client = ChatClient(model)
    async with client.stream("Count from one to one thousand.", options={"max_tokens": 1900}) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    start = time.perf_counter()
    await client.call("Hello!", options={"max_tokens": 2})
    assert time.perf_counter() - start < 12


async def test_an_advisor_that_raises_while_text_is_streamed(model: LocalModel) -> None:
    @chat_advisor(order=600)
    async def strict(request: Any, call_next: Any) -> Any:
        async def refuse(event: Any, emit: Any) -> None:
            raise ZeroDivisionError("not this word")

        return await call_next(request.tap(refuse))

    with pytest.raises(ZeroDivisionError, match="not this word"):
        async with ChatClient(model, advisors=[strict]).stream("Hello") as stream:
            await stream.response()
    assert (await ChatClient(model).call("Hello", options={"max_tokens": 2})).text


async def test_a_call_that_takes_too_long(model: LocalModel, run: Any) -> None:
    with pytest.raises(ModelError, match=r"no whole answer within 0.5 s") as caught:
        await run(ChatClient(model), "Tell me a long story.", options={"timeout": 0.5, "max_tokens": 1900})
    assert caught.value.transient


async def test_a_prompt_that_is_too_long(model: LocalModel, run: Any) -> None:
    with pytest.raises(ModelError, match="context size") as caught:
        await run(ChatClient(model), "word " * 2500)
    assert caught.value.status == 400 and not caught.value.transient


async def test_a_schema_that_the_engine_does_not_know(model: LocalModel, run: Any) -> None:
    odd = Tool.from_schema(
        "odd", lambda arguments: "x", description="Odd.",
        input_schema={"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
    )  # fmt: skip
    with pytest.raises(ModelError, match="nowhere") as caught:
        await run(ChatClient(model, tools=[odd]), "Hi")
    assert not caught.value.transient


async def test_a_thousand_calls_wait_without_threads(model: LocalModel) -> None:
    import threading

    client = ChatClient(model, options={"max_tokens": 2})
    before, most = threading.active_count(), 0
    with anyio.move_on_after(3):
        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(client.call, f"Hello {number}")
            for _ in range(10):
                await anyio.sleep(0.1)
                most = max(most, threading.active_count())
            group.cancel_scope.cancel()
    assert most - before < 20
    assert (await client.call("Hello")).text


async def test_one_load_for_all(model: LocalModel, loaded: LocalModel) -> None:
    other = LocalModel(find_weights("smollm2").path, name="other", **SETTINGS)
    different = LocalModel("smollm2", **{**SETTINGS, "context_tokens": 512})
    async with other, different:
        async with anyio.create_task_group() as group:
            for each in (model, other, different):
                group.start_soon(each.load)
        assert model._engine is other._engine is loaded._engine
        assert different._engine is not model._engine
        assert len(engine_module._engines) == 2
    gc.collect()
    assert len(engine_module._engines) == 1, "closed by the last one, it is freed"
    assert (await ChatClient(other).call("Hi", options={"max_tokens": 2})).text, "a later call opens it again"
    await other.aclose()


LOAD_AND_FREE = """
import anyio
from advisorchain_local import LocalModel

async def main():
    for _ in range(12):
        async with LocalModel("smollm2", threads=1, context_tokens=256) as model:
            await model.load()

anyio.run(main)
print("done")
"""


def test_what_is_closed_as_soon_as_it_is_loaded() -> None:
    """The engine alone hangs, in one of some ten cases, with Python's lock held; so a process of its own."""
    ended = subprocess.run([sys.executable, "-c", LOAD_AND_FREE], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr


async def test_damaged_weights(tmp_path: Path, run: Any) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(find_weights("smollm2").path.read_bytes()[:1_000_000])
    with pytest.raises(ConfigurationError, match=r"cannot load .*cut\.gguf: the file is damaged"):
        await run(ChatClient(LocalModel(path, **SETTINGS)), "Hi")


async def test_nobody_else_can_use_the_engine(model: LocalModel) -> None:
    """It listens on a port of this machine, which answers nobody."""
    import urllib.error
    import urllib.request

    await model.load()
    assert model._engine is not None
    address = model._engine._server.listening_address

    def ask() -> None:
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/v1/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=10):
            pass

    with pytest.raises(urllib.error.HTTPError, match="401") as caught:
        await anyio.to_thread.run_sync(ask)
    caught.value.close()


def _ask_in_a_child(answers: Any, model: LocalModel) -> None:
    answers.put(anyio.run(ChatClient(model).call, "Hello").text)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_forked_child_loads_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: that is the point
        model = LocalModel("smollm2", options={**OPTIONS, "max_tokens": 2}, **SETTINGS)
        expected = anyio.run(ChatClient(model).call, "Hello").text
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=_ask_in_a_child, args=(answers, model))
        child.start()
        try:
            assert answers.get(timeout=120) == expected
            child.join(30)
            assert child.exitcode == 0
        finally:
            child.kill()


PROGRAM = """
import anyio, sys
from advisorchain import ChatClient, TextDelta
from advisorchain_local import LocalModel

async def main():
    client = ChatClient(LocalModel("smollm2", threads=1, context_tokens=2048, options={"max_tokens": 1900}))
    async with client.stream("Count to one thousand.") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    with anyio.move_on_after(0.2):
        await client.call("Count to one million.")

anyio.run(main, backend=sys.argv[1])
print("done")
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_that_ends_while_the_engine_works(backend: str) -> None:
    command = [sys.executable, "-c", PROGRAM, backend]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr
