"""Messages and their content parts: frozen pydantic models, lossless through JSON.

``Message`` is a union discriminated by ``role``, ``Part`` one by ``kind``. Roles and kinds that this
version does not know survive a round trip as ``UnknownMessage`` and ``UnknownPart``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator
from pydantic_core import PydanticSerializationError

from .errors import TranscriptError
from .plain_json import writable
from .runtime import new_id


class _Frozen(BaseModel):
    # defer_build: validators are built at first use, which halves the package's import time.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="constants",
    )


class TextPart(_Frozen):
    """A piece of text."""

    kind: Literal["text"] = "text"
    text: str


class _Media(_Frozen):
    """Bytes or an address, of a media type; exactly one of ``data`` and ``url``."""

    media_type: str | None = None
    data: bytes | None = None
    url: str | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.data is None) == (self.url is None):
            raise ValueError("give data or url, one of them")
        return self


class ImagePart(_Media):
    """An image, as bytes or by address."""

    kind: Literal["image"] = "image"


class AudioPart(_Media):
    """Audio, as bytes or by address."""

    kind: Literal["audio"] = "audio"


class FilePart(_Media):
    """A file, as bytes or by address."""

    kind: Literal["file"] = "file"
    name: str | None = None


class ReasoningPart(_Frozen):
    """What the model thought before it answered, when the provider shows it."""

    kind: Literal["reasoning"] = "reasoning"
    text: str
    signature: str | None = None


class ProviderPart(_Frozen):
    """Something only its provider understands (signature, encrypted reasoning, server-side tool block).

    Kept as it came, and given back to the same provider only.
    """

    kind: Literal["provider"] = "provider"
    provider: str
    type: str
    data: Any


class UnknownPart(BaseModel):
    """A part of a kind that this version does not know; kept with all its fields."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, ser_json_inf_nan="constants")
    kind: str

    @field_validator("kind")
    @classmethod
    def _is_unknown(cls, kind: str) -> str:
        if kind in {"text", "image", "audio", "file", "reasoning", "provider"}:
            raise ValueError("this kind is known, and has other fields")
        return kind


KnownPart: TypeAlias = Annotated[
    TextPart | ImagePart | AudioPart | FilePart | ReasoningPart | ProviderPart, Field(discriminator="kind")
]
Part: TypeAlias = KnownPart | UnknownPart

Content: TypeAlias = str | tuple[Part, ...]


def text_of(content: str | Sequence[Part]) -> str:
    """The text of a message's content: text parts joined, everything else left out."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if type(part) is TextPart)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool.

    Args:
        name: the tool's name, as the model wrote it.
        arguments: a dict, or the provider's raw JSON text (which may be malformed).
        id: the provider's id; without one, one is made.
        executed_by: ``"client"``, or ``"provider"`` for a server-side tool that has already run there.
        metadata: what the provider wants back with the call, for example a signature.
    """

    name: str
    arguments: dict[str, Any] | str | None = None
    id: str = None  # type: ignore[assignment]  # __post_init__ replaces None and ""
    executed_by: Literal["client", "provider"] = "client"
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", "call_" + new_id())

    def replace(self, *, arguments: dict[str, Any] | str | None = None, id: str | None = None) -> ToolCall:
        """A copy with other arguments or another id."""
        return ToolCall(
            self.name,
            self.arguments if arguments is None else arguments,
            id or self.id,
            self.executed_by,
            self.metadata,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, or of a turn; each is None when the provider did not say.

    ``cache_read_tokens`` and ``cache_write_tokens`` are part of ``input_tokens``, ``reasoning_tokens`` of
    ``output_tokens``, as OpenTelemetry's ``gen_ai.usage.*`` defines them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input plus output tokens; None when neither is known."""
        return _add(self.input_tokens, self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.cache_read_tokens, other.cache_read_tokens),
            _add(self.cache_write_tokens, other.cache_write_tokens),
            _add(self.reasoning_tokens, other.reasoning_tokens),
        )


NOTHING_USED = Usage()
"""What stands for the usage of a model that tells none."""


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


class _Message(_Frozen):
    content: Content
    id: str = Field(default_factory=new_id)
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The message's text: its text parts joined."""
        content = self.content
        return content if type(content) is str else text_of(content)


class SystemMessage(_Message):
    """Instructions for the model."""

    role: Literal["system"] = "system"


def with_paragraph(message: SystemMessage, text: str) -> SystemMessage:
    """The system message with one more paragraph; what it has beside its text stays."""
    content, paragraph = message.content, f"\n\n{text}"
    more = content + paragraph if isinstance(content, str) else (*content, TextPart(text=paragraph))
    return message.model_copy(update={"content": more})


class UserMessage(_Message):
    """What the user says."""

    role: Literal["user"] = "user"


class AssistantMessage(_Message):
    """What the model answers: content, tool calls, or both."""

    role: Literal["assistant"] = "assistant"
    content: Content = ""
    tool_calls: tuple[ToolCall, ...] = ()


class ToolMessage(_Message):
    """The result of one tool call.

    ``source`` says where the tool lives (``"local"`` or an MCP server's name), ``trusted`` whether its text
    comes from a source that the application trusts.
    """

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    is_error: bool = False
    source: str = "local"
    trusted: bool = True


class UnknownMessage(BaseModel):
    """A message of a role that this version does not know; kept with all its fields."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True, ser_json_inf_nan="constants")
    role: str

    @property
    def id(self) -> str:
        """Its id, or an empty text."""
        return str((self.model_extra or {}).get("id", ""))

    @property
    def text(self) -> str:
        """Its text, if it has one."""
        extra = self.model_extra or {}
        found = next((extra[name] for name in ("text", "content") if isinstance(extra.get(name), str)), "")
        return str(found)

    @field_validator("role")
    @classmethod
    def _is_unknown(cls, role: str) -> str:
        if role in {"system", "user", "assistant", "tool"}:
            raise ValueError("this role is known, and has other fields")
        return role


KnownMessage: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]
Message: TypeAlias = KnownMessage | UnknownMessage


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[tuple[Message, ...]]:
    return TypeAdapter(tuple[Message, ...], config=ConfigDict(ser_json_inf_nan="constants"))


def dump_messages(messages: Iterable[Message]) -> str:
    """Messages as JSON text, nothing lost; but half a character (a lone surrogate), which UTF-8 has not, becomes ``?``.

    Raises:
        pydantic_core.PydanticSerializationError, RecursionError: ``metadata``, say, holds what JSON has not.
    """
    messages = tuple(messages)
    try:
        return _adapter().dump_json(messages).decode()
    except PydanticSerializationError:  # browsers and models that cut a text in the middle of an emoji send such halves
        whole = _adapter().validate_python(writable(_adapter().dump_python(messages)))
        return _adapter().dump_json(whole).decode()


def load_messages(text: str | bytes) -> tuple[Message, ...]:
    """The messages that `dump_messages` wrote.

    Raises:
        pydantic.ValidationError: the text is not what `dump_messages` writes.
    """
    return _adapter().validate_json(text)


def check_pairing(messages: Sequence[Message]) -> set[str]:
    """Check that every tool call is answered exactly once, after it and before anyone else speaks.

    Returns:
        The ids of all tool calls.

    Raises:
        TranscriptError: names the calls without a result, or the results without a call.
    """
    for message in messages:  # most histories hold no tool calls: one cheap pass
        kind = type(message)
        if kind is UserMessage or (kind is AssistantMessage and not message.tool_calls) or kind is SystemMessage:  # type: ignore[union-attr]
            continue
        return _check_calls(messages)
    return set()


def _shown(item: object) -> str:
    text = item if isinstance(item, str) else type(item).__name__
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _check_calls(messages: Sequence[Message]) -> set[str]:
    seen: set[str] = set()
    open_calls: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_calls:
                raise TranscriptError(
                    f"The tool message for call {message.call_id!r} ({message.name!r}) follows no open tool call "
                    "of that id; put it right after the assistant message that made the call."
                )
            del open_calls[message.call_id]
            continue
        if open_calls:
            break
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                if call.executed_by != "client":
                    continue
                if call.id in open_calls:
                    raise TranscriptError(f"An assistant message has two tool calls of the id {call.id!r}.")
                open_calls[call.id] = call.name
            seen.update(open_calls)
        elif not isinstance(message, SystemMessage | UserMessage | UnknownMessage):
            raise TranscriptError(
                f"A prompt is a text, a message, or a list of messages, but {_shown(message)} is none of these: make a "
                "UserMessage(content=...) of a text, and read JSON with load_messages(...)."
            )
    if open_calls:
        calls = ", ".join(f"{call_id!r} ({name})" for call_id, name in open_calls.items())
        raise TranscriptError(
            f"Tool calls without a result: {calls}. Add a ToolMessage for each right after the assistant message "
            "that made it, for example with client.execute_tools(response)."
        )
    return seen
