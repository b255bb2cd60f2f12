"""An answer of the Messages API, whole or in pieces, as events and as one `ChatResponse`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from advisorchain import (
    AssistantMessage,
    ChatResponse,
    Event,
    Part,
    PartDelta,
    ProviderPart,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from advisorchain.models.http.understood import token_count

from .messages import BEFORE, CITATIONS, FIELDS, THINKING, arguments_object

Json = Mapping[str, Any]

PAUSED = "pause_turn"
"""The reason to stop of an answer that goes on when it is sent back as it is."""

REFUSAL = "refusal"

_STOP_REASONS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    REFUSAL: "refused",
}
_ENVELOPE = (("id", "response_id"), ("model", "response_model"))
_ENDING = ("stop_sequence", "stop_details", "container")
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
_JSON = "partial_json"


class _Block:
    """A content block while its pieces arrive; ``data`` is the whole block in the end."""

    __slots__ = ("data", "pieces", "call", "arguments")

    def __init__(self, data: Json, call: int | None) -> None:
        self.data = dict(data)
        self.pieces: dict[str, list[str]] = {}
        self.call = call  # the number of the call that it is
        self.arguments: dict[str, Any] | str = {}

    @property
    def type(self) -> str:
        return str(self.data.get("type"))

    def add(self, delta: Json) -> None:
        """Take in a piece. Pieces of kinds that are not known here are put together by the form of their fields."""
        for key, value in delta.items():
            if key == "type":
                continue
            if key == "citation":
                key, value = "citations", [value]
            before = self.data.get(key)
            if isinstance(value, str):
                self.pieces.setdefault(key, []).append(value)
            elif isinstance(value, list) and isinstance(before, list):
                before.extend(value)
            else:
                self.data[key] = value

    def close(self) -> None:
        """No more pieces come."""
        written = "".join(self.pieces.pop(_JSON, ()))
        for key, texts in self.pieces.items():
            before = self.data.get(key)
            self.data[key] = (before if isinstance(before, str) else "") + "".join(texts)
        self.pieces.clear()
        if written.strip():
            self.arguments = _arguments(written)
            self.data["input"] = arguments_object(self.arguments)
        elif isinstance(self.data.get("input"), Mapping):
            self.arguments = dict(self.data["input"])


class Answer:
    """Takes events (or one whole message) in and gives events out; `response` is the end of it.

    A paused answer may go on with another message: what that one says is added.

    Args:
        provider: the provider's name, for parts and call metadata that go back to it only.
        read: reads the whole text, for example the value in the object around it; no text is emitted before the end.
    """

    def __init__(self, provider: str, *, read: Callable[[str], str] | None = None) -> None:
        self._provider = provider
        self._read = read
        self._blocks: list[_Block] = []
        self._open: dict[Any, _Block] = {}
        self._calls = 0
        self._usage: dict[str, Any] = {}
        self._used: Usage | None = None  # by the messages before this one
        self._envelope: dict[str, Any] = {}
        self.stop_reason: str | None = None
        self.is_complete = False

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks as they came, to be sent back; text that the provider would refuse is left out."""
        return [block.data for block in self._blocks if block.type != "text" or str(block.data.get("text")).strip()]

    @property
    def container(self) -> str | None:
        """The id of the container in which the provider's own tools run, if it has said one."""
        found = _mapping(self._envelope.get("container")).get("id")
        return found if isinstance(found, str) else None

    def add(self, event: Json) -> list[Event]:
        """Take in one event of a stream; events of kinds that are not known here are passed over."""
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._add_piece(event.get("index"), _mapping(event.get("delta")))
        if kind == "content_block_start":
            return self._begin_block(event.get("index"), _mapping(event.get("content_block")))
        if kind == "content_block_stop":
            return self._end_block(event.get("index"))
        if kind == "message_start":
            self._begin(_mapping(event.get("message")))
        elif kind == "message_delta":
            self._end(_mapping(event.get("delta")), event.get("usage"))
        elif kind == "message_stop":
            self.is_complete = True
            return [more for index in list(self._open) for more in self._end_block(index)]
        return []

    def add_message(self, message: Json) -> list[Event]:
        """Take in a whole message."""
        self._begin(message)
        events: list[Event] = []
        for index, block in enumerate(cast("list[Any]", message.get("content") or ())):
            events += self._begin_block(index, _mapping(block))
            events += self._end_block(index)
        self._end(message, None)
        self.is_complete = True
        return events

    def finish(self) -> list[Event]:
        """What was held back until the end."""
        text = self._text() if self._read is not None else ""
        return [TextDelta(text)] if text else []

    def response(self) -> ChatResponse[Any]:
        """Everything as one response."""
        parts, calls = self._content()
        if self.stop_reason == REFUSAL:
            calls = []  # it was stopped on the way: what it had begun must not run
        content: str | tuple[Part, ...] = tuple(parts)
        is_placed = any(self._metadata_of(call).get(BEFORE) is not None for call in calls)
        if not is_placed and all(isinstance(part, TextPart) for part in parts):
            content = self._text()
        metadata = dict(self._envelope)
        if self.stop_reason:
            metadata["finish_reason"] = self.stop_reason
        return ChatResponse(
            AssistantMessage(content=content, tool_calls=tuple(calls)),
            usage=self._all_usage(),
            stop_reason=_STOP_REASONS.get(self.stop_reason or "", "final"),
            metadata=metadata,
        )

    # Taking in -------------------------------------------------------------------------------------------------------

    def _begin(self, message: Json) -> None:
        self._used = self._all_usage()
        self._usage = {}
        self._open = {}
        self.is_complete = False
        self.stop_reason = None
        for key, name in _ENVELOPE:
            if message.get(key):
                self._envelope[name] = message[key]
        self._count(message.get("usage"))

    def _end(self, delta: Json, usage: Any) -> None:
        self.stop_reason = delta.get("stop_reason") or self.stop_reason
        for key in _ENDING:
            if delta.get(key):
                self._envelope[key] = delta[key]
        self._count(usage)

    def _count(self, usage: Any) -> None:
        """Counts are totals of the message: what is said last holds."""
        self._usage.update({key: value for key, value in _mapping(usage).items() if value is not None})

    def _begin_block(self, index: Any, data: Json) -> list[Event]:
        kind = str(data.get("type"))
        is_call = kind.endswith("tool_use") and bool(data.get("name"))
        block = _Block(data, self._calls if is_call else None)
        self._blocks.append(block)
        self._open[index] = block
        if block.call is not None:
            self._calls += 1
            return [ToolCallDelta(block.call, str(data.get("id") or "") or None, str(data["name"]))]
        return self._said(kind, data.get(kind))

    def _add_piece(self, index: Any, delta: Json) -> list[Event]:
        kind = str(delta.get("type")).removesuffix("_delta")
        events: list[Event] = []
        if index not in self._open:
            if kind not in ("text", "thinking"):
                return []
            events += self._begin_block(index, {"type": kind, kind: ""})  # a server that does not say where one begins
        block = self._open[index]
        block.add(delta)
        if block.call is not None and isinstance(delta.get(_JSON), str):
            events.append(ToolCallDelta(block.call, arguments=delta[_JSON]))
        return events + self._said(kind, delta.get(kind))

    def _said(self, kind: str, text: Any) -> list[Event]:
        if not isinstance(text, str) or not text:
            return []
        if kind == "text":
            return [TextDelta(text)] if self._read is None else []
        return [ReasoningDelta(text)] if kind == "thinking" else []

    def _end_block(self, index: Any) -> list[Event]:
        block = self._open.pop(index, None)
        if block is None:
            return []
        was_written = _JSON in block.pieces
        block.close()
        events: list[Event] = []
        if block.call is not None and block.arguments and not was_written:
            events.append(ToolCallDelta(block.call, arguments=json.dumps(block.arguments, ensure_ascii=False)))
        return events + [PartDelta(part) for part in self._parts(block) if isinstance(part, ProviderPart)]

    # Giving out ------------------------------------------------------------------------------------------------------

    def _content(self) -> tuple[list[Part], list[ToolCall]]:
        parts: list[Part] = []
        placed: list[tuple[_Block, int]] = []
        for block in self._blocks:
            if block.call is not None:
                placed.append((block, len(parts)))
            parts += self._parts(block)
        if self._read is not None:
            text = self._text()
            parts = [part for part in parts if not isinstance(part, TextPart)]
            parts += [TextPart(text=text)] if text else []
            placed = [(block, len(parts)) for block, _ in placed]
        return parts, [self._call(block, at if at < len(parts) else None) for block, at in placed]

    def _parts(self, block: _Block) -> list[Part]:
        """What a block is in the message's content; a call of the client is nothing there."""
        data, kind = block.data, block.type
        if kind == "text":
            parts: list[Part] = [TextPart(text=data["text"])] if data.get("text") else []
            return [*parts, self._own(CITATIONS, data["citations"])] if parts and data.get("citations") else parts
        if kind == "thinking":
            parts = [ReasoningPart(text=data["thinking"])] if data.get("thinking") else []
            return [*parts, self._own(THINKING, data)] if data.get("signature") else parts
        return [] if kind == "tool_use" else [self._own(kind, data)]

    def _call(self, block: _Block, before: int | None) -> ToolCall:
        data, is_own = block.data, block.type == "tool_use"
        kept: dict[str, Any] = {}
        if is_own:  # another one's block is a provider part, with all its fields in its place
            fields = {key: value for key, value in data.items() if key not in _CALL_FIELDS and value is not None}
            kept = ({FIELDS: fields} if fields else {}) | ({} if before is None else {BEFORE: before})
        return ToolCall(
            str(data["name"]),
            block.arguments,
            str(data.get("id") or ""),
            executed_by="client" if is_own else "provider",
            metadata={self._provider: kept} if kept else None,
        )

    def _metadata_of(self, call: ToolCall) -> Json:
        return _mapping((call.metadata or {}).get(self._provider))

    def _own(self, kind: str, data: Any) -> ProviderPart:
        return ProviderPart(provider=self._provider, type=kind, data=data)

    def _text(self) -> str:
        text = "".join([block.data.get("text") or "" for block in self._blocks if block.type == "text"])
        return text if self._read is None or self.stop_reason == REFUSAL else self._read(text)

    def _all_usage(self) -> Usage | None:
        usage = usage_of(self._usage) if self._usage else None
        if self._used is None or usage is None:
            return usage or self._used
        return self._used + usage


def _mapping(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, Mapping) else {}


def _arguments(text: str) -> dict[str, Any] | str:
    """A call's arguments; text that is no JSON object stays as the model wrote it."""
    value = arguments_object(text)
    return text if value == {"malformed_arguments": text} else value


def usage_of(usage: Json) -> Usage:
    """Token counts; what the server did not say stays None. The provider counts cached tokens apart from the input."""
    given, read, written = [
        token_count(usage.get(name))
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    return Usage(
        input_tokens=None if given is None else given + (read or 0) + (written or 0),
        output_tokens=token_count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=token_count(_mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
