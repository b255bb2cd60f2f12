"""The demo's stand-in for a model that searches: the keyword model, which looks for tools first where it can."""

from __future__ import annotations

from typing import Any

from ..exchange import ChatRequest, ChatResponse
from ..messages import AssistantMessage, Message, ToolCall, ToolMessage
from ..models.estimated_usage import estimated_usage
from ..models.keyword import KeywordModel
from ..tool_index.search_tool import NAME


class SearchingModel:
    """Searches with the user's message, once, if it can; all else is the keyword model's.

    Usage is estimated like the keyword model's: characters of messages and tools divided by 4.
    """

    name = "keyword"

    def __init__(self) -> None:
        self._keyword = KeywordModel()

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Search, or answer as the keyword model does."""
        searched = any(isinstance(message, ToolMessage) and message.name == NAME for message in request.messages)
        if NAME in request.tools and not searched:
            message = AssistantMessage(tool_calls=(ToolCall(NAME, {"query": request.user_text}),))
            return ChatResponse(message, usage=estimated_usage(request, message))
        tools = [tool for tool in request.tools if tool.name != NAME]
        messages = [message for message in request.messages if not _is_search(message)]
        response = await self._keyword(request.replace(tools=tools, messages=messages))
        return response.replace(usage=estimated_usage(request, response.message))


def _is_search(message: Message) -> bool:
    if isinstance(message, AssistantMessage):
        return bool(message.tool_calls) and all(call.name == NAME for call in message.tool_calls)
    return isinstance(message, ToolMessage) and message.name == NAME
