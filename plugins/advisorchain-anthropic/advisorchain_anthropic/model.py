"""`AnthropicModel`: the Messages API through the official SDK."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import anthropic
import anyio
from anthropic import AsyncAnthropic

from advisorchain import ChatOptions, ChatRequest, ChatResponse, ConfigurationError, ModelError
from advisorchain.models import check_calls_allowed
from advisorchain.models.http.addresses import server_of, shown_address
from advisorchain.models.http.client_per_loop import ClientPerLoop
from advisorchain.models.http.response_end import close_response, drain
from advisorchain.models.http.server_sent_events import EventDecoder
from advisorchain.models.http.understood import understood
from advisorchain.plain_json import writable

from .answer import PAUSED, Answer
from .caching import CachePlace, CacheTtl, cache_places, mark_cached
from .clients import ANTHROPIC_URL, client_factory, secret_of, takes_sampling
from .content import logger
from .failures import model_error, reported_error
from .messages import conversation
from .parameters import SAMPLING_OPTIONS, UNKNOWN_OPTIONS, option_parameters, tool_parameters
from .schema import output_format, read_wrapped

_CONNECT_TIMEOUT = 5.0
_CONTINUATIONS = 10
"""So often at most a paused answer is asked to go on."""


class AnthropicModel:
    """A `ChatModel` on Anthropic's Messages API, or of any server that speaks it.

    It never retries (put a `RetryAdvisor` into the chain). It keeps one HTTP client per event loop, which is closed
    when the loop ends; ``await model.aclose()`` or ``async with model`` closes it earlier.

    Args:
        model: the model's name at its provider, for example ``"claude-sonnet-5"``.
        api_key: the key; default: the environment's ``ANTHROPIC_API_KEY``, then ``ANTHROPIC_AUTH_TOKEN``. Another
            server may need none.
        base_url: of a compatible server, for example ``"http://localhost:8080"``, without ``/v1``; default: the
            environment's ``ANTHROPIC_BASE_URL``, then Anthropic.
        options: default options (`ChatOptions` or a mapping), under those of the client and the call.
        max_tokens: the most tokens of one answer when the options do not say it: the API wants a number.
        timeout: seconds for one model call, from sending it to the end of the answer; None: no limit. The option
            ``timeout`` of a call takes its place.
        client: a client of the SDK (`AsyncAnthropicFoundry` is one) instead of ``api_key``, ``base_url`` and
            ``headers``. Yours to close, and for one event loop; a function without arguments that makes one serves
            every loop.
        headers: HTTP headers of every request, for example ``{"anthropic-beta": "..."}``.
        provider: names the provider in errors, and tells whose provider parts may be sent; give another server
            another name.
        cache: where the prompt cache is told to keep what it has read: ``"tools"``, ``"system"`` (the tools too),
            ``"messages"`` (everything so far), several of these, or True for all three.
        cache_ttl: how long it is kept: ``"5m"`` or ``"1h"``; default: the provider's (5 minutes).
        server_tools: tools that the provider runs itself, as the API wants them, for example
            ``{"type": "web_search_20250305", "name": "web_search"}``.
        sampling: send ``temperature`` and ``top_p``, which Anthropic refuses since the version 2026-10-21 of its API.
            Default: to other servers only, and to Anthropic when ``headers`` ask for an earlier
            ``anthropic-version``. When they are not sent, a warning is logged once.
        native_output: send an output type's schema as ``output_config.format``; False for a model or server without
            it: the schema is described in the instructions instead.

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
        max_tokens: int = 8192,
        timeout: float | None = 600.0,
        client: AsyncAnthropic | Callable[[], AsyncAnthropic] | None = None,
        headers: Mapping[str, str] | None = None,
        provider: str = "anthropic",
        cache: bool | CachePlace | Iterable[CachePlace] = False,
        cache_ttl: CacheTtl | None = None,
        server_tools: Iterable[Mapping[str, Any]] = (),
        sampling: bool | None = None,
        native_output: bool = True,
    ) -> None:
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"model must be the name of a model, for example 'claude-sonnet-5', not {model!r}."
            )
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be over 0 seconds, or None for no limit (is {timeout!r}).")
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be a whole number over 0 (is {max_tokens!r}).")
        if cache_ttl not in (None, "5m", "1h"):
            raise ConfigurationError(f"cache_ttl must be '5m' or '1h' (is {cache_ttl!r}).")
        self._name = model
        self.provider = provider
        self.options = ChatOptions.of(options)
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.native_output = native_output
        self._cache = cache_places(cache)
        self._cache_ttl: CacheTtl | None = cache_ttl
        self._server_tools = [dict(tool) for tool in server_tools]
        self._sampling = sampling
        self._left_out: set[str] = set()
        if client is not None and not (api_key is None and base_url is None and headers is None):
            raise ConfigurationError(
                "AnthropicModel takes either client= or api_key=, base_url= and headers=: give these to the client."
            )
        self._given = client.with_options(max_retries=0) if isinstance(client, AsyncAnthropic) else None
        self._url: str | None = None if self._given is None else str(self._given.base_url)
        if client is None:
            client = client_factory(api_key, base_url, headers)
            self._url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL
        elif self._given is None and not callable(client):
            raise ConfigurationError(
                "client= takes an AsyncAnthropic (or a subclass of it), or a function that makes one, not "
                f"{type(client).__name__}."
            )
        self._clients = ClientPerLoop(cast("Callable[[], AsyncAnthropic]", client))

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self._name

    @property
    def server_address(self) -> str | None:
        """The host that is asked; None before the first call of a model whose ``client=`` is a function."""
        return None if self._url is None else server_of(self._url)[0]

    @property
    def server_port(self) -> int | None:
        """The port that is asked; None where `server_address` is."""
        return None if self._url is None else server_of(self._url)[1]

    async def __call__(self, request: ChatRequest, /) -> ChatResponse[Any]:
        """Ask the model once, and emit the pieces of its answer while they arrive.

        An answer that the provider pauses (``pause_turn``, in a long run of its own tools) is asked to go on.

        Raises:
            ModelError: the call failed; says whether it may succeed later, and when.
            ConfigurationError: a message or an option cannot be sent, or the calls of real models are forbidden.
        """
        check_calls_allowed(self)
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
        return f"AnthropicModel({self._name!r})"

    # One call --------------------------------------------------------------------------------------------------------

    async def _ask(self, request: ChatRequest, options: ChatOptions, seconds: float | None) -> ChatResponse[Any]:
        client = self._given or await self._clients.get()
        self._url = self._url or str(client.base_url)
        body, read = self._body(request, options, client)
        answer = Answer(self.provider, read=read)
        await self._send(request, body, answer, client, seconds)
        messages = body["messages"]
        for _ in range(_CONTINUATIONS):
            if answer.stop_reason != PAUSED:
                break
            body["messages"] = [*messages, {"role": "assistant", "content": answer.blocks}]
            if answer.container is not None:  # what the provider's tools have made so far is there
                _go_on_in(answer.container, body)
            await self._send(request, body, answer, client, seconds)
        for event in understood(self.provider, answer.finish):
            await request.emit(event)
        return understood(self.provider, answer.response)

    async def _send(
        self, request: ChatRequest, body: dict[str, Any], answer: Answer, client: AsyncAnthropic, seconds: float | None
    ) -> None:
        create: Any = client.messages.with_raw_response.create
        timeout = _http_timeout(seconds)
        try:
            try:
                raw = await create(**body, timeout=timeout)
            except UnicodeEncodeError:  # nothing was sent
                raw = await create(**writable(body), timeout=timeout)
        except anthropic.AnthropicError as exc:
            raise self._error(exc, client) from exc
        except (TypeError, ValueError) as exc:  # before anything was sent
            raise ConfigurationError(f"{self.provider}: the SDK cannot send this request: {exc}") from exc
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
                await close_response(http)
            await self._add_whole(request, answer, content, kind, client)

    def _body(
        self, request: ChatRequest, options: ChatOptions, client: AsyncAnthropic
    ) -> tuple[dict[str, Any], Callable[[str], str] | None]:
        """The request's body, and what reads the text of its answer."""
        sampling = takes_sampling(client) if self._sampling is None else self._sampling
        self._tell_left_out(options, UNKNOWN_OPTIONS if sampling else UNKNOWN_OPTIONS + SAMPLING_OPTIONS)
        body: dict[str, Any] = {"model": options.model or self._name}
        body |= option_parameters(options, max_tokens=self.max_tokens, sampling=sampling)
        read = None
        if self.native_output and request.output is not None and request.output.type is not str:
            form = output_format(request.output)
            if form is None:  # the provider cannot enforce this type
                request = request.with_instruction(request.output.instruction())
            else:
                body["output_config"] = {**body.get("output_config", {}), "format": form.value}
                read = read_wrapped if form.wrapped else None
        talk = conversation(request.messages, provider=self.provider)
        if talk.system:
            body["system"] = talk.system
        body["messages"] = talk.messages
        body |= tool_parameters(request, options, server_tools=self._server_tools, called=talk.called)
        mark_cached(body, self._cache, self._cache_ttl)
        own = body.get("extra_body", {}).get("output_config")
        if isinstance(own, Mapping):  # for example an effort, beside the output type's format
            body["output_config"] = {**body.get("output_config", {}), **body["extra_body"].pop("output_config")}
        if request.streaming:
            body["stream"] = True
        return body, read

    def _tell_left_out(self, options: ChatOptions, names: Iterable[str]) -> None:
        for name in names:
            if getattr(options, name) is not None and name not in self._left_out:
                self._left_out.add(name)
                logger.warning("The option %s is not sent: the Messages API does not take it.", name)

    async def _read_stream(self, request: ChatRequest, answer: Answer, http: Any, client: AsyncAnthropic) -> None:
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
                    for event in understood(self.provider, answer.add, self._parsed(data, client)):
                        await request.emit(event)
                    if answer.is_complete:
                        done = True
                        # A local server may close the connection that it promised to keep; without TLS a new one
                        # costs next to nothing.
                        if http.url.scheme == "https":
                            await drain(pieces)
                        break
        finally:
            await close_response(http, pieces)
        if not answer.is_complete:
            raise self._cut(None)

    async def _add_whole(
        self, request: ChatRequest, answer: Answer, content: bytes, kind: str, client: AsyncAnthropic
    ) -> None:
        if "json" not in kind:
            raise ModelError(
                f"{self.provider}: the server at {shown_address(str(client.base_url))} answered with "
                f"{kind or 'no content type'} instead of JSON; is base_url right (without /v1)?",
                provider=self.provider,
            )
        message = self._parsed(content, client)
        if not isinstance(message.get("content"), list):
            raise ModelError(f"{self.provider}: the answer has no content.", transient=True, provider=self.provider)
        for event in understood(self.provider, answer.add_message, message):
            await request.emit(event)

    def _parsed(self, data: str | bytes, client: AsyncAnthropic) -> Mapping[str, Any]:
        try:
            body: Any = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise ModelError(
                f"{self.provider}: the answer is no valid JSON.", transient=True, provider=self.provider
            ) from exc
        if not isinstance(body, dict):
            raise ModelError(f"{self.provider}: the answer is no JSON object.", provider=self.provider)
        found = cast("dict[str, Any]", body)
        if found.get("error"):
            raise reported_error(found["error"], provider=self.provider, secret=secret_of(client))
        return found

    def _error(self, error: Exception, client: AsyncAnthropic) -> ModelError:
        return model_error(
            error, provider=self.provider, url=shown_address(str(client.base_url)), secret=secret_of(client)
        )

    def _cut(self, error: Exception | None) -> ModelError:
        reason = "" if error is None else f" ({type(error).__name__})"
        return ModelError(
            f"{self.provider}: the stream was cut before the answer was complete{reason}.",
            transient=True,
            provider=self.provider,
        )


def _go_on_in(container: str, body: dict[str, Any]) -> None:
    """Let the request name a container, beside what ``extra`` says about it, for example its skills."""
    more: dict[str, Any] = body.get("extra_body", {})
    wanted = more.get("container")
    named = {**wanted, "id": container} if isinstance(wanted, Mapping) else container
    body["extra_body"] = {**more, "container": named}


def _http_timeout(seconds: float | None) -> anthropic.Timeout:
    """The whole call has its own limit; connecting has a shorter one."""
    return anthropic.Timeout(seconds, connect=_CONNECT_TIMEOUT if seconds is None else min(seconds, _CONNECT_TIMEOUT))
