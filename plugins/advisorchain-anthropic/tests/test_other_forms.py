"""Answers in a form that they should not have: read as far as they can be, or a `ModelError`, and never a crash."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from recorded_answers import after, asked, other_forms

from advisorchain import ChatClient, ModelError

KEY = "sk-ant-very-secret-1234"
BLOCKS = (
    {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
    {"type": "text", "text": "I look."},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "a"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_messages_go_back_all_the_same(recorded: Any, claude: Any, message: Any) -> None:
    read = 0
    async with claude() as model:
        client = ChatClient(model)
        for whole in other_forms(message(*BLOCKS)):
            recorded.load(whole)
            found = await asked(client, "anthropic", streaming=False)
            if found is not None and found.stop_reason != "refused":
                read += 1
                recorded.load(message(BLOCKS[1]))
                await client.call(after(found.message), tool_loop=False)
    assert read > 100, "most of what is wrong decides nothing"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_events(recorded: Any, claude: Any, message: Any, events: Any, as_bytes: Any) -> None:
    read = 0
    async with claude() as model:
        client = ChatClient(model)
        for changed in other_forms(events(message(*BLOCKS[:2], *BLOCKS[4:]))):
            recorded.load(as_bytes(*[event for event in changed if isinstance(event, dict)]))
            read += await asked(client, "anthropic", streaming=True) is not None
    assert read > 100, "most of what is wrong decides nothing"


@pytest.mark.parametrize("code", [{"a": 1}, ["a"], None, 7])
async def test_an_error_with_a_code_of_another_kind(recorded: Any, claude: Any, run: Any, code: Any) -> None:
    error = {"type": "error", "error": {"message": "Not now.", "type": code, "details": {"error_code": code}}}
    async with claude() as model:
        for answer in (error, (500, {"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, error)):
            recorded.load(answer)
            with pytest.raises(ModelError, match=r"Not now\.") as caught:
                await run(ChatClient(model), "hello")
            assert caught.value.transient and caught.value.retry_after is None


@pytest.mark.parametrize(
    "said", [[KEY], {"key": KEY}, {KEY: 1}, f"{'x' * 490} {KEY}"], ids=["list", "object", "name", "cut"]
)
async def test_the_key_is_in_no_error_of_another_form(recorded: Any, claude: Any, run: Any, said: Any) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    async with claude(api_key=KEY) as model:
        for answer in (error, (400, {}, error)):
            recorded.load(answer)
            with pytest.raises(ModelError) as caught:
                await run(ChatClient(model), "hello")
            assert "sk-ant" not in "".join(traceback.format_exception(caught.value))
