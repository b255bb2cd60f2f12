"""Messages as the input items of the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from advisorchain import (
    AssistantMessage,
    Message,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from advisorchain.models.prompted_tools import arguments_text

from .media import logger
from .response_content import Content, input_content, tool_output

Item = dict[str, Any]

MESSAGE = "message"
"""The type of the provider part with the fields of a message item (its phase); the parts after it are its content."""

CONTENT = "content."
"""What the type of a provider part begins with that is a piece of a message item's content, of an unknown kind."""

ANNOTATIONS = "annotations"
"""The type of the provider part with the annotations (citations) of the text part before it."""

LOGPROBS = "logprobs"
"""The type of the provider part with the probabilities of the text part before it, when they were asked for."""

BEFORE, FIELDS = "before", "fields"
"""Of a call's metadata: the content part that it stands before (when one follows it), and more fields of its item."""


_RUNNING = ("in_progress", "searching", "interpreting", "generating", "calling")


class Input(NamedTuple):
    """A request's ``instructions`` (or None) and ``input``."""

    instructions: str | None
    items: list[Item]


def owner_of(provider: str) -> str:
    """Whose the provider parts of these models are: chat completions of the same provider know nothing of them."""
    return f"{provider}.responses"


def input_items(messages: Iterable[Message], *, owner: str) -> Input:
    """The instructions and the input items of a request.

    The system texts before everything else are the instructions; a later one is a message in its place. Provider
    parts of others are left out.

    Raises:
        ConfigurationError: a content part cannot be sent.
    """
    instructions: list[str] = []
    items: list[Item] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            if items:
                items.append(_message("system", message.text))
            else:
                instructions.append(message.text)
        elif isinstance(message, UserMessage):
            items += _user(message, owner)
        elif isinstance(message, AssistantMessage):
            items += _Answered(message, owner).items
        elif isinstance(message, ToolMessage):
            output = tool_output(message, owner)
            items.append({"type": "function_call_output", "call_id": message.call_id, "output": output})
        else:
            logger.warning("A message of role %r is not sent: the Responses API has no such role.", message.role)
    text = "\n\n".join([text for text in instructions if text]) or None
    if text and not items:  # a request without any input is refused
        return Input(None, [_message("system", text)])
    return Input(text, items)


def _message(role: str, content: str | list[Content], **fields: Any) -> Item:
    return {"type": "message", "role": role, "content": content, **fields}


def _user(message: UserMessage, owner: str) -> list[Item]:
    if isinstance(message.content, str):
        return [_message("user", message.content)]
    found = [sent for part in message.content if (sent := input_content(part, owner)) is not None]
    content = [sent for sent in found if str(sent.get("type")).startswith("input_")]
    own_items = [sent for sent in found if sent not in content]  # for example the approval of a call
    if own_items and not content:
        return own_items
    if all(set(sent) == {"type", "text"} for sent in content):  # the form that every server takes
        return [*own_items, _message("user", "".join([sent["text"] for sent in content]))]
    return [*own_items, _message("user", content)]


class _Answered:
    """The items of an assistant message, in the order in which the model wrote them."""

    def __init__(self, message: AssistantMessage, owner: str) -> None:
        self.items: list[Item] = []
        self._owner = owner
        self._content: list[Content] = []  # of the message item that is being put together
        self._fields: Mapping[str, Any] = {}
        calls = [call for call in message.tool_calls if call.executed_by == "client"]
        parts = (TextPart(text=message.content),) if isinstance(message.content, str) else message.content
        for index, part in enumerate(parts):
            for call in [call for call in calls if self._metadata(call).get(BEFORE) == index]:
                self._add_item(self._call(call))
                calls.remove(call)
            if isinstance(part, TextPart):
                if part.text:
                    self._content.append({"type": "output_text", "text": part.text})
            elif isinstance(part, ProviderPart):
                if part.provider == owner:
                    self._add_own(part)
            elif not isinstance(part, ReasoningPart):
                logger.warning("A part of kind %r of an assistant message is not sent: the API takes none.", part.kind)
        self._end_message()
        self.items += [self._call(call) for call in calls]
        while self.items and self.items[-1].get("type") == "reasoning":
            self.items.pop()  # an answer that was cut while it thought: what was thought must lead to something

    def _add_own(self, part: ProviderPart) -> None:
        if part.type == ANNOTATIONS:
            if self._content and self._content[-1].get("type") == "output_text":
                self._content[-1][ANNOTATIONS] = part.data
        elif part.type == MESSAGE:
            self._end_message()
            self._fields = part.data if isinstance(part.data, dict) else {}
        elif isinstance(part.data, dict) and part.type.startswith(CONTENT):
            self._content.append(part.data)
        elif isinstance(part.data, dict) and _can_be_sent(part.data):
            self._add_item(part.data)

    def _add_item(self, item: Item) -> None:
        self._end_message()
        self.items.append(item)

    def _end_message(self) -> None:
        content, fields = self._content, self._fields
        self._content, self._fields = [], {}
        if content:
            is_plain = all(set(piece) == {"type", "text"} for piece in content)
            sent = "".join([piece["text"] for piece in content]) if is_plain else content
            self.items.append(_message("assistant", sent, **fields))

    def _call(self, call: ToolCall) -> Item:
        fields = self._metadata(call).get(FIELDS)
        more = cast("Mapping[str, Any]", fields) if isinstance(fields, Mapping) else {}
        arguments = _arguments(call.arguments)
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments, **more}

    def _metadata(self, call: ToolCall) -> Mapping[str, Any]:
        found = (call.metadata or {}).get(self._owner)
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _can_be_sent(item: Mapping[str, Any]) -> bool:
    """Whether an item says something without the provider's memory, which reasoning by its id alone does not.

    Nor does what the provider's own tool was about to do when the answer was cut.
    """
    if item.get("type") == "reasoning":
        return bool(item.get("encrypted_content") or item.get("content"))
    return item.get("status") not in _RUNNING


def _arguments(arguments: dict[str, Any] | str | None) -> str:
    """Without spaces, as models write them: what they wrote stays in the prompt cache."""
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str)
    return arguments_text(arguments)
