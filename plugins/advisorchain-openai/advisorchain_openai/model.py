"""`OpenAIModel`: chat completions through the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

from openai import AsyncOpenAI

from advisorchain import ChatOptions, ChatRequest, ChatResponse, Message, Tool
from advisorchain.models.http.understood import understood
from advisorchain.models.prompted_tools import Reading, prompted_messages, read_prompted

from .answer import Answer
from .inline import inlined
from .messages import chat_messages
from .parameters import option_parameters, tool_parameters
from .prompted import prompted_format
from .schema import read_wrapped, response_format
from .server_model import ServerModel

_OWN_HOST = "api.openai.com"


class OpenAIModel(ServerModel):
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
        inline_schemas: put definitions in place of references to them, in the schemas of tools and output types, for a
            server that refuses ``$ref`` and ``$defs`` (Gemini). A recursive type is cut where it meets itself, see
            `inline.inlined`.

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
        self._stream_usage = stream_usage
        self._max_tokens_field = max_tokens_field
        self._prompted_tools = prompted_tools
        self._send_reasoning = send_reasoning
        self._inline_schemas = inline_schemas
        self._inlined: WeakKeyDictionary[Tool, dict[str, Any]] = WeakKeyDictionary()

    # One call --------------------------------------------------------------------------------------------------------

    async def _ask(self, request: ChatRequest, options: ChatOptions, seconds: float | None) -> ChatResponse[Any]:
        client = await self._connection.client()
        body, read = self._body(request, options, client)
        answer = Answer(self.provider, read=read)
        create: Any = client.chat.completions.with_raw_response.create
        await self._connection.ask(client, create, body, seconds, request, answer)
        for event in understood(self.provider, answer.finish):
            await request.emit(event)
        return understood(self.provider, answer.response)

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
        if self._inline_schemas:
            self._inline(body, request)
        body["messages"] = chat_messages(messages, provider=self.provider, send_reasoning=self._send_reasoning)
        if request.streaming:
            body["stream"] = True
            if self._stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body, read

    def _inline(self, body: dict[str, Any], request: ChatRequest) -> None:
        """Take the references out of the body's schemas."""
        for entry, tool in zip(body.get("tools", ()), request.tools, strict=False):
            schema = self._inlined.get(tool)
            if schema is None:
                schema = self._inlined[tool] = inlined(tool.input_schema).schema
            entry["function"]["parameters"] = schema
        form = body.get("response_format")
        if form is not None:
            sent = form["json_schema"]
            schema, whole = inlined(sent["schema"])
            body["response_format"] = {
                **form,
                "json_schema": {**sent, "schema": schema, "strict": sent["strict"] and whole},
            }


def _max_tokens_field(client: AsyncOpenAI) -> str:
    host = client.base_url.host
    own = host == _OWN_HOST or host.endswith((".openai.azure.com", ".cognitiveservices.azure.com"))
    return "max_completion_tokens" if own else "max_tokens"
