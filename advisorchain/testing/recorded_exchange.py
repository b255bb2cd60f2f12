"""Model exchanges as JSON data and back: requests without what changes from run to run, answers, errors, events."""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from .. import errors
from ..errors import AdvisorChainError, ModelError
from ..events import Event, PartDelta, ReasoningDelta, TextDelta, ToolCallDelta
from ..exchange import ChatRequest, ChatResponse
from ..failures import classify
from ..messages import AssistantMessage, Message, Part, ReasoningPart, TextPart, ToolCall, ToolMessage, Usage
from .scrubbing import Scrubber

Json = dict[str, Any]

CONTENT_EVENTS = (TextDelta, ReasoningDelta, ToolCallDelta, PartDelta)
"""The events that a model emits."""

_MODEL_ERROR_FIELDS = ("transient", "retry_after", "status", "provider")
_PARTS: TypeAdapter[Part] = TypeAdapter(Part)
_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
_ANSWER: TypeAdapter[AssistantMessage] = TypeAdapter(AssistantMessage)


# Requests ------------------------------------------------------------------------------------------------------------


def request_data(request: ChatRequest) -> Json:
    """What a request asks the model, as JSON data.

    Left out is what differs from run to run and never decides an answer: ids and metadata of messages, and the option
    ``timeout``, which may be what is left of a deadline. Call ids are numbered in their order.
    """
    options = request.options.model_dump(mode="json", exclude_unset=True, exclude={"timeout"}, fallback=_opaque)
    return {
        "messages": _messages_data(request.messages),
        "tools": [_tool_data(tool) for tool in request.tools],
        "options": {name: value for name, value in options.items() if value not in (None, {})},
        "output": None if request.output is None else {"name": request.output.name, "schema": request.output.schema},
    }


def _tool_data(tool: Any) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": to_jsonable_python(dict(tool.input_schema), fallback=_opaque),
    }


def _messages_data(messages: Sequence[Message]) -> list[Json]:
    numbers: dict[str, str] = {}

    def number(call_id: str) -> str:
        return numbers.setdefault(call_id, f"call_{len(numbers) + 1}")

    found: list[Json] = []
    for message in messages:
        [data] = cast("list[Json]", _MESSAGES.dump_python((message,), mode="json", exclude_none=True, fallback=_opaque))
        data.pop("id", None)
        data.pop("metadata", None)
        if isinstance(data.get("content"), list):
            _digest(cast("Sequence[Part]", getattr(message, "content", ())), data["content"])
        if isinstance(message, AssistantMessage):
            for call in cast("list[Json]", data.get("tool_calls", ())):
                call["id"] = number(call["id"])
            if not message.tool_calls:
                data.pop("tool_calls", None)
        elif isinstance(message, ToolMessage):
            data["call_id"] = number(message.call_id)
        found.append({"role": data.pop("role"), **data})
    return found


def _digest(parts: Sequence[Part], data: list[Json]) -> None:
    """Put a digest in place of bytes: they are compared only, never played."""
    for part, dumped in zip(parts, data, strict=True):
        if (content := _bytes_of(part)) is not None:
            dumped["data"] = f"sha256:{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"


def _bytes_of(part: Part) -> bytes | None:
    content = getattr(part, "data", None)
    return content if isinstance(content, bytes) else None


# Answers -------------------------------------------------------------------------------------------------------------


def response_data(response: ChatResponse[Any], scrubber: Scrubber) -> Json:
    """An answer as JSON data, without secrets and without the message's id."""
    message = response.message
    data: Json = _ANSWER.dump_python(message, mode="json", exclude_none=True, exclude={"id", "role"}, fallback=_opaque)
    data = scrubber.data(data)
    if isinstance(message.content, str):
        data["content"] = scrubber.text(message.content)
    else:
        data["content"] = [_part_data(part, scrubber) for part in message.content]
        # a secret may go from one text part into the next
        parts = [index for index, part in enumerate(message.content) if isinstance(part, TextPart)]
        texts = scrubber.pieces([cast("TextPart", message.content[index]).text for index in parts])
        for index, text in zip(parts, texts, strict=True):
            data["content"][index]["text"] = text
    found: Json = {"message": data, "stop_reason": response.stop_reason}
    usage = {name: count for name, count in dataclasses.asdict(response.usage).items() if count is not None}
    if usage:
        found["usage"] = usage
    if response.metadata:
        found["metadata"] = scrubber.data(to_jsonable_python(dict(response.metadata), fallback=_opaque))
    return found


def _part_data(part: Part, scrubber: Scrubber) -> Json:
    dumped = _PARTS.dump_python(part, mode="json", exclude_none=True, fallback=_opaque)
    clean: Json = scrubber.data(dumped)
    if _bytes_of(part) is not None:  # bytes are no text, and with a piece cut out they could not be read
        clean["data"] = dumped["data"]
    return clean


def load_response(data: Json) -> ChatResponse[Any]:
    """The answer; its message gets an id of its own each time."""
    usage = data.get("usage")
    return ChatResponse(
        _ANSWER.validate_python({"role": "assistant", **data["message"]}),
        usage=None if usage is None else Usage(**usage),
        stop_reason=data["stop_reason"],
        metadata=data.get("metadata"),
    )


# Events --------------------------------------------------------------------------------------------------------------


def events_data(events: Iterable[Event], scrubber: Scrubber) -> list[Json]:
    """What was streamed, piece by piece, without secrets, also those that go from one piece into the next."""
    found: list[Json] = []
    texts: dict[tuple[str, int], list[int]] = {}
    for event in events:
        if isinstance(event, TextDelta):
            found.append({"text": event.text})
            texts.setdefault(("text", 0), []).append(len(found) - 1)
        elif isinstance(event, ReasoningDelta):
            found.append({"reasoning": event.text})
            texts.setdefault(("reasoning", 0), []).append(len(found) - 1)
        elif isinstance(event, ToolCallDelta):
            call = {"index": event.index, "id": event.id, "name": event.name, "arguments": event.arguments}
            found.append({"call": {key: value for key, value in call.items() if value is not None}})
            texts.setdefault(("arguments", event.index), []).append(len(found) - 1)
        elif isinstance(event, PartDelta):
            found.append({"part": _part_data(event.part, scrubber)})
    for (kind, _), places in texts.items():
        holders: list[Json] = [found[place]["call"] if kind == "arguments" else found[place] for place in places]
        for holder, clean in zip(holders, scrubber.pieces([holder[kind] for holder in holders]), strict=True):
            holder[kind] = clean
    return found


def load_events(data: Iterable[Json]) -> list[Event]:
    """New event objects of recorded events."""
    events: list[Event] = []
    for item in data:
        if "text" in item:
            events.append(TextDelta(item["text"]))
        elif "reasoning" in item:
            events.append(ReasoningDelta(item["reasoning"]))
        elif "call" in item:
            events.append(ToolCallDelta(**item["call"]))
        elif "part" in item:
            events.append(PartDelta(_PARTS.validate_python(item["part"])))
    return events


def events_of(response: ChatResponse[Any]) -> list[Event]:
    """The events of an answer that was recorded without streaming: each part, each call in one piece."""
    content = response.message.content
    events: list[Event] = []
    for part in (TextPart(text=content),) if isinstance(content, str) else content:
        if isinstance(part, TextPart):
            if part.text:
                events.append(TextDelta(part.text))
        elif isinstance(part, ReasoningPart):
            events.append(ReasoningDelta(part.text))
        else:
            events.append(PartDelta(part))
    for index, call in enumerate(response.message.tool_calls):
        events.append(ToolCallDelta(index, call.id, call.name, _arguments(call)))
    return events


def _arguments(call: ToolCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    from pydantic_core import to_json

    return to_json(call.arguments or {}, inf_nan_mode="constants").decode()


# Errors --------------------------------------------------------------------------------------------------------------


def error_data(error: Exception, scrubber: Scrubber) -> Json:
    """An error as JSON data; one that is not of advisorchain or Python itself as the `ModelError` it amounts to."""
    if isinstance(error, ModelError):
        fields = {name: value for name in _MODEL_ERROR_FIELDS if (value := getattr(error, name)) is not None}
        return {"type": "ModelError", "text": scrubber.text(str(error)), **fields}
    if _error_type(type(error).__name__) is type(error):
        state = to_jsonable_python(vars(error), fallback=_opaque)
        return {"type": type(error).__name__, "text": scrubber.text(str(error)), "state": scrubber.data(state)}
    text = scrubber.text(f"{type(error).__name__}: {error}")
    return {"type": "ModelError", "text": text, "transient": classify(error) == "transient"}


def load_error(data: Json) -> Exception:
    """The error, of its own type."""
    kind = _error_type(data["type"])
    if kind is None or kind is ModelError:
        return ModelError(data["text"], **{name: data[name] for name in _MODEL_ERROR_FIELDS if name in data})
    error = kind.__new__(kind)  # each has arguments of its own, but all have a text and attributes
    error.args = (data["text"],)
    error.__dict__.update(data.get("state", {}))
    return error


def _error_type(name: str) -> type[Exception] | None:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    of_ours = issubclass(found, AdvisorChainError)
    # Exceptions with slots of their own (OSError, UnicodeError, ...) cannot be made of a text alone.
    return found if of_ours or found in _PLAIN_ERRORS else None


_PLAIN_ERRORS = frozenset({
    ArithmeticError, AssertionError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError,
    ConnectionError, TimeoutError,
})  # fmt: skip


def _opaque(value: Any) -> str:
    return f"<{type(value).__name__}>"  # its str() may say anything


def is_exchange(value: Any) -> bool:
    """Whether JSON data has the shape of an exchange."""
    if not isinstance(value, Mapping) or not isinstance(value.get("request"), Mapping):
        return False
    outcomes = [name for name in ("response", "error", "cancelled") if value.get(name)]
    return len(outcomes) == 1
