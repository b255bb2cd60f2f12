"""Content parts as the Responses API wants them: text, images and files, from users and from tools."""

from __future__ import annotations

from typing import Any

from advisorchain import (
    AudioPart,
    ConfigurationError,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolMessage,
)

from .media import data_url, logger, media_type, returned

Content = dict[str, Any]


def input_content(part: Part, owner: str) -> Content | None:
    """A part as the content of an input item; None leaves it out.

    Args:
        part: the part.
        owner: whose provider parts may be sent.

    Raises:
        ConfigurationError: it cannot be sent.
    """
    if isinstance(part, TextPart):
        return text_content(part.text)
    if isinstance(part, ImagePart):
        return _image(part)
    if isinstance(part, FilePart):
        return _file(part)
    if isinstance(part, AudioPart):
        raise ConfigurationError(
            "The Responses API takes no audio: send its transcript as text, or ask a model that hears through "
            "OpenAIModel."
        )
    if isinstance(part, ProviderPart):
        return part.data if part.provider == owner and isinstance(part.data, dict) else None
    if not isinstance(part, ReasoningPart):
        logger.warning("A content part of kind %r is not sent: this version does not know it.", part.kind)
    return None


def text_content(text: str) -> Content:
    """A text as the content of an input item."""
    return {"type": "input_text", "text": text}


def tool_output(message: ToolMessage, owner: str) -> str | list[Content]:
    """What a tool returned; a note in place of what cannot be sent, because that must not end the turn."""
    if isinstance(message.content, str):
        return message.content
    found = [sent for part in message.content if (sent := _returned(part, message, owner)) is not None]
    if all(set(content) == {"type", "text"} for content in found):
        return "".join([content["text"] for content in found])  # the form that every server takes
    return found


def _returned(part: Part, message: ToolMessage, owner: str) -> Content | None:
    if not isinstance(part, ImagePart | AudioPart | FilePart):
        return input_content(part, owner)
    found = returned(part, message, lambda media: input_content(media, owner))
    return text_content(found) if isinstance(found, str) else found


def _image(part: ImagePart | FilePart) -> Content:
    url = part.url
    if url is not None and url.startswith("file-"):  # the id of an uploaded file
        return {"type": "input_image", "file_id": url, "detail": "auto"}
    return {
        "type": "input_image",
        "image_url": data_url(part) if url is None else _address(part, url),
        "detail": "auto",
    }


def _file(part: FilePart) -> Content:
    url = part.url
    if url is not None and url.startswith("file-"):
        return {"type": "input_file", "file_id": url}
    kind = media_type(part) if url is None else part.media_type or ""
    if kind.startswith("image/"):
        return _image(part)
    if url is not None and not url.startswith("data:"):
        return {"type": "input_file", "file_url": _address(part, url)}
    return {"type": "input_file", "filename": part.name or "file", "file_data": data_url(part) if url is None else url}


def _address(part: ImagePart | FilePart, url: str) -> str:
    if url.startswith(("https://", "http://", "data:")):
        return url
    raise ConfigurationError(
        f"The Responses API cannot fetch {url[:100]!r}: give the bytes, {type(part).__name__}(data=..., "
        "media_type=...), an address with https://, or the id of an uploaded file ('file-...') as url."
    )
