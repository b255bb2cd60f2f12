"""An output item of the Responses API while its pieces arrive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

Json = Mapping[str, Any]

# What a piece of text belongs to: the kind of item, the field of the item, the kind of the part in it, the field of
# the event with the part's number.
_PIECES = {
    "response.output_text.delta": ("message", "content", "output_text", "content_index"),
    "response.refusal.delta": ("message", "content", "refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_text", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content", "reasoning_text", "content_index"),
    "response.function_call_arguments.delta": ("function_call", "arguments", "", ""),
    "response.mcp_call_arguments.delta": ("mcp_call", "arguments", "", ""),
}
_TEXT_FIELDS = {"refusal": "refusal"}  # of a part's kind; the others have theirs in "text"


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Json]:
    """The objects in a list."""
    items: list[Any] = value if isinstance(value, list) else []
    return [cast("Json", item) for item in items if isinstance(item, Mapping)]


def kind_of_piece(kind: str) -> str | None:
    """The kind of the item that an event's piece belongs to; None for events that bring no piece of text."""
    found = _PIECES.get(kind)
    return found[0] if found else None


class OutputItem:
    """One item; ``data`` is the whole of it in the end.

    Attributes:
        data: what the provider says of it.
        call: the number of the call that it is, or None.
        is_done: whether the provider has sent it whole.
    """

    __slots__ = ("data", "call", "is_done", "_said", "_pieces")

    def __init__(self, data: Json, call: int | None) -> None:
        self.data = dict(data)
        self.call = call
        self.is_done = False
        self._said: list[str] = []
        self._pieces: dict[tuple[str, str, int], list[str]] = {}

    @property
    def type(self) -> str:
        """The item's kind; an item without one is a message."""
        return str(self.data.get("type") or "message")

    @property
    def said(self) -> str:
        """Its text, its thoughts or its arguments, as far as they have been emitted."""
        return "".join(self._said)

    def add(self, event: Json) -> str:
        """Take in a piece of text; returns what it adds to what has been said (an empty line between thoughts)."""
        _, field, kind, number = _PIECES[str(event.get("type"))]
        index = event.get(number)
        key = (field, kind, index if isinstance(index, int) else 0)
        piece = str(event["delta"])
        gap = "\n\n" if self.type == "reasoning" and self._said and key not in self._pieces else ""
        self._pieces.setdefault(key, []).append(piece)
        if added := gap + piece:
            self._said.append(added)
        return added

    def close(self, data: Json | None) -> None:
        """No more pieces come: the item is what the provider says, or what its pieces make when it says nothing."""
        if data is not None:
            self.data = dict(data)
            self.is_done = True
            return
        parts: dict[str, list[Json]] = {}
        for field, kind, number in sorted(self._pieces, key=lambda key: key[2]):
            text = "".join(self._pieces[field, kind, number])
            if kind:
                parts.setdefault(field, []).append({"type": kind, _TEXT_FIELDS.get(kind, "text"): text})
            else:
                self.data[field] = text
        self.data |= parts

    @property
    def thoughts(self) -> str:
        """The text of a reasoning item: the summary, and the thoughts themselves where they are shown."""
        found = [*objects(self.data.get("summary")), *objects(self.data.get("content"))]
        return "\n\n".join([part["text"] for part in found if isinstance(part.get("text"), str) and part["text"]])

    @property
    def text(self) -> str:
        """The text of a message item, a refusal included."""
        return "".join([text_of(part) for part in objects(self.data.get("content"))])

    @property
    def written(self) -> str:
        """The arguments of a call as JSON text: as the model wrote them, or what the item says of them."""
        if self.data.get("arguments") is not None:
            arguments = self.data["arguments"]
            return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        if self.type == "function_call":
            return ""
        action = self.data.get("action")
        known = {name: self.data[name] for name in ("queries", "code") if self.data.get(name) is not None}
        return json.dumps(action if isinstance(action, Mapping) else known, ensure_ascii=False)


def text_of(part: Json) -> str:
    """The text of a piece of a message's content."""
    text = part.get("refusal") if part.get("type") == "refusal" else part.get("text")
    return text if isinstance(text, str) and part.get("type") in ("output_text", "refusal") else ""
