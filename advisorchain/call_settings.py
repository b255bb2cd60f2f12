"""What a call of a client takes: its prompt, and its keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from .messages import Message
from .options import ChatOptions

Prompt = str | Message | Sequence[Message]
Options = ChatOptions | Mapping[str, Any]


class CallSettings(TypedDict, total=False):
    """The keyword arguments of a call; see `ChatClient.call`."""

    system: str | None
    variables: Mapping[str, Any] | None
    tools: Iterable[Any]
    advisors: Iterable[Any]
    options: Options | None
    conversation_id: str | None
    context: Mapping[Any, Any] | None
    return_direct: Mapping[str, bool] | None
    tool_loop: bool | None
