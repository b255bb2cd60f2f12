"""Messages as chat completions wants them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from advisorchain import (
    AssistantMessage,
    AudioPart,
    ConfigurationError,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from advisorchain.models.prompted_tools import arguments_text

from .media import data_url, logger, media_type, returned

_AUDIO_FORMATS = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


def chat_messages(messages: Iterable[Message], *, provider: str, send_reasoning: bool = False) -> list[dict[str, Any]]:
    """The messages of a request body.

    A tool message takes text only, so what else a tool returned follows in a user message, after the last result of
    the batch. Provider parts of other providers are left out.

    Raises:
        ConfigurationError: a content part cannot be sent.
    """
    sent: list[dict[str, Any]] = []
    attached: list[dict[str, Any]] = []  # what the tools of the running batch returned beside text
    for message in messages:
        if attached and not isinstance(message, ToolMessage):
            sent.append({"role": "user", "content": attached})
            attached = []
        if isinstance(message, UserMessage):
            sent.append({"role": "user", "content": _content(message.content, provider)})
        elif isinstance(message, AssistantMessage):
            sent.append(_assistant(message, provider, send_reasoning))
        elif isinstance(message, ToolMessage):
            media = _media(message, provider)
            sent.append({"role": "tool", "tool_call_id": message.call_id, "content": _tool_text(message, bool(media))})
            attached += media
        elif isinstance(message, SystemMessage):
            sent.append({"role": "system", "content": message.text})
        else:
            logger.warning("A message of role %r is not sent: chat completions has no such role.", message.role)
    if attached:
        sent.append({"role": "user", "content": attached})
    return sent


def _assistant(message: AssistantMessage, provider: str, send_reasoning: bool) -> dict[str, Any]:
    # Never null: some servers refuse it.
    sent: dict[str, Any] = {"role": "assistant", "content": message.text}
    calls = [_call(call, provider) for call in message.tool_calls if call.executed_by == "client"]
    if calls:
        sent["tool_calls"] = calls
    if isinstance(message.content, str):
        return sent
    if send_reasoning and (thoughts := [part.text for part in message.content if isinstance(part, ReasoningPart)]):
        sent["reasoning_content"] = "".join(thoughts)
    for part in message.content:
        if isinstance(part, ProviderPart) and part.provider == provider and part.type != "annotations":
            sent[part.type] = part.data
    return sent


def _call(call: ToolCall, provider: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call.arguments)}
    sent: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    extra = (call.metadata or {}).get(provider)
    if isinstance(extra, Mapping):
        sent.update(extra)
    return sent


def _tool_text(message: ToolMessage, has_media: bool) -> str:
    text = message.text
    if not has_media:
        return text
    note = "(What the tool returned beside text follows in the next user message.)"
    return f"{text}\n{note}" if text else note


def _media(message: ToolMessage, provider: str) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return []
    media = [part for part in message.content if isinstance(part, ImagePart | AudioPart | FilePart)]
    found = [_returned(part, message, provider) for part in media]
    return [_text(f"Returned by the tool {message.name} (call {message.call_id}):"), *found] if found else []


def _returned(part: ImagePart | AudioPart | FilePart, message: ToolMessage, provider: str) -> dict[str, Any]:
    found = returned(part, message, lambda media: _part(media, provider))
    return _text(found) if isinstance(found, str) else found


def _content(content: str | tuple[Part, ...], provider: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    if all(isinstance(part, TextPart) for part in content):  # the form that every server takes
        return "".join([part.text for part in content if isinstance(part, TextPart)])
    return [sent for part in content if (sent := _part(part, provider)) is not None] or ""


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _part(part: Part, provider: str) -> dict[str, Any] | None:
    """A content part of a user message; None leaves it out."""
    if isinstance(part, TextPart):
        return _text(part.text)
    if isinstance(part, ImagePart):
        if part.url is not None:
            return {"type": "image_url", "image_url": {"url": part.url}}
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    if isinstance(part, AudioPart):
        return _audio(part)
    if isinstance(part, FilePart):
        return _file(part)
    if isinstance(part, ProviderPart):
        return part.data if part.provider == provider and isinstance(part.data, dict) else None
    if not isinstance(part, ReasoningPart):
        logger.warning("A content part of kind %r is not sent: this version does not know it.", part.kind)
    return None


def _audio(part: AudioPart) -> dict[str, Any]:
    if part.data is None:
        raise ConfigurationError(
            "Chat completions takes audio as bytes, not by address: give AudioPart(data=..., media_type='audio/wav')."
        )
    subtype = media_type(part).partition("/")[2].partition(";")[0]
    audio = {"data": base64.b64encode(part.data).decode(), "format": _AUDIO_FORMATS.get(subtype, subtype)}
    return {"type": "input_audio", "input_audio": audio}


def _file(part: FilePart) -> dict[str, Any]:
    if part.url is not None and part.url.startswith("file-"):  # the id of an uploaded file
        return {"type": "file", "file": {"file_id": part.url}}
    if part.url is not None and not part.url.startswith("data:"):
        raise ConfigurationError(
            f"Chat completions cannot fetch the file at {part.url[:100]!r}: give its bytes, FilePart(data=..., "
            "media_type='application/pdf'), or the id of an uploaded file ('file-...') as url."
        )
    data = part.url if part.url is not None else data_url(part)
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data}}
