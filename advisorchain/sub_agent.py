"""Sub-agents: a client as a tool, or as a model, of another client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .errors import ConfigurationError
from .exchange import ChatRequest, ChatResponse
from .invocation import ToolResult
from .messages import AssistantMessage, Message, TextPart
from .tools.definition import Tool, ToolContext
from .tools.schema_arguments import SchemaArguments

SUB_AGENT_TIMEOUT = 600.0
"""Seconds a sub-agent may take as a tool, unless its ``timeout`` says otherwise."""

Nested = Callable[[str | Sequence[Message], ChatRequest, str], Awaitable[ChatResponse[Any]]]


class ClientTool(Tool):
    """A client as a tool; made by ``client.as_tool(name, description)``."""

    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"prompt": {"type": "string", "description": "What to do, with all that is needed to do it."}},
        "required": ["prompt"],
        "additionalProperties": False,
    }
    timeout = SUB_AGENT_TIMEOUT

    def __init__(self, run: Nested, name: str, description: str, settings: Mapping[str, Any]) -> None:
        if not description:
            raise ConfigurationError(f"Sub-agent {name!r} needs a description: the model chooses by it.")
        self._set(_run=run, _arguments=SchemaArguments(self.input_schema), origin=f"client.as_tool({name!r})")
        super().__init__(name=name, description=description, **settings)

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run the sub-agent's turn; the artifact is its `ChatResponse`."""
        run: Nested = self._run  # type: ignore[attr-defined]
        response = await run(arguments["prompt"], context.request, self.name)
        content = response.message.content
        parts = () if isinstance(content, str) else tuple(part for part in content if not isinstance(part, TextPart))
        return ToolResult(response.text, parts=parts, artifact=response)


class ClientModel:
    """A client as a model; made by ``client.as_model()``.

    It answers the conversation with its own tools, options and advisors; the outer request's tools and options are not
    handed on.
    """

    keeps_ledger = True
    """Its model calls are in the outer turn's ledger already."""

    def __init__(self, run: Nested, name: str) -> None:
        self._run = run
        self.name = name

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Run the sub-agent's turn on the request's messages."""
        response = await self._run(request.messages, request, self.name)
        return ChatResponse(
            AssistantMessage(content=response.message.content),
            usage=response.usage,
            stop_reason=response.stop_reason,
            direct_results=response.direct_results,
        )
