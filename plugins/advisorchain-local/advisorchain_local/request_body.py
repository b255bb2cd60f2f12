"""A request as the engine takes it: messages of text, options, and the JSON schema that the answer must have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from advisorchain import (
    AudioPart,
    ChatOptions,
    ChatRequest,
    ConfigurationError,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from advisorchain.models.prompted_tools import Reading, prompted_messages, prompted_schema, read_prompted

from .engine import Json

logger = logging.getLogger("advisorchain.local")

_SAME_NAME = ("temperature", "top_p", "seed", "max_tokens", "frequency_penalty", "presence_penalty")


class RequestBody(NamedTuple):
    """The body of a chat completion, and what reads the text of its answer."""

    value: Json
    read: Callable[[str], Reading] | None


def request_body(request: ChatRequest, options: ChatOptions) -> RequestBody:
    """The request as a chat completion.

    With tools, the answer is constrained to a call of one of them, or to an answer, as ``tool_choice`` allows; what the
    model may not choose it cannot write.

    Raises:
        ConfigurationError: a message cannot be sent, or ``tool_choice`` names no tool of the request.
    """
    choice = options.tool_choice
    if choice not in (None, "auto", "none", "required") and choice not in request.tools:
        raise ConfigurationError(
            f"tool_choice={choice!r} names no tool of this request; it has {request.tools.names}, and 'auto', 'none' "
            "and 'required' are the other choices."
        )
    body: Json = {name: value for name in _SAME_NAME if (value := getattr(options, name)) is not None}
    if options.stop:
        body["stop"] = list(options.stop)
    body["stream_options"] = {"include_usage": True}
    body["return_progress"] = True  # a chunk per piece of the prompt: a chance to stop
    offered = len(request.tools) > 0 and choice != "none"
    read = None
    if offered:
        body["response_format"] = _format(prompted_schema(request, choice))
        read = read_prompted
    elif request.output is not None and request.output.type is not str:
        body["response_format"] = _format(request.output.schema)
    request = request.replace(messages=tuple([_shown_as_text(message) for message in request.messages]))
    body["messages"] = _messages(prompted_messages(request, offered=offered))
    return RequestBody({**body, **options.extra}, read)


def _format(schema: Any) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _messages(messages: Iterable[Message]) -> list[Json]:
    """Messages as text; neighbours of one role are joined, because many chat templates want the roles to alternate."""
    sent: list[Json] = []
    for message in messages:
        if isinstance(message, UnknownMessage):
            logger.warning("A message of role %r is not sent: chat templates have no such role.", message.role)
            continue
        text = _text(message)
        if sent and sent[-1]["role"] == message.role:
            sent[-1]["content"] += f"\n\n{text}"
        else:
            sent.append({"role": message.role, "content": text})
    return sent


def _text(message: Any) -> str:
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        media = next((part for part in message.content if isinstance(part, ImagePart | AudioPart | FilePart)), None)
        if media is not None:
            raise ConfigurationError(
                f"LocalModel sends text only: a user message has the content part {type(media).__name__}."
            )
    return str(message.text).encode(errors="replace").decode()  # halves of characters, which the engine refuses


def _shown_as_text(message: Message) -> Message:
    """What a tool returned, with a note in place of what is no text, because that must not end the turn."""
    if not isinstance(message, ToolMessage) or isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": tuple([_note(part) for part in message.content])})


def _note(part: Part) -> Part:
    if not isinstance(part, ImagePart | AudioPart | FilePart):
        return part
    name = (part.name if isinstance(part, FilePart) else None) or part.media_type or "without a name"
    return TextPart(text=f"[{part.kind}, {name}: cannot be shown here]")
