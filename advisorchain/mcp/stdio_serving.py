"""Serving over stdin and stdout: the streams belong to the protocol while it lasts."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
from mcp.server.stdio import stdio_server

from ..errors import ConfigurationError
from .mending import mended
from .tool_server import ToolServer

READ_BYTES = 65536
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer message from the client is cut, and so answered as malformed."""


async def serve_stdio(server: ToolServer) -> None:
    """Serve one client until it closes our stdin, or until cancelled.

    Meanwhile file descriptor 1 leads to stderr and descriptor 0 to nothing: what tools and their child processes print
    or read cannot disturb the protocol.

    Raises:
        ConfigurationError: this process has no real stdin and stdout.
    """
    with _private_stdin() as fd:
        lines: Any = _lines(fd)  # the SDK's own reader cannot be cancelled while it waits for the client
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
            with _prints_to_stderr():
                await server.run(incoming, outgoing, server.create_initialization_options())


@contextmanager
def _prints_to_stderr() -> Generator[None]:
    """``print`` goes to stderr. What still goes to the old stdout must leave its buffer before descriptor 1 is ours."""
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            with suppress(OSError, ValueError):
                stdout.flush()


@contextmanager
def _private_stdin() -> Generator[int]:
    """A descriptor of what stdin was; descriptor 0 is empty meanwhile."""
    try:
        fd, _ = sys.stdin.fileno(), sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        raise ConfigurationError("transport='stdio' needs a process with a real standard input and output.") from None
    private = os.dup(fd)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, fd)
    finally:
        os.close(nothing)
    try:
        yield private
    finally:
        os.dup2(private, fd)
        # `private` stays open: the thread may still be reading from it, and a new file must not get its number.


async def _lines(fd: int) -> AsyncIterator[str]:
    """The lines that come in, read by a daemon thread: one that waits for input keeps no program from ending."""
    send, receive = anyio.create_memory_object_stream[str](0)
    token = anyio.lowlevel.current_token()

    def read() -> None:
        with suppress(anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            for line in _split(fd):
                anyio.from_thread.run(send.send, mended(line.decode("utf-8", "replace")), token=token)
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(send.close, token=token)

    threading.Thread(target=read, name="advisorchain-mcp-stdin", daemon=True).start()
    with receive:
        async for line in receive:
            yield line


def _split(fd: int) -> Generator[bytes]:
    pending = bytearray()
    while chunk := os.read(fd, READ_BYTES):
        start = len(pending)
        pending += chunk
        while (end := pending.find(b"\n", start)) >= 0:
            yield bytes(pending[:end])
            del pending[: end + 1]
            start = 0
        del pending[MAX_LINE_BYTES:]
    if pending:
        yield bytes(pending)
