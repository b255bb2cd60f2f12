"""Messages as the Messages API wants them."""

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
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from advisorchain.messages import UnknownMessage, UnknownPart
from advisorchain_anthropic.messages import arguments_object, conversation

PNG = b"\x89PNG\r\n\x1a\n12345"
PDF = b"%PDF-1.7 x"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def encoded(data: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def sent(*messages: Any) -> list[dict[str, Any]]:
    return conversation(messages, provider="anthropic").messages


def content(*parts: Any) -> list[dict[str, Any]]:
    return sent(UserMessage(content=parts))[0]["content"]


def result_of(*parts: Any, **more: Any) -> dict[str, Any]:
    call = AssistantMessage(tool_calls=(ToolCall("find", {}, "c1"),))
    given = parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts
    return sent(call, ToolMessage(call_id="c1", name="find", content=given, **more))[1]["content"][0]


def test_system_texts_stand_apart() -> None:
    found = conversation(
        [
            SystemMessage(content="One."), UserMessage(content="Hi"), SystemMessage(content=" "),
            SystemMessage(content=(TextPart(text="Two."),)),
        ],
        provider="anthropic",
    )  # fmt: skip
    assert found.system == "One.\n\nTwo."
    assert found.messages == [{"role": "user", "content": [text("Hi")]}]


def test_user_and_assistant_take_turns_and_empty_messages_are_left_out() -> None:
    assert sent(
        UserMessage(content="a"),
        AssistantMessage(content=""),
        UserMessage(content=(TextPart(text="b"), TextPart(text="\n"))),
        AssistantMessage(content="c"),
        UserMessage(content="  "),
        AssistantMessage(content="d"),
        UserMessage(content="e"),
    ) == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
        {"role": "user", "content": [text("e")]},
    ]


def test_results_are_the_first_blocks_of_one_user_message() -> None:
    calls = (ToolCall("f", {}, "c1"), ToolCall("g", {"a": 1}, "c2"))
    messages = sent(
        UserMessage(content="a"),
        AssistantMessage(tool_calls=calls),
        ToolMessage(call_id="c1", name="f", content="1"),
        ToolMessage(call_id="c2", name="g", content="2"),
        UserMessage(content="b"),
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == ["tool_use", "tool_use"]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
        text("b"),
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SystemMessage(content="Be kind.")],
        [UserMessage(content="")],
        [UserMessage(content="a"), AssistantMessage(content="b"), UserMessage(content=" \n")],
        [AssistantMessage(content="")],
    ],
)
def test_nothing_to_answer(messages: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match="last message is empty"):
        sent(*messages)


def test_an_answer_that_shall_go_on_has_no_space_at_its_end() -> None:
    message = AssistantMessage(content="The answer is \n")
    assert sent(UserMessage(content="a"), message)[-1]["content"] == [text("The answer is")]
    assert sent(UserMessage(content="a"), message, UserMessage(content="b"))[1]["content"] == [text("The answer is \n")]


def test_ids_have_only_letters_that_the_provider_takes() -> None:
    calls = tuple(ToolCall("f", {}, call_id) for call_id in ("a.b", "a_b", "a:b", "a_b_", "toolu_1-x"))
    results = [ToolMessage(call_id=call.id, name="f", content=call.id) for call in calls]
    assistant, user = sent(AssistantMessage(tool_calls=calls), *results)
    ids = [block["id"] for block in assistant["content"]]
    assert len(set(ids)) == len(ids) and ids[-1] == "toolu_1-x"
    assert all(set(call_id) <= set("ab_toolu1-x") for call_id in ids)
    assert [block["tool_use_id"] for block in user["content"]] == ids


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (ImagePart(data=PNG), {"type": "image", "source": encoded(PNG, "image/png")}),
        (ImagePart(data=b"x", media_type="image/webp"), {"type": "image", "source": encoded(b"x", "image/webp")}),
        (ImagePart(data=b"RIFF1234WEBP"), {"type": "image", "source": encoded(b"RIFF1234WEBP", "image/webp")}),
        (
            ImagePart(url="https://example.org/a.png"),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            ImagePart(url="data:image/gif;base64,R0lG"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        ),
        (ImagePart(url="file_011C"), {"type": "image", "source": {"type": "file", "file_id": "file_011C"}}),
        (
            FilePart(data=PDF, name="a.pdf"),
            {"type": "document", "source": encoded(PDF, "application/pdf"), "title": "a.pdf"},
        ),
        (
            FilePart(url="https://example.org/a.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        ),
        (FilePart(url="file_011C"), {"type": "document", "source": {"type": "file", "file_id": "file_011C"}}),
        (
            FilePart(data="a;ü".encode(), name="a.csv"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a;ü"},
                "title": "a.csv",
            },
        ),
        (
            FilePart(data=b"{}", media_type="application/json"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "{}"}},
        ),
        (FilePart(data=PNG, name="a"), {"type": "image", "source": encoded(PNG, "image/png")}),
    ],
)
def test_media(part: Any, block: dict[str, Any]) -> None:
    assert content(TextPart(text="a"), part) == [text("a"), block]
    assert result_of(TextPart(text="a"), part)["content"] == [text("a"), block]


@pytest.mark.parametrize(
    ("part", "problem", "note"),
    [
        (AudioPart(data=b"x", media_type="audio/wav"), "no audio", "[audio, audio/wav: cannot be shown here]"),
        (ImagePart(data=b"x", media_type="image/tiff"), "image/tiff", "[image, image/tiff: cannot be shown here]"),
        (ImagePart(data=b"x"), "media_type=", "[image, without a name: cannot be shown here]"),
        (ImagePart(url="ftp://x/y"), "cannot fetch", "[image, without a name: cannot be shown here]"),
        (FilePart(data=b"PK", name="a.zip"), r"application/zip.*a\.zip", "[file, a.zip: cannot be shown here]"),
        (FilePart(data=b"\xff\xfe", name="a.txt"), "no UTF-8", "[file, a.txt: cannot be shown here]"),
    ],
)
def test_what_cannot_be_sent(part: Any, problem: str, note: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        content(part)
    assert result_of(part)["content"] == note  # of a tool it must not end the turn


def test_results_of_tools() -> None:
    assert result_of("found") == {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
    assert result_of("") == result_of(" \n") == {"type": "tool_result", "tool_use_id": "c1"}
    assert result_of(TextPart(text="a"), TextPart(text=""), TextPart(text="b"))["content"] == "ab"
    failed = result_of("no", is_error=True)
    assert failed["is_error"] is True and failed["content"] == "no"
    assert result_of("\n", is_error=True)["content"] == "The tool failed."


@pytest.mark.parametrize("url", ["https://10.0.0.1/x", "file_abc123", "demo://x"])
@pytest.mark.parametrize("kind", [FilePart, ImagePart, AudioPart])
def test_an_address_that_an_untrusted_server_returns_is_not_sent(kind: Any, url: str) -> None:
    """The provider would fetch it, or show a file that somebody else has uploaded."""
    assert url not in json.dumps(result_of(kind(url=url), source="web", trusted=False))
    assert result_of(FilePart(url="file_abc123"))["content"][0]["source"]["file_id"] == "file_abc123"


def test_provider_parts_go_back_to_their_provider_only() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    message = AssistantMessage(
        content=(
            ReasoningPart(text="changed by somebody", signature="s"),
            ProviderPart(provider="anthropic", type="thinking", data=thinking),
            ReasoningPart(text="unsigned"),
            ReasoningPart(text="signed", signature="t"),
            ProviderPart(provider="other", type="secret", data={"type": "secret"}),
            TextPart(text="answer"),
            ProviderPart(provider="anthropic", type="citations", data=[{"cited_text": "c"}]),
            ImagePart(data=PNG),
        )
    )
    assert sent(UserMessage(content="a"), message)[1]["content"] == [
        thinking,
        {"type": "thinking", "thinking": "signed", "signature": "t"},
        {"type": "text", "text": "answer", "citations": [{"cited_text": "c"}]},
    ]
    own = {"type": "search_result", "source": "u", "title": "t", "content": []}
    part = ProviderPart(provider="anthropic", type="search_result", data=own)
    assert content(TextPart(text="a"), part) == [text("a"), own]
    assert content(TextPart(text="a"), part.model_copy(update={"provider": "other"})) == [text("a")]


def test_no_message_ends_with_thinking() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]
    parts = tuple(ProviderPart(provider="anthropic", type=block["type"], data=block) for block in blocks)
    cut = AssistantMessage(content=parts)
    assert sent(UserMessage(content="a"), cut, UserMessage(content="b")) == [
        {"role": "user", "content": [text("a"), text("b")]}
    ]
    half = AssistantMessage(content=(TextPart(text="So"), *parts))
    assert sent(UserMessage(content="a"), half, UserMessage(content="b"))[1]["content"] == [text("So")]


def test_calls_that_the_provider_ran_itself_are_not_sent_as_calls() -> None:
    call = ToolCall("web_search", {}, "c1", executed_by="provider")
    found = conversation(
        [UserMessage(content="a"), AssistantMessage(content="found", tool_calls=(call,))], provider="anthropic"
    )
    assert found.messages[1]["content"] == [text("found")] and found.called == []


def test_unknown_kinds_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    assert sent(UnknownMessage(role="narrator", text="x"), UserMessage(content="a")) == [
        {"role": "user", "content": [text("a")]}
    ]
    assert content(TextPart(text="a"), UnknownPart(kind="hologram")) == [text("a")]
    assert "narrator" in caplog.text and "hologram" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"malformed_arguments": '{"a": '}),
        ("[1]", {"malformed_arguments": "[1]"}),
        ('{"a": NaN}', {"malformed_arguments": '{"a": NaN}'}),
        ('{"a": 1e999}', {"malformed_arguments": '{"a": 1e999}'}),
        ("[" * 100_000, {"malformed_arguments": "[" * 100_000}),
        ("", {"malformed_arguments": ""}),
    ],
)
def test_arguments_are_always_an_object(arguments: Any, value: Any) -> None:
    assert arguments_object(arguments) == value


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_an_answer_that_was_cut_in_a_server_tool_does_not_spoil_the_conversation(kind: str) -> None:
    """The provider refuses its own call without its result, except where the answer may still go on."""
    use = {"type": kind, "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}

    def own(*blocks: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(ProviderPart(provider="anthropic", type=block["type"], data=block) for block in blocks)

    def answer(*blocks: dict[str, Any], calls: tuple[ToolCall, ...] = ()) -> AssistantMessage:
        return AssistantMessage(content=(TextPart(text="So"), *own(*blocks)), tool_calls=calls)

    ask, go_on = UserMessage(content="a"), UserMessage(content="b")
    assert sent(ask, answer(thinking, use), go_on)[1]["content"] == [text("So")]
    assert sent(ask, answer(use, found), go_on)[1]["content"] == [text("So"), use, found]
    assert sent(ask, answer(use))[1]["content"] == [text("So"), use]
    # Beside a call of the client the result comes with the next answer.
    call = ToolCall("find", {}, "c1")
    result = ToolMessage(call_id="c1", name="find", content="x")
    later = AssistantMessage(content=(*own(found), TextPart(text="Found.")))
    messages = sent(ask, answer(use, calls=(call,)), result, later, go_on)
    assert messages[1]["content"][1] == use and messages[3]["content"][0] == found


def test_a_provider_part_without_a_type() -> None:
    part = ProviderPart(provider="anthropic", type="note", data={"a": 1})
    cited = ProviderPart(provider="anthropic", type="citations", data=[])
    assert sent(UserMessage(content="a"), AssistantMessage(content=(part, cited)))[1]["content"] == [{"a": 1}]


def test_a_long_address_is_not_shown_whole() -> None:
    with pytest.raises(ConfigurationError) as caught:
        content(ImagePart(url="data:image/svg+xml,<svg>" + "x" * 10_000))
    assert len(str(caught.value)) < 400
