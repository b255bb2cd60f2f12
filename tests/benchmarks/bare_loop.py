"""The floor: the tool loop that one would write by hand, without a framework.

It does what any loop must do: keep the messages, validate arguments with pydantic, run a round's calls concurrently,
hand results back. It knows no advisors, limits, timeouts, ids, usage, events or errors beyond invalid arguments.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError, create_model


@dataclass(slots=True)
class Call:
    """A tool call, its arguments as JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Message:
    """A message of any role."""

    role: str
    content: str | None = None
    calls: list[Call] | None = None
    call_id: str | None = None


class Tool:
    """An async function, its schema and its validator, built once."""

    __slots__ = ("description", "fn", "name", "schema", "validate")

    def __init__(self, fn: Callable[..., Awaitable[Any]]) -> None:
        self.name = fn.__name__
        self.description = fn.__doc__
        self.fn = fn
        fields: dict[str, Any] = {
            parameter.name: (parameter.annotation, ...)
            for parameter in inspect.signature(fn, eval_str=True).parameters.values()
        }
        model = create_model(self.name, **fields)
        self.schema = model.model_json_schema()
        self.validate = model.__pydantic_validator__.validate_json


Schemas = list[tuple[str, str | None, dict[str, Any]]]
Model = Callable[[list[Message], Schemas], Awaitable[Message]]
StreamedModel = Callable[[list[Message], Schemas], AsyncIterator[str]]


class BareLoop:
    """A model, its tools, and the loop between them."""

    def __init__(self, model: Model, streamed: StreamedModel, functions: Iterable[Callable[..., Any]]) -> None:
        self.model = model
        self.streamed = streamed
        self.tools = {tool.name: tool for tool in map(Tool, functions)}
        self.schemas: Schemas = [(tool.name, tool.description, tool.schema) for tool in self.tools.values()]

    async def run(self, prompt: str, history: Iterable[Message] = ()) -> str:
        """The answer to a prompt."""
        messages = [*history, Message("user", prompt)]
        model, schemas = self.model, self.schemas
        while True:
            answer = await model(messages, schemas)
            messages.append(answer)
            calls = answer.calls
            if not calls:
                return answer.content or ""
            if len(calls) == 1:
                messages.append(await self._execute(calls[0]))
            else:
                messages.extend(await asyncio.gather(*[self._execute(call) for call in calls]))

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        """The answer's pieces while they come."""
        messages = [Message("user", prompt)]
        pieces: list[str] = []
        async for piece in self.streamed(messages, self.schemas):
            pieces.append(piece)
            yield piece
        messages.append(Message("assistant", "".join(pieces)))

    async def _execute(self, call: Call) -> Message:
        tool = self.tools[call.name]
        try:
            arguments = tool.validate(call.arguments)
            result = str(await tool.fn(**arguments.__dict__))
        except ValidationError as error:
            result = str(error)
        return Message("tool", result, None, call.id)
