"""Failures in the forms in which the provider was recorded, in answers and in the middle of streams."""

from __future__ import annotations

import gc
import itertools
import json
import traceback
from typing import Any

import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ConfigurationError,
    ModelError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
    tool,
)
from advisorchain_anthropic import AnthropicModel
from advisorchain_anthropic.clients import client_factory

THINKING = {"type": "thinking", "thinking": "Shall I look it up? I shall.", "signature": "EqQBCgIYAhIM"}
SPENT = {"error_code": "enforced_spend_limit_reached"}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use() -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Paris"}}


def user(words: str) -> UserMessage:
    return UserMessage(content=words)


@tool
def look(city: str) -> str:
    """Look it up."""
    return f"18 degrees in {city}"


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, True),
        ({"type": "rate_limit_error", "message": "Too many"}, True),
        ({"type": "api_error", "message": "Internal server error"}, True),
        ({"type": "invalid_request_error", "message": "Bad"}, False),
        ({"type": "rate_limit_error", "message": "Spent", "details": SPENT}, False),
    ],
)  # fmt: skip
async def test_an_error_in_the_middle_of_a_stream(
    recorded: Any, claude: Any, as_bytes: Any, message: Any, events: Any, error: dict[str, Any], transient: bool
) -> None:
    started = list(itertools.takewhile(lambda event: event["type"] != "message_delta", events(message(text("Hello!")))))
    recorded.load(as_bytes(*started, {"type": "error", "error": error, "request_id": "req_1"}))
    seen: list[Any] = []
    async with claude() as model:
        with pytest.raises(ModelError) as caught:
            async with ChatClient(model).stream("hello") as stream:
                async for event in stream:
                    seen.append(event)
    assert str(caught.value) == f"anthropic: {error['message']}" and caught.value.provider == "anthropic"
    assert caught.value.transient is transient and caught.value.status is None
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Hello!"


@pytest.mark.parametrize(
    ("status", "headers", "details", "transient", "retry_after"),
    [
        (429, {"retry-after": "12"}, None, True, 12.0),
        (429, {"retry-after-ms": "1500", "retry-after": "2"}, {"error_code": "ramp_limit_exceeded"}, True, 1.5),
        (429, {}, SPENT, False, None),
        (500, {"x-should-retry": "false"}, None, False, None),
        (400, {"x-should-retry": "true"}, None, True, None),
        (529, {}, None, True, None),
    ],
)
async def test_when_to_come_back(
    recorded: Any, claude: Any, run: Any, status: int, headers: dict[str, str], details: Any, transient: bool,
    retry_after: float | None,
) -> None:  # fmt: skip
    error = {"type": "some_error", "message": "Not now, sk-1.", "details": details}
    recorded.load((status, headers, {"type": "error", "error": error, "request_id": "req_1"}))
    async with claude(api_key="sk-1") as model:
        with pytest.raises(ModelError) as caught:
            await run(ChatClient(model), "hello")
    found = caught.value
    assert (found.status, found.transient, found.retry_after) == (status, transient, retry_after)
    assert str(found) == f"anthropic: HTTP {status}: Not now, ***."
    assert len(recorded.bodies) == 1, "it never retries"


async def test_a_server_without_a_key_keeps_its_words(recorded: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    recorded.load((400, {}, {"type": "error", "error": {"type": "invalid_request_error", "message": "none of these"}}))
    async with AnthropicModel("local", base_url=recorded.url) as model:
        with pytest.raises(ModelError, match="none of these"):
            await run(ChatClient(model), "hello")


async def test_a_stream_that_ends_too_early(
    recorded: Any, claude: Any, as_bytes: Any, message: Any, events: Any
) -> None:
    whole = events(message(THINKING, text("Hello!"), use()))
    async with claude() as model:
        for length in range(1, len(whole)):
            recorded.load(as_bytes(*whole[:length]))
            with pytest.raises(ModelError, match="cut before the answer was complete") as caught:
                async with ChatClient(model).stream("hello") as stream:
                    await stream.response()
            assert caught.value.transient


async def test_no_message_at_all(recorded: Any, claude: Any, as_bytes: Any, run: Any) -> None:
    recorded.load({"detail": "who knows"})
    async with claude() as model:
        with pytest.raises(ModelError) as caught:
            await run(ChatClient(model), "hello")
        recorded.load(b"")
        with pytest.raises(ModelError) as caught:
            await run(ChatClient(model), "hello")
    assert caught.value.provider == "anthropic"


async def test_a_server_that_cannot_stream(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(THINKING, text("Hi."), use(), stop_reason="tool_use"), message(text("Done.")))
    recorded.can_stream = False
    try:
        async with claude() as model:
            response = await run(ChatClient(model, tools=[look]), "hello")
    finally:
        recorded.can_stream = True
    assert response.text == "Done."
    if run.mode == "stream":
        deltas = [event for event in run.events if isinstance(event, ToolCallDelta)]
        assert json.loads("".join(delta.arguments for delta in deltas)) == {"city": "Paris"}


async def test_what_cannot_be_written(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(text("Hi.")))
    call = AssistantMessage(tool_calls=(ToolCall("look", {"city": float("nan")}, "c1"),))
    async with claude() as model:
        with pytest.raises(ConfigurationError, match="cannot send this request"):
            await run(ChatClient(model), [user("a"), call, ToolMessage(call_id="c1", name="look", content="x")])
        half = "half \ud83d"
        await run(ChatClient(model, system=half), half)
        result = ToolMessage(call_id="c1", name="look", content=half)
        await run(ChatClient(model), [user("a"), AssistantMessage(tool_calls=(ToolCall("look", {}, "c1"),)), result])
    assert recorded.bodies[0]["system"] == recorded.bodies[0]["messages"][0]["content"][0]["text"] == "half ?"
    assert recorded.bodies[1]["messages"][2]["content"][0]["content"] == "half ?"


async def test_the_key_goes_where_the_sdk_puts_it(recorded: Any, claude: Any, message: Any, run: Any) -> None:
    recorded.load(message(text("Hi.")))
    async with claude(api_key="sk-1", headers={"anthropic-beta": "x-1"}) as model:
        await run(ChatClient(model), "hello")
    headers = {name.lower(): value for name, value in recorded.headers[0].items()}
    assert "sk-1" in headers.get("authorization", "") + headers.get("x-api-key", "")
    assert headers["anthropic-beta"] == "x-1" and headers["anthropic-version"]


async def test_json_that_is_too_deep(recorded: Any, claude: Any, message: Any, as_bytes: Any) -> None:
    recorded.load(b"data: " + b"[" * 100_000 + b"\n\n")
    async with claude() as model:
        with pytest.raises(ModelError, match="no valid JSON"):
            async with ChatClient(model).stream("hello") as stream:
                await stream.response()


async def test_secrets_of_an_address_are_not_shown(run: Any, recorded: Any, message: Any) -> None:
    place = recorded.url.removeprefix("http://")
    for url in ("http://ann:hunter22@127.0.0.1:1", "http://127.0.0.1:1/proxy?key=hunter22"):
        async with AnthropicModel("x", base_url=url, api_key="k") as model:
            with pytest.raises(ModelError, match=r"no connection to http://127\.0\.0\.1:1\b") as caught:
                await run(ChatClient(model), "hello")
        assert "hunter22" not in str(caught.value)
    recorded.load(b"data: {}\n\n")
    async with AnthropicModel("x", base_url=f"http://ann:hunter22@{place}", api_key="k") as model:
        with pytest.raises(ModelError, match="is base_url right") as caught:
            await ChatClient(model).call("hello")
    assert "hunter22" not in str(caught.value)
    for url in ("ann:hunter22@x.example", "http://ann:hunter22@x.example/v1"):
        with pytest.raises(ConfigurationError) as refused:
            AnthropicModel("x", base_url=url, api_key="k")
        assert "hunter22" not in str(refused.value)


# The SDK cannot take its half-made client down.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("proxy", ["ftp://ann:hunter2@localhost:1", "http://ann:hunter2/b@localhost:1"])
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    make = client_factory("k", None, None)
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY") as caught:
        make()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    del caught
    gc.collect()  # here, where the warning is let through
