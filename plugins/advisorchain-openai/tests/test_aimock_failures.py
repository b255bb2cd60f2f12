"""Failures of a real server, and setting the model up."""

from __future__ import annotations

import asyncio
import gc
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import openai
import pytest
import trio

from advisorchain import ChatClient, ConfigurationError, ModelError
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock


def fails(status: int, message: str = "no", **more: Any) -> dict[str, Any]:
    error = {"message": message, "type": more.pop("type", "api_error"), **more.pop("error", {})}
    return {"match": {"userMessage": "hello"}, "response": {"error": error, "status": status, **more}}


async def failure(run: Any, client: ChatClient) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await run(client, "hello")
    assert caught.value.provider == "openai"
    return caught.value


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        (400, False), (401, False), (403, False), (404, False), (408, True), (409, True), (422, False), (429, True),
        (500, True), (502, True), (503, True),
    ],
)  # fmt: skip
async def test_status(aimock: Aimock, model: OpenAIModel, run: Any, status: int, transient: bool) -> None:
    aimock.load([fails(status, "out of order")])
    error = await failure(run, ChatClient(model))
    assert (error.status, error.transient) == (status, transient)
    assert str(error) == f"openai: HTTP {status}: out of order"
    assert isinstance(error.__cause__, openai.APIStatusError)
    assert len(aimock.journal()) == 1, "it never retries"


async def test_rate_limit_says_when_to_come_back(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([fails(429, "slow down", retryAfter=17)])
    error = await failure(run, ChatClient(model))
    assert error.transient and error.retry_after == 17.0


async def test_no_quota_is_not_transient(aimock: Aimock, model: OpenAIModel, run: Any) -> None:
    aimock.load([fails(429, "You exceeded your current quota", error={"code": "insufficient_quota"})])
    assert not (await failure(run, ChatClient(model))).transient


async def test_the_key_is_nowhere_in_the_traceback(aimock: Aimock, model: OpenAIModel, run: Any, api_key: str) -> None:
    aimock.load([fails(401, f"Incorrect API key provided: {api_key}.")])
    error = await failure(run, ChatClient(model))
    assert "Incorrect API key provided: ***." in str(error)
    assert api_key not in "".join(traceback.format_exception(error))
    assert api_key not in repr(model) + repr(vars(error))


async def test_a_cut_stream(aimock: Aimock, model: OpenAIModel) -> None:
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
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, headers=headers) as model:
        error = await failure(run, ChatClient(model))
    assert error.transient


async def test_a_dropped_connection(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    headers = {"X-AIMock-Chaos-Disconnect": "1"}
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, headers=headers) as model:
        error = await failure(run, ChatClient(model))
    assert error.transient and error.status is None
    assert aimock.openai_url in str(error)


async def test_nobody_listens(run: Any, free_tcp_port: int) -> None:
    async with OpenAIModel("gpt-4o", base_url=f"http://127.0.0.1:{free_tcp_port}/v1") as model:
        error = await failure(run, ChatClient(model))
    assert error.transient and "no connection" in str(error)
    assert isinstance(error.__cause__, openai.APIConnectionError)


async def test_a_wrong_base_url(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    async with OpenAIModel("gpt-4o", base_url=aimock.address + "/__aimock") as model:
        error = await failure(run, ChatClient(model))
    assert error.status == 404 and not error.transient


# Setting up ----------------------------------------------------------------------------------------------------------


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt-5-mini")
    OpenAIModel("gpt-5-mini", api_key="k")
    OpenAIModel("llama", base_url="http://localhost:8080/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8080/v1")
    OpenAIModel("llama")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": ""}, "name of a model"),
        ({"timeout": 0}, "timeout"),
        ({"base_url": "localhost:8080"}, "http://"),
        ({"options": {"temprature": 1}}, "temperature"),
        ({"client": lambda: None, "headers": {"a": "b"}}, "either client="),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        OpenAIModel(
            **{"model": "gpt-5-mini", "api_key": None, "base_url": "http://localhost/v1", **arguments}
            if "client" not in arguments
            else {"model": "gpt-5-mini", **arguments}
        )


async def test_a_client_of_ones_own(aimock: Aimock, run: Any) -> None:
    aimock.load([fails(500)])
    async with openai.AsyncOpenAI(base_url=aimock.openai_url, api_key="k", max_retries=3) as client:
        model = OpenAIModel("gpt-4o", client=client)
        await failure(run, ChatClient(model))
        assert len(aimock.journal()) == 1, "it never retries"
        await model.aclose()
        assert not client.is_closed()
    made: list[openai.AsyncOpenAI] = []

    def make() -> openai.AsyncOpenAI:
        made.append(openai.AsyncOpenAI(base_url=aimock.openai_url, api_key="k"))
        return made[-1]

    async with OpenAIModel("gpt-4o", client=make) as model:
        await failure(run, ChatClient(model))
        await failure(run, ChatClient(model))
    assert len(made) == 1 and made[0].is_closed()


async def test_closing_and_going_on(aimock: Aimock, model: OpenAIModel) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    client = ChatClient(model)
    for _ in range(2):
        assert (await client.call("hello")).text == "hi"
        await model.aclose()
        await model.aclose()


def test_one_model_on_several_event_loops_leaves_nothing_open(aimock: Aimock) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    client = ChatClient(OpenAIModel("gpt-4o", base_url=aimock.openai_url))

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

    (entry,) = entry_points(group="advisorchain.models", name="openai")
    assert entry.load() is OpenAIModel
