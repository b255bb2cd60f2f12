"""`OpenAIModel`: chat completions through the official SDK."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, cast

import anyio
import openai
from openai import AsyncOpenAI

from advisorchain import ChatOptions, ChatRequest, ChatResponse, ConfigurationError, Message, ModelError

from .answer import Answer, Reading
from .clients import ClientPerLoop
from .failures import model_error, reported_error
from .messages import chat_messages
from .parameters import option_parameters, tool_parameters
from .prompted import prompted_format, prompted_messages, read_prompted
from .schema import read_wrapped, response_format
from .sse import EventDecoder

_OWN_HOST = "api.openai.com"
_CONNECT_TIMEOUT = 5.0
_CLOSING_TIMEOUT = 2.0


class OpenAIModel:
    """A `ChatModel` on the chat completions of OpenAI, or of any server that speaks them.

    It never retries (put a `RetryAdvisor` into the chain). It keeps one HTTP client per event loop, which is closed
    when the loop ends; ``await model.aclose()`` or ``async with model`` closes it earlier.

    Args:
        model: the model's name at its provider, for example ``"gpt-5-mini"``.
        api_key: the key; default: the environment's ``OPENAI_API_KEY``. Another server may need none.
        base_url: of a compatible server, for example ``"http://localhost:8080/v1"``; default: the environment's
            ``OPENAI_BASE_URL``, then OpenAI.
        options: default options (`ChatOptions` or a mapping), under those of the client and the call.
        timeout: seconds for one model call, from sending it to the end of the answer; None: no limit. The option
            ``timeout`` of a call takes its place.
        client: a client of the SDK (`AsyncAzureOpenAI` is one) instead of ``api_key``, ``base_url`` and ``headers``.
            Yours to close, and for one event loop; a function without arguments that makes one serves every loop.
        headers: HTTP headers of every request.
        provider: names the provider in errors, and tells whose provider parts may be sent; give another server
            another name.
        native_output: send an output type's schema as ``response_format``; False for a server without
            ``json_schema``: it is described in the instructions instead.
        stream_usage: ask for token counts under streaming; False for a server that refuses ``stream_options``.
        max_tokens_field: how the server calls ``max_tokens``; default: ``max_completion_tokens`` for OpenAI and Azure,
            whose reasoning models know no other, ``max_tokens`` for everybody else.
        prompted_tools: describe the tools in the instructions and let structured output choose one, for a model that
            has no tool calls on a server that enforces ``json_schema`` (llama.cpp, vLLM): one call per answer, and text
            is emitted when it is complete.
        send_reasoning: send earlier reasoning back as ``reasoning_content``, which some servers want and others refuse.

    Raises:
        ConfigurationError: there is no API key, or an argument is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        options: ChatOptions | Mapping[str, Any] | None = None,
        timeout: float | None = 600.0,
        client: AsyncOpenAI | Callable[[], AsyncOpenAI] | None = None,
        headers: Mapping[str, str] | None = None,
        provider: str = "openai",
        native_output: bool = True,
        stream_usage: bool = True,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        prompted_tools: bool = False,
        send_reasoning: bool = False,
    ) -> None:
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"model must be the name of a model, for example 'gpt-5-mini', not {model!r}.")
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be over 0 seconds, or None for no limit (is {timeout!r}).")
        self._name = model
        self.provider = provider
        self.options = ChatOptions.of(options)
        self.timeout = timeout
        self.native_output = native_output
        self._stream_usage = stream_usage
        self._max_tokens_field = max_tokens_field
        self._prompted_tools = prompted_tools
        self._send_reasoning = send_reasoning
        if client is not None and not (api_key is None and base_url is None and headers is None):
            raise ConfigurationError(
                "OpenAIModel takes either client= or api_key=, base_url= and headers=: give these to the client."
            )
        self._given = client.with_options(max_retries=0) if isinstance(client, AsyncOpenAI) else None
        if client is None:
            client = _client_factory(api_key, base_url, headers)
        self._clients = ClientPerLoop(cast("Callable[[], AsyncOpenAI]", client))

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self._name

    async def __call__(self, request: ChatRequest, /) -> ChatResponse[Any]:
        """Ask the model once, and emit the pieces of its answer while they arrive.

        Raises:
            ModelError: the call failed; says whether it may succeed later, and when.
            ConfigurationError: a message or an option cannot be sent.
        """
        options = request.options.over(self.options)
        seconds = options.timeout if options.timeout is not None else self.timeout
        with anyio.move_on_after(seconds):
            return await self._ask(request, options, seconds)
        raise ModelError(
            f"{self.provider}: no whole answer within {seconds:g} s.", transient=True, provider=self.provider
        )

    async def aclose(self) -> None:
        """Close the HTTP client of the running event loop, unless it was given; a later call opens another one."""
        await self._clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r})"

    # One call --------------------------------------------------------------------------------------------------------

    async def _ask(self, request: ChatRequest, options: ChatOptions, seconds: float | None) -> ChatResponse[Any]:
        client = self._given or await self._clients.get()
        body, read = self._body(request, options, client)
        answer = Answer(self.provider, read=read)
        create: Any = client.chat.completions.with_raw_response.create
        try:
            raw = await create(**body, timeout=_http_timeout(seconds))
        except openai.OpenAIError as exc:
            raise self._error(exc, client) from exc
        http = raw.http_response
        kind = str(http.headers.get("content-type", ""))
        if not request.streaming:
            await self._add_whole(request, answer, http.content, kind, client)
        elif "text/event-stream" in kind:
            await self._read_stream(request, answer, http, client)
        else:  # a server that cannot stream
            try:
                content = await http.aread()
            except Exception as exc:
                raise self._cut(exc) from exc
            finally:
                await _close(http)
            await self._add_whole(request, answer, content, kind, client)
        for event in answer.finish():
            await request.emit(event)
        return answer.response()

    def _body(
        self, request: ChatRequest, options: ChatOptions, client: AsyncOpenAI
    ) -> tuple[dict[str, Any], Callable[[str], Reading] | None]:
        """The request's body, and what reads the text of its answer."""
        field = self._max_tokens_field or _max_tokens_field(client)
        body = {"model": options.model or self._name, **option_parameters(options, max_tokens_field=field)}
        tools = tool_parameters(request, options)
        messages: Iterable[Message] = request.messages
        read = None
        if self._prompted_tools and tools:
            messages = prompted_messages(request)
            body["response_format"] = prompted_format(request, options.tool_choice)
            read = read_prompted
        else:
            body |= tools
            if self.native_output and request.output is not None and request.output.type is not str:
                body["response_format"], wrapped = response_format(request.output)
                read = read_wrapped if wrapped else None
        body["messages"] = chat_messages(messages, provider=self.provider, send_reasoning=self._send_reasoning)
        if request.streaming:
            body["stream"] = True
            if self._stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body, read

    async def _read_stream(self, request: ChatRequest, answer: Answer, http: Any, client: AsyncOpenAI) -> None:
        decoder = EventDecoder()
        pieces: AsyncIterator[bytes] = http.aiter_bytes()
        done = False
        try:
            while not done:
                try:
                    events = decoder.feed(await anext(pieces))
                except StopAsyncIteration:
                    events = decoder.finish()
                    done = True
                except Exception as exc:
                    raise self._cut(exc) from exc
                for data in events:
                    if data == "[DONE]":
                        done = True
                        # llama.cpp's server promises to keep the connection after a stream, then often closes it, and
                        # the next request fails. Without TLS a new connection costs next to nothing.
                        if http.url.scheme == "https":
                            await _drain(pieces)
                        break
                    for event in answer.add(self._parsed(data, client)):
                        await request.emit(event)
        finally:
            await _close(http, pieces)
        if answer.finish_reason is None:
            raise self._cut(None)

    async def _add_whole(
        self, request: ChatRequest, answer: Answer, content: bytes, kind: str, client: AsyncOpenAI
    ) -> None:
        if "json" not in kind:
            raise ModelError(
                f"{self.provider}: the server at {client.base_url} answered with {kind or 'no content type'} instead "
                "of JSON; is base_url right (most end in /v1)?",
                provider=self.provider,
            )
        for event in answer.add(self._parsed(content, client)):
            await request.emit(event)
        if answer.is_empty:
            raise ModelError(f"{self.provider}: the answer has no choices.", transient=True, provider=self.provider)

    def _parsed(self, data: str | bytes, client: AsyncOpenAI) -> Mapping[str, Any]:
        try:
            body: Any = json.loads(data)
        except ValueError as exc:
            raise ModelError(
                f"{self.provider}: the answer is no valid JSON.", transient=True, provider=self.provider
            ) from exc
        if not isinstance(body, dict):
            raise ModelError(f"{self.provider}: the answer is no JSON object.", provider=self.provider)
        found = cast("dict[str, Any]", body)
        if found.get("error") and not found.get("choices"):
            raise reported_error(found["error"], provider=self.provider, secret=client.api_key)
        return found

    def _error(self, error: Exception, client: AsyncOpenAI) -> ModelError:
        return model_error(error, provider=self.provider, url=str(client.base_url), secret=client.api_key)

    def _cut(self, error: Exception | None) -> ModelError:
        reason = "" if error is None else f" ({type(error).__name__})"
        return ModelError(
            f"{self.provider}: the stream was cut before the answer was complete{reason}.",
            transient=True,
            provider=self.provider,
        )


def _client_factory(
    api_key: str | None, base_url: str | None, headers: Mapping[str, str] | None
) -> Callable[[], AsyncOpenAI]:
    url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"base_url must start with http:// or https:// (is {url!r}).")
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key:
        if url is None:
            raise ConfigurationError(
                "There is no OpenAI API key: set the environment variable OPENAI_API_KEY, or give OpenAIModel "
                "api_key=... (or base_url=... of a server that needs none)."
            )
        key = "none"  # the SDK wants one

    def make() -> AsyncOpenAI:
        return AsyncOpenAI(api_key=key, base_url=url, default_headers=dict(headers or {}), max_retries=0)

    return make


def _max_tokens_field(client: AsyncOpenAI) -> str:
    host = client.base_url.host
    own = host == _OWN_HOST or host.endswith((".openai.azure.com", ".cognitiveservices.azure.com"))
    return "max_completion_tokens" if own else "max_tokens"


def _http_timeout(seconds: float | None) -> openai.Timeout:
    """The whole call has its own limit; connecting has a shorter one."""
    return openai.Timeout(seconds, connect=_CONNECT_TIMEOUT if seconds is None else min(seconds, _CONNECT_TIMEOUT))


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of the response after the end of the answer, so that the connection can be used again."""
    with anyio.move_on_after(_CLOSING_TIMEOUT), suppress(Exception):
        while True:
            await anext(pieces)


async def _close(http: Any, pieces: AsyncIterator[bytes] | None = None) -> None:
    """Close a response, however its reading ended, and let its generators come to their end.

    A generator that is merely dropped is closed later, by the event loop, and trio warns about it.
    """
    with anyio.CancelScope(shield=True):
        await http.aclose()
        if pieces is not None:
            await _drain(pieces)  # what has arrived already, then the error of a closed response
