"""What Gemini's compatible endpoint does differently, as its documentation and reports about it tell."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ToolMessage
from advisorchain_openai.answer import Answer
from advisorchain_openai.messages import chat_messages

SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def piece(name: str, call_id: str, **more: Any) -> dict[str, Any]:
    return {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}, **more}


@pytest.mark.parametrize("key", ["delta", "message"])
def test_the_signature_of_a_call_comes_back_to_gemini_only(key: str) -> None:
    answer = Answer("gemini")
    calls = [piece("look", "c1", extra_content=SIGNED), piece("book", "c2")]
    answer.add({"choices": [{"index": 0, key: {"tool_calls": calls}, "finish_reason": "stop"}]})
    message = answer.response().message
    assert [call.name for call in message.tool_calls] == ["look", "book"], "two calls, whatever index and reason say"
    messages = [message, *[ToolMessage(call_id=call.id, name=call.name, content="ok") for call in message.tool_calls]]
    first, second = chat_messages(messages, provider="gemini", send_reasoning=False)[0]["tool_calls"]
    assert first["extra_content"] == SIGNED and "extra_content" not in second
    for call in chat_messages(messages, provider="openai", send_reasoning=False)[0]["tool_calls"]:
        assert "extra_content" not in call
