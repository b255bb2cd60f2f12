"""What a model is: the innermost ``ChatNext``, with a name."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from ..exchange import ChatRequest, ChatResponse


class ChatModel(Protocol):
    """An async callable of a `ChatRequest` that returns a `ChatResponse`.

    It sends ``request.messages``, ``request.tools`` and ``request.options`` to its provider, and awaits
    ``request.emit(TextDelta(...))`` for every piece of text when ``request.streaming`` is true; the deltas together are
    the message's text. It merges its own default options under the request's (``request.options.over(mine)``), never
    retries, and raises `ModelError` with ``transient`` and ``retry_after`` set.

    Optional: ``native_output = True`` when it sends ``request.output.schema`` to the provider itself; without it the
    schema is part of the instructions.
    """

    @property
    def name(self) -> str:
        """The model's name, for logs and traces."""
        ...

    def __call__(self, request: ChatRequest, /) -> Awaitable[ChatResponse[Any]]:
        """Answer the request."""
        ...
