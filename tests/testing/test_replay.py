"""What `ReplayModel` says when a request is not the recorded one, and when a file is no recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from advisorchain import ChatClient, ConfigurationError, TextDelta, ToolCall, chat_advisor, tool
from advisorchain.testing import RecordingModel, ReplayModel, ScriptedModel


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sun in {city}"


@tool
def news(topic: str) -> str:
    """News about a topic."""
    return "none"


class Answer(BaseModel):
    text: str


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    file = tmp_path / "r.jsonl"
    script = ScriptedModel([[ToolCall("weather", {"city": "Oslo"}, "c1")], "Sun."])
    client = ChatClient(RecordingModel(script, file), tools=[weather], system="Be brief.\nIt is 10:15.")
    await client.call("Weather?", options={"temperature": 0.5})
    return file


def client_of(model: Any, **changes: Any) -> ChatClient:
    return ChatClient(model, **{"tools": [weather], "system": "Be brief.\nIt is 10:15.", **changes})


async def ask(client: ChatClient, run: Any, prompt: str = "Weather?", **changes: Any) -> Any:
    return await run(client, prompt, **{"options": {"temperature": 0.5}, **changes})


@pytest.mark.parametrize(
    ("client", "call", "shown"),
    [
        ({}, {"prompt": "Weather tomorrow?"}, ["-    content: 'Weather?'", "+    content: 'Weather tomorrow?'"]),
        ({"system": "Be brief.\nIt is 11:00."}, {}, ["-      | It is 10:15.", "+      | It is 11:00."]),
        ({"tools": [weather, news]}, {}, ["+    name: 'news'"]),
        ({}, {"options": {"temperature": 0.7}}, ["-  temperature: 0.5", "+  temperature: 0.7"]),
        ({}, {"output_type": Answer}, ["+  name: 'Answer'"]),
    ],
)
async def test_a_difference_is_shown(
    run: Any, path: Path, client: dict[str, Any], call: dict[str, Any], shown: list[str]
) -> None:
    replay = ReplayModel(path)
    with pytest.raises(AssertionError) as caught:
        await ask(client_of(replay, **client), run, **call)
    text = str(caught.value)
    assert text.startswith(f"{path}: call 1 does not ask what was recorded as exchange 1:\n--- recorded\n+++ asked now")
    for line in shown:
        assert line in text.splitlines()
    with pytest.raises(AssertionError, match="does not ask what was recorded"):
        replay.assert_finished()


async def test_a_mismatch_that_somebody_caught_is_still_told(run: Any, path: Path) -> None:
    @chat_advisor(order=300)
    async def careless(request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request.replace(messages=request.messages[:1]))
        except AssertionError:
            return await call_next(request)

    replay = ReplayModel(path)
    assert (await ask(client_of(replay, advisors=[careless]), run)).text == "Sun."
    with pytest.raises(AssertionError, match="does not ask what was recorded"):
        replay.assert_finished()


async def test_what_is_compared(run: Any, path: Path) -> None:
    other = {"tools": [weather, news]}
    replay = ReplayModel(path, strict=["messages", "options"])
    assert (await ask(client_of(replay, **other), run)).text == "Sun."
    replay = ReplayModel(path, strict=False)
    assert (await ask(client_of(replay, **other), run, prompt="Anything", options=None)).text == "Sun."
    replay = ReplayModel(path, strict=["messages"])
    with pytest.raises(AssertionError, match="Anything"):
        await ask(client_of(replay, **other), run, prompt="Anything", options=None)


async def test_volatile_texts(run: Any, path: Path) -> None:
    later = {"system": "Be brief.\nIt is 23:59."}
    replay = ReplayModel(path, volatile=[r"\d\d:\d\d"])
    assert (await ask(client_of(replay, **later), run)).text == "Sun."
    replay.assert_finished()


async def test_the_tool_s_result_counts(run: Any, path: Path) -> None:
    def changed(city: str) -> str:
        """Weather of a city."""
        return f"rain in {city}"

    replay = ReplayModel(path)
    with pytest.raises(AssertionError, match=r"call 2 does not ask what was recorded as exchange 2") as caught:
        await ask(client_of(replay, tools=[tool(name="weather")(changed)]), run)
    assert "+    content: 'rain in Oslo'" in str(caught.value)


async def test_too_many_calls(run: Any, path: Path) -> None:
    replay = ReplayModel(path)
    client = client_of(replay)
    await ask(client, run)
    with pytest.raises(AssertionError, match=r"call 3 is beyond the 2 exchanges of the recording.*Weather\?"):
        await ask(client, run)


async def test_too_few_calls(path: Path) -> None:
    replay = ReplayModel(path)
    with pytest.raises(AssertionError, match=r"2 of 2 exchanges were not used: 1, 2"):
        replay.assert_finished()


async def test_by_match_shows_the_closest(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recording = ChatClient(RecordingModel(ScriptedModel(["A.", "B."]), path))
    await recording.call("the first question\nof two")
    await recording.call("something else")
    replay = ReplayModel(path, in_order=False)
    assert (await run(ChatClient(replay), "something else")).text == "B."
    with pytest.raises(AssertionError, match="any exchange that is left; the closest differs") as caught:
        await run(ChatClient(replay), "the first question\nof three")
    assert "+      | of three" in str(caught.value)


async def test_a_long_diff_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["A."]), path)).call("\n".join(f"line {n}" for n in range(2000)))
    with pytest.raises(AssertionError, match=r"lines more") as caught:
        await ChatClient(ReplayModel(path)).call("\n".join(f"row {n}" for n in range(2000)))
    assert len(str(caught.value).splitlines()) < 250


@pytest.mark.parametrize("strict", [["nonsense"], "nonsense", ["messages", "nonsense"]])
async def test_a_wrong_strict(path: Path, strict: Any) -> None:
    with pytest.raises(ConfigurationError, match="'nonsense'"):
        ReplayModel(path, strict=strict)


HEAD = '{"advisorchain_recording": 1, "model": "m", "native_output": false}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "There is no recording at .*record it first"),
        ("", "is no recording"),
        ("hello\n", "Line 1 .* is no JSON"),
        ('{"a": 1}\n', "is no recording"),
        ("[]\n", "is no recording"),
        ('{"advisorchain_recording": 2}\n', "has the format 2, and this version reads 1"),
        (HEAD + '{"request": {}', "Line 2 .* is no JSON"),
        (HEAD + "[" * 100_000, "Line 2 .* is no JSON"),
        (HEAD + '{"request": {"messages": []}}\n', "Exchange 1 .* is damaged"),
        (HEAD + '{"request": {}, "response": {"message": {"content": 7}, "stop_reason": "final"}}\n', "Exchange 1"),
        (HEAD + '{"request": {}, "response": {}}\n', "Exchange 1"),
        (HEAD + '{"request": {}, "error": {"type": "ModelError", "text": "x"}, "cancelled": true}\n', "Exchange 1"),
        (HEAD + '{"request": {}, "error": {"text": "x"}}\n', "Exchange 1"),
    ],
)
async def test_a_file_that_is_no_recording(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "r.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        ReplayModel(path)


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        ReplayModel(path)


async def test_a_file_chooses_no_class_to_make(tmp_path: Path) -> None:
    """An error's type is looked up in advisorchain and Python's plain errors only; nothing is imported."""
    path = tmp_path / "r.jsonl"
    for kind in ("SystemExit", "KeyboardInterrupt", "os.system", "eval", "UnicodeDecodeError", "Path"):
        path.write_text(HEAD + json.dumps({"request": {}, "error": {"type": kind, "text": "boo"}}) + "\n")
        with pytest.raises(Exception, match="boo") as caught:
            await ChatClient(ReplayModel(path, strict=False)).call("Hi")
        assert type(caught.value).__name__ == "ModelError"


async def test_a_very_long_line_of_a_diff_is_cut_around_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await ChatClient(RecordingModel(ScriptedModel(["A."]), path)).call("x" * 50_000 + "old word" + "y" * 50_000)
    with pytest.raises(AssertionError) as caught:
        await ChatClient(ReplayModel(path)).call("x" * 50_000 + "new word" + "y" * 50_000)
    text = str(caught.value)
    assert len(text) < 2000 and "old word" in text and "new word" in text
    with pytest.raises(AssertionError) as caught:
        await ChatClient(ReplayModel(path)).call("short")
    assert len(str(caught.value)) < 2000 and "'short'" in str(caught.value)


async def test_a_recording_in_a_sub_agent(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    def client(model: Any) -> ChatClient:
        inner = ChatClient(model, system="You know it.").as_tool("ask", "Ask somebody.")
        return ChatClient(model, tools=[inner])

    real = ScriptedModel([[ToolCall("ask", {"prompt": "What?"})], "Inner.", "Outer."], chunk_size=2)
    await run(client(RecordingModel(real, path)), "Hi")
    before = [(event.path, event.text) for event in run.events if isinstance(event, TextDelta)]
    replay = ReplayModel(path)
    assert (await run(client(replay), "Hi")).text == "Outer."
    assert [(event.path, event.text) for event in run.events if isinstance(event, TextDelta)] == before
    replay.assert_finished()
