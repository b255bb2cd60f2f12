"""What a server may ask of us while it works: a question to the user, a completion of the model, our roots."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic_core import to_json

from ..errors import ConfigurationError
from ..messages import AssistantMessage, AudioPart, ImagePart, Message, Part, SystemMessage, TextPart, UserMessage
from ..options import ChatOptions
from .cleaning import cleaned, cleaned_schema
from .mending import writable
from .server import McpServer

if TYPE_CHECKING:
    from ..client import ChatClient

logger = logging.getLogger("advisorchain.mcp")

QUESTION_CHARS = 4_000
URL_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a server wants to know from the user. Ask, and do not answer for them; never enter secrets.

    Attributes:
        server: the name of the server that asks.
        message: its question, cleaned of what does not show.
        schema: JSON schema of the answer, an object of plain values, its texts cleaned; empty for a ``url``.
        url: an address (http or https) that the user should open in place of an answer here, or None. Never opened by
            itself.
    """

    server: str
    message: str
    schema: Mapping[str, Any]
    url: str | None = None


Elicitation: TypeAlias = Callable[[Question], Awaitable[Mapping[str, Any] | None]]
"""Asks the user: gives the answer, by the names of the schema (an empty one for a ``url``), or None: they decline."""


class Sampling:
    """Lets a server have messages answered by a client of ours, within a budget.

    The server's text reaches a model that you pay for. Give it a client without tools and memory.

    Args:
        client: answers; its advisors see every request.
        max_calls: answers for the life of the `McpServer`.
        max_tokens: output tokens of one answer, at most; the server may ask for fewer.
        max_chars: characters of one request, with images and sounds as base64; a longer one is refused.

    Raises:
        ConfigurationError: a limit makes no sense.
    """

    def __init__(
        self, client: ChatClient, *, max_calls: int = 10, max_tokens: int = 1_000, max_chars: int = 100_000
    ) -> None:
        if min(max_calls, max_tokens, max_chars) < 1:
            raise ConfigurationError("max_calls, max_tokens and max_chars must be at least 1.")
        self.client = client
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.max_chars = max_chars
        self.calls = 0
        """How many answers were given."""


def client_callbacks(server: McpServer) -> dict[str, Any]:
    """The arguments of the SDK's client that let a server ask what it may."""
    callbacks: dict[str, Any] = {}
    if server.elicitation is not None:
        callbacks["elicitation_callback"] = _elicitation(server, server.elicitation)
    if server.sampling is not None:
        callbacks["sampling_callback"] = _sampling(server, server.sampling)
    if server.roots:
        callbacks["list_roots_callback"] = _roots(server)
    return callbacks


def _elicitation(server: McpServer, ask: Elicitation) -> Any:
    async def elicit(context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        message = cleaned(params.message, limit=QUESTION_CHARS)[0]
        schema = cleaned_schema(getattr(params, "requested_schema", None) or {})[0]
        url = getattr(params, "url", None)
        if url is not None and not _is_web_address(url):
            logger.warning("MCP server %r sends the user to what is no plain web address; it is told no.", server.name)
            return ElicitResult(action="cancel")
        question = Question(server=server.name, message=message, schema=schema, url=url)
        try:
            answer = await ask(question)
            if answer is None:
                return ElicitResult(action="decline")
            content = dict(answer)
            to_json(content)  # what cannot be sent would end the connection
        except Exception:
            logger.exception("MCP server %r asked the user something, and elicitation= failed", server.name)
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=content or None)

    return elicit


def _is_web_address(url: str) -> bool:
    """Whether an address leads where it seems to: plain characters, http or https, no user before the host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= URL_CHARS
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _sampling(server: McpServer, sampling: Sampling) -> Any:
    async def sample(context: Any, params: Any) -> Any:
        from mcp.types import INTERNAL_ERROR, CreateMessageResult, ErrorData, TextContent

        if sampling.calls >= sampling.max_calls:
            logger.warning("MCP server %r has used up its %d answers of the model.", server.name, sampling.max_calls)
            return ErrorData(code=INTERNAL_ERROR, message="The budget for sampling is used up.")
        if len(params.model_dump_json(include={"messages", "system_prompt"})) > sampling.max_chars:
            logger.warning("MCP server %r asks the model too much: max_chars is %d.", server.name, sampling.max_chars)
            return ErrorData(code=INTERNAL_ERROR, message=f"At most {sampling.max_chars} characters may be sent.")
        sampling.calls += 1
        try:
            messages: list[Message] = [_message(message) for message in params.messages]
            if params.system_prompt:
                messages.insert(0, SystemMessage(content=params.system_prompt))
            options = ChatOptions(
                max_tokens=min(sampling.max_tokens, params.max_tokens or sampling.max_tokens),
                temperature=params.temperature,
                stop=tuple(params.stop_sequences) if params.stop_sequences else None,
            )
            response = await sampling.client.call(messages, options=options)
        except Exception:
            logger.exception("MCP server %r asked for an answer of the model, which failed", server.name)
            return ErrorData(code=INTERNAL_ERROR, message="The model could not answer.")
        reason = "maxTokens" if response.stop_reason == "length" else "endTurn"
        content = TextContent(text=writable(response.text))
        return CreateMessageResult(role="assistant", content=content, model="advisorchain", stop_reason=reason)

    return sample


def _message(message: Any) -> Message:
    blocks = message.content if isinstance(message.content, list) else [message.content]
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if message.role == "assistant":
        return AssistantMessage(content=tuple(parts))
    return UserMessage(content=tuple(parts))


def _part(block: Any) -> Part | None:
    from base64 import b64decode

    if block.type == "text":
        return TextPart(text=block.text)
    if block.type == "image":
        return ImagePart(data=b64decode(block.data), media_type=block.mime_type)
    if block.type == "audio":
        return AudioPart(data=b64decode(block.data), media_type=block.mime_type)
    return None


def _roots(server: McpServer) -> Any:
    uris = [str(root) if "://" in str(root) else Path(root).resolve().as_uri() for root in server.roots]

    async def roots(context: Any) -> Any:
        from mcp.types import ListRootsResult, Root

        return ListRootsResult(roots=[Root(uri=uri) for uri in uris])  # type: ignore[arg-type]

    return roots
