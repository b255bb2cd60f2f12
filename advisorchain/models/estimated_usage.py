"""The usage that models of ours report which know no tokens: characters, divided by four."""

from __future__ import annotations

import json
import math

from ..exchange import ChatRequest
from ..messages import AssistantMessage, Message, Usage
from .keyword_plan import profile

CHARACTERS_PER_TOKEN = 4
"""The rule of thumb behind the reported usage."""


def estimated_usage(request: ChatRequest, answer: AssistantMessage) -> Usage:
    """What the messages and tools of a request and the answer to it take, about."""
    sent = sum(map(_characters, request.messages)) + sum(profile(tool).chars for tool in request.tools)
    return Usage(
        input_tokens=math.ceil(sent / CHARACTERS_PER_TOKEN),
        output_tokens=math.ceil(_characters(answer) / CHARACTERS_PER_TOKEN),
    )


def _characters(message: Message) -> int:
    count = len(message.text)
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = call.arguments
            count += len(call.name)
            count += len(arguments if isinstance(arguments, str) else json.dumps(arguments, default=str))
    return count
