"""What `RecordingModel` writes, `ReplayModel` plays: under call and stream, on both event loops."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatResponse,
    ConfigurationError,
    ModelError,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    Restarted,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
    tool,
)
from advisorchain.advisors import RetryAdvisor, RetryPolicy
from advisorchain.errors import CircuitOpenError, RateLimitError, TurnAbortedError
from advisorchain.models import KeywordModel, check_calls_allowed
from advisorchain.testing import RecordingModel, ReplayModel, ScriptedModel, check_model, forbid_model_calls

USAGE = Usage(10, 5, 3, None, 2)
EVENTS = (TextDelta, ReasoningDelta, ToolCallDelta)


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sun in {city}"


class StreamingModel:
    """A model as a provider's adapter is: reasoning, parts, and pieces of its own size."""

    name = "pieces"
    native_output = True

    def __init__(self) -> None:
        self.closed = False

    async def __call__(self, request: Any) -> ChatResponse[Any]:
        await request.emit(ReasoningDelta("Let me "))
        await request.emit(ReasoningDelta("think."))
        for piece in ("It ", "is ", "sunny in Zürich ☀.\nReally."):
            await request.emit(TextDelta(piece))
        message = AssistantMessage(
            content=(
                ReasoningPart(text="Let me think.", signature="s1"),
                ProviderPart(provider="p", type="blob", data={"a": [1, None, 2.5]}),
                TextPart(text="It is sunny in Zürich ☀.\nReally."),
            )
        )
        return ChatResponse(message, usage=USAGE, stop_reason="length", metadata={"response_id": "r1"})

    async def aclose(self) -> None:
        self.closed = True


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pieces(events: list[Any]) -> list[Any]:
    return [
        (type(event).__name__, getattr(event, "text", None) or getattr(event, "arguments", None))
        for event in events
        if isinstance(event, EVENTS)
    ]


async def test_a_tool_loop_is_recorded_and_replayed(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "loop.jsonl"
    real = ScriptedModel(
        [["Let me see. ", ToolCall("weather", {"city": "Oslo"}), ToolCall("weather", '{"city": "Rome"}')], "Sun."],
        usage=USAGE,
    )
    client = ChatClient(RecordingModel(real, path), tools=[weather], system="Be brief.")
    first = await run(client, "Weather?", options={"temperature": 0.5})
    recorded = pieces(run.events)

    replay = ReplayModel(path)
    second = await run(
        ChatClient(replay, tools=[weather], system="Be brief."), "Weather?", options={"temperature": 0.5}
    )
    replay.assert_finished()
    assert replay.name == "scripted"
    assert (second.text, second.usage, second.stop_reason) == (first.text, first.usage, first.stop_reason)
    assert [message.text for message in second.new_messages] == [message.text for message in first.new_messages]
    assert pieces(run.events) == recorded
    assert first.message.id != second.message.id, "an id is never used twice"
    assert len(replay.requests) == 2


async def test_the_parts_of_an_answer_come_back_in_the_same_pieces(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    async with RecordingModel(StreamingModel(), path) as recording:
        first = await run(ChatClient(recording), "Hi", output_type=str)
    assert recording.model.closed
    before = pieces(run.events)
    replay = ReplayModel(path)
    assert replay.native_output
    second = await run(ChatClient(replay), "Hi", output_type=str)
    assert second.message.content == first.message.content
    assert (second.usage, second.stop_reason, second.metadata) == (USAGE, "length", {"response_id": "r1"})
    assert pieces(run.events) == before
    if run.mode == "stream":
        assert before[:2] == [("ReasoningDelta", "Let me "), ("ReasoningDelta", "think.")]


async def test_recorded_under_call_and_streamed_later(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    response = await ChatClient(RecordingModel(StreamingModel(), path)).call("Hi")
    async with ChatClient(ReplayModel(path)).stream("Hi") as stream:
        events = [event async for event in stream]
        assert (await stream.response()).message.content == response.message.content
    assert pieces(events) == [("ReasoningDelta", "Let me think."), ("TextDelta", response.text)]


async def test_recorded_under_stream_and_called_later(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    async with ChatClient(RecordingModel(StreamingModel(), path)).stream("Hi") as stream:
        response = await stream.response()
    assert (await ChatClient(ReplayModel(path)).call("Hi")).message.content == response.message.content


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (ModelError("slow down", transient=True, retry_after=1.5, status=429, provider="p"), {"retry_after": 1.5}),
        (ModelError("no", status=401), {"status": 401, "transient": False}),
        (RateLimitError("full", retry_after=2.0), {"retry_after": 2.0}),
        (CircuitOpenError("the server", 3.0), {"source": "the server"}),
        (TurnAbortedError("stop"), {}),
        (ConfigurationError("wrong"), {}),
        (ValueError("bad"), {}),
    ],
)
async def test_an_error_is_replayed_as_itself(
    run: Any, tmp_path: Path, error: Exception, attributes: dict[str, Any]
) -> None:
    path = tmp_path / "r.jsonl"
    with pytest.raises(type(error)):
        await run(ChatClient(RecordingModel(ScriptedModel([error]), path)), "Hi")
    replay = ReplayModel(path)
    with pytest.raises(type(error)) as caught:
        await run(ChatClient(replay), "Hi")
    assert type(caught.value) is type(error) and str(caught.value) == str(error)
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
    replay.assert_finished()


async def test_an_error_of_another_library_is_a_model_error(run: Any, tmp_path: Path) -> None:
    class StrangeError(Exception):
        pass

    for error, transient in ((StrangeError("odd"), False), (ConnectionResetError("gone"), True)):
        path = tmp_path / "r.jsonl"
        with pytest.raises(type(error)):
            await run(ChatClient(RecordingModel(ScriptedModel([error]), path)), "Hi")
        with pytest.raises(ModelError, match=f"{type(error).__name__}: ") as caught:
            await run(ChatClient(ReplayModel(path)), "Hi")
        assert caught.value.transient is transient


async def test_text_before_an_error(tmp_path: Path) -> None:
    async def breaks(request: Any) -> Any:
        await request.emit(TextDelta("Half a sen"))
        raise ModelError("cut", transient=True)

    path = tmp_path / "r.jsonl"
    for model in (RecordingModel(breaks, path), None):
        events: list[Any] = []
        with pytest.raises(ModelError, match="cut"):
            async with ChatClient(model or ReplayModel(path)).stream("Hi") as stream:
                async for event in stream:
                    events.append(event)
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["Half a sen"]


async def test_a_retry_is_two_exchanges(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    retry = RetryAdvisor(model=RetryPolicy(attempts=2, wait=0.001))
    script = ScriptedModel([ModelError("busy", transient=True), "Done."])
    assert (await ChatClient(RecordingModel(script, path), advisors=[retry]).call("Hi")).text == "Done."
    replay = ReplayModel(path)
    assert (await ChatClient(replay, advisors=[retry]).call("Hi")).text == "Done."
    replay.assert_finished()


async def test_a_stream_that_was_left_is_left_again(tmp_path: Path) -> None:
    async def endless(request: Any) -> Any:
        while True:
            await request.emit(TextDelta("word "))
            await anyio.sleep(0.001)

    path = tmp_path / "r.jsonl"
    for model in (RecordingModel(endless, path), None):
        replay = model or ReplayModel(path)
        async with ChatClient(replay).stream("Hi") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
    assert isinstance(replay, ReplayModel)
    replay.assert_finished()
    assert lines_of(path)[1]["cancelled"] is True


async def test_a_cancelled_call_that_nobody_cancels_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(request: Any) -> Any:
        await anyio.sleep(60)

    path = tmp_path / "r.jsonl"
    with anyio.move_on_after(0.05):
        await ChatClient(RecordingModel(waits, path)).call("Hi")
    monkeypatch.setattr("advisorchain.testing.replay.CANCELLED_WITHIN", 0.01)
    with pytest.raises(AssertionError, match="was cancelled when it was recorded"):
        await ChatClient(ReplayModel(path)).call("Hi")


async def test_concurrent_calls_are_in_the_order_of_their_start(tmp_path: Path) -> None:
    async def slow_first(request: Any) -> Any:
        number = int(request.user_text)
        await anyio.sleep(0.05 - number * 0.01)
        return ChatResponse(AssistantMessage(content=f"answer {number}"))

    path = tmp_path / "r.jsonl"
    client = ChatClient(RecordingModel(slow_first, path))
    answers = await _ask_all(client, range(5))
    assert [line["request"]["messages"][0]["content"] for line in lines_of(path)[1:]] == list("01234")

    replay = ReplayModel(path, in_order=False)
    assert await _ask_all(ChatClient(replay), reversed(range(5))) == answers
    replay.assert_finished()


async def _ask_all(client: ChatClient, numbers: Any) -> dict[int, str]:
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = (await client.call(str(number))).text

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(ask, number)
            await anyio.lowlevel.checkpoint()
    return dict(sorted(answers.items()))


async def test_the_file_is_whole_after_every_exchange(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("something older\n")
    recording = RecordingModel(ScriptedModel(["One.", "Two.", "Three."]), path)
    assert path.read_text() == "something older\n", "nothing is lost before there is something new"
    for count in (1, 2, 3):
        await ChatClient(recording).call(f"call {count}")
        assert len(lines_of(path)) == 1 + count
        assert os.listdir(tmp_path) == ["r.jsonl"], "no draft is left"
    ReplayModel(path)


async def test_two_recordings_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first, second = (RecordingModel(ScriptedModel(["A.", "B."]), path) for _ in range(2))
    await ChatClient(first).call("Hi")
    with pytest.raises(ConfigurationError, match="a file of its own"):
        await ChatClient(second).call("Hi")


@pytest.mark.skipif(sys.platform == "win32", reason="no such file there")
async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        await ChatClient(RecordingModel(ScriptedModel(["A."]), tmp_path / "folder" / "r.jsonl")).call("Hi")


async def test_a_second_recording_of_the_same_exchanges_is_the_same_file(tmp_path: Path) -> None:
    texts = []
    for name in ("a.jsonl", "b.jsonl"):
        script = ScriptedModel([[ToolCall("weather", {"city": "Oslo"}, "c1")], "Sun."])
        client = ChatClient(RecordingModel(script, tmp_path / name), tools=[weather])
        await client.call("Weather?", options={"timeout": 5 + len(texts)})
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1], "nothing that changes from run to run is in a recording"


async def test_a_chain_as_the_model(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    inner = ChatClient(ScriptedModel([["Wait. ", ToolCall("weather", {"city": "Oslo"})], "Sun."]), tools=[weather])
    response = await run(ChatClient(RecordingModel(inner.as_model(), path)), "Weather?")
    assert response.text == "Sun."
    replay = ReplayModel(path)
    assert (await run(ChatClient(replay), "Weather?")).text == "Sun."
    assert [text for _, text in pieces(run.events)] == (["Sun."] if run.mode == "stream" else []), "the answer alone"
    replay.assert_finished()


@pytest.mark.parametrize("withdrawn", [True, False])
async def test_a_model_that_begins_again(tmp_path: Path, withdrawn: bool) -> None:
    async def hesitates(request: Any) -> Any:
        await request.emit(TextDelta("No, "))
        if withdrawn:
            await request.emit(Restarted())
        await request.emit(TextDelta("Ye"))
        await request.emit(TextDelta("s."))
        return ChatResponse(AssistantMessage(content="Yes."))

    path = tmp_path / "r.jsonl"
    async with ChatClient(RecordingModel(hesitates, path)).stream("Hi") as stream:
        assert (await stream.response()).text == "Yes."
    async with ChatClient(ReplayModel(path)).stream("Hi") as stream:
        events = [event async for event in stream]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert texts == (["Ye", "s."] if withdrawn else ["Yes."]), "the pieces of what counts, or the answer as a whole"
    assert not any(isinstance(event, Restarted) for event in events)


async def test_half_a_surrogate_pair(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["cut \ud83d"]), path)).call("Hi \u2028 there")
    replay = ReplayModel(path)
    assert (await ChatClient(replay).call("Hi \u2028 there")).text == "cut \ud83d"


async def test_it_hides_nothing_of_the_real_model(tmp_path: Path) -> None:
    recording = RecordingModel(StreamingModel(), tmp_path / "r.jsonl")
    assert (recording.name, recording.native_output) == ("pieces", True)

    async def plain(request: Any) -> Any:
        return ChatResponse(AssistantMessage(content="Hi."))

    recording = RecordingModel(plain, tmp_path / "r.jsonl")
    assert (recording.name, recording.native_output) == ("plain", False)
    await recording.aclose()


async def test_a_recorded_model_keeps_the_contract_of_models(tmp_path: Path) -> None:
    await check_model(lambda: RecordingModel(KeywordModel(), tmp_path / "r.jsonl"), exact=True)
    ReplayModel(tmp_path / "r.jsonl")


async def test_forbidden_calls_leave_an_old_recording_as_it_is(run: Any, tmp_path: Path) -> None:
    class RealModel:
        name = "real"

        async def __call__(self, request: Any) -> ChatResponse[Any]:
            check_calls_allowed(self)
            raise AssertionError("it is forbidden")

    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["Gold."]), path)).call("Hi")
    before = path.read_bytes()
    with forbid_model_calls(), pytest.raises(ConfigurationError, match="forbidden"):
        await run(ChatClient(RecordingModel(RealModel(), path)), "Hi")
    assert path.read_bytes() == before
