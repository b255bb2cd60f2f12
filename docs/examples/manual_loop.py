"""The tool loop in the application's hands: with a gate, and a stop between rounds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from advisorchain import ChatClient, Message, TextDelta, ToolCall

MAX_ROUNDS = 10


def message(event: str, **data: Any) -> str:
    """One server-sent event; in ASCII, so that half an emoji in a piece is no error."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


async def turn(
    client: ChatClient,
    prompt: str,
    allowed: Callable[[ToolCall], bool],
    stopped: Callable[[], bool],
) -> AsyncIterator[str]:
    """Run rounds until the model answers, the user stops, or there were too many."""
    history: str | Sequence[Message] = prompt
    for _ in range(MAX_ROUNDS):
        async with client.stream(history, tool_loop=False) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    yield message("text", text=event.text)
            response = await stream.response()
        if not response.tool_calls:
            yield message("done", text=response.text)
            return
        if stopped():
            yield message("stopped", open_calls=len(response.tool_calls))
            return
        calls = [call for call in response.tool_calls if allowed(call)]
        execution = await client.execute_tools(
            response, calls
        )  # the calls left out get an error result
        for result in execution.results:
            yield message(
                "tool", name=result.name, failed=result.is_error, content=result.content
            )
        if execution.direct:
            yield message(
                "done", text="\n\n".join(result.content for result in execution.direct)
            )
            return
        history = execution.messages
    yield message("stopped", rounds=MAX_ROUNDS)


def create_app(client: ChatClient, allowed: Callable[[ToolCall], bool]) -> Starlette:
    """``POST /chat/{chat_id}`` with ``{"prompt": "..."}``; ``POST /stop/{chat_id}``."""
    stop_requests: set[str] = set()

    async def chat(request: Request) -> StreamingResponse:
        chat_id = request.path_params["chat_id"]
        prompt = (await request.json())["prompt"]
        stop_requests.discard(chat_id)
        rounds = turn(client, prompt, allowed, lambda: chat_id in stop_requests)
        return StreamingResponse(rounds, media_type="text/event-stream")

    async def stop(request: Request) -> Response:
        stop_requests.add(request.path_params["chat_id"])
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/chat/{chat_id}", chat, methods=["POST"]),
            Route("/stop/{chat_id}", stop, methods=["POST"]),
        ]
    )
