"""What passes along the tool chain: `ToolInvocation` and `ToolResult`; slotted and read-only like requests."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from .context import Context
from .events import ToolProgress
from .messages import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownPart,
)
from .plain_json import json_text

if TYPE_CHECKING:
    from .exchange import ChatRequest
    from .tools.definition import Tool

PART_TYPES = (TextPart, ImagePart, AudioPart, FilePart, ReasoningPart, ProviderPart, UnknownPart)
"""What a tool may return as content."""

_KEEP: Any = object()


class ToolInvocation:
    """One tool call on its way through the tool advisors.

    Attributes:
        call: the model's call.
        tool: the tool; for an unknown name a placeholder that fails.
        request: the request whose answer made the call.
        round: the round that runs it.
    """

    __slots__ = ("call", "tool", "request", "round")

    def __init__(self, call: ToolCall, tool: Tool, request: ChatRequest, round: int = 0) -> None:
        self.call = call
        self.tool = tool
        self.request = request
        self.round = round

    @property
    def arguments(self) -> Any:
        """The call's arguments, checked and converted by the tool: a dict, or the model instance of `Tool.from_model`.

        Raises:
            ToolArgumentsError: they are malformed or invalid; says field by field what is wrong.
        """
        return self.tool.validate(self.call.arguments)  # anew each time: an attempt may change what it gets

    @property
    def context(self) -> Context:
        """What the turn shares."""
        return self.request.context

    def replace(
        self, *, call: ToolCall | None = None, tool: Tool | None = None, request: ChatRequest | None = None
    ) -> ToolInvocation:
        """A copy with another call, tool or request."""
        return ToolInvocation(call or self.call, tool or self.tool, request or self.request, self.round)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the stream."""
        request = self.request
        if request.streaming:
            turn = request.context.turn
            event = ToolProgress(self.call.id, self.call.name, progress, total, message)
            event.path, event.round, event.attempt = turn.path, self.round, turn.attempt
            await request.emit(event)

    def __repr__(self) -> str:
        return f"ToolInvocation({self.call.name!r}, id={self.call.id!r}, round={self.round})"


class ToolResult:
    """The result of one tool call.

    Attributes:
        content: the text; whole, the cut for the model is made when the message is.
        parts: content parts beside or instead of the text (images, files).
        artifact: the raw Python value that the tool returned.
        is_error: whether it is an error.
        call_id, name: of the call; stamped by the loop.
        return_direct: whether the tool's result may be the answer itself; stamped by the loop.
        source, trusted: where the tool lives, and whether its text is trusted.
        failure: class and kind of a failure, for audit and spans; None for a success.
        metadata: what advisors say about the result, for example ``"attempts"`` and ``"cache"``; or None.

    Raises:
        TypeError: ``content`` is no text.
    """

    __slots__ = (
        "content", "parts", "artifact", "is_error", "call_id", "name", "return_direct", "source", "trusted",
        "failure", "metadata", "_structured",
    )  # fmt: skip

    def __init__(
        self,
        content: str = "",
        *,
        parts: tuple[Part, ...] = (),
        structured: Any = _KEEP,
        artifact: Any = None,
        is_error: bool = False,
        failure: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(content, str):
            raise TypeError(f"the content of a ToolResult is a text, not {type(content).__name__}; see artifact=")
        self.content = content
        self.parts = parts
        self._structured = structured
        self.artifact = artifact
        self.is_error = is_error
        self.failure = failure
        self.metadata = metadata
        self.call_id = ""
        self.name = ""
        self.return_direct = False
        self.source = "local"
        self.trusted = True

    @classmethod
    def error(cls, text: str, *, failure: Mapping[str, Any] | None = None) -> ToolResult:
        """An error result: its text reaches the model."""
        return cls(text, is_error=True, failure=failure)

    @property
    def structured(self) -> Any:
        """The value as plain JSON data (dict or list), or None when the result is only text and content parts."""
        if self._structured is not _KEEP:
            return self._structured
        value = self.artifact
        if isinstance(value, PART_TYPES) or are_parts(value):
            return None
        if isinstance(value, dict | list) or hasattr(value, "model_dump") or hasattr(value, "__dataclass_fields__"):
            return from_json(json_text(value))
        return None

    def replace(self, **changes: Any) -> ToolResult:
        """A copy with some attributes changed.

        A changed ``content`` drops ``artifact`` and ``structured`` unless they are given too: whoever redacts the text
        must not leave the value beside it.
        """
        new = self.stamped(self.call_id, self.name, self.return_direct, self.source, self.trusted)
        if "content" in changes:
            changes = {"artifact": None, "structured": None, **changes}
        for name, value in changes.items():
            setattr(new, "_structured" if name == "structured" else name, value)
        return new

    def own_copy(self) -> ToolResult:
        """A copy whose artifact and structured value nobody else changes, where they are plain data."""
        copied: dict[int, Any] = {}  # often both are one object, and stay one
        return self.replace(artifact=_own_copy(self.artifact, copied), structured=_own_copy(self._structured, copied))

    def with_text(self, content: str) -> ToolResult:
        """A copy with another form of the same text (a cut): artifact and structured value are kept."""
        return self.replace(content=content, artifact=self.artifact, structured=self._structured)

    def stamped(self, call_id: str, name: str, return_direct: bool, source: str, trusted: bool) -> ToolResult:
        """A copy that knows which call it answers; made by the loop."""
        new = _new_result(ToolResult)
        new.content = self.content
        new.parts = self.parts
        new._structured = self._structured
        new.artifact = self.artifact
        new.is_error = self.is_error
        new.failure = self.failure
        new.metadata = self.metadata
        new.call_id = call_id
        new.name = name
        new.return_direct = return_direct
        new.source = source
        new.trusted = trusted
        return new

    def message(self, content: str | None = None) -> ToolMessage:
        """The message for the model; ``content`` overrides the text (a cut)."""
        text: Any = self.content if content is None else content
        if self.parts:
            text_part = (TextPart(text=text),) if text else ()
            text = (*text_part, *self.parts)
        elif not self.is_error and self.trusted and self.source == "local":  # the plain case, without __init__
            return ToolMessage.__pydantic_validator__.validate_python(  # type: ignore[no-any-return]
                {"content": text, "call_id": self.call_id, "name": self.name}
            )
        return ToolMessage(
            content=text,
            call_id=self.call_id,
            name=self.name,
            is_error=self.is_error,
            source=self.source,
            trusted=self.trusted,
        )

    def __repr__(self) -> str:
        kind = "error" if self.is_error else "ok"
        return f"ToolResult({self.name!r}, {kind}, {self.content[:60]!r})"


def _own_copy(value: Any, copied: dict[int, Any]) -> Any:
    if isinstance(value, dict | list | set | bytearray):
        with suppress(Exception):  # something inside cannot be copied
            return copy.deepcopy(value, copied)
    return value


def are_parts(value: Any) -> bool:
    """Whether a value is a list of content parts, and not empty."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, PART_TYPES) for item in value)


_new_result = ToolResult.__new__
