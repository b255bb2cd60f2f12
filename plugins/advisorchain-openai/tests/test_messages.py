"""Messages as chat completions wants them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    AudioPart,
    ConfigurationError,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownMessage,
    UnknownPart,
    UserMessage,
)
from advisorchain.models.prompted_tools import arguments_text
from advisorchain_openai.messages import chat_messages

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"


def sent(*messages: Message, **settings: Any) -> list[dict[str, Any]]:
    return chat_messages(messages, provider="openai", **settings)


def content(*parts: Any) -> Any:
    return sent(UserMessage(content=parts))[0]["content"]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_conversation_with_tools() -> None:
    call = ToolCall("weather", {"city": "Zürich"}, "c1")
    assert sent(
        SystemMessage(content="Be short."),
        UserMessage(content="Weather?"),
        AssistantMessage(content="", tool_calls=(call,)),
        ToolMessage(call_id="c1", name="weather", content="18"),
        AssistantMessage(content="18 degrees."),
    ) == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "",  # never null
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "18"},
        {"role": "assistant", "content": "18 degrees."},
    ]


def test_text_parts_are_sent_as_one_text() -> None:
    assert content(TextPart(text="a"), TextPart(text="b")) == "ab"
    assert content() == ""


def test_media_of_a_user_message() -> None:
    wav = b"RIFF0000WAVE"
    assert content(
        TextPart(text="look"),
        ImagePart(data=PNG),
        ImagePart(url="https://example.org/a.png"),
        AudioPart(data=wav),
        AudioPart(data=b"...", media_type="audio/mpeg"),
        FilePart(data=b"%PDF-1.7", name="bill.pdf"),
        FilePart(data=b"a,b", name="table.csv"),
        FilePart(url="file-123"),
        FilePart(url="data:text/plain;base64,YQ=="),
    ) == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": encoded(wav), "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": encoded(b"..."), "format": "mp3"}},
        {
            "type": "file",
            "file": {"filename": "bill.pdf", "file_data": f"data:application/pdf;base64,{encoded(b'%PDF-1.7')}"},
        },
        {"type": "file", "file": {"filename": "table.csv", "file_data": f"data:text/csv;base64,{encoded(b'a,b')}"}},
        {"type": "file", "file": {"file_id": "file-123"}},
        {"type": "file", "file": {"filename": "file", "file_data": "data:text/plain;base64,YQ=="}},
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (ImagePart(data=b"what is it?"), "media_type="),
        (AudioPart(url="https://example.org/a.wav"), "as bytes"),
        (FilePart(url="https://example.org/a.pdf"), "cannot fetch"),
    ],
)
def test_media_that_cannot_be_sent(part: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        content(part)


def test_what_tools_return_beside_text_follows_the_batch_in_a_user_message() -> None:
    calls = (ToolCall("draw", {}, "c1"), ToolCall("count", {}, "c2"))
    batch = sent(
        UserMessage(content="draw"),
        AssistantMessage(tool_calls=calls),
        ToolMessage(call_id="c1", name="draw", content=(TextPart(text="drawn"), ImagePart(data=PNG))),
        ToolMessage(call_id="c2", name="count", content="2"),
        AssistantMessage(content="Here."),
    )
    assert [message["role"] for message in batch] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert batch[2]["content"].startswith("drawn\n") and "follows" in batch[2]["content"]
    assert batch[3]["content"] == "2"
    text, image = batch[4]["content"]
    assert "draw" in text["text"] and "c1" in text["text"]
    assert image["image_url"]["url"].endswith(encoded(PNG))


def test_media_of_the_last_batch_are_sent_too() -> None:
    batch = sent(ToolMessage(call_id="c1", name="draw", content=(ImagePart(data=PNG),)))
    assert [message["role"] for message in batch] == ["tool", "user"]


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (FilePart(url="demo://resource/1", name="Resource 1"), "[file, Resource 1: cannot be shown here]"),
        (AudioPart(url="https://example.org/a.wav"), "[audio, without a name: cannot be shown here]"),
        (ImagePart(data=b"unknown"), "[image, without a name: cannot be shown here]"),
    ],
)
def test_what_a_tool_returned_and_cannot_be_sent_does_not_end_the_turn(part: Any, note: str) -> None:
    batch = sent(ToolMessage(call_id="c1", name="find", content=(TextPart(text="found"), part, ImagePart(data=PNG))))
    assert batch[0]["content"].startswith("found\n")
    _, noted, image = batch[1]["content"]
    assert noted == {"type": "text", "text": note}
    assert image["type"] == "image_url"


@pytest.mark.parametrize("url", ["https://10.0.0.1/x", "file-abc123", "demo://x"])
@pytest.mark.parametrize("kind", [FilePart, ImagePart, AudioPart])
def test_an_address_that_an_untrusted_server_returns_is_not_sent(kind: Any, url: str) -> None:
    """The provider would fetch it, or show a file that somebody else has uploaded."""
    message = ToolMessage(call_id="c1", name="find", content=(kind(url=url),), source="web", trusted=False)
    assert url not in json.dumps(sent(message))
    own = sent(ToolMessage(call_id="c1", name="find", content=(FilePart(url="file-abc123"),)))
    assert own[1]["content"][1] == {"type": "file", "file": {"file_id": "file-abc123"}}


def test_provider_parts_go_back_to_their_provider_only() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    message = AssistantMessage(
        content=(
            ReasoningPart(text="thought"),
            ProviderPart(provider="openai", type="reasoning_details", data=details),
            ProviderPart(provider="openai", type="annotations", data=[{"url": "u"}]),
            ProviderPart(provider="other", type="secret", data="y"),
            TextPart(text="answer"),
        )
    )
    assert sent(message) == [{"role": "assistant", "content": "answer", "reasoning_details": details}]
    assert sent(message, send_reasoning=True)[0]["reasoning_content"] == "thought"
    own = {"type": "video_url", "video_url": {"url": "u"}}
    part = ProviderPart(provider="openai", type="video_url", data=own)
    assert content(TextPart(text="a"), part) == [{"type": "text", "text": "a"}, own]
    assert content(TextPart(text="a"), part.model_copy(update={"provider": "other"})) == [{"type": "text", "text": "a"}]


def test_a_calls_metadata_go_back_to_their_provider_only() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    for provider, there in (("openai", True), ("other", False)):
        call = ToolCall("f", {}, "c1", metadata={provider: extra})
        assert ("extra_content" in sent(AssistantMessage(tool_calls=(call,)))[0]["tool_calls"][0]) is there


def test_calls_that_the_provider_ran_itself_are_not_sent() -> None:
    call = ToolCall("web_search", {}, "c1", executed_by="provider")
    assert sent(AssistantMessage(content="found", tool_calls=(call,))) == [{"role": "assistant", "content": "found"}]


def test_unknown_kinds_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    assert sent(UnknownMessage(role="narrator", text="x")) == []
    assert content(TextPart(text="a"), UnknownPart(kind="hologram")) == [{"type": "text", "text": "a"}]
    assert "narrator" in caplog.text and "hologram" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"malformed_arguments": '{"a": '}),
        ("[1]", {"malformed_arguments": "[1]"}),
        ("", {"malformed_arguments": ""}),
    ],
)
def test_arguments_are_always_a_json_object(arguments: Any, value: Any) -> None:
    assert json.loads(arguments_text(arguments)) == value
