"""The sync face: the same async turns, run on one background event loop per process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ConfigurationError
from .events import Event
from .exchange import ChatResponse
from .stream import ChatStream

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

_lock = threading.Lock()
_portal: BlockingPortal | None = None
_portal_thread: threading.Thread | None = None


def _forget_portal() -> None:
    """A forked child has no background thread: it starts its own."""
    global _portal, _portal_thread, _lock
    _portal = _portal_thread = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_portal)


def background_portal() -> BlockingPortal:
    """The portal to the background loop; started at first use, in a daemon thread."""
    global _portal, _portal_thread
    if threading.current_thread() is _portal_thread:
        raise ConfigurationError(
            "call_sync and stream_sync would wait for their own event loop here; use await client.call(...)."
        )
    with _lock:
        if _portal is None:
            ready: threading.Event = threading.Event()
            found: list[BlockingPortal] = []

            async def serve() -> None:
                from anyio.from_thread import BlockingPortal

                async with BlockingPortal() as portal:
                    found.append(portal)
                    ready.set()
                    await portal.sleep_until_stopped()

            _portal_thread = threading.Thread(
                target=asyncio.run, args=(serve(),), name="advisorchain background loop", daemon=True
            )
            _portal_thread.start()
            ready.wait()
            _portal = found[0]
        return _portal


def run_sync(fn: Callable[[], Awaitable[T]]) -> T:
    """Run ``await fn()`` on the background loop; Ctrl-C cancels it and waits until it has ended."""

    ended = threading.Event()

    async def run() -> T:
        try:
            return await fn()
        finally:
            ended.set()

    future = background_portal().start_task_soon(run)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        ended.wait()
        raise


class SyncStream:
    """A `ChatStream` for sync code; made by ``client.stream_sync()``."""

    def __init__(self, make: Callable[[], ChatStream[Any]]) -> None:
        self._stream = make()

    def __enter__(self) -> SyncStream:
        run_sync(self._stream.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run_sync(lambda: self._stream.__aexit__(kind, error, traceback))

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                yield run_sync(self._stream.__anext__)
            except StopAsyncIteration:
                return

    def text(self, *, final: bool = False) -> Iterator[str]:
        """The turn's text as it is streamed; see `ChatStream.text`."""
        pieces = self._stream.text(final=final)
        while True:
            try:
                yield run_sync(pieces.__anext__)
            except StopAsyncIteration:
                return

    def response(self) -> ChatResponse[Any]:
        """Wait for the end of the turn; see `ChatStream.response`."""
        return run_sync(self._stream.response)
