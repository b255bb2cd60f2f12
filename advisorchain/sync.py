"""The sync face: the same async turns, run on one background event loop per process."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

from .errors import ConfigurationError
from .events import Event
from .exchange import ChatResponse
from .stream import ChatStream

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T", default=str)

EXIT_SECONDS = 10.0
"""How long the end of the process waits for what is still open on the background loop, for example child processes."""

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


def _stop_portal() -> None:
    """End the background loop as ``asyncio.run`` does: what runs on it is cancelled, and closes what it holds."""
    if _portal is not None and _portal_thread is not None and _portal_thread.is_alive():
        _portal.start_task_soon(_portal.stop, True)
        _portal_thread.join(EXIT_SECONDS)


def background_portal() -> BlockingPortal:
    """The portal to the background loop; started at first use, in a daemon thread."""
    global _portal, _portal_thread
    if threading.current_thread() is _portal_thread:
        raise ConfigurationError(
            "call_sync and stream_sync would wait for their own event loop here; use await client.call(...)."
        )
    with _lock:
        if _portal is None or _portal_thread is None or not _portal_thread.is_alive():
            _portal, _portal_thread = _started_portal()
            atexit.unregister(_stop_portal)  # of a loop before this one
            atexit.register(_stop_portal)
        return _portal


def _started_portal() -> tuple[BlockingPortal, threading.Thread]:
    """A running background loop and its thread; what keeps the loop from starting is raised here."""
    started: Future[BlockingPortal] = Future()

    async def serve() -> None:
        from anyio.from_thread import BlockingPortal

        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="advisorchain background loop", daemon=True)
    thread.start()
    return started.result(), thread


def _new_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose end starts no thread.

    It ends with the process, when Python 3.12 lets no thread begin any more, and its executor, which resolves names,
    has been ended already.
    """
    loop = asyncio.new_event_loop()

    async def shutdown_default_executor(timeout: float | None = None) -> None:
        pass

    loop.shutdown_default_executor = shutdown_default_executor  # type: ignore[method-assign]
    return loop


def run_sync(fn: Callable[[], Awaitable[T]]) -> T:
    """Run ``await fn()`` on the background loop; Ctrl-C cancels it and waits until it has ended."""

    import anyio

    portal = background_portal()
    ended = threading.Event()
    scopes: list[anyio.CancelScope] = []
    interrupted = False

    async def run() -> T | _Raised | None:
        try:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                if interrupted:
                    scope.cancel()
                return await fn()
            return None
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            return _Raised(error)  # an exit must not take the background loop with it
        finally:
            ended.set()

    async def interrupt() -> bool:
        """Cancel the turn; whether it had started at all."""
        nonlocal interrupted
        interrupted = True
        await anyio.lowlevel.checkpoint()  # a turn that was just handed over begins now
        for scope in scopes:
            scope.cancel()
        return bool(scopes)

    try:
        outcome = portal.start_task_soon(run).result()
    except KeyboardInterrupt:
        if portal.call(interrupt):
            ended.wait()
        raise
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome  # type: ignore[return-value]


class _Raised:
    """An error on its way to the calling thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class SyncStream(Generic[T]):
    """A `ChatStream` for sync code; made by ``client.stream_sync()``."""

    def __init__(self, stream: ChatStream[T]) -> None:
        self._stream = stream

    def __enter__(self) -> SyncStream[T]:
        try:
            run_sync(self._stream.__aenter__)
        except BaseException:
            run_sync(lambda: self._stream.__aexit__(None, None, None))
            raise
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

    def response(self) -> ChatResponse[T]:
        """Wait for the end of the turn; see `ChatStream.response`."""
        return run_sync(self._stream.response)
