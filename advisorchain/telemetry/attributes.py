"""A model call's request and response as span attributes; no content among them."""

from __future__ import annotations

from typing import Any

from ..exchange import ChatRequest, ChatResponse
from . import names
from .safe_values import safe_text

_FINISH = {"length": "length", "filtered": "content_filter", "refused": "refusal"}


def told_by(thing: Any, attribute: str, kind: type, default: Any = None) -> Any:
    """What a model or an advisor of somebody says of itself, if it is of that kind; never fails."""
    try:
        value = getattr(thing, attribute, default)
    except Exception:  # a property that fails
        return default
    return value if isinstance(value, kind) else default


def request_attributes(request: ChatRequest) -> dict[str, Any]:
    """What a model is asked for, without what it is asked."""
    attributes: dict[str, Any] = {}
    if request.round:
        attributes[names.ROUND] = request.round
    if request.streaming:
        attributes[names.STREAM] = True
    if request.output is not None:
        attributes[names.OUTPUT_TYPE] = "json"
    if request.conversation_id is not None:
        attributes[names.CONVERSATION] = request.conversation_id
    options = request.options
    for field in options.model_fields_set:
        name = names.REQUEST_OPTIONS.get(field)
        if name is not None and (value := getattr(options, field)) is not None:
            attributes[name] = value
    return attributes


def response_attributes(response: ChatResponse[Any]) -> dict[str, Any]:
    """What an answer says of itself. Usage that the provider did not tell is left out: it is not 0."""
    attributes: dict[str, Any] = {names.FINISH_REASONS: [finish_reason(response)]}
    for key, name in (("id", names.RESPONSE_ID), ("model", names.RESPONSE_MODEL)):
        if (value := answered(response, key)) is not None:
            attributes[name] = safe_text(value)
    attributes.update(names.usage_attributes(response.usage, "gen_ai.usage"))
    return attributes


def answered(response: ChatResponse[Any], key: str) -> str | None:
    """The ``id`` or the ``model`` of an answer, if its metadata have it; first-party models say ``response_id``."""
    for name in (f"response_{key}", key):
        if isinstance(value := response.metadata.get(name), str):
            return value
    return None


def finish_reason(response: ChatResponse[Any]) -> str:
    """Why the model stopped: the provider's word, else the conventions'."""
    said = response.metadata.get("finish_reason")
    if isinstance(said, str) and said:
        return safe_text(said)
    return "tool_calls" if response.message.tool_calls else _FINISH.get(response.stop_reason, "stop")
