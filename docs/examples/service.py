"""A chat service: one client per process, opened and closed with the application."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from advisorchain import (
    AdvisorChainError,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Order,
    Restarted,
    RoundStarted,
    TextDelta,
    chat_advisor,
)

logger = logging.getLogger(__name__)

TURN_SECONDS = 120


@chat_advisor(order=Order.DEADLINE)
async def deadline(request: ChatRequest, call_next: ChatNext) -> ChatResponse:
    """Ends a turn that takes too long, whatever it waits for."""
    with anyio.fail_after(TURN_SECONDS):
        return await call_next(request)


class Room:
    """Lets so many turns run at once; who comes then is told to come back."""

    def __init__(self, app: ASGIApp, places: int) -> None:
        self.app = app
        self.free = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/health":
            return await self.app(scope, receive, send)
        if self.free == 0:
            headers = {"Retry-After": "5"}
            busy = JSONResponse({"error": "busy"}, status_code=503, headers=headers)
            return await busy(scope, receive, send)
        self.free -= 1
        try:
            await self.app(scope, receive, send)
        finally:  # also when the browser has left
            self.free += 1


def message(event: str, **data: Any) -> str:
    """One server-sent event; in ASCII, so that half an emoji in a piece is no error."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


async def turn(client: ChatClient, chat_id: str, prompt: str) -> AsyncIterator[str]:
    """A turn as server-sent events; when the browser leaves, the turn is cancelled."""
    try:
        async with client.stream(prompt, conversation_id=chat_id) as stream:
            async for event in stream:
                match event:
                    case TextDelta(text=text, path=()):
                        yield message("text", text=text)
                    case RoundStarted(path=()) | Restarted(path=()):
                        yield message("clear")
            yield message("done", text=(await stream.response()).text)
    except (AdvisorChainError, TimeoutError) as error:
        logger.warning("chat %r: %r", chat_id, error)
        yield message("error", kind=type(error).__name__)  # no details for the browser
    except Exception:  # a bug: the browser is told that there is no more to come
        logger.exception("chat %r", chat_id)
        yield message("error", kind="InternalError")


def create_app(
    make_client: Callable[[AsyncExitStack], Awaitable[ChatClient]], places: int = 100
) -> Starlette:
    """``POST /chat/{chat_id}`` with ``{"prompt": "..."}``, and ``GET /health``.

    ``make_client`` enters what must be closed (models, MCP servers) into the stack.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            app.state.client = await make_client(stack)
            yield

    async def chat(request: Request) -> Response:
        try:
            prompt = (await request.json())["prompt"]
        except (ValueError, LookupError, TypeError):
            prompt = None
        if not isinstance(prompt, str):  # from outside: never a list of messages
            return JSONResponse({"error": 'send {"prompt": "..."}'}, status_code=400)
        events = turn(request.app.state.client, request.path_params["chat_id"], prompt)
        return StreamingResponse(events, media_type="text/event-stream")

    async def health(request: Request) -> Response:
        return JSONResponse({"ok": True})

    return Starlette(
        routes=[
            Route("/chat/{chat_id}", chat, methods=["POST"]),
            Route("/health", health),
        ],
        middleware=[Middleware(Room, places=places)],
        lifespan=lifespan,
    )
