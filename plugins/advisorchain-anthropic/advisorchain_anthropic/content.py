"""Content parts as the blocks of the Messages API."""

from __future__ import annotations

import base64
import logging
import mimetypes
import re
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

logger = logging.getLogger("advisorchain.anthropic")

Block = dict[str, Any]

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
)
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^,]*)?;base64,(?P<data>.*)", re.DOTALL)


def text_blocks(text: str) -> list[Block]:
    """A text as a block, or none: the provider refuses text without a visible character."""
    return [{"type": "text", "text": text}] if text.strip() else []


def user_blocks(content: str | tuple[Part, ...], provider: str) -> list[Block]:
    """The content of a user message.

    Raises:
        ConfigurationError: a part cannot be sent.
    """
    if isinstance(content, str):
        return text_blocks(content)
    return [block for part in content for block in _blocks(part, provider)]


def tool_result_content(message: ToolMessage, provider: str) -> str | list[Block]:
    """What a tool returned; a note in place of what cannot be sent, because that must not end the turn."""
    if isinstance(message.content, str):
        return message.content if message.content.strip() else ""
    blocks = [block for part in message.content for block in _returned(part, message, provider)]
    if all(set(block) == {"type", "text"} for block in blocks):
        return "".join([block["text"] for block in blocks])  # the form that every server takes
    return blocks


def _returned(part: Part, message: ToolMessage, provider: str) -> list[Block]:
    if not isinstance(part, ImagePart | AudioPart | FilePart):
        return _blocks(part, provider)
    kind = part.kind if message.trusted else f"{part.kind} of {message.source}"
    name = (part.name if isinstance(part, FilePart) else None) or part.media_type or "without a name"
    # An address of a stranger is not fetched, nor an uploaded file read.
    if part.url is not None and not message.trusted:
        return text_blocks(f"[{kind}, {name}: not shown, it is only an address]")
    try:
        return _blocks(part, provider)
    except ConfigurationError as error:
        logger.warning("What the tool %r returned is not sent to the model: %s", message.name, error)
        return text_blocks(f"[{kind}, {name}: cannot be shown here]")


def _blocks(part: Part, provider: str) -> list[Block]:
    """A part as blocks: one, or none when it is left out."""
    if isinstance(part, TextPart):
        return text_blocks(part.text)
    if isinstance(part, ImagePart):
        return [_image(part)]
    if isinstance(part, FilePart):
        return [_document(part)]
    if isinstance(part, AudioPart):
        raise ConfigurationError("The Messages API takes no audio: send its transcript as text.")
    if isinstance(part, ProviderPart):
        return [part.data] if part.provider == provider and isinstance(part.data, dict) else []
    if not isinstance(part, ReasoningPart):
        logger.warning("A content part of kind %r is not sent: this version does not know it.", part.kind)
    return []


def _image(part: ImagePart | FilePart) -> Block:
    source = _source(part)
    if source["type"] == "base64" and source["media_type"] not in _IMAGE_TYPES:
        raise ConfigurationError(
            f"The Messages API takes no image of type {source['media_type']!r}: it takes {', '.join(_IMAGE_TYPES)}."
        )
    return {"type": "image", "source": source}


def _document(part: FilePart) -> Block:
    source = _source(part)
    media_type = str(source.get("media_type") or part.media_type or "")
    if media_type.startswith("image/"):
        return _image(part)
    if source["type"] == "base64" and media_type != "application/pdf":
        source = _text_source(source, part)
    document: Block = {"type": "document", "source": source}
    if part.name:
        document["title"] = part.name
    return document


def _source(part: ImagePart | FilePart) -> dict[str, Any]:
    url = part.url
    if url is None:
        data = base64.b64encode(part.data or b"").decode()
        return {"type": "base64", "media_type": _media_type(part), "data": data}
    if url.startswith("file_"):  # the id of an uploaded file
        return {"type": "file", "file_id": url}
    if found := _DATA_URL.fullmatch(url):
        media_type = part.media_type or found["type"] or "text/plain"
        return {"type": "base64", "media_type": media_type, "data": found["data"]}
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"The Messages API cannot fetch {_short(url)!r}: give the bytes, "
            f"{type(part).__name__}(data=..., media_type=...), an address with https://, or the id of an uploaded "
            "file ('file_...') as url."
        )
    return {"type": "url", "url": url}


def _short(url: str) -> str:
    return url if len(url) <= 100 else f"{url[:100]}..."


def _text_source(source: dict[str, Any], part: FilePart) -> dict[str, Any]:
    media_type = str(source["media_type"]).partition(";")[0]
    name = part.name or "a file"
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+json", "+xml")):
        try:
            text = base64.b64decode(source["data"]).decode()
        except ValueError as exc:
            raise ConfigurationError(f"{name} is said to be {media_type}, but it is no UTF-8 text.") from exc
        return {"type": "text", "media_type": "text/plain", "data": text}
    raise ConfigurationError(
        f"The Messages API takes no file of type {media_type!r} ({name}): it takes PDF, text, and images "
        f"({', '.join(_IMAGE_TYPES)})."
    )


def _media_type(part: ImagePart | FilePart) -> str:
    if part.media_type:
        return part.media_type
    data = part.data or b""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if isinstance(part, FilePart):
        return (mimetypes.guess_type(part.name)[0] if part.name else None) or "application/octet-stream"
    raise ConfigurationError("The media type of an ImagePart is not known: give media_type=, for example 'image/png'.")
