"""Content: nowhere by default, and where it is asked for, in the conventions' shape, bounded and redacted."""

from __future__ import annotations

import json
import logging
from typing import Any

import jsonschema
import pytest
from gen_ai_schemas import INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, TOOL_DEFINITIONS
from hypothesis import given
from hypothesis import strategies as st
from traced import Traced

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ModelError,
    SystemMessage,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResult,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import AuditAdvisor, MemoryAdvisor, RetryAdvisor, ToolFallbackAdvisor
from advisorchain.audit import LoggingSink
from advisorchain.memory import InMemoryStore
from advisorchain.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    UnknownPart,
    load_messages,
)
from advisorchain.telemetry import Telemetry
from advisorchain.telemetry.content import bounded, input_messages, output_messages, plain, tool_definitions
from advisorchain.testing import ScriptedModel

SECRET = "hunter2-7f3a"


@tool
async def look_up(text: str) -> str:
    """Look it up."""
    return f"{text} is {SECRET}"


@tool(idempotent=True)
async def raises(text: str) -> str:
    """It fails."""
    raise ConnectionError(SECRET)


@tool
async def refuses(text: str) -> str:
    """It says no."""
    raise ToolError(SECRET)


@tool(return_direct=True)
async def gives(text: str) -> Any:
    """It gives a value."""
    return {"value": SECRET}


class _Waits:
    async def __call__(self, attribute: str, value: Any) -> Any:
        return value


async def _no_wait(seconds: float) -> None:
    return None


def _clients(telemetry: Telemetry) -> list[tuple[ChatClient, type[BaseException] | None]]:
    @chat_advisor(order=300, name="loud")
    async def loud(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        raise RuntimeError(SECRET)

    @tool_advisor(order=700, name="strict")
    async def strict(invocation: Any, call_next: Any) -> ToolResult:
        raise PermissionError(SECRET)

    def calls(*names: str) -> list[ToolCall]:
        return [ToolCall(name, {"text": SECRET}) for name in names]

    guards = [ToolFallbackAdvisor(), RetryAdvisor(sleep=_no_wait), MemoryAdvisor(InMemoryStore())]
    guards.append(AuditAdvisor(LoggingSink()))  # type: ignore[arg-type]
    tools = [look_up, raises, refuses, gives]
    everything = calls("look_up", "raises", "refuses", "gives", "invented", SECRET)
    return [
        (ChatClient(ScriptedModel([everything, SECRET]), tools=tools, advisors=guards, telemetry=telemetry), None),
        (ChatClient(ScriptedModel([calls("gives")]), tools=tools, telemetry=telemetry, system=SECRET), None),
        (ChatClient(ScriptedModel([ModelError(SECRET, status=500)]), telemetry=telemetry), ModelError),
        (ChatClient(ScriptedModel([RuntimeError(SECRET)]), telemetry=telemetry), RuntimeError),
        (ChatClient(ScriptedModel([]), advisors=[loud], telemetry=telemetry), RuntimeError),
        (
            ChatClient(ScriptedModel([calls("look_up"), SECRET]), tools=tools, advisors=[strict], telemetry=telemetry),
            None,
        ),
        (
            ChatClient(
                ScriptedModel([[ToolCall("inner", {"prompt": SECRET})], SECRET]),
                tools=[ChatClient(ScriptedModel([SECRET]), name="inner").as_tool("inner", "Asks.")],
                telemetry=telemetry,
            ),
            None,
        ),
    ]


async def _run_all(telemetry: Telemetry, mode: str) -> None:
    for client, error in _clients(telemetry):
        try:
            if mode == "call":
                await client.call(f"{SECRET}?", conversation_id="c1")
            else:
                async with client.stream(f"{SECRET}?", conversation_id="c1") as stream:
                    await stream.response()
        except Exception as exc:
            assert error is not None and isinstance(exc, error), exc


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_no_secret_leaves_by_default(mode: str, traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    await _run_all(traced.telemetry(chunk_metrics=True), mode)
    traced.check()
    exported = traced.exported()
    assert "execute_tool" in exported and SECRET not in exported


@pytest.mark.parametrize("capture", ["span", "event", "both"])
async def test_content_is_where_it_is_asked_for(capture: str, traced: Traced) -> None:
    await _run_all(traced.telemetry(capture_content=capture), "call")
    spans = "\n".join(span.to_json() for span in traced.spans)
    events = "\n".join(str(record.log_record.attributes) for record in traced.log_exporter.get_finished_logs())
    assert (SECRET in spans) == (capture != "event")
    assert (SECRET in events) == (capture != "span")
    metrics = traced.reader.get_metrics_data()
    assert metrics is not None and SECRET not in metrics.to_json()


@pytest.mark.parametrize(
    "said, expected",
    [("", "none"), ("NO_CONTENT", "none"), ("span_only", "span"), ("EVENT_ONLY", "event"), ("SPAN_AND_EVENT", "both"),
     ("true", "span"), ("sometimes", "none")],
)  # fmt: skip
def test_the_environment_decides(
    said: str, expected: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", said)
    with caplog.at_level(logging.WARNING):
        assert Telemetry().capture_content == expected
    assert ("sometimes" in caplog.text) == (said == "sometimes")
    assert Telemetry(capture_content="none").capture_content == "none"


async def test_the_conventions_schemas(traced: Traced) -> None:
    message = AssistantMessage(
        content=(ReasoningPart(text="Hm."), TextPart(text="Yes."), ProviderPart(provider="p", type="x", data={"a": 1})),
        tool_calls=(ToolCall("look_up", {"text": "a"}, "c1"), ToolCall("web", {}, "c2", executed_by="provider")),
    )
    conversation = [
        UserMessage(content=(TextPart(text="Look"), ImagePart(data=b"\x89PNG", media_type="image/png"),
                             AudioPart(url="https://example.org/a.mp3"), FilePart(data=b"x", name="a.txt"))),
        message,
        ToolMessage(call_id="c1", name="look_up", content="a is b"),
        AssistantMessage(content="Done."),
        UserMessage(content="And now?"),
    ]  # fmt: skip
    steps = [[ToolCall("look_up", {"text": "x"})], "Here."]
    client = ChatClient(
        ScriptedModel(steps), tools=[look_up], system="Be kind.", telemetry=traced.telemetry(capture_content="span")
    )
    await client.call(conversation)
    for span in traced.named("chat"):
        about: Any = span.attributes
        jsonschema.validate(json.loads(about["gen_ai.input.messages"]), INPUT_MESSAGES)
        jsonschema.validate(json.loads(about["gen_ai.output.messages"]), OUTPUT_MESSAGES)
        jsonschema.validate(json.loads(about["gen_ai.system_instructions"]), SYSTEM_INSTRUCTIONS)
        jsonschema.validate(json.loads(about["gen_ai.tool.definitions"]), TOOL_DEFINITIONS)
        assert b"\x89PNG".hex() not in about["gen_ai.input.messages"] and "iVBOR" not in about["gen_ai.input.messages"]
    _, second = traced.named("chat")
    roles = [message["role"] for message in json.loads((second.attributes or {})["gen_ai.input.messages"])]  # type: ignore[arg-type]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    turn: Any = traced.one("invoke_agent").attributes
    jsonschema.validate(json.loads(turn["gen_ai.input.messages"]), INPUT_MESSAGES)
    jsonschema.validate(json.loads(turn["gen_ai.output.messages"]), OUTPUT_MESSAGES)
    call: Any = traced.one("execute_tool").attributes
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"text": "x"}
    assert call["gen_ai.tool.call.result"] == f"x is {SECRET}"


async def test_content_is_bounded(traced: Traced) -> None:
    huge = "x" * 1_000_000
    messages = [UserMessage(content=huge) if n % 2 == 0 else AssistantMessage(content=huge) for n in range(301)]
    client = ChatClient(
        ScriptedModel([huge]), telemetry=traced.telemetry(capture_content="span", max_content_bytes=10_000)
    )
    await client.call(messages)
    about: Any = traced.one("chat").attributes
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        assert len(about[name].encode()) <= 10_000
        assert json.loads(about[name])


async def test_redaction(traced: Traced) -> None:
    seen: list[str] = []

    def redact(attribute: str, value: Any) -> Any:
        seen.append(attribute)
        if attribute == "gen_ai.tool.call.result":
            return None
        return json.loads(json.dumps(value).replace(SECRET, "***"))

    steps = [[ToolCall("look_up", {"text": SECRET})], SECRET]
    telemetry = traced.telemetry(capture_content="both", redact=redact)
    await ChatClient(ScriptedModel(steps), tools=[look_up], system=SECRET, telemetry=telemetry).call(SECRET)
    assert SECRET not in traced.exported() and "***" in traced.exported()
    assert "gen_ai.tool.call.result" not in (traced.one("execute_tool").attributes or {})
    assert {"gen_ai.input.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions"} <= set(seen)


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_what_an_error_says_is_redacted_and_bounded_too(mode: str, traced: Traced) -> None:
    """Also in the status of spans, which is no attribute."""

    def redact(attribute: str, value: Any) -> Any:
        return json.loads(json.dumps(value).replace(SECRET, "***"))

    await _run_all(traced.telemetry(capture_content="both", redact=redact), mode)
    assert SECRET not in traced.exported() and "***" in str([span.status.description for span in traced.spans])
    telemetry = traced.telemetry(capture_content="span")
    with pytest.raises(RuntimeError):
        await ChatClient(ScriptedModel([RuntimeError("x" * 1_000_000)]), telemetry=telemetry).call("Go.")
    assert max(len(span.status.description or "") for span in traced.spans) < 20_000


async def test_events_hold_structures(traced: Traced) -> None:
    telemetry = traced.telemetry(capture_content="both")
    await ChatClient(ScriptedModel(["Hello."]), tools=[look_up], system="Be kind.", telemetry=telemetry).call("Hi.")
    (record,) = traced.log_exporter.get_finished_logs()
    about: Any = record.log_record.attributes
    for name, schema in (
        ("gen_ai.input.messages", INPUT_MESSAGES),
        ("gen_ai.output.messages", OUTPUT_MESSAGES),
        ("gen_ai.system_instructions", SYSTEM_INSTRUCTIONS),
        ("gen_ai.tool.definitions", TOOL_DEFINITIONS),
    ):
        assert isinstance(about[name], tuple), name
        jsonschema.validate(json.loads(json.dumps(about[name])), schema)
        assert json.loads(json.dumps(about[name])) == json.loads(str((traced.one("chat").attributes or {})[name]))


async def test_events_need_no_tracer_and_no_meter(traced: Traced, run: Any) -> None:
    client = ChatClient(
        ScriptedModel(["Hello.", ModelError("no")]),
        telemetry=Telemetry(logger_provider=traced.logger_provider, capture_content="event"),
    )
    await run(client, "Hi.")
    with pytest.raises(ModelError):
        await run(client, "Hi.")
    assert [record.log_record.event_name for record in traced.log_exporter.get_finished_logs()] == [
        "gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception",
    ]  # fmt: skip
    assert Telemetry(capture_content="event").observer() is None, "nobody has set up a provider"


async def test_a_redaction_may_make_a_text_of_messages(traced: Traced) -> None:
    telemetry = traced.telemetry(capture_content="both", redact=lambda name, value: "***")
    await ChatClient(ScriptedModel(["Hello."]), telemetry=telemetry).call("Hi.")
    (record,) = traced.log_exporter.get_finished_logs()
    assert (record.log_record.attributes or {})["gen_ai.input.messages"] == "***"


async def test_a_redaction_that_fails_costs_the_content_only(traced: Traced, caplog: pytest.LogCaptureFixture) -> None:
    def redact(attribute: str, value: Any) -> Any:
        raise ValueError(SECRET)

    client = ChatClient(ScriptedModel(["Hello."]), telemetry=traced.telemetry(capture_content="span", redact=redact))
    with caplog.at_level(logging.WARNING, logger="advisorchain"):
        assert (await client.call("Hi.")).text == "Hello."
    assert "gen_ai.input.messages" not in (traced.one("chat").attributes or {})
    assert "was not captured" in caplog.text and SECRET not in caplog.text


async def test_content_is_not_built_for_nobody(traced: Traced) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    dropping = Traced(sampler=ALWAYS_OFF)
    called: list[str] = []

    def redact(attribute: str, value: Any) -> Any:
        called.append(attribute)
        return value

    client = ChatClient(ScriptedModel(["Hello."]), telemetry=dropping.telemetry(capture_content="span", redact=redact))
    await client.call("Hi.")
    assert called == []


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=json_values, limit=st.integers(256, 2_000))
def test_what_is_captured_is_bounded_json(value: Any, limit: int) -> None:
    encoded = bounded(lambda size: plain(value, size), limit)
    assert len(encoded.encode()) <= limit
    if not isinstance(value, str | bytes):
        json.loads(encoded)


@pytest.mark.parametrize("redact", [None, lambda attribute, value: value], ids=["as they are", "redacted"])
async def test_long_lists_and_objects_in_arguments_are_cut(redact: Any, traced: Traced, run: Any) -> None:
    rows = {
        "table": "trips",
        "rows": [[n, n + 1] for n in range(20_000)],
        "names": {f"trip {n}": n for n in range(20_000)},
    }
    telemetry = traced.telemetry(capture_content="span", redact=redact)
    await run(ChatClient(ScriptedModel([[ToolCall("store", rows)], "Done."]), telemetry=telemetry), "Go.")
    tool, chat = (span.attributes or {} for span in (traced.one("execute_tool"), traced.named("chat")[0]))
    arguments = json.loads(str(tool["gen_ai.tool.call.arguments"]))
    assert arguments["table"] == "trips" and arguments["rows"][:2] == [[0, 1], [1, 2]]
    assert str(arguments["rows"][-1]).endswith(" more)")
    assert arguments["names"]["trip 1"] == 1 and arguments["names"]["…"].endswith(" more)")
    ((part,),) = (message["parts"] for message in json.loads(str(chat["gen_ai.output.messages"])))
    assert part["arguments"]["table"] == "trips"


def test_depth_and_cycles() -> None:
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    json.loads(bounded(lambda size: plain(deep, size), 1_000))
    endless: dict[str, Any] = {}
    endless["self"] = endless
    json.loads(bounded(lambda size: plain(endless, size), 1_000))


def test_broken_characters_and_unknown_kinds() -> None:
    odd = UserMessage(content=(TextPart(text="a\ud800b"), UnknownPart.model_validate({"kind": "hologram", "x": 1})))
    unknown = load_messages('[{"role": "critic", "content": "no", "id": "m1"}]')[0]
    for value in (input_messages([odd, unknown], 100), output_messages((odd, "stop"), 100)):  # type: ignore[arg-type]
        jsonschema.validate(json.loads(bounded(lambda _: value, 10_000)), {"type": "array"})  # noqa: B023
    assert tool_definitions([look_up], 3)[0]["description"].startswith("Loo…")
    assert input_messages([SystemMessage(content="a"), UserMessage(content="b")], 9)[0]["role"] == "user"


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"capture_content": "some"}, "capture_content"),
        ({"advisor_spans": "few"}, "advisor_spans"),
        ({"max_content_bytes": 3}, "max_content_bytes"),
        ({"redact": "yes"}, "redact"),
        ({"redact": _no_wait}, "redact must not be async"),
        ({"redact": _Waits()}, "redact must not be async"),
        ({"tracer_provider": "mine"}, "tracer_provider"),
    ],
)
def test_bad_settings(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        Telemetry(**settings)


def test_bad_settings_of_a_client(traced: Traced) -> None:
    with pytest.raises(ConfigurationError, match="telemetry="):
        ChatClient(ScriptedModel([]), telemetry="on")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tracer_provider="):
        ChatClient(ScriptedModel([]), telemetry=False, tracer_provider=traced.tracer_provider)
