"""An answer of the Responses API, whole or in pieces, as events and as one `ChatResponse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

from .answer import arguments_of
from .response_item import Json, OutputItem, kind_of_piece, mapping, objects, text_of
from .response_items import ANNOTATIONS, BEFORE, CONTENT, FIELDS, LOGPROBS, MESSAGE

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_FAILED = frozenset({"failed", "cancelled"})
_OPEN = frozenset({"queued", "in_progress"})
_MESSAGE_FIELDS = frozenset({"type", "id", "role", "status", "content"})
_CALL_FIELDS = frozenset({"type", "id", "status", "call_id", "name", "arguments"})  # no id: nothing is kept there
_FUNCTION = "function_call"


class ResponseAnswer:
    """Takes events (or one whole response) in and gives events out; `response` is the end of it.

    Args:
        owner: whose the provider parts and the call metadata are.
        read: reads the whole text, for example the value in the object around it; no text is emitted before the end.
    """

    content_field = "output"

    def __init__(self, owner: str, *, read: Callable[[str], Reading] | None = None) -> None:
        self._owner = owner
        self._read = read
        self._items: list[OutputItem] = []
        self._slots: dict[int, OutputItem] = {}
        self._calls = 0
        self._response: dict[str, Any] = {}
        self.is_complete = False

    @property
    def is_last(self) -> bool:
        """Whether the event that ends the answer has arrived."""
        return self.is_complete

    @property
    def is_empty(self) -> bool:
        """Whether no response has arrived."""
        return not self._items and not isinstance(self._response.get("output"), list)

    def error_in(self, body: Json) -> Any:
        """The error of an event or a response; None without one."""
        kind = body.get("type")
        if kind == "error" or body.get("error"):
            return body.get("error") or body
        response = body if kind is None else mapping(body.get("response"))
        status = response.get("status")
        if response.get("error"):
            return response["error"]
        if status in _FAILED or kind == "response.failed":
            return {"message": f"The response has the status {status!r}, and the server does not say why."}
        if status in _OPEN and kind is None:
            text = f"The response is not finished (status {status!r}): responses in the background cannot be read."
            return {"message": text, "type": "invalid_request_error"}
        return None

    def add(self, body: Json) -> list[Event]:
        """Take in one event of a stream; events of kinds that are not known here are passed over."""
        kind = str(body.get("type"))
        if kind_of_piece(kind) is not None:
            return self._add_piece(kind, body) if isinstance(body.get("delta"), str) else []
        if kind == "response.output_item.added":
            return self._begin(body.get("output_index"), mapping(body.get("item")))[1]
        if kind == "response.output_item.done":
            return self._end(body.get("output_index"), mapping(body.get("item")))
        if kind in _ENDS:
            return self.add_whole(mapping(body.get("response")))
        if isinstance(body.get("response"), dict):
            self._response |= body["response"]
        return []

    def add_whole(self, body: Json) -> list[Event]:
        """Take in a whole response: what has not arrived in pieces of it."""
        self._response |= body
        output = objects(body.get("output"))
        events: list[Event] = []
        for index, item in enumerate(output):
            known = self._with_id(item.get("id"))
            if known is None and index < len(self._items) and self._items[index].type == item.get("type"):
                known = self._items[index]
            if known is None:
                known, more = self._begin(None, item)
                events += more
            if not known.is_done:
                events += self._close(known, item)
        for known in self._items:
            if not known.is_done:
                events += self._close(known, None)
        self.is_complete = True
        return events

    def finish(self) -> list[Event]:
        """What was held back until the end."""
        text = self._text() if self._read is not None else ""
        return [TextDelta(text)] if text else []

    def response(self) -> ChatResponse[Any]:
        """Everything as one response."""
        parts, calls = self._content()
        is_placed = any(BEFORE in mapping((call.metadata or {}).get(self._owner)) for call in calls)
        is_text = not is_placed and all(isinstance(part, TextPart) for part in parts)
        reason = mapping(self._response.get("incomplete_details")).get("reason")
        status = self._response.get("status")
        stop_reason: StopReason = "final"
        if self._is_refused:
            stop_reason = "refused"
        elif status == "incomplete":
            stop_reason = "filtered" if reason == "content_filter" else "length"
        found = {
            "response_id": self._response.get("id"),
            "response_model": self._response.get("model"),
            "finish_reason": reason or status,
        }
        return ChatResponse(
            AssistantMessage(content=self._text() if is_text else tuple(parts), tool_calls=tuple(calls)),
            usage=usage_of(self._response["usage"]) if isinstance(self._response.get("usage"), dict) else None,
            stop_reason=stop_reason,
            metadata={name: value for name, value in found.items() if value},
        )

    # Taking in -------------------------------------------------------------------------------------------------------

    def _with_id(self, item_id: Any) -> OutputItem | None:
        return next((item for item in self._items if item_id and item.data.get("id") == item_id), None)

    def _open_item(self, index: Any, item_id: Any, kind: str) -> OutputItem | None:
        """The item that a piece, or an end, belongs to: the open one in its place, else the open one with its id.

        Some servers give an item another id with every event, others the same place to every item.
        """
        slot = self._slots.get(index) if isinstance(index, int) else None
        for item in (slot, self._with_id(item_id)):
            if item is not None and not item.is_done and item.type == kind:
                return item
        return None

    def _begin(self, index: Any, data: Json) -> tuple[OutputItem, list[Event]]:
        kind = str(data.get("type") or "message")
        item = OutputItem(data, self._calls if kind.endswith("_call") else None)
        self._items.append(item)
        if isinstance(index, int):
            self._slots[index] = item
        if item.call is None:
            return item, []
        self._calls += 1
        return item, [ToolCallDelta(item.call, _call_id(data) or None, _call_name(data))]

    def _add_piece(self, kind: str, event: Json) -> list[Event]:
        item_kind = str(kind_of_piece(kind))
        item = self._open_item(event.get("output_index"), event.get("item_id"), item_kind)
        if item is None:
            if item_kind not in ("message", "reasoning"):
                return []  # a call whose name is not known yet: its arguments come with its end
            data = {"type": item_kind, "id": event.get("item_id")}
            item, _ = self._begin(event.get("output_index"), data)  # a server that does not say where one begins
        return self._said(item, item.add(event))

    def _end(self, index: Any, data: Json) -> list[Event]:
        item = self._open_item(index, data.get("id"), str(data.get("type") or "message"))
        events: list[Event] = []
        if item is None:
            item, events = self._begin(index, data)
        return events + self._close(item, data)

    def _close(self, item: OutputItem, data: Json | None) -> list[Event]:
        """The end of an item: what of it has not been emitted, then its parts that only the provider understands."""
        said = item.said
        item.close(data)
        whole = item.thoughts if item.type == "reasoning" else item.text if item.type == "message" else ""
        if item.call is not None:
            whole = item.written
        rest = whole[len(said) :] if whole.startswith(said) else ""
        own = [part for part in self._parts(item) if isinstance(part, ProviderPart)]
        return [*self._said(item, rest), *[PartDelta(part) for part in own]]

    def _said(self, item: OutputItem, text: str) -> list[Event]:
        if not text:
            return []
        if item.call is not None:
            return [ToolCallDelta(item.call, arguments=text)]
        if item.type == "reasoning":
            return [ReasoningDelta(text)]
        return [TextDelta(text)] if item.type == "message" and self._read is None else []

    # Giving out ------------------------------------------------------------------------------------------------------

    def _content(self) -> tuple[list[Part], list[ToolCall]]:
        parts: list[Part] = []
        placed: list[tuple[OutputItem, int]] = []
        for item in self._items:
            if item.call is not None:
                placed.append((item, len(parts)))
            parts += self._parts(item)
        if self._read is not None:
            text = self._text()
            parts = [part for part in parts if not isinstance(part, TextPart)]
            parts += [TextPart(text=text)] if text else []
            placed = [(item, len(parts)) for item, _ in placed]
        return parts, [self._call(item, at if at < len(parts) else None) for item, at in placed]

    def _parts(self, item: OutputItem) -> list[Part]:
        """What an item is in the message's content; a call of the client is nothing there."""
        if item.type == "message":
            return self._message_parts(item)
        if item.type == "reasoning":
            thoughts: list[Part] = [ReasoningPart(text=item.thoughts)] if item.thoughts else []
            return [*thoughts, self._own("reasoning", item.data)]
        return [] if item.type == _FUNCTION else [self._own(item.type, item.data)]

    def _message_parts(self, item: OutputItem) -> list[Part]:
        fields = {key: value for key, value in item.data.items() if key not in _MESSAGE_FIELDS and value is not None}
        parts: list[Part] = [self._own(MESSAGE, fields)] if fields else []
        for piece in objects(item.data.get("content")):
            text = text_of(piece)
            if text:
                parts.append(TextPart(text=text))
                parts += [self._own(name, piece[name]) for name in (ANNOTATIONS, LOGPROBS) if piece.get(name)]
            elif piece.get("type") not in ("output_text", "refusal"):
                parts.append(self._own(f"{CONTENT}{piece.get('type')}", dict(piece)))
        return parts

    def _call(self, item: OutputItem, before: int | None) -> ToolCall:
        is_own = item.type == _FUNCTION
        kept: dict[str, Any] = {}
        if is_own:  # another one's item is a provider part, with all its fields in its place
            fields = {key: value for key, value in item.data.items() if key not in _CALL_FIELDS and value is not None}
            kept = ({FIELDS: fields} if fields else {}) | ({} if before is None else {BEFORE: before})
        return ToolCall(
            _call_name(item.data),
            arguments_of(item.written),
            _call_id(item.data),
            executed_by="client" if is_own else "provider",
            metadata={self._owner: kept} if kept else None,
        )

    @property
    def _is_refused(self) -> bool:
        messages = [item for item in self._items if item.type == "message"]
        return any(part.get("type") == "refusal" for item in messages for part in objects(item.data.get("content")))

    def _own(self, kind: str, data: Any) -> ProviderPart:
        return ProviderPart(provider=self._owner, type=kind, data=data)

    def _text(self) -> str:
        text = "".join([item.text for item in self._items if item.type == "message"])
        return text if self._read is None or self._is_refused else self._read(text).text


def _call_name(data: Json) -> str:
    return str(data.get("name") or str(data.get("type")).removesuffix("_call"))


def _call_id(data: Json) -> str:
    return str(data.get("call_id") or data.get("id") or "")


def usage_of(usage: Json) -> Usage:
    """Token counts; what the server did not say stays None."""
    given = mapping(usage.get("input_tokens_details"))
    made = mapping(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=token_count(usage.get("input_tokens")),
        output_tokens=token_count(usage.get("output_tokens")),
        cache_read_tokens=token_count(given.get("cached_tokens")),
        cache_write_tokens=token_count(given.get("cache_write_tokens")),
        reasoning_tokens=token_count(made.get("reasoning_tokens")),
    )
