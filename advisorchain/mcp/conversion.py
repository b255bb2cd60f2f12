"""From what an MCP tool returned to a `ToolResult`: whatever a server sends, this gives a result and never raises.

The text for the model is what the text blocks say, in order, one line break between two. Everything else is kept beside
it as parts. What cannot be kept leaves a mark in square brackets in the text, so that nothing vanishes silently.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..invocation import ToolResult
from ..messages import AudioPart, FilePart, ImagePart, Part, TextPart
from ..tools.result import MAX_RESULT_BYTES
from .mending import writable

if TYPE_CHECKING:
    from mcp.types import CallToolResult

logger = logging.getLogger("advisorchain.mcp")

MAX_PARTS = 200
"""How many images, sounds and files one result may have."""
MAX_MARKS = 50
"""How many blocks that are left out are named one by one."""
MAX_META_BYTES = 64 * 1024
"""How large the ``_meta`` of a result may be."""

PROTOCOL_META = "io.modelcontextprotocol/"
"""What the protocol itself puts into ``_meta`` of every result; it says nothing about this one."""
_USUAL_META = {f"{PROTOCOL_META}serverInfo"}
"""All that ``_meta`` usually holds."""

MAX_ADDRESS = 8000
"""How many characters the address of a link may have."""

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:.")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_NO_FILE_NAME = re.compile(r"[^\w.+ ()-]")


def tool_result(
    result: CallToolResult, *, tool: str, max_bytes: int = MAX_RESULT_BYTES, direct: bool = False
) -> ToolResult:
    """What a server's tool returned, as a `ToolResult`.

    - Text blocks are the text. The text of an embedded resource follows a line ``[resource <uri>]``.
    - Images and audio become `ImagePart` and `AudioPart`; with a media type of another kind, a `FilePart`.
    - An embedded blob becomes a `FilePart` with its bytes, a resource link a `FilePart` with its address, which is
      never fetched. A line of text tells the model of each.
    - ``structuredContent`` is kept as ``structured`` and ``artifact``. Its JSON is the text only when no block has
      anything for the model, so that the model never reads one thing twice.
    - A block for ``audience: ["user"]`` alone stays out of the text and the parts: it is in
      ``metadata["mcp"]["for_user"]`` as a tuple of parts, and the text says that it exists.
    - ``isError`` makes an error result; its structured content is kept.
    - The result's ``_meta`` is in ``metadata["mcp"]["_meta"]``, without the keys of the protocol itself.

    Args:
        result: what ``mcp`` returned.
        tool: the tool's name, for the log.
        max_bytes: how much text the result may have, and how many bytes of images and files in all. Text is cut and
            marked, data that goes beyond is left out and marked.
        direct: the result may be the answer itself. Then blocks for the user are in it, as text and parts like the
            others, and no lines are added about embedded resources, files and links: the text is the tool's own.
    """
    plain = plain_result(result, max_bytes)
    if plain is not None:
        return plain
    blocks = _Blocks(max_bytes, direct)
    for block in _sequence(getattr(result, "content", None)):
        blocks.add(block)
    is_error = getattr(result, "is_error", False) is True
    structured, structured_text = _structured(result, max_bytes, blocks)
    for_user = blocks.for_user
    texts = blocks.texts if any(blocks.texts) else []
    if structured_text is not None and not texts and not blocks.parts:
        texts = [structured_text]
    marks = blocks.marks
    if blocks.surplus:
        marks.append(f"[{_count(blocks.surplus, 'block')} more left out: a result has at most {MAX_PARTS} parts]")
    if for_user:
        marks = [f"[for the user only, not shown here: {_count(len(for_user), 'block')}]", *marks]
    if is_error and not texts and not marks:
        texts = ["The tool failed without saying why."]
    content = _joined(texts, marks, max_bytes)
    if blocks.marks:
        logger.warning("Result of the MCP tool %r: %s", tool, " ".join(blocks.marks)[:1000])
    about: dict[str, Any] = _meta(result)
    if for_user:
        about["for_user"] = tuple(for_user)
    return ToolResult(
        content,
        parts=tuple(blocks.parts),
        structured=structured,
        artifact=structured,
        is_error=is_error,
        metadata={"mcp": about} if about else None,
    )


def plain_result(result: Any, max_bytes: int) -> ToolResult | None:
    """What comes of one text and perhaps structured content, as most results are, without the detours; or None.

    It is the same whether it may be the answer itself or not.
    """
    try:
        if result.is_error or len(result.content) != 1:
            return None
        block, structured, meta = result.content[0], result.structured_content, result.meta
        text = block.text
        if block.type != "text" or block.annotations is not None or type(text) is not str or not text:
            return None
        if structured is not None and not _fits(structured, text, max_bytes):
            return None
        about = _meta(result) if meta and not meta.keys() <= _USUAL_META else None
    except (AttributeError, TypeError, ValueError):
        return None
    if len(text) * 4 > max_bytes:
        text = cut(text, max_bytes)
    return ToolResult(text, structured=structured, artifact=structured, metadata={"mcp": about} if about else None)


def _fits(structured: Any, text: str, max_bytes: int) -> bool:
    """Whether the structured content is small enough as JSON.

    Raises:
        ValueError: it cannot be written as JSON.
    """
    # The SDK's servers wrap what is no object. An ASCII character has at most 6 bytes in JSON.
    if structured == {"result": text} and text.isascii() and len(text) * 6 + 16 <= max_bytes:
        return True
    return len(to_json(structured, fallback=str)) <= max_bytes


def cut(text: str, max_bytes: int) -> str:
    """The text, or its beginning and a mark that says how much was cut: never over ``max_bytes`` of UTF-8.

    A limit that is too small even for the mark gives the mark alone.
    """
    if len(text) * 4 <= max_bytes:  # UTF-8 has at most 4 bytes a character
        return text
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return text
    kept = max(max_bytes - len(_cut_mark(len(data), max_bytes)), 0)
    return data[:kept].decode(errors="ignore") + _cut_mark(len(data), kept)


def _cut_mark(size: int, kept: int) -> str:
    return f"\n[cut: {size} bytes, the first {kept} are kept]"


def _joined(texts: list[str], marks: list[str], max_bytes: int) -> str:
    """Texts and then marks; a cut takes from the texts."""
    text = "\n".join(texts) if len(texts) != 1 else texts[0]
    if not marks:
        return cut(text, max_bytes)
    tail = cut("\n".join(marks), max_bytes)
    if not text:
        return tail
    return f"{cut(text, max(max_bytes - len(tail.encode()) - 1, 0))}\n{tail}"


class _Blocks:
    """What the blocks of one result have come to so far."""

    __slots__ = ("texts", "parts", "for_user", "marks", "room", "surplus", "direct", "max_bytes")

    def __init__(self, max_bytes: int, direct: bool) -> None:
        self.texts: list[str] = []
        self.parts: list[Part] = []
        self.for_user: list[Part] = []
        self.marks: list[str] = []
        self.max_bytes = self.room = max_bytes
        self.surplus = 0
        self.direct = direct

    def add(self, block: Any) -> None:
        for_user = not self.direct and _is_for_user(block)
        try:
            text, part = self._read(block)
        except _LeftOut as reason:
            self.mark(str(reason))
            return
        except Exception as error:  # a server must not end a turn
            self.mark(f"[a block of the type {_short(getattr(block, 'type', None))} left out: it cannot be read]")
            logger.debug("a block of an MCP result cannot be read", exc_info=error)
            return
        if part is not None and len(self.parts) + len(self.for_user) >= MAX_PARTS:
            self.surplus += 1
            return
        if not for_user:
            if text is not None:
                self.texts.append(text)
            if part is not None:
                self.parts.append(part)
        elif part is not None:
            self.for_user.append(part)
        elif text and len(self.for_user) < MAX_PARTS:
            self.for_user.append(TextPart(text=cut(writable(text), max(self.room, 0))))
            self.room -= len(text.encode(errors="replace"))
        elif text:
            self.surplus += 1

    def mark(self, text: str) -> None:
        if len(self.marks) < MAX_MARKS:
            self.marks.append(text)
        else:
            self.surplus += 1

    def _read(self, block: Any) -> tuple[str | None, Part | None]:
        kind = getattr(block, "type", None)
        if kind == "text":
            return str(block.text), None
        if kind == "image" or kind == "audio":
            media_type = _media_type(block.mime_type)
            data = self._decoded(block.data, kind, media_type)
            if not media_type.startswith(kind + "/"):  # no provider takes it as what the server says that it is
                return None, FilePart(data=data, media_type=media_type)
            part = ImagePart if kind == "image" else AudioPart
            return None, part(data=data, media_type=media_type)
        if kind == "resource":
            return self._resource(block.resource)
        if kind == "resource_link":
            return self._link(block)
        raise _LeftOut(f"[a block of the unknown type {_short(kind)} left out]")

    def _resource(self, resource: Any) -> tuple[str | None, Part | None]:
        uri = _line(resource.uri)
        text = getattr(resource, "text", None)
        if isinstance(text, str):
            return text if self.direct else f"[resource {uri}]\n{text}", None
        blob = getattr(resource, "blob", None)
        if not isinstance(blob, str):
            raise _LeftOut(f"[resource {uri} left out: it has neither text nor data]")
        media_type = _media_type(resource.mime_type)
        data = self._decoded(blob, f"file {uri}", media_type)
        line = None if self.direct else f"[file {uri} ({media_type}, {len(data)} bytes)]"
        return line, FilePart(data=data, media_type=media_type, name=_file_name(uri))

    def _link(self, link: Any) -> tuple[str | None, Part | None]:
        name = _line(link.name)
        uri = _CONTROL.sub("", writable(str(link.uri)[: MAX_ADDRESS + 1]))
        if len(uri) > MAX_ADDRESS:
            raise _LeftOut(f"[link to {name or 'a resource'} left out: its address is over {MAX_ADDRESS} characters]")
        if not _SCHEME.match(uri):  # could pass for something else, for example the id of a file at the provider
            raise _LeftOut(f"[link to {name or 'a resource'} left out: {_short(uri)} is no address]")
        known = [uri]
        if link.mime_type:
            known.append(_media_type(link.mime_type))
        if isinstance(link.size, int):
            known.append(f"{link.size} bytes")
        line = f"[link to {name or 'a resource'}: {', '.join(known)}]"
        description = _line(link.description or "", 500)
        if description:
            line = f"{line} {description}"
        media_type = _media_type(link.mime_type) if link.mime_type else None
        return None if self.direct else line, FilePart(url=uri, name=name or None, media_type=media_type)

    def _decoded(self, data: str, what: str, media_type: str) -> bytes:
        """The bytes behind base64 text; takes them from the room that is left."""
        if data.startswith("data:"):  # some servers send a whole data URL
            data = data.partition(",")[2]
        size = len(data) // 4 * 3
        if size > self.room + 2:
            raise _LeftOut(
                f"[{what} ({media_type}) left out: {size} bytes; a result may have {self.max_bytes} in all, "
                f"{max(self.room, 0)} are left]"
            )
        try:
            found = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise _LeftOut(f"[{what} ({media_type}) left out: its data is not base64]") from None
        if not found:
            raise _LeftOut(f"[{what} ({media_type}) left out: it is empty]")
        self.room -= len(found)
        return found


class _LeftOut(Exception):
    """A block that is not kept; the text is the mark."""


def _structured(result: Any, max_bytes: int, blocks: _Blocks) -> tuple[Any, str | None]:
    """The structured content and its JSON; neither when it is too large."""
    value = getattr(result, "structured_content", None)
    if value is None:
        return None, None
    try:
        text = to_json(value, fallback=str, inf_nan_mode="strings").decode()
    except ValueError:  # nested too deeply, or lone surrogates
        blocks.mark("[structured content left out: it cannot be read]")
        return None, None
    if len(text) > max_bytes or (len(text) * 4 > max_bytes and len(text.encode()) > max_bytes):
        blocks.mark(f"[structured content left out: {len(text)} characters, at most {max_bytes} bytes are kept]")
        return None, None
    return value, text


def _meta(result: Any) -> dict[str, Any]:
    meta = getattr(result, "meta", None)
    if not meta or not isinstance(meta, dict):
        return {}
    meta = {key: value for key, value in meta.items() if not key.startswith(PROTOCOL_META)}
    if not meta:
        return {}
    try:
        size = len(to_json(meta, fallback=str))
    except ValueError:
        return {"_meta_left_out": "it cannot be read"}
    if size > MAX_META_BYTES:
        return {"_meta_left_out": f"{size} bytes, at most {MAX_META_BYTES} are kept"}
    return {"_meta": meta}


def _is_for_user(block: Any) -> bool:
    audience = getattr(getattr(block, "annotations", None), "audience", None)
    return isinstance(audience, list | tuple) and bool(audience) and all(role == "user" for role in audience)


def _sequence(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list | tuple) else ()


def _media_type(value: Any) -> str:
    """A well-formed media type, or the one that says nothing."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if len(text) <= 200 and _MEDIA_TYPE.fullmatch(text) else "application/octet-stream"


def _line(value: Any, limit: int = 200) -> str:
    """Text on one line, for a mark."""
    text = _BLANK.sub(" ", writable(str(value or "")[: limit + 1])).strip()
    return text if len(text) <= limit else text[:limit] + "..."


def _short(kind: Any) -> str:
    return repr(_line(kind, 40))


def _file_name(uri: str) -> str | None:
    """The last piece of an address, as far as it can name a file."""
    last = uri.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    name = _NO_FILE_NAME.sub("_", last)
    return name if name.strip("._ ") else None


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
