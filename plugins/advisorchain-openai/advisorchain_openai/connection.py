"""One request to a server, and its answer: JSON objects, whole or one after another."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, cast

import openai
from openai import AsyncOpenAI

from advisorchain import ChatRequest, ConfigurationError, Event, ModelError
from advisorchain.models.http.addresses import server_of, shown_address
from advisorchain.models.http.client_per_loop import ClientPerLoop
from advisorchain.models.http.response_end import close_response, drain
from advisorchain.models.http.server_sent_events import EventDecoder
from advisorchain.models.http.understood import understood
from advisorchain.plain_json import writable

from .clients import OPENAI_URL, client_settings, secret_of
from .failures import model_error, reported_error

_CONNECT_TIMEOUT = 5.0

Json = Mapping[str, Any]


class Reader(Protocol):
    """Takes the objects of an answer in, and gives events out."""

    content_field: str
    """The field of a whole answer that has what the model says."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all has arrived."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the answer is missing."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether nothing is to be read any more, although the server has not said ``[DONE]``."""
        ...

    def error_in(self, body: Json, /) -> Any:
        """The error that an object tells, or None."""
        ...

    def add(self, body: Json, /) -> list[Event]:
        """Take in one object of a stream."""
        ...

    def add_whole(self, body: Json, /) -> list[Event]:
        """Take in a whole answer."""
        ...


class Connection:
    """The way to a server: the SDK's client of the running event loop, and what goes through it.

    Args:
        model: the name of the model's class, for errors.
        provider: the provider's name.
        api_key, base_url, headers: of a client that is made here.
        client: a client of the caller's, or a function that makes one.

    Raises:
        ConfigurationError: there is no API key, or an argument is wrong.
    """

    def __init__(
        self,
        model: str,
        provider: str,
        *,
        api_key: str | None,
        base_url: str | None,
        headers: Mapping[str, str] | None,
        client: AsyncOpenAI | Callable[[], AsyncOpenAI] | None,
    ) -> None:
        self._provider = provider
        self._url: str | None = None
        self._given: AsyncOpenAI | None = None
        if client is None:
            settings = client_settings(model, api_key, base_url, headers)
            self._url = settings.url or OPENAI_URL
            client = settings.make
        elif not (api_key is None and base_url is None and headers is None):
            raise ConfigurationError(
                f"{model} takes either client= or api_key=, base_url= and headers=: give these to the client."
            )
        elif isinstance(client, AsyncOpenAI):
            self._given = client.with_options(max_retries=0)
            self._url = str(client.base_url)
        elif not callable(client):
            raise ConfigurationError(
                "client= takes an AsyncOpenAI (or a subclass of it), or a function that makes one, not "
                f"{type(client).__name__}."
            )
        self._clients = ClientPerLoop(cast("Callable[[], AsyncOpenAI]", client))

    @property
    def server(self) -> tuple[str | None, int | None]:
        """Host and port of the server, None while they are not known: a function's client has not been made yet."""
        return (None, None) if self._url is None else server_of(self._url)

    async def client(self) -> AsyncOpenAI:
        """The SDK's client of the running event loop."""
        client = self._given or await self._clients.get()
        self._url = self._url or str(client.base_url)
        return client

    async def aclose(self) -> None:
        """Close the client of the running event loop, unless it was given; a later call opens another one."""
        await self._clients.aclose()

    async def ask(
        self,
        client: AsyncOpenAI,
        create: Callable[..., Any],
        body: dict[str, Any],
        seconds: float | None,
        request: ChatRequest,
        reader: Reader,
    ) -> None:
        """Send a request, have its answer read, and emit the events that come of it.

        Args:
            client: of the running event loop.
            create: the SDK's method, with raw response.
            body: its arguments.
            seconds: how long it may take.
            request: says whether the answer is streamed, and emits.
            reader: takes the answer in.

        Raises:
            ModelError: it failed.
            ConfigurationError: the body cannot be sent.
        """
        try:
            raw = await self._create(create, body, seconds)
        except openai.OpenAIError as exc:
            raise self._error(exc, client) from exc
        except (TypeError, ValueError) as exc:  # before anything was sent
            raise ConfigurationError(f"{self._provider}: the SDK cannot send this request: {exc}") from exc
        http = raw.http_response
        kind = str(http.headers.get("content-type", ""))
        if not request.streaming:
            await self._add_whole(request, reader, http.content, kind, client)
        elif "text/event-stream" in kind:
            await self._read_stream(request, reader, http, client)
        else:  # a server that cannot stream
            try:
                content = await http.aread()
            except Exception as exc:
                raise self._cut(exc) from exc
            finally:
                await close_response(http)
            await self._add_whole(request, reader, content, kind, client)

    async def _create(self, create: Callable[..., Any], body: dict[str, Any], seconds: float | None) -> Any:
        timeout = _http_timeout(seconds)
        try:
            return await create(**body, timeout=timeout)
        except UnicodeEncodeError:  # looked for only when it happens: it costs a walk through the whole body
            return await create(**writable(body), timeout=timeout)

    async def _read_stream(self, request: ChatRequest, reader: Reader, http: Any, client: AsyncOpenAI) -> None:
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
                    if data != "[DONE]":
                        for event in understood(self._provider, reader.add, self._parsed(data, reader, client)):
                            await request.emit(event)
                    if data == "[DONE]" or reader.is_last:
                        done = True
                        # llama.cpp's server promises to keep the connection after a stream, then often closes it, and
                        # the next request fails. Without TLS a new connection costs next to nothing.
                        if http.url.scheme == "https":
                            await drain(pieces)
                        break
        finally:
            await close_response(http, pieces)
        if not reader.is_complete:
            raise self._cut(None)

    async def _add_whole(
        self, request: ChatRequest, reader: Reader, content: bytes, kind: str, client: AsyncOpenAI
    ) -> None:
        if "json" not in kind:
            raise ModelError(
                f"{self._provider}: the server at {shown_address(str(client.base_url))} answered with "
                f"{kind or 'no content type'} instead of JSON; is base_url right (most end in /v1)?",
                provider=self._provider,
            )
        for event in understood(self._provider, reader.add_whole, self._parsed(content, reader, client)):
            await request.emit(event)
        if reader.is_empty:
            raise ModelError(
                f"{self._provider}: the answer has no {reader.content_field}.", transient=True, provider=self._provider
            )

    def _parsed(self, data: str | bytes, reader: Reader, client: AsyncOpenAI) -> Json:
        try:
            body: Any = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise ModelError(
                f"{self._provider}: the answer is no valid JSON.", transient=True, provider=self._provider
            ) from exc
        if not isinstance(body, dict):
            raise ModelError(f"{self._provider}: the answer is no JSON object.", provider=self._provider)
        found = cast("dict[str, Any]", body)
        if error := understood(self._provider, reader.error_in, found):
            raise reported_error(error, provider=self._provider, secret=secret_of(client))
        return found

    def _error(self, error: Exception, client: AsyncOpenAI) -> ModelError:
        url = shown_address(str(client.base_url))
        return model_error(error, provider=self._provider, url=url, secret=secret_of(client))

    def _cut(self, error: Exception | None) -> ModelError:
        reason = "" if error is None else f" ({type(error).__name__})"
        return ModelError(
            f"{self._provider}: the stream was cut before the answer was complete{reason}.",
            transient=True,
            provider=self._provider,
        )


def _http_timeout(seconds: float | None) -> openai.Timeout:
    """The whole call has its own limit; connecting has a shorter one."""
    return openai.Timeout(seconds, connect=_CONNECT_TIMEOUT if seconds is None else min(seconds, _CONNECT_TIMEOUT))
