"""Messages as the Messages API wants them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from advisorchain import (
    AssistantMessage,
    ConfigurationError,
    Message,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from .content import Block, logger, text_blocks, tool_result_content, user_blocks

CITATIONS = "citations"
"""The type of the provider part with the citations of the text part before it."""

THINKING = "thinking"
"""The type of the provider part with a whole thinking block; the reasoning part before it has its text."""

BEFORE, FIELDS = "before", "fields"
"""Of a call's metadata: the content part that it stands before (when one follows it), and more fields of its block."""

_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


class Conversation(NamedTuple):
    """The messages of a request's body: its system text, its messages, and the names of the tools called in them."""

    system: str
    messages: list[dict[str, Any]]
    called: list[str]


def conversation(messages: Iterable[Message], *, provider: str) -> Conversation:
    """The messages of a request body: user and assistant in turn, the system text apart.

    Tool results become the first blocks of the user message that follows the calls. Provider parts of other providers
    are left out, and so is a message with nothing to send: the provider refuses it.

    Raises:
        ConfigurationError: a content part cannot be sent, or the last message of the user is empty.
    """
    system: list[str] = []
    sent: list[dict[str, Any]] = []
    called: list[str] = []
    ids = _CallIds()
    is_empty = True
    for message in messages:
        if isinstance(message, SystemMessage):
            if message.text.strip():
                system.append(message.text)
            continue
        if isinstance(message, UserMessage):
            role, blocks = "user", user_blocks(message.content, provider)
        elif isinstance(message, AssistantMessage):
            role, blocks = "assistant", _assistant(message, provider, ids)
            called += [call.name for call in message.tool_calls if call.executed_by == "client"]
        elif isinstance(message, ToolMessage):
            role, blocks = "user", [_result(message, provider, ids)]
        else:
            logger.warning("A message of role %r is not sent: the Messages API has no such role.", message.role)
            continue
        is_empty = not blocks and role == "user"
        if not blocks:
            continue
        if isinstance(message, UserMessage) and sent and sent[-1]["role"] == "assistant":
            _give_up_open_calls(sent)
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"] += blocks
        else:
            sent.append({"role": role, "content": blocks})
    if is_empty or not sent:
        raise ConfigurationError("The last message is empty: the Messages API takes no message without text.")
    if sent[-1]["role"] == "assistant":
        _without_trailing_space(sent[-1]["content"])
    return Conversation("\n\n".join(system), sent, called)


class _CallIds:
    """Ids of calls in the letters that the provider takes: those of other providers have dots, colons, and more."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, call_id: str) -> str:
        found = self._known.get(call_id)
        if found is None:
            found = _NO_ID.sub("_", call_id)
            while found in self._known.values():
                found += "_"
            self._known[call_id] = found
        return found


def _assistant(message: AssistantMessage, provider: str, ids: _CallIds) -> list[Block]:
    parts = (TextPart(text=message.content),) if isinstance(message.content, str) else message.content
    calls = [call for call in message.tool_calls if call.executed_by == "client"]
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        for call in [call for call in calls if _metadata(call, provider).get(BEFORE) == index]:
            blocks.append(_call(call, provider, ids))
            calls.remove(call)
        if isinstance(part, TextPart):
            blocks += text_blocks(part.text)
        elif isinstance(part, ReasoningPart):
            after = parts[index + 1] if index + 1 < len(parts) else None
            own = isinstance(after, ProviderPart) and (after.provider, after.type) == (provider, THINKING)
            if part.signature and not own:
                blocks.append({"type": "thinking", "thinking": part.text, "signature": part.signature})
        elif isinstance(part, ProviderPart):
            if part.provider == provider:
                _add_own(part, blocks)
        else:
            logger.warning("A part of kind %r of an assistant message is not sent: the API takes none.", part.kind)
    return _without_last_thoughts([*blocks, *[_call(call, provider, ids) for call in calls]])


def _give_up_open_calls(sent: list[dict[str, Any]]) -> None:
    """The user speaks: calls that the provider runs itself and has no results of were cut, and it refuses them."""
    blocks: list[Block] = sent[-1]["content"]
    answered = [block.get("tool_use_id") for block in blocks]
    kept = [
        block for block in blocks if not str(block.get("type")).endswith("_tool_use") or block.get("id") in answered
    ]
    if kept := _without_last_thoughts(kept):
        sent[-1]["content"] = kept
    else:
        sent.pop()


def _without_last_thoughts(blocks: list[Block]) -> list[Block]:
    """The blocks of an answer that was cut while it thought: no message may end so."""
    while blocks and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _add_own(part: ProviderPart, blocks: list[Block]) -> None:
    if part.type == CITATIONS:
        if blocks and blocks[-1].get("type") == "text":
            blocks[-1]["citations"] = part.data
    elif isinstance(part.data, dict):
        blocks.append(part.data)


def _call(call: ToolCall, provider: str, ids: _CallIds) -> Block:
    fields = _metadata(call, provider).get(FIELDS)
    more = cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}
    return {
        "type": "tool_use",
        "id": ids.of(call.id),
        "name": call.name,
        "input": arguments_object(call.arguments),
        **more,
    }


def _metadata(call: ToolCall, provider: str) -> Mapping[str, Any]:
    found = (call.metadata or {}).get(provider)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _result(message: ToolMessage, provider: str, ids: _CallIds) -> Block:
    content = tool_result_content(message, provider)
    result: Block = {"type": "tool_result", "tool_use_id": ids.of(message.call_id)}
    if message.is_error:
        result["is_error"] = True
        content = content or "The tool failed."  # an error without a text is refused
    if content:
        result["content"] = content
    return result


def arguments_object(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    """A call's arguments as an object; a text that is no JSON object is put into one."""
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return arguments
    try:
        value: Any = json.loads(arguments, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        value = None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"malformed_arguments": arguments}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_constant(digits)


def _without_trailing_space(blocks: list[Block]) -> None:
    """The answer goes on after the last text, and the provider wants to write the space between them itself."""
    if blocks[-1].get("type") == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
