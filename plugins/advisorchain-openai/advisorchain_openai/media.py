"""Images, audio and files: their media types, their bytes as addresses, and what tools return of them."""

from __future__ import annotations

import base64
import logging
import mimetypes
from collections.abc import Callable
from typing import Any

from advisorchain import AudioPart, ConfigurationError, FilePart, ImagePart, ToolMessage

logger = logging.getLogger("advisorchain.openai")

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
    (b"ID3", "audio/mpeg"),
)


def data_url(part: ImagePart | FilePart) -> str:
    """The bytes of a part as an address."""
    return f"data:{media_type(part)};base64,{base64.b64encode(part.data or b'').decode()}"


def media_type(part: ImagePart | AudioPart | FilePart) -> str:
    """The media type of a part: as it says, else by its first bytes, else by its file's name.

    Raises:
        ConfigurationError: it is not known.
    """
    if part.media_type:
        return part.media_type
    data = part.data or b""
    for signature, found in _SIGNATURES:
        if data.startswith(signature):
            return found
    if data[:4] == b"RIFF" and data[8:12] in (b"WAVE", b"WEBP"):
        return "audio/wav" if data[8:12] == b"WAVE" else "image/webp"
    if isinstance(part, FilePart):
        return (mimetypes.guess_type(part.name)[0] if part.name else None) or "application/octet-stream"
    raise ConfigurationError(
        f"The media type of an {type(part).__name__} is not known: give media_type=, for example 'image/png'."
    )


def returned(
    part: ImagePart | AudioPart | FilePart, message: ToolMessage, send: Callable[[Any], dict[str, Any] | None]
) -> dict[str, Any] | str:
    """What a tool returned beside text, by ``send``; a note in place of what cannot be sent.

    An address that a stranger gives is not fetched, nor an uploaded file read; and what cannot be sent must not end
    the turn.
    """
    kind = part.kind if message.trusted else f"{part.kind} of {message.source}"
    name = (part.name if isinstance(part, FilePart) else None) or part.media_type or "without a name"
    if part.url is not None and not message.trusted:
        return f"[{kind}, {name}: not shown, it is only an address]"
    try:
        sent = send(part)
    except ConfigurationError as error:
        logger.warning("What the tool %r returned is not sent to the model: %s", message.name, error)
        sent = None
    return sent or f"[{kind}, {name}: cannot be shown here]"
