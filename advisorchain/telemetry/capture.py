"""Content on its way into a trace: redacted and bounded, and left out when that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from ..exchange import ChatRequest, ChatResponse
from ..messages import SystemMessage
from . import content, names
from .attributes import finish_reason
from .safe_values import safe_number

logger = logging.getLogger("advisorchain.telemetry")


class Capture:
    """Puts content into attributes, under the names of the conventions.

    Args:
        redact: what is captured instead of a value, by attribute; None leaves it out.
        max_bytes: the most bytes of one attribute.
    """

    def __init__(self, redact: Callable[[str, Any], Any] | None, max_bytes: int) -> None:
        self._redact = redact
        self._max_bytes = max_bytes

    def put(self, into: dict[str, Any], name: str, build: Callable[[Any, int], Any], value: Any) -> None:
        """Put content under its name, redacted and bounded; without it when that fails: a turn never does."""
        try:
            redact = self._redact
            if redact is None:
                into[name] = content.bounded(lambda limit: build(value, limit), self._max_bytes)
                return
            kept = redact(name, build(value, content.CUTS[0]))
            if kept is not None:
                into[name] = content.bounded(lambda limit: content.plain(kept, limit), self._max_bytes)
        except Exception as error:
            logger.warning("%s was not captured: %s", name, type(error).__name__)
            logger.debug("%s was not captured", name, exc_info=error)

    def request(self, into: dict[str, Any], request: ChatRequest) -> None:
        """What a model is sent."""
        messages = request.messages
        if messages and type(messages[0]) is SystemMessage:
            self.put(into, names.SYSTEM_INSTRUCTIONS, content.system_instructions, messages)
        self.put(into, names.INPUT_MESSAGES, content.input_messages, messages)
        if len(request.tools):
            self.put(into, names.TOOL_DEFINITIONS, content.tool_definitions, request.tools)

    def answer(self, into: dict[str, Any], response: ChatResponse[Any]) -> None:
        """What it answers."""
        self.put(into, names.OUTPUT_MESSAGES, content.output_messages, (response.message, finish_reason(response)))

    def exchange(self, request: ChatRequest, response: ChatResponse[Any]) -> dict[str, Any]:
        """Both as structures, which events take instead of JSON."""
        texts: dict[str, Any] = {}
        self.request(texts, request)
        self.answer(texts, response)
        return {name: _structure(text) for name, text in texts.items()}

    def error_text(self, error: BaseException) -> str | None:
        """What an exception says."""
        found: dict[str, Any] = {}
        self.put(found, names.EXCEPTION_MESSAGE, content.exception_text, error)
        return found.get(names.EXCEPTION_MESSAGE)


def _structure(text: str) -> Any:
    try:
        return _sendable(from_json(text))
    except ValueError:  # a redaction has made it a plain text
        return text


def _sendable(value: Any) -> Any:
    """JSON has larger numbers than a log record may: a model writes what it likes."""
    if isinstance(value, int):
        return safe_number(value)
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    if isinstance(value, dict):
        return {name: _sendable(item) for name, item in value.items()}
    return value
