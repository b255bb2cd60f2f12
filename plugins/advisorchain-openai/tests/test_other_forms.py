"""Answers in a form that they should not have: read as far as they can be, or a `ModelError`, and never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_answers import after, asked, other_forms

from advisorchain import ChatClient, ModelError
from advisorchain_openai import OpenAIModel

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
WHOLE = {
    "id": "chat_1", "model": "m", "usage": USAGE,
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"content": "Hm.", "tool_calls": [CALL]}}],
}  # fmt: skip
CHUNKS = [
    {
        "id": "chat_1",
        "choices": [{"index": 0, "delta": {"content": "Hm.", "reasoning_details": [{"text": "I look."}]}}],
    },
    {"id": "chat_1", "choices": [{"index": 0, "delta": {"tool_calls": [CALL]}}]},
    {"id": "chat_1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE},
]
ITEMS = (
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'},
)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_chat_completions(recorded: Any, as_bytes: Any) -> None:
    read = 0
    async with OpenAIModel("m", base_url=recorded.url, api_key="k") as model:
        for whole in other_forms(WHOLE):
            recorded.load(whole)
            read += await asked(ChatClient(model), "openai", streaming=False) is not None
        for chunks in other_forms(CHUNKS):
            recorded.load(as_bytes(*[chunk for chunk in chunks if isinstance(chunk, dict)]))
            read += await asked(ChatClient(model), "openai", streaming=True) is not None
    assert read > 100, "most of what is wrong decides nothing"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_responses_go_back_all_the_same(recorded: Any, gpt: Any, response: Any) -> None:
    read = 0
    async with gpt() as model:
        client = ChatClient(model)
        for whole in other_forms(response(*ITEMS)):
            for streaming in (False, True):
                recorded.load(whole)
                found = await asked(client, "openai", streaming=streaming)
                read += found is not None
                if found is not None and not streaming:
                    recorded.load(response(ITEMS[1]))
                    await client.call(after(found.message), tool_loop=False)
    assert read > 100, "most of what is wrong decides nothing"


@pytest.mark.parametrize("code", [{"a": 1}, ["a"], None, 7])
async def test_an_error_with_a_code_of_another_kind(recorded: Any, gpt: Any, run: Any, code: Any) -> None:
    error = {"error": {"message": "Not now.", "code": code, "type": code}}
    async with gpt() as model:
        for answer in (error, (500, {"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, error)):
            recorded.load(answer)
            with pytest.raises(ModelError, match=r"Not now\.") as caught:
                await run(ChatClient(model), "hello")
            assert caught.value.transient and caught.value.retry_after is None
