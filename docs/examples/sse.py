"""A chat endpoint that streams a turn's events as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from advisorchain import (
    AdvisorChainError,
    ChatClient,
    Event,
    Finished,
    Restarted,
    RoundStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)


def message(event: str, **data: Any) -> str:
    """One server-sent event; in ASCII, so that half an emoji in a piece is no error."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def as_message(event: Event) -> str | None:
    """The events that this application shows; the others are left out."""
    match event:
        case TextDelta(text=text, path=()):
            return message("text", text=text)
        case RoundStarted(path=()) | Restarted(path=()):
            return message("clear")  # the answer is the text after the last of these
        case ToolStarted(call=call, direct=direct):
            return message("tool", name=call.name, direct=direct)
        case ToolFinished(result=result):
            return message("tool_done", name=result.name, failed=result.is_error)
        case Finished(response=response):
            return message("done", text=response.text, stop_reason=response.stop_reason)
        case _:
            return None


async def events(client: ChatClient, prompt: str) -> AsyncIterator[str]:
    """A turn as server-sent events; when the browser leaves, the turn is cancelled."""
    try:
        async with client.stream(prompt) as stream:
            async for event in stream:
                if (text := as_message(event)) is not None:
                    yield text
    except AdvisorChainError as error:
        yield message(
            "error", kind=type(error).__name__
        )  # the status line is sent already: say it in the stream


def create_app(client: ChatClient) -> Starlette:
    """``POST /chat`` with ``{"prompt": "..."}``."""

    async def chat(request: Request) -> StreamingResponse:
        prompt = (await request.json())["prompt"]
        return StreamingResponse(events(client, prompt), media_type="text/event-stream")

    return Starlette(routes=[Route("/chat", chat, methods=["POST"])])
