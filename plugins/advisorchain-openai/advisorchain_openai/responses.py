"""`OpenAIResponsesModel`: the Responses API through the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from openai import AsyncOpenAI

from advisorchain import ChatOptions, ChatRequest, ChatResponse, Tool
from advisorchain.models.http.understood import understood
from advisorchain.models.prompted_tools import Reading

from .inline import inlined
from .media import logger
from .response_answer import ResponseAnswer
from .response_items import input_items, owner_of
from .response_parameters import (
    UNKNOWN_OPTIONS,
    checked_server_tools,
    lay_extra,
    option_parameters,
    reasons,
    tool_parameters,
)
from .schema import read_wrapped, response_format
from .server_model import ServerModel


class OpenAIResponsesModel(ServerModel):
    """A `ChatModel` on the Responses API of OpenAI, or of any server that speaks it.

    The provider keeps nothing (``store`` is false): the whole conversation is sent with every call, and what the
    model thought goes back encrypted, in its place before the calls that it led to. It never retries (put a
    `RetryAdvisor` into the chain). It keeps one HTTP client per event loop, which is closed when the loop ends;
    ``await model.aclose()`` or ``async with model`` closes it earlier.

    Args:
        model: the model's name at its provider, for example ``"gpt-5-mini"``.
        api_key: the key; default: the environment's ``OPENAI_API_KEY``. Another server may need none.
        base_url: of a compatible server, for example ``"http://localhost:8080/v1"``; default: the environment's
            ``OPENAI_BASE_URL``, then OpenAI.
        options: default options (`ChatOptions` or a mapping), under those of the client and the call. ``stop``,
            ``seed``, ``frequency_penalty`` and ``presence_penalty`` are unknown to the API: they are not sent, and a
            warning is logged once.
        timeout: seconds for one model call, from sending it to the end of the answer; None: no limit. The option
            ``timeout`` of a call takes its place.
        client: a client of the SDK (`AsyncAzureOpenAI` is one) instead of ``api_key``, ``base_url`` and ``headers``.
            Yours to close, and for one event loop; a function without arguments that makes one serves every loop.
        headers: HTTP headers of every request.
        provider: names the provider in errors, and tells whose provider parts may be sent (those of
            ``"{provider}.responses"``); give another server another name.
        server_tools: tools that the provider runs itself, as the API wants them, for example
            ``{"type": "web_search"}``.
        encrypted_reasoning: ask for reasoning in the form that can be sent back, which models that do not reason
            refuse; default: by the model's name. Say it when the name tells nothing (a deployment of Azure).
        native_output: send an output type's schema as ``text.format``; False for a server without ``json_schema``:
            it is described in the instructions instead.
        inline_schemas: put definitions in place of references to them, in the schemas of tools and output types, for
            a server that refuses ``$ref`` and ``$defs``. See `inline.inlined`.

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
        server_tools: Iterable[Mapping[str, Any]] = (),
        encrypted_reasoning: bool | None = None,
        native_output: bool = True,
        inline_schemas: bool = False,
    ) -> None:
        super().__init__(
            model,
            api_key=api_key,
            base_url=base_url,
            options=options,
            timeout=timeout,
            client=client,
            headers=headers,
            provider=provider,
        )
        self.native_output = native_output
        self._owner = owner_of(provider)
        self._server_tools = checked_server_tools(server_tools)
        self._encrypted_reasoning = encrypted_reasoning
        self._inline_schemas = inline_schemas
        self._inlined: WeakKeyDictionary[Tool, dict[str, Any]] = WeakKeyDictionary()
        self._left_out: set[str] = set()

    # One call --------------------------------------------------------------------------------------------------------

    async def _ask(self, request: ChatRequest, options: ChatOptions, seconds: float | None) -> ChatResponse[Any]:
        client = await self._connection.client()
        body, read = self._body(request, options)
        answer = ResponseAnswer(self._owner, read=read)
        create: Any = client.responses.with_raw_response.create
        await self._connection.ask(client, create, body, seconds, request, answer)
        for event in understood(self.provider, answer.finish):
            await request.emit(event)
        return understood(self.provider, answer.response)

    def _body(
        self, request: ChatRequest, options: ChatOptions
    ) -> tuple[dict[str, Any], Callable[[str], Reading] | None]:
        """The request's body, and what reads the text of its answer."""
        self._tell_left_out(options)
        model = options.model or self._name
        encrypted = reasons(model) if self._encrypted_reasoning is None else self._encrypted_reasoning
        body: dict[str, Any] = {"model": model, **option_parameters(options, encrypted_reasoning=encrypted)}
        body |= tool_parameters(request, options, server_tools=self._server_tools, schema=self._schema)
        read = None
        if self.native_output and request.output is not None and request.output.type is not str:
            form = response_format(request.output)
            body["text"] = {"format": self._format(form.value["json_schema"])}
            read = read_wrapped if form.wrapped else None
        instructions, body["input"] = input_items(request.messages, owner=self._owner)
        if instructions:
            body["instructions"] = instructions
        if request.streaming:
            body["stream"] = True
        lay_extra(body, options.extra)
        return body, read

    def _format(self, form: dict[str, Any]) -> dict[str, Any]:
        if self._inline_schemas:
            schema, whole = inlined(form["schema"])
            form = {**form, "schema": schema, "strict": form["strict"] and whole}
        return {"type": "json_schema", **form}

    def _schema(self, tool: Tool) -> dict[str, Any]:
        if not self._inline_schemas:
            return dict(tool.input_schema)
        schema = self._inlined.get(tool)
        if schema is None:
            schema = self._inlined[tool] = inlined(tool.input_schema).schema
        return schema

    def _tell_left_out(self, options: ChatOptions) -> None:
        for name in UNKNOWN_OPTIONS:
            if getattr(options, name) is not None and name not in self._left_out:
                self._left_out.add(name)
                logger.warning("The option %s is not sent: the Responses API does not take it.", name)
