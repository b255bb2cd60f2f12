"""Failures of a real server, and setting the model up."""

from __future__ import annotations

import asyncio
import gc
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
import trio

from advisorchain import ChatClient, ConfigurationError, ModelError
from advisorchain.advisors import RetryAdvisor, RetryPolicy
from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from aimock import Aimock


def fails(status: int, message: str = "no", **more: Any) -> dict[str, Any]:
    error = {"message": message, "type": more.pop("type", "api_error"), **more.pop("error", {})}
    return {"match": {"userMessage": "hello"}, "response": {"error": error, "status": status, **more}}


async def failure(run: Any, client: ChatClient) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await run(client, "hello")
    assert caught.value.provider == "anthropic"
    return caught.value


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        (400, False), (401, False), (403, False), (404, False), (408, True), (409, True), (422, False), (429, True),
        (500, True), (502, True), (503, True), (529, True),
    ],
)  # fmt: skip
async def test_status(aimock: Aimock, model: AnthropicModel, run: Any, status: int, transient: bool) -> None:
    aimock.load([fails(status, "out of order")])
    error = await failure(run, ChatClient(model))
    assert (error.status, error.transient) == (status, transient)
    assert str(error) == f"anthropic: HTTP {status}: out of order"
    assert isinstance(error.__cause__, anthropic.APIStatusError)
    assert len(aimock.journal()) == 1, "it never retries"


async def test_rate_limit_says_when_to_come_back(aimock: Aimock, model: AnthropicModel, run: Any) -> None:
    aimock.load([fails(429, "slow down", retryAfter=17)])
    error = await failure(run, ChatClient(model))
    assert error.transient and error.retry_after == 17.0


async def test_the_key_is_nowhere_in_the_traceback(
    aimock: Aimock, model: AnthropicModel, run: Any, api_key: str
) -> None:
    aimock.load([fails(401, f"Incorrect API key provided: {api_key}.")])
    error = await failure(run, ChatClient(model))
    assert "Incorrect API key provided: ***." in str(error)
    assert api_key not in "".join(traceback.format_exception(error))
    assert api_key not in repr(model) + repr(vars(error))


async def test_a_cut_stream(aimock: Aimock, model: AnthropicModel) -> None:
    text = "This stream is going to be cut in the middle of things, after some chunks."
    aimock.load([
        {"match": {"userMessage": "hello"}, "response": {"content": text}, "chunkSize": 6, "latency": 30,
         "truncateAfterChunks": 4},
    ])  # fmt: skip
    seen = ""
    with pytest.raises(ModelError, match="cut") as caught:
        async with ChatClient(model).stream("hello") as stream:
            async for piece in stream.text():
                seen += piece
    assert caught.value.transient and caught.value.status is None
    assert seen and text.startswith(seen) and seen != text


async def test_a_broken_answer(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    headers = {"X-AIMock-Chaos-Malformed": "1"}
    async with AnthropicModel("claude-sonnet-5", base_url=aimock.anthropic_url, headers=headers) as model:
        error = await failure(run, ChatClient(model))
    assert error.transient


async def test_a_dropped_connection(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    headers = {"X-AIMock-Chaos-Disconnect": "1"}
    async with AnthropicModel("claude-sonnet-5", base_url=aimock.anthropic_url, headers=headers) as model:
        error = await failure(run, ChatClient(model))
    assert error.transient and error.status is None
    assert aimock.anthropic_url in str(error)


async def test_nobody_listens(run: Any, free_tcp_port: int) -> None:
    async with AnthropicModel("claude-sonnet-5", base_url=f"http://127.0.0.1:{free_tcp_port}") as model:
        error = await failure(run, ChatClient(model))
    assert error.transient and "no connection" in str(error)
    assert isinstance(error.__cause__, anthropic.APIConnectionError)


async def test_a_wrong_base_url(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    async with AnthropicModel("claude-sonnet-5", base_url=aimock.address + "/__aimock") as model:
        error = await failure(run, ChatClient(model))
    assert error.status == 404 and not error.transient


async def test_the_retry_advisor_alone_retries(aimock: Aimock, model: AnthropicModel, run: Any) -> None:
    aimock.load([fails(529, "Overloaded", type="overloaded_error")])
    retry = RetryAdvisor(model=RetryPolicy(attempts=3, wait=0.001))
    error = await failure(run, ChatClient(model, advisors=[retry]))
    assert error.status == 529 and len(aimock.journal()) == 3


# Setting up ----------------------------------------------------------------------------------------------------------


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        AnthropicModel("claude-sonnet-5")
    AnthropicModel("claude-sonnet-5", api_key="k")
    AnthropicModel("llama", base_url="http://localhost:8080")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:8080")
    AnthropicModel("llama")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    AnthropicModel("claude-sonnet-5")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": ""}, "name of a model"),
        ({"timeout": 0}, "timeout"),
        ({"base_url": "localhost:8080"}, "http://"),
        ({"base_url": "http://localhost:8080/v1/"}, "without /v1"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"cache": "sytem"}, "'sytem'"),
        ({"cache": ["tools", 1]}, "not 1"),
        ({"cache_ttl": "2h"}, "cache_ttl"),
        ({"client": "claude"}, "AsyncAnthropic"),
        ({"options": {"temprature": 1}}, "temperature"),
        ({"client": lambda: None, "headers": {"a": "b"}}, "either client="),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AnthropicModel(
            **{"model": "claude-sonnet-5", "api_key": None, "base_url": "http://localhost", **arguments}
            if "client" not in arguments
            else {"model": "claude-sonnet-5", **arguments}
        )


async def test_a_client_of_ones_own(aimock: Aimock, run: Any) -> None:
    aimock.load([fails(500)])
    async with anthropic.AsyncAnthropic(base_url=aimock.anthropic_url, api_key="k", max_retries=3) as client:
        model = AnthropicModel("claude-sonnet-5", client=client)
        await failure(run, ChatClient(model))
        assert len(aimock.journal()) == 1, "it never retries"
        await model.aclose()
        assert not client.is_closed()
    made: list[anthropic.AsyncAnthropic] = []

    def make() -> anthropic.AsyncAnthropic:
        made.append(anthropic.AsyncAnthropic(base_url=aimock.anthropic_url, api_key="k"))
        return made[-1]

    async with AnthropicModel("claude-sonnet-5", client=make) as model:
        await failure(run, ChatClient(model))
        await failure(run, ChatClient(model))
    assert len(made) == 1 and made[0].is_closed()


async def test_closing_and_going_on(aimock: Aimock, model: AnthropicModel) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    client = ChatClient(model)
    for _ in range(2):
        assert (await client.call("hello")).text == "hi"
        await model.aclose()
        await model.aclose()


def test_one_model_on_several_event_loops_leaves_nothing_open(aimock: Aimock) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    client = ChatClient(AnthropicModel("claude-sonnet-5", base_url=aimock.anthropic_url))

    async def ask() -> None:
        assert (await client.call("hello")).text == "hi"
        async with client.stream("hello") as stream:
            assert (await stream.response()).text == "hi"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            asyncio.run(ask())
            trio.run(ask)
        assert client.call_sync("hello").text == "hi"
        gc.collect()
    assert not [str(warning.message) for warning in caught]


def test_plugin_is_found_by_name() -> None:
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="advisorchain.models", name="anthropic")
    assert entry.load() is AnthropicModel
