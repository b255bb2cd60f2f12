"""Messages as the input items of the Responses API."""

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
from advisorchain_openai.response_items import Input, input_items

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def given(*messages: Message) -> Input:
    return input_items(messages, owner="openai.responses")


def items(*messages: Message) -> list[dict[str, Any]]:
    return given(*messages).items


def content(*parts: Any) -> Any:
    return items(UserMessage(content=parts))[0]["content"]


def output(*parts: Any, **settings: Any) -> Any:
    message = ToolMessage(call_id="c1", name="find", content=parts, **settings)
    return items(message)[0]["output"]


def test_a_conversation_with_tools() -> None:
    call = ToolCall("weather", {"city": "Zürich", "days": [1, 2]}, "c1")
    assert given(
        SystemMessage(content="Be short."),
        SystemMessage(content="Be kind."),
        UserMessage(content="Weather?"),
        AssistantMessage(content="", tool_calls=(call,)),
        ToolMessage(call_id="c1", name="weather", content="18"),
        SystemMessage(content="It is late."),
        AssistantMessage(content="18 degrees."),
    ) == (
        "Be short.\n\nBe kind.",
        [
            {"type": "message", "role": "user", "content": "Weather?"},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "weather",
                "arguments": '{"city":"Zürich","days":[1,2]}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "18"},
            {"type": "message", "role": "system", "content": "It is late."},
            {"type": "message", "role": "assistant", "content": "18 degrees."},
        ],
    )


def test_a_system_text_alone_is_the_input() -> None:
    """The API takes no request without any input."""
    assert given(SystemMessage(content="Greet.")) == (
        None,
        [{"type": "message", "role": "system", "content": "Greet."}],
    )
    assert given(SystemMessage(content=""), UserMessage(content="a")).instructions is None


def test_content_of_a_user_message() -> None:
    assert content(TextPart(text="a"), TextPart(text="b")) == "ab"
    assert content() == "" and items(UserMessage(content=""))[0]["content"] == ""
    pdf, csv = [base64.b64encode(data).decode() for data in (b"%PDF-1.7", b"a,b")]
    assert content(
        TextPart(text="look"),
        ImagePart(data=PNG),
        ImagePart(url="https://example.org/a.png"),
        ImagePart(url="file-1"),
        FilePart(data=b"%PDF-1.7", name="bill.pdf"),
        FilePart(data=b"a,b", name="table.csv"),
        FilePart(url="file-123"),
        FilePart(url="https://example.org/a.pdf"),
        FilePart(url="data:text/plain;base64,YQ=="),
        FilePart(data=PNG, name="picture"),
        FilePart(url="https://example.org/b.png", media_type="image/png"),
    ) == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        {"type": "input_file", "filename": "bill.pdf", "file_data": f"data:application/pdf;base64,{pdf}"},
        {"type": "input_file", "filename": "table.csv", "file_data": f"data:text/csv;base64,{csv}"},
        {"type": "input_file", "file_id": "file-123"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        {"type": "input_file", "filename": "file", "file_data": "data:text/plain;base64,YQ=="},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/b.png", "detail": "auto"},
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (ImagePart(data=b"what is it?"), "media_type="),
        (ImagePart(url="demo://a"), "cannot fetch 'demo://a'"),
        (AudioPart(data=b"RIFF0000WAVE"), "takes no audio"),
        (FilePart(url="demo://a.pdf"), "cannot fetch 'demo://a.pdf'"),
    ],
)
def test_content_that_cannot_be_sent(part: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        content(part)
    kind = part.kind
    noted = output(TextPart(text="found "), part, TextPart(text="."))
    assert noted == f"found [{kind}, without a name: cannot be shown here].", "it does not end the turn"


def test_what_tools_return() -> None:
    assert output(TextPart(text="a"), TextPart(text="b")) == "ab"
    assert output() == ""
    assert output(TextPart(text="drawn"), ImagePart(data=PNG), FilePart(url="file-1")) == [
        {"type": "input_text", "text": "drawn"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        {"type": "input_file", "file_id": "file-1"},
    ]


@pytest.mark.parametrize("url", ["https://10.0.0.1/x", "file-abc123", "demo://x"])
@pytest.mark.parametrize("kind", [FilePart, ImagePart, AudioPart])
def test_an_address_that_an_untrusted_server_returns_is_not_sent(kind: Any, url: str) -> None:
    """The provider would fetch it, or show a file that somebody else has uploaded."""
    noted = output(kind(url=url), source="web", trusted=False)
    assert url not in json.dumps(noted) and "of web" in noted


def test_provider_parts_go_back_to_their_provider_only() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    parts = (
        ReasoningPart(text="hm"),
        ProviderPart(provider="openai.responses", type="reasoning", data=thought),
        ProviderPart(provider="openai", type="reasoning_details", data=[{"type": "reasoning.encrypted"}]),
        ProviderPart(provider="openai.responses", type="strange", data="no item"),
        TextPart(text=""),
        TextPart(text="answer"),
    )
    said = {"type": "message", "role": "assistant", "content": "answer"}
    assert items(AssistantMessage(content=parts)) == [thought, said]
    own = {"type": "input_hologram", "url": "u"}
    part = ProviderPart(provider="openai.responses", type="input_hologram", data=own)
    assert content(TextPart(text="a"), part) == [{"type": "input_text", "text": "a"}, own]
    assert content(TextPart(text="a"), part.model_copy(update={"provider": "openai"})) == "a"


def test_what_was_cut_in_the_middle_does_not_go_back() -> None:
    """A tool of the provider that was at work; and parts that no item can be made of do not end the turn."""

    def own(data: Any, kind: str = "x") -> ProviderPart:
        return ProviderPart(provider="openai.responses", type=kind, data=data)

    search = {"type": "web_search_call", "id": "ws_1", "status": "searching"}
    thought = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}
    assert items(AssistantMessage(content=(own(thought), own(search)))) == []
    assert items(AssistantMessage(content=(own({**search, "status": "completed"}),)))[0]["id"] == "ws_1"
    assert items(AssistantMessage(content=(own({"a": 1}), own([], "annotations"), own("x", "content.y")))) == [{"a": 1}]


def test_a_long_address_is_not_shown_whole() -> None:
    with pytest.raises(ConfigurationError) as caught:
        content(ImagePart(url="demo://" + "x" * 10_000))
    assert len(str(caught.value)) < 400


def test_a_message_that_an_advisor_has_rewritten() -> None:
    """What is left of an answer is still one: without its thoughts, and with calls whose places are gone."""
    metadata = {"openai.responses": {"before": 3, "fields": {"namespace": "n"}}}
    calls = (ToolCall("a", {}, "c1", metadata=metadata), ToolCall("b", {}, "c2"))
    sent = items(AssistantMessage(content="[removed]", tool_calls=calls))
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call"]
    assert sent[1] == {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}", "namespace": "n"}
    odd = ToolCall("a", {}, "c1", metadata={"openai.responses": "odd", "openai": {"extra_content": 1}})
    assert items(AssistantMessage(tool_calls=(odd,)))[0].keys() == {"type", "call_id", "name", "arguments"}


def test_calls_that_the_provider_ran_itself_are_not_sent_twice() -> None:
    call = ToolCall("web_search", {}, "ws_1", executed_by="provider")
    assert items(AssistantMessage(content="found", tool_calls=(call,))) == [
        {"type": "message", "role": "assistant", "content": "found"}
    ]


def test_unknown_kinds_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    assert items(UnknownMessage(role="narrator", text="x")) == []
    assert content(TextPart(text="a"), UnknownPart(kind="hologram")) == "a"
    assert items(AssistantMessage(content=(TextPart(text="a"), ImagePart(data=PNG))))[0]["content"] == "a"
    assert all(word in caplog.text for word in ("narrator", "hologram", "'image'"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "{}"),
        ({"a": 1}, '{"a":1}'),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": ', '{"malformed_arguments": "{\\"a\\": "}'),
        ("[1]", '{"malformed_arguments": "[1]"}'),
    ],
)
def test_arguments_are_always_a_json_object(arguments: Any, text: str) -> None:
    (sent,) = items(AssistantMessage(tool_calls=(ToolCall("f", arguments, "c1"),)))
    assert sent["arguments"] == text
