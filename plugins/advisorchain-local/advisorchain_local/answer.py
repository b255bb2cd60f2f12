"""An answer of the engine, chunk by chunk, as events and as one `ChatResponse`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from advisorchain import (
    AssistantMessage,
    ChatResponse,
    Event,
    ModelError,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    TextDelta,
    TextPart,
    ToolCallDelta,
    Usage,
)
from advisorchain.models.prompted_tools import Reading

from .engine import PROVIDER

Json = Mapping[str, Any]


class Answer:
    """Takes chunks in and gives events out; `response` is the end of it.

    Args:
        read: reads the whole text, a tool call or an answer in JSON; no text is emitted before the end.
    """

    def __init__(self, read: Callable[[str], Reading] | None = None) -> None:
        self._read = read
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._finish_reason: str | None = None
        self._usage: Usage | None = None

    def add(self, chunk: Json) -> list[Event]:
        """Take in a chunk.

        Raises:
            ModelError: the chunk is an error.
        """
        if chunk.get("error"):
            raise _error(chunk["error"])
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = _usage(chunk["usage"])
        events: list[Event] = []
        for choice in cast("list[Json]", chunk.get("choices") or ()):
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            piece = cast("Json", choice.get("delta") or {})
            thought, text = piece.get("reasoning_content"), piece.get("content")
            if thought:
                self._reasoning.append(thought)
                events.append(ReasoningDelta(thought))
            if text:
                self._text.append(text)
                if self._read is None:
                    events.append(TextDelta(text))
        return events

    def finish(self) -> tuple[list[Event], ChatResponse[Any]]:
        """What was held back until the end, and everything as one response.

        Raises:
            ModelError: the end of the answer has not come.
        """
        if self._finish_reason is None:
            raise ModelError(f"{PROVIDER}: the engine stopped in the middle.", transient=True, provider=PROVIDER)
        whole = "".join(self._text)
        text, calls = Reading(whole) if self._read is None else self._read(whole)
        events: list[Event] = []
        if self._read is not None:
            events += [TextDelta(text)] if text else []
            for index, call in enumerate(calls):
                arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
                events.append(ToolCallDelta(index, call.id, call.name, arguments))
        content: Any = text
        if self._reasoning:
            content = (ReasoningPart(text="".join(self._reasoning)), *([TextPart(text=text)] if text else ()))
        stop_reason: StopReason = "length" if self._finish_reason == "length" else "final"
        return events, ChatResponse(
            AssistantMessage(content=content, tool_calls=calls),
            usage=self._usage,
            stop_reason=stop_reason,
            metadata={"finish_reason": self._finish_reason},
        )


def _usage(usage: Json) -> Usage:
    given = cast("Json", usage.get("prompt_tokens_details") or {})
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cache_read_tokens=given.get("cached_tokens"),
    )


def _error(error: Any) -> ModelError:
    details: Json = cast("Json", error) if isinstance(error, Mapping) else {"message": error}
    code = details.get("code")
    status = code if isinstance(code, int) else None
    text = str(details.get("message") or dict(details))[:500]
    transient = status is not None and status >= 500
    return ModelError(f"{PROVIDER}: {text}", transient=transient, status=status, provider=PROVIDER)
