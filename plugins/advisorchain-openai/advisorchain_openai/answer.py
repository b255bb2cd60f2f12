"""An answer of chat completions, whole or in pieces, as events and as one `ChatResponse`."""

from __future__ import annotations

import json
import math
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
from advisorchain.models.prompted_tools import Reading

from .response_item import mapping

Json = Mapping[str, Any]

# Kept and given back as they came: citations, and the signed or encrypted reasoning of some servers.
_KEPT_FIELDS = ("annotations", "reasoning_details")
_ENVELOPE = (("id", "response_id"), ("model", "response_model"), ("system_fingerprint", "system_fingerprint"))
_STOP_REASONS: dict[str, StopReason] = {"length": "length", "content_filter": "filtered"}


class _Call:
    """A tool call while its pieces arrive."""

    __slots__ = ("id", "name", "arguments", "extra")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}


class Answer:
    """Takes chunks (or one whole completion) in and gives events out; `response` is the end of it.

    Args:
        provider: the provider's name, for parts and call metadata that go back to it only.
        read: reads the whole text, for example the value in the object around it; no text is emitted before the end.
    """

    content_field = "choices"
    is_last = False  # a chunk with the token counts follows the last one: the server says [DONE]

    def __init__(self, provider: str, *, read: Callable[[str], Reading] | None = None) -> None:
        self._provider = provider
        self._read = read
        self._reading: Reading | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._slots: dict[int, _Call] = {}
        self._kept: dict[str, Any] = {}
        self._refused = False
        self._usage: Usage | None = None
        self._envelope: dict[str, Any] = {}
        self.finish_reason: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all has arrived: no text, no call, no reason to finish."""
        return self.finish_reason is None and not (self._text or self._reasoning or self._calls)

    @property
    def is_complete(self) -> bool:
        """Whether the model has said why it finished."""
        return self.finish_reason is not None

    def error_in(self, body: Json) -> Any:
        """The error that a server put into a chunk, or into a successful answer; None without one."""
        return None if body.get("choices") else body.get("error")

    def add_whole(self, body: Json) -> list[Event]:
        """Take in a whole completion."""
        return self.add(body)

    def add(self, body: Json) -> list[Event]:
        """Take in one chunk of a stream, or a whole completion."""
        for key, name in _ENVELOPE:
            if body.get(key):
                self._envelope[name] = body[key]
        usage = body.get("usage")
        if isinstance(usage, Mapping):  # some servers send it with every chunk: the last one counts
            self._usage = usage_of(cast("Json", usage))
        events: list[Event] = []
        for choice in cast("list[Json]", body.get("choices") or ()):
            if choice.get("index") not in (None, 0):  # asked for with extra={"n": ...}: one answer is what we give
                continue
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            piece = choice.get("delta") or choice.get("message")
            if isinstance(piece, Mapping):
                self._add_piece(cast("Json", piece), events)
        return events

    def finish(self) -> list[Event]:
        """What was held back until the end."""
        events: list[Event] = [PartDelta(part) for part in self._provider_parts()]
        if self._read is not None:
            text, calls = self._final()
            if text:
                events.append(TextDelta(text))
            for index, call in enumerate(calls, len(self._calls)):
                arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
                events.append(ToolCallDelta(index, call.id, call.name, arguments))
        return events

    def response(self) -> ChatResponse[Any]:
        """Everything as one response."""
        text, more_calls = self._final()
        parts: list[Part] = []
        if self._reasoning:
            parts.append(ReasoningPart(text="".join(self._reasoning)))
        parts += self._provider_parts()
        if parts and text:
            parts.append(TextPart(text=text))
        stop_reason: StopReason = "refused" if self._refused else _STOP_REASONS.get(self.finish_reason or "", "final")
        calls = tuple([self._tool_call(call) for call in self._calls]) + more_calls
        message = AssistantMessage(content=tuple(parts) if parts else text, tool_calls=calls)
        metadata = dict(self._envelope)
        if self.finish_reason:
            metadata["finish_reason"] = self.finish_reason
        return ChatResponse(message, usage=self._usage, stop_reason=stop_reason, metadata=metadata)

    def _add_piece(self, piece: Json, events: list[Event]) -> None:
        reasoning = piece.get("reasoning_content") or piece.get("reasoning")
        text = piece.get("content")
        if isinstance(text, list):  # typed blocks, as Mistral sends them
            blocks: list[Any] = text
            text, thought = _texts(blocks)
            reasoning = reasoning or thought
        if isinstance(reasoning, str) and reasoning:
            self._reasoning.append(reasoning)
            events.append(ReasoningDelta(reasoning))
        refusal = piece.get("refusal")
        if refusal:
            self._refused = True
        for more in (text, refusal):
            if isinstance(more, str) and more:
                self._text.append(more)
                if self._read is None:
                    events.append(TextDelta(more))
        for position, call in enumerate(cast("list[Json]", piece.get("tool_calls") or ())):
            events.append(self._add_call(call, position))
        for field in _KEPT_FIELDS:
            value = piece.get(field)
            if value:
                before = self._kept.get(field)
                if isinstance(before, list) and isinstance(value, list):
                    before.extend(value)
                else:
                    self._kept[field] = value

    def _add_call(self, piece: Json, position: int) -> ToolCallDelta:
        function = cast("Json", piece.get("function") or {})
        call_id, name = str(piece.get("id") or ""), str(function.get("name") or "")
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):  # not a text, against the protocol
            arguments = json.dumps(arguments, ensure_ascii=False)
        fragment = str(arguments or "")
        call = self._slot(piece.get("index"), position, call_id, name)
        call.id = call.id or call_id
        if name != call.name:  # some servers repeat the name with every piece
            call.name += name
        call.arguments.append(fragment)
        call.extra.update({key: value for key, value in piece.items() if key not in _CALL_FIELDS})
        return ToolCallDelta(self._calls.index(call), call_id or None, name or None, fragment)

    def _slot(self, index: Any, position: int, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to. Some servers send no index, others the same one for every call."""
        if not isinstance(index, int):
            known = next((call for call in self._calls if call.id == call_id), None) if call_id else None
            if known is not None:
                return known
            if self._calls and not call_id and not name:
                return self._calls[-1]
            index = len(self._calls)
        call = self._slots.get(index)
        if call is None or (name and call_id and call.id and call_id != call.id):
            call = self._slots[index] = _Call()
            self._calls.append(call)
        return call

    def _tool_call(self, call: _Call) -> ToolCall:
        metadata = {self._provider: call.extra} if call.extra else None
        return ToolCall(call.name, arguments_of("".join(call.arguments)), call.id or None, metadata=metadata)  # type: ignore[arg-type]  # None: an id is made

    def _final(self) -> Reading:
        if self._reading is None:
            text = "".join(self._text)
            self._reading = Reading(text) if self._read is None or self._refused else self._read(text)
        return self._reading

    def _provider_parts(self) -> list[ProviderPart]:
        return [ProviderPart(provider=self._provider, type=name, data=data) for name, data in self._kept.items()]


_CALL_FIELDS = frozenset({"index", "id", "type", "function"})


def _texts(blocks: list[Any]) -> tuple[str, str]:
    """The text and the reasoning of typed content blocks."""
    text, thought = "", ""
    for block in blocks:
        if not isinstance(block, Mapping):
            continue
        piece = cast("Json", block)
        if isinstance(piece.get("text"), str):
            text += piece["text"]
        elif isinstance(piece.get("thinking"), list):
            thought += _texts(cast("list[Any]", piece["thinking"]))[0]
    return text, thought


def arguments_of(text: str) -> dict[str, Any] | str:
    """A call's arguments; text that is no JSON object stays as the model wrote it."""
    if not text.strip():
        return {}
    try:
        value: Any = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", value) if isinstance(value, dict) else text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_constant(digits)


def usage_of(usage: Json) -> Usage:
    """Token counts; what the server did not say stays None."""
    given, made = mapping(usage.get("prompt_tokens_details")), mapping(usage.get("completion_tokens_details"))
    cached = given.get("cached_tokens")
    return Usage(
        input_tokens=token_count(usage.get("prompt_tokens")),
        output_tokens=token_count(usage.get("completion_tokens")),
        cache_read_tokens=token_count(usage.get("prompt_cache_hit_tokens") if cached is None else cached),
        cache_write_tokens=token_count(given.get("cache_write_tokens")),
        reasoning_tokens=token_count(made.get("reasoning_tokens")),
    )
