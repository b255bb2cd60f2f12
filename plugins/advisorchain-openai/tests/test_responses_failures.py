"""Failures of the Responses API, in answers and in the middle of streams, and setting the model up."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
import trio

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ConfigurationError,
    ModelError,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from advisorchain_openai import OpenAIModel, OpenAIResponsesModel
from advisorchain_openai.clients import client_settings

if TYPE_CHECKING:
    from aimock import Aimock


def says(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


async def failure(run: Any, client: ChatClient) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await run(client, "hello")
    assert caught.value.provider == "openai"
    return caught.value


# In the middle of things ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        ("server_error", True),
        ("rate_limit_exceeded", True),
        ("vector_store_timeout", True),
        ("something_new", True),
        ("invalid_prompt", False),
        ("insufficient_quota", False),
        ("context_length_exceeded", False),
        ("image_content_policy_violation", False),
    ],
)
@pytest.mark.parametrize("form", ["failed", "flat", "nested", "bare"])
async def test_an_error_in_the_middle_of_a_stream(
    recorded: Any, gpt: Any, response: Any, events: Any, as_bytes: Any, form: str, code: str, transient: bool
) -> None:
    *started, last = events(response(says("Hello!")))
    error = {"code": code, "message": "Sorry, sk-secret-1."}
    event = {
        "failed": {"type": "response.failed", "response": {**last["response"], "status": "failed", "error": error}},
        "flat": {"type": "error", "param": None, **error},
        "nested": {"type": "error", "error": {**error, "type": "some_error"}},
        "bare": {"type": "", "error": error},
    }[form]
    recorded.load(as_bytes(*started, event))
    seen: list[Any] = []
    async with gpt(api_key="sk-secret-1") as model:
        with pytest.raises(ModelError) as caught:
            async with ChatClient(model).stream("hello") as stream:
                async for one in stream:
                    seen.append(one)
    assert str(caught.value) == "openai: Sorry, ***." and caught.value.provider == "openai"
    assert caught.value.transient is transient and caught.value.status is None
    assert "".join(one.text for one in seen if isinstance(one, TextDelta)) == "Hello!"


async def test_a_response_that_failed(recorded: Any, gpt: Any, response: Any, run: Any) -> None:
    error = {"code": "server_error", "message": "An error occurred."}
    async with gpt() as model:
        recorded.load(response(says("Half"), status="failed", error=error))
        found = await failure(run, ChatClient(model))
        assert str(found) == "openai: An error occurred." and found.transient
        recorded.load(response(status="cancelled"))
        assert "status 'cancelled'" in str(await failure(run, ChatClient(model)))


async def test_a_response_in_the_background(recorded: Any, gpt: Any, response: Any) -> None:
    recorded.load(response(status="queued"))
    async with gpt() as model:
        with pytest.raises(ModelError, match="in the background cannot be read") as caught:
            await ChatClient(model).call("hello")
    assert not caught.value.transient


async def test_a_stream_that_ends_too_early(recorded: Any, gpt: Any, response: Any, events: Any, as_bytes: Any) -> None:
    whole = events(response(says("Hello!")))
    async with gpt() as model:
        for length in range(1, len(whole)):
            recorded.load(as_bytes(*whole[:length]))
            with pytest.raises(ModelError, match="cut before the answer was complete") as caught:
                async with ChatClient(model).stream("hello") as stream:
                    await stream.response()
            assert caught.value.transient


async def test_no_response_at_all(recorded: Any, gpt: Any, run: Any) -> None:
    recorded.load({"detail": "who knows"})
    async with gpt() as model:
        assert "the answer has no output" in str(await failure(run, ChatClient(model)))
        recorded.load(b"")
        await failure(run, ChatClient(model))
        recorded.load(b"data: [1]\n\n")
        await failure(run, ChatClient(model))
        recorded.load(b"data: {\n\n")
        await failure(run, ChatClient(model))
        recorded.load(b"data: " + b"[" * 100_000 + b"\n\n")
        await failure(run, ChatClient(model))


@pytest.mark.parametrize(
    ("status", "headers", "code", "transient", "retry_after"),
    [
        (429, {"retry-after": "12"}, "rate_limit_exceeded", True, 12.0),
        (429, {}, "insufficient_quota", False, None),
        (500, {"x-should-retry": "false"}, None, False, None),
        (503, {"retry-after-ms": "1500"}, None, True, 1.5),
        (400, {}, None, False, None),
    ],
)
async def test_when_to_come_back(
    recorded: Any, gpt: Any, run: Any, status: int, headers: dict[str, str], code: Any, transient: bool,
    retry_after: float | None,
) -> None:  # fmt: skip
    recorded.load((status, headers, {"error": {"message": "Not now, sk-12.", "type": "some_error", "code": code}}))
    async with gpt(api_key="sk-12") as model:
        found = await failure(run, ChatClient(model))
    assert (found.status, found.transient, found.retry_after) == (status, transient, retry_after)
    assert str(found) == f"openai: HTTP {status}: Not now, ***."
    assert len(recorded.bodies) == 1, "it never retries"


async def test_the_key_is_nowhere_in_the_traceback(
    aimock: Aimock, responder: OpenAIResponsesModel, run: Any, api_key: str
) -> None:
    error = {"message": f"Incorrect API key provided: {api_key}.", "type": "invalid_request_error"}
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"error": error, "status": 401}}])
    found = await failure(run, ChatClient(responder))
    assert "Incorrect API key provided: ***." in str(found) and found.status == 401
    assert api_key not in "".join(traceback.format_exception(found))
    assert api_key not in repr(responder) + repr(vars(found))


async def test_a_cut_stream(aimock: Aimock, responder: OpenAIResponsesModel) -> None:
    text = "This stream is going to be cut in the middle of things, after some chunks."
    fixture = {"match": {"userMessage": "hello"}, "response": {"content": text}, "chunkSize": 6, "latency": 30}
    aimock.load([{**fixture, "truncateAfterChunks": 9}])
    seen = ""
    with pytest.raises(ModelError, match="cut") as caught:
        async with ChatClient(responder).stream("hello") as stream:
            async for piece in stream.text():
                seen += piece
    assert caught.value.transient and caught.value.status is None
    assert seen and text.startswith(seen) and seen != text


async def test_a_dropped_connection_and_a_broken_answer(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x"}}])
    for chaos in ("Disconnect", "Malformed"):
        headers = {f"X-AIMock-Chaos-{chaos}": "1"}
        async with OpenAIResponsesModel("gpt-4o", base_url=aimock.openai_url, headers=headers) as model:
            assert (await failure(run, ChatClient(model))).transient


async def test_nobody_listens(run: Any, free_tcp_port: int) -> None:
    async with OpenAIResponsesModel("gpt-4o", base_url=f"http://127.0.0.1:{free_tcp_port}/v1") as model:
        found = await failure(run, ChatClient(model))
    assert found.transient and "no connection" in str(found)


async def test_a_call_takes_too_long(aimock: Aimock, responder: OpenAIResponsesModel, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "x" * 40}, "chunkSize": 2}])
    aimock.delay(2_000)
    with pytest.raises(ModelError, match=r"no whole answer within 0\.2 s") as caught:
        await run(ChatClient(responder, options={"timeout": 0.2}), "hello")
    assert caught.value.transient


# Words that are no secret, and characters that cannot be sent: both models -------------------------------------------

MODELS = [OpenAIModel, OpenAIResponsesModel]


def done(kind: type, text: str) -> bytes | dict[str, Any]:
    """An answer of either API, as events."""
    if kind is OpenAIModel:
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
        return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    response = {"id": "resp_1", "status": "completed", "output": [says(text)]}
    return f"data: {json.dumps({'type': 'response.completed', 'response': response})}\n\n".encode()


@pytest.mark.parametrize("kind", MODELS)
async def test_a_server_without_a_key_keeps_its_words(
    recorded: Any, run: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    error = {"error": {"type": "invalid_request_error", "message": "none of these"}}
    for key in (None, "none"):
        recorded.load((400, {}, error))
        async with kind("local", base_url=recorded.url, api_key=key) as model:
            assert str(await failure(run, ChatClient(model))) == "openai: HTTP 400: none of these"
        recorded.load(b"data: " + json.dumps(error).encode() + b"\n\n")
        async with kind("local", base_url=recorded.url, api_key=key) as model:
            with pytest.raises(ModelError, match="none of these"):
                async with ChatClient(model).stream("hello") as stream:
                    await stream.response()


@pytest.mark.parametrize("kind", MODELS)
async def test_halves_of_characters_do_not_end_the_turn(recorded: Any, kind: Any) -> None:
    """In whatever a request holds: texts, arguments, what tools returned, options, and what the provider gave."""
    half = "half \ud83d"
    call = AssistantMessage(content=half, tool_calls=(ToolCall("look", {half: [half, 1, None]}, "c1"),))
    result = ToolMessage(call_id="c1", name="look", content=half)
    recorded.load(done(kind, "Hi."))
    options = {"extra": {"user": half, "metadata": {half: half}}}
    async with kind("gpt-4o", base_url=recorded.url, api_key="k") as model:
        client = ChatClient(model, system=half, options=options)
        async with client.stream([UserMessage(content="a"), call, result, UserMessage(content=half)]) as stream:
            assert (await stream.response()).text == "Hi."
    body = json.dumps(recorded.bodies[0], ensure_ascii=False)
    body.encode()
    assert body.count("half ?") >= 8 and "\ud83d" not in body
    assert call.tool_calls[0].arguments == {half: [half, 1, None]} and options["extra"]["user"] == half


@pytest.mark.parametrize("kind", MODELS)
async def test_what_cannot_be_written_is_said(recorded: Any, run: Any, kind: Any) -> None:
    recorded.load(done(kind, "Hi."))
    async with kind("gpt-4o", base_url=recorded.url, api_key="k") as model:
        for value in (float("nan"), object()):
            with pytest.raises(ConfigurationError, match="cannot send this request"):
                await run(ChatClient(model, options={"extra": {"x": value}}), "hello")


@pytest.mark.parametrize("kind", MODELS)
async def test_secrets_of_an_address_are_not_shown(recorded: Any, run: Any, kind: Any) -> None:
    for url in ("http://ann:hunter22@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=hunter22"):
        async with kind("x", base_url=url, api_key="k") as model:
            found = await failure(run, ChatClient(model))
        assert "no connection to http://127.0.0.1:1/v1" in str(found) and "hunter22" not in str(found)
    recorded.load(b"data: {}\n\n")
    url = recorded.url.replace("http://", "http://ann:hunter22@")
    async with kind("x", base_url=url, api_key="k") as model:
        with pytest.raises(ModelError, match="is base_url right") as caught:
            await ChatClient(model).call("hello")
    assert "hunter22" not in str(caught.value)
    with pytest.raises(ConfigurationError) as refused:
        kind("x", base_url="ann:hunter22@x.example", api_key="k")
    assert "hunter22" not in str(refused.value)


# Setting up ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_a_key_that_no_header_can_hold(kind: Any) -> None:
    for key in ("sk-schlüssel", "sk-1234\n"):
        with pytest.raises(ConfigurationError, match="no HTTP header can hold") as caught:
            kind("gpt-4o", api_key=key)
        assert key.strip() not in str(caught.value)


@pytest.mark.parametrize("kind", MODELS)
def test_where_the_server_is(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def server(**settings: Any) -> tuple[Any, Any]:
        model = kind("gpt-4o", **settings)
        return model.server_address, model.server_port

    assert server(api_key="k") == ("api.openai.com", 443)
    assert server(base_url="http://localhost:8080/v1") == ("localhost", 8080)
    assert server(base_url="http://[::1]/v1") == ("::1", 80)
    assert server(base_url="http://localhost:port/v1") == (None, None)
    assert server(client=lambda: openai.AsyncOpenAI(api_key="k")) == (None, None)
    azure = openai.AsyncAzureOpenAI(api_key="k", azure_endpoint="https://mine.openai.azure.com", api_version="v1")
    assert server(client=azure) == ("mine.openai.azure.com", 443)


async def test_where_the_server_of_a_function_is(aimock: Aimock, responder: OpenAIResponsesModel) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    assert responder.server_address is None
    await ChatClient(responder).call("hello")
    assert f"http://{responder.server_address}:{responder.server_port}/v1" == aimock.openai_url
    assert responder.provider == "openai"


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="give OpenAIResponsesModel api_key"):
        OpenAIResponsesModel("gpt-5-mini")
    OpenAIResponsesModel("llama", base_url="http://localhost:8080/v1")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": ""}, "name of a model"),
        ({"timeout": 0}, "timeout"),
        ({"base_url": "localhost:8080"}, "http://"),
        ({"options": {"temprature": 1}}, "temperature"),
        ({"client": lambda: None}, "OpenAIResponsesModel takes either client="),
        ({"client": "https://x", "api_key": None}, "client= takes an AsyncOpenAI"),
        ({"server_tools": ["web_search"]}, r"\{'type': 'web_search'\}"),
        ({"server_tools": [{"type": "function", "name": "f"}]}, "give it in tools="),
        ({"server_tools": [{"type": "local_shell"}]}, "'local_shell' is not"),
        ({"server_tools": [{"type": "shell"}]}, "without a container"),
        ({"server_tools": [{"type": "tool_search", "execution": "client"}]}, "the application's to run"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        OpenAIResponsesModel(**{"model": "gpt-5-mini", "api_key": "k", **arguments})


def test_server_tools_that_run_at_the_provider() -> None:
    shell = {"type": "shell", "environment": {"type": "container_auto"}}
    OpenAIResponsesModel("gpt-5-mini", api_key="k", server_tools=[shell, {"type": "tool_search"}])


async def test_a_client_of_ones_own(aimock: Aimock, run: Any) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"error": {"message": "no"}, "status": 500}}])
    async with openai.AsyncOpenAI(base_url=aimock.openai_url, api_key="k", max_retries=3) as client:
        model = OpenAIResponsesModel("gpt-4o", client=client)
        await failure(run, ChatClient(model))
        assert len(aimock.journal()) == 1, "it never retries"
        await model.aclose()
        assert not client.is_closed()


def test_one_model_on_several_event_loops_leaves_nothing_open(aimock: Aimock) -> None:
    aimock.load([{"match": {"userMessage": "hello"}, "response": {"content": "hi"}}])
    client = ChatClient(OpenAIResponsesModel("gpt-4o", base_url=aimock.openai_url))

    async def ask() -> None:
        assert (await client.call("hello")).text == "hi"
        async with client.stream("hello") as stream:
            assert (await stream.response()).text == "hi"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for loop in itertools.chain.from_iterable([(asyncio.run, trio.run)] * 2):
            loop(ask() if loop is asyncio.run else ask)
        assert client.call_sync("hello").text == "hi"
        gc.collect()
    assert not [str(warning.message) for warning in caught]


# The SDK cannot take its half-made client down.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("proxy", ["ftp://ann:hunter2@localhost:1", "http://ann:hunter2/b@localhost:1"])
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    make = client_settings("OpenAIModel", "k", None, None).make
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY") as caught:
        make()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    del caught
    gc.collect()  # here, where the warning is let through


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as above
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    make = client_settings("OpenAIModel", "k", None, None).make
    with pytest.raises(ConfigurationError, match="SSL_CERT_FILE") as caught:
        make()
    assert "PROXY" not in str(caught.value)
    del caught
    gc.collect()  # here, where the warning is let through
