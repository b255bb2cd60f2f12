"""What models, plugins and providers say of themselves: whatever it is, it is recorded, sent and no turn fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from traced import Traced, no_complaints

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ToolCall,
    ToolInvocation,
    ToolResult,
    Usage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.telemetry.safe_values import MAX_CHARS, safe_attributes
from advisorchain.testing import ScriptedModel

BROKEN = "a\ud800b"


class Odd:
    """It fails at everything."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__

    def __len__(self) -> int:
        raise RuntimeError("no length")


class OddText(str):
    def __str__(self) -> str:
        raise ValueError("no text")


_endless: list[Any] = []
_endless.append(_endless)

VALUES: dict[str, Any] = {
    "object": object(), "odd": Odd(), "odd text": OddText("fine"), "broken characters": BROKEN, "large": 10**5_000,
    "endless": _endless, "none": None, "mixed": [1, "b", None, Odd()], "mapping": {"a": 1}, "bytes": b"\xff",
    "long": "x" * 10_000_000, "many": list(range(100_000)), "infinite": math.inf, "set": {1}, "surrogates": [BROKEN],
}  # fmt: skip
every_value = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)


def _sent(traced: Traced) -> int:
    """How many bytes a batch of OTLP has."""
    with no_complaints():
        metrics = traced.reader.get_metrics_data()
        if metrics is not None:
            encode_metrics(metrics).SerializeToString()
        logs = encode_logs(traced.log_exporter.get_finished_logs())
        return len(encode_spans(traced.spans).SerializeToString()) + len(logs.SerializeToString())


async def _tell(traced: Traced, tell: Callable[[Any], Awaitable[Any]]) -> None:
    @chat_advisor(order=300, name="teller")
    async def teller(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        await tell(request.context)
        return await call_next(request)

    client = ChatClient(ScriptedModel(["Hello."]), advisors=[teller], telemetry=traced.telemetry())
    assert (await client.call("Go.")).text == "Hello."
    traced.check()
    assert _sent(traced) < 100_000


@tool(name="fine")
async def _fine() -> str:
    """It is."""
    return BROKEN


async def _give(value: Any = "found") -> Any:
    return value


@every_value
async def test_what_a_note_says(value: Any, traced: Traced) -> None:
    async def tell(context: Any) -> None:
        context.note("my_plugin.note", {"my_plugin.value": value, "my_plugin.list": [value], "kept": 1})
        context.note("advisorchain.retry", {"advisorchain.retry.what": value})
        context.note("advisorchain.circuit_breaker", {"advisorchain.circuit_breaker.state": value})

    await _tell(traced, tell)
    (advisor,) = traced.named("advisor teller")
    assert (advisor.events[0].attributes or {})["kept"] == 1 and len(advisor.events) == 3


@every_value
async def test_what_an_operation_says(value: Any, traced: Traced) -> None:
    async def tell(context: Any) -> None:
        assert await context.operation("index", _give(value), target=value, attributes={"x": value, "kept": 1}) is value

    await _tell(traced, tell)
    assert (traced.named("index")[0].attributes or {})["kept"] == 1


@every_value
async def test_bad_names(value: Any, traced: Traced) -> None:
    async def tell(context: Any) -> None:
        context.note(value, {value: 1} if getattr(value, "__hash__", None) else value)
        context.note("x", value)
        await context.operation(value, _give(), attributes=value)
        await context.operation(value, _give(), target=value)

    await _tell(traced, tell)


async def test_many_attributes(traced: Traced) -> None:
    async def tell(context: Any) -> None:
        many = {f"my_plugin.{n}": n for n in range(1_000)}
        context.note("x", many)
        await context.operation("y", _give(), attributes=many)

    await _tell(traced, tell)
    assert (traced.one("y").attributes or {})["gen_ai.operation.name"] == "y"


def test_safe_values() -> None:
    class Fine(str):
        pass

    made = safe_attributes({"a": Fine("x"), "b": [1, 2], "c": (True,), "d": None, "": 1, 5: 1, "e": 2.5, "f": [1, "x"]})
    assert made == {"a": "x", "b": (1, 2), "c": (True,), "e": 2.5, "f": ("1", "x")} and type(made["a"]) is str
    assert safe_attributes({"a": "x" * MAX_CHARS, "b": 2**63 - 1}) == {"a": "x" * MAX_CHARS, "b": 2**63 - 1}
    assert safe_attributes(None) == {}


async def test_the_length_of_a_text_is_no_number_of_hits(traced: Traced) -> None:
    async def tell(context: Any) -> None:
        await context.operation("retrieval", _give("a long text"), target="handbook")

    await _tell(traced, tell)
    assert "advisorchain.retrieval.hits" not in (traced.one("retrieval").attributes or {})
    assert "advisorchain.retrieval.hits" not in traced.metrics()


class Model:
    name: Any = "model"

    def __init__(self, **says: Any) -> None:
        self.metadata = says.pop("metadata", {})
        self.__dict__.update(says)

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="Hello."), metadata=self.metadata)


@every_value
@pytest.mark.parametrize("attribute", ["provider", "server_address", "server_port", "id", "model", "finish_reason"])
async def test_what_a_model_says_of_itself(attribute: str, value: Any, traced: Traced) -> None:
    own = {"metadata": {attribute: value}} if attribute in ("id", "model", "finish_reason") else {attribute: value}
    client = ChatClient(Model(**own), telemetry=traced.telemetry(capture_content="both"))
    assert (await client.call("Go.")).text == "Hello."
    assert _sent(traced) < 100_000


@pytest.mark.parametrize("count", [2**63, -1, True, "7", 1.5])
async def test_a_number_that_cannot_be_one_of_tokens_is_none(count: Any, traced: Traced) -> None:
    usage = Usage(input_tokens=count, output_tokens=5)
    client = ChatClient(ScriptedModel(["Hello."], usage=usage), telemetry=traced.telemetry())
    await client.call("Go.")
    assert _sent(traced) > 0
    for name, prefix in (("chat", "gen_ai.usage"), ("invoke_agent", "gen_ai.aggregated_usage")):
        attributes: Any = traced.one(name).attributes
        assert f"{prefix}.input_tokens" not in attributes and attributes[f"{prefix}.output_tokens"] == 5
    (tokens,) = traced.metrics()["gen_ai.client.token.usage"]
    assert tokens.attributes["gen_ai.token.type"] == "output" and tokens.sum == 5


@pytest.mark.parametrize("value", [BROKEN, "x" * 1_000_000, 2**63, -(10**30)])
async def test_arguments_reasons_and_failures(value: Any, traced: Traced) -> None:
    @tool_advisor(order=640)
    async def failing(invocation: ToolInvocation, call_next: Any) -> ToolResult:
        return ToolResult("no", is_error=True, failure={"exception": value})

    @chat_advisor(order=110)
    async def ending(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        response = await call_next(request)
        return response.replace(stop_reason=value if isinstance(value, str) else "final")

    model = ScriptedModel([[ToolCall("fine", {"x": value})], "Hello."])
    telemetry = traced.telemetry(capture_content="both")
    await ChatClient(model, tools=[_fine], advisors=[failing, ending], telemetry=telemetry).call("Go.")
    assert _sent(traced) < 500_000


async def test_a_model_and_an_advisor_with_properties_that_fail(traced: Traced, run: Any) -> None:
    class Fails(Model):
        @property
        def provider(self) -> str:
            raise RuntimeError("not connected")

    class Duck:
        order = 300

        @property
        def span_kind(self) -> str:
            raise RuntimeError("none")

        async def advise(self, request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
            return await call_next(request)

    response = await run(ChatClient(Fails(), advisors=[Duck()], telemetry=traced.telemetry()), "Go.")
    assert response.text == "Hello."
    chat = traced.one("chat")
    assert (chat.attributes or {})["gen_ai.provider.name"] == "_OTHER" and chat.kind.name == "INTERNAL"
    assert (traced.named("advisor duck")[0].attributes or {})["openinference.span.kind"] == "CHAIN"


class Sulky(Exception):
    """It tells nothing, not even its text."""

    @property
    def error(self) -> Any:
        raise RuntimeError("no")

    code = status = error

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("capture", ["none", "both"])
async def test_an_exception_that_tells_nothing(capture: str, traced: Traced, run: Any) -> None:
    telemetry = traced.telemetry(capture_content=capture)
    with pytest.raises(Sulky):
        await run(ChatClient(ScriptedModel([Sulky()]), telemetry=telemetry), "Go.")
    assert (traced.one("chat").attributes or {})["error.type"] == "Sulky"
    traced.check()


async def test_names_and_ids_with_broken_characters(traced: Traced) -> None:
    steps = [[ToolCall("fine", {"x": BROKEN}, id=BROKEN), ToolCall(BROKEN, {})], f"done {BROKEN}"]
    telemetry = traced.telemetry(capture_content="both")
    client = ChatClient(ScriptedModel(steps, name=BROKEN), tools=[_fine], name=BROKEN, telemetry=telemetry)
    await client.call(BROKEN, conversation_id="c" * 100)
    assert _sent(traced) > 1_000


async def test_who_outlives_its_advisor_is_not_heard(traced: Traced, caplog: pytest.LogCaptureFixture) -> None:
    """A task that an advisor left behind calls on and tells: its span has ended, and nobody complains."""
    go, gone = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as group:

        @chat_advisor(order=300, name="hedger")
        async def hedger(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
            async def late() -> None:
                await go.wait()
                request.context.note("too.late")
                await call_next(request.muted().fork())
                gone.set()

            group.start_soon(late)
            return await call_next(request)

        client = ChatClient(ScriptedModel(["one", "two"]), advisors=[hedger], telemetry=traced.telemetry())
        with caplog.at_level(logging.WARNING), no_complaints():
            await client.call("Go.")
            go.set()
            await gone.wait()
    assert not caplog.records
