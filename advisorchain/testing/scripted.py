"""`ScriptedModel`: answers what a test wrote down, step by step, and remembers what it was asked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..events import TextDelta, ToolCallDelta
from ..exchange import ChatRequest, ChatResponse
from ..messages import AssistantMessage, ToolCall, Usage


class ScriptedModel:
    """A model that plays a script.

    A step is a text, a list of texts and `ToolCall`s, an exception (raised), a `ChatResponse`, or a function of the
    request (sync or async) that gives one of these. One step per model call; concurrent calls take steps in the order
    in which they start.

    Args:
        steps: the script.
        chunk_size: characters per `TextDelta` under streaming.
        name: the model's name.
        usage: reported by every text or tool call step; default: none reported.
        native_output: whether the model takes the output schema itself.

    Attributes:
        requests: every request that the model saw, in order.
    """

    def __init__(
        self,
        steps: Iterable[Any],
        *,
        chunk_size: int = 4,
        name: str = "scripted",
        usage: Usage | None = None,
        native_output: bool = False,
    ) -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self.native_output = native_output
        self._steps = list(steps)
        self._next = 0
        self._chunk_size = chunk_size
        self._usage = usage

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Play the next step.

        Raises:
            AssertionError: the script is over.
        """
        self.requests.append(request)
        index = self._next
        if index >= len(self._steps):
            raise AssertionError(
                f"{self.name}: call {index + 1} is beyond the script of {len(self._steps)} steps; the last message "
                f"was {request.messages[-1]!r}"
            )
        self._next += 1
        step = self._steps[index]
        if callable(step) and not isinstance(step, type):
            step = step(request)
            if inspect.isawaitable(step):
                step = await step
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        response = step if isinstance(step, ChatResponse) else self._respond(step)
        if request.streaming:
            await self._stream(request, response)
        return response

    def _respond(self, step: Any) -> ChatResponse[Any]:
        pieces: Sequence[Any] = [step] if isinstance(step, str | ToolCall) else step
        text = "".join([piece for piece in pieces if isinstance(piece, str)])
        calls = tuple([piece for piece in pieces if isinstance(piece, ToolCall)])
        if len(calls) + sum(isinstance(piece, str) for piece in pieces) != len(pieces):
            raise AssertionError(f"{self.name}: a step is made of texts and ToolCalls, not of {step!r}")
        return ChatResponse(AssistantMessage(content=text, tool_calls=calls), usage=self._usage)

    async def _stream(self, request: ChatRequest, response: ChatResponse[Any]) -> None:
        text, size = response.text, self._chunk_size
        for start in range(0, len(text), size):
            await request.emit(TextDelta(text[start : start + size]))
        for index, call in enumerate(response.message.tool_calls):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, default=str)
            await request.emit(ToolCallDelta(index, call.id, call.name, arguments))

    def assert_finished(self) -> None:
        """Fail when steps of the script were not used."""
        left = len(self._steps) - self._next
        if left:
            raise AssertionError(f"{self.name}: {left} of {len(self._steps)} steps were not used")
