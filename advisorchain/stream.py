"""Streaming: who emits, and the one edge where push becomes pull.

Inside a chain events are pushed: the model awaits ``request.emit(event)``. A turn's events leave it through its
`Outlet`, which also knows the text that was streamed, so that it can be settled with the answer. `ChatStream` is the
edge: a task of its own runs the turn, the reader iterates over a deque.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from .context import Turn
from .errors import AdvisorChainError, ConfigurationError
from .events import Event, Finished, Restarted, RoundStarted, TextDelta
from .exchange import DONE, ChatRequest, ChatResponse, Emit
from .shield import in_trio, run_shielded
from .text_pieces import TextPieces

if TYPE_CHECKING:
    import anyio

T = TypeVar("T", default=str)

logger = logging.getLogger("advisorchain")

QUEUED_EVENTS = 256
"""Above this many unread events, neighbouring text deltas are merged."""
MERGED_CHARACTERS = 4096
"""A merged delta grows no longer than this."""


async def start_attempt(request: ChatRequest) -> Emit:
    """An `Emit` for one source of this round's content; withdraws what an earlier source has emitted in it.

    It stamps path, round and attempt at the origin, so that every tap sees them.
    """
    turn = request.context.turn
    emit = request.emit
    turn.round = round = request.round or turn.round
    if turn.emitted_round >= round:
        turn.attempt += 1
        turn.emitted_round = round - 1
        await emit(Restarted(path=turn.path, round=round, attempt=turn.attempt))
    path, attempt = turn.path, turn.attempt

    def stamp(event: Event) -> Awaitable[None]:
        if event.round:
            if len(event.path) > len(path):  # a sub-agent's, which is stamped already
                return emit(event)
            event = copy.copy(event)  # a replayed one: its first stamp may still be waiting to be read
        event.path = path
        event.round = round
        event.attempt = attempt
        turn.emitted_round = round
        return emit(event)

    return stamp


async def start_round(request: ChatRequest) -> None:
    """Announce a round of the loop; a loop that is entered again withdraws what it has emitted before."""
    turn = request.context.turn
    turn.round = request.round
    if turn.emitted_round >= request.round:
        await start_attempt(request)
    await request.emit(RoundStarted(path=turn.path, round=request.round, attempt=turn.attempt))


async def emit_text(request: ChatRequest, text: str) -> None:
    """Emit a whole text as this round's, withdrawing what the round has emitted before."""
    emit = await start_attempt(request)
    if text:
        await emit(TextDelta(text))


class Outlet:
    """Where the events of one turn leave it; remembers the text of the running round."""

    __slots__ = ("turn", "_forward", "_parts", "_round")

    def __init__(self, turn: Turn, forward: Emit) -> None:
        self.turn = turn
        self._forward = forward
        self._parts: list[str] = []
        self._round = 0  # whose text the parts are

    def __call__(self, event: Event) -> Awaitable[None]:
        """Stamp the event if nobody has, note its text, hand it on."""
        turn = self.turn
        if event.round == 0:  # emitted by an advisor: nobody has stamped it
            event.round, event.attempt = turn.round, turn.attempt
            event.path = event.path or turn.path
            if type(event) is TextDelta:
                turn.emitted_round = turn.round
        if event.path is turn.path or event.path == turn.path:
            kind = type(event)
            if kind is TextDelta:
                if event.round != self._round:  # a loop that announces no rounds
                    self._parts.clear()
                    self._round = event.round
                self._parts.append(event.text)  # type: ignore[attr-defined]
            elif kind is RoundStarted or kind is Restarted:
                self._parts.clear()
        return self._forward(event)

    async def settle(self, text: str) -> None:
        """Make the streamed text of the last round equal to the answer."""
        streamed = "".join(self._parts)
        if streamed == text:
            return
        turn = self.turn
        if streamed:
            logger.warning(
                "Turn %s: an advisor changed the answer after it had been streamed; the stream was restarted. "
                'Give that advisor streams = "hold".',
                turn.id,
            )
            turn.attempt += 1
            await self(Restarted(path=turn.path, round=turn.round, attempt=turn.attempt))
        if text:
            await self(TextDelta(text, path=turn.path, round=turn.round, attempt=turn.attempt))


class ChatStream(Generic[T]):
    """A running turn, read as events. Made by ``client.stream()``::

        async with client.stream("...") as stream:
            async for event in stream: ...
            response = await stream.response()

    The turn runs in a task of its own and never waits for the reader. Leaving the block early cancels it and waits
    until every advisor's ``finally`` has run. Its error is raised, unwrapped, by the next read or ``response()``.
    The reader may sit in an async generator and be closed from another task: no cancel scope is open in it.
    """

    def __init__(self, run: Callable[[Emit], Awaitable[ChatResponse[T]]], turn: Turn) -> None:
        self._run = run
        self._turn = turn
        self._queue: deque[Event] = deque()
        self._response: ChatResponse[T] | None = None
        self._error: BaseException | None = None
        self._error_seen = False
        self._entered = self._done = False
        self._wake: anyio.Event | None = None
        self._scope: anyio.CancelScope
        self._ended: anyio.Event
        self._task: Any = None  # asyncio keeps only weak references to tasks

    async def __aenter__(self) -> ChatStream[T]:
        import anyio

        if self._entered:
            raise ConfigurationError("A stream runs one turn: call client.stream(...) again for another.")
        self._entered = True
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        context = contextvars.copy_context()
        if in_trio():
            import trio

            trio.lowlevel.spawn_system_task(self._produce, name="advisorchain turn", context=context)
        else:
            self._task = asyncio.create_task(self._produce(), name="advisorchain turn", context=context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._entered and not self._done:
            self._scope.cancel()
            await run_shielded(self._ended.wait)
        self._queue.clear()
        unseen = self._error if not self._error_seen and error is not self._error else None
        if unseen is not None and not isinstance(unseen, asyncio.CancelledError):
            logger.error("A turn failed after its stream was left", exc_info=unseen)

    async def _produce(self) -> None:
        """Run the turn; never raises out of its task, whose only parent is the event loop."""
        try:
            with self._scope:
                self._response = response = await self._run(self._push)
                self._push(Finished(response, round=self._turn.round, attempt=self._turn.attempt))
        except BaseException as exc:
            self._error = exc
        finally:
            self._done = True
            del self._run  # it holds the turn, and the turn's outlet holds this stream
            self._ended.set()
            self._notify()

    def _push(self, event: Event) -> Awaitable[None]:
        queue = self._queue
        if self._response is not None and type(event) is not Finished:
            return DONE  # a task that a tool left behind: Finished is the last event
        if len(queue) >= QUEUED_EVENTS and type(event) is TextDelta:
            last = queue[-1]
            if (
                type(last) is TextDelta
                and last.path == event.path
                and last.round == event.round
                and last.attempt == event.attempt
                and len(last.text) < MERGED_CHARACTERS
            ):
                # A new event: taps may have kept the old one.
                queue[-1] = TextDelta(last.text + event.text, path=last.path, round=last.round, attempt=last.attempt)
                return DONE
        queue.append(event)
        if self._wake is not None:
            self._notify()
        return DONE

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        queue = self._queue
        while not queue:
            if self._done:
                if self._error is not None:
                    self._error_seen = True
                    raise self._error
                raise StopAsyncIteration
            await self._wait()
        return queue.popleft()

    async def _wait(self) -> None:
        import anyio

        if not self._entered:
            raise ConfigurationError("Enter the stream first: async with client.stream(...) as stream.")
        if self._wake is None:
            self._wake = anyio.Event()
        await self._wake.wait()

    def text(self, *, final: bool = False) -> AsyncIterator[str]:
        """The turn's text as it is streamed, without what sub-agents say.

        Args:
            final: only the last round's text, which is the answer: it is known to be the last when the turn ends.
        """
        return TextPieces(self, final=final)

    async def response(self) -> ChatResponse[T]:
        """Wait for the end of the turn; the same response that ``call`` returns.

        Raises:
            Exception: what ended the turn.
            AdvisorChainError: the stream was left before the turn ended.
        """
        if not self._entered:
            raise ConfigurationError("Enter the stream first: async with client.stream(...) as stream.")
        if not self._done:
            await self._ended.wait()
        if self._error is not None:
            self._error_seen = True
            raise self._error
        if self._response is None:
            raise AdvisorChainError("The stream was left before the turn ended: there is no response.")
        return self._response
