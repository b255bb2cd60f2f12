"""A child process as a transport for the SDK's client: no line of it is endless, and its whole family ends with it.

The SDK's own transport reads a line in time that grows with the square of its length and without a limit, logs a stack
trace for each line that is no message, and leaves the children of a server that ends by itself. It is used on Windows.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from .child import Process, ended, receive, send
from .mending import mended
from .server import McpServer

if TYPE_CHECKING:
    from .opening import Trace

logger = logging.getLogger("advisorchain.mcp")

STDERR_BYTES = 2_000
"""How much of the end of a child's standard error is kept for error messages."""
FLUSH_SECONDS = 0.5
"""How long the end of a connection waits until what was sent is written."""
WATCH_SECONDS = 0.5
"""How often is looked whether the child still runs."""
MAX_ASKED = 100
"""How many requests of the server may wait for an answer; what it asks beyond that is not heard."""
_CLOSED, _NO_JSON = -32000, -32700  # of MCP and JSON-RPC
_SEEN = 200
"""How much of both ends of a message is searched for its id."""
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


def line_limit(server: McpServer) -> int:
    """How many bytes one message may have: base64 makes a result a third longer, and there is more than the result."""
    return 2 * server.max_result_bytes + 1_048_576


@asynccontextmanager
async def child_process(server: McpServer, trace: Trace) -> AsyncGenerator[Any]:
    """Starts the server; gives the streams that the SDK's client reads from and writes to.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    process = Process(
        [server.command, *server.args],
        get_default_environment() | dict(server.env),
        None if server.cwd is None else str(server.cwd),
    )
    # No await until the task group is entered, or a cancellation in between would leave the process alone.
    incoming, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, outgoing = anyio.create_memory_object_stream[Any](0)
    written = anyio.Event()
    asked: set[int | str] = set()  # the requests of the server that have no answer yet
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, incoming, asked, line_limit(server), server.name)
            group.start_soon(_write, process, outgoing, incoming, asked, written)
            group.start_soon(_listen, process, trace, server.name)
            group.start_soon(_watch, process, incoming)
            try:
                yield read_stream, write_stream
            finally:
                with anyio.CancelScope(shield=True):  # every wait inside is bounded
                    read_stream.close()
                    write_stream.close()
                    with anyio.move_on_after(FLUSH_SECONDS):
                        await written.wait()
                    await ended(process, server.name)
                    for stream in (incoming, outgoing):
                        stream.close()
                group.cancel_scope.cancel()
    finally:
        process.release()


# While it lives ------------------------------------------------------------------------------------------------------


async def _read(process: Process, incoming: Any, asked: set[int | str], limit: int, name: str) -> None:
    """Read messages until the output ends; what nobody takes any more is read on, so that the child can end."""
    from mcp.shared.message import SessionMessage

    lines = Lines(limit)
    taken = True
    async with incoming:
        with suppress(OSError):
            while chunk := await receive(process.stdout):
                for line in lines.fed(chunk):
                    if not taken or not line.strip():
                        continue
                    message = _message(line)
                    if message is None:
                        logger.debug("MCP server %r wrote a line that is no message: %.200r", name, line)
                        await anyio.lowlevel.checkpoint()  # thousands of them are in one chunk
                        continue
                    if not _is_heard(message, asked):
                        logger.debug("MCP server %r asks more than can be answered", name)
                        await anyio.lowlevel.checkpoint()
                        continue
                    try:
                        await incoming.send(SessionMessage(message))
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        taken = False  # the client is gone


def _message(line: bytes) -> Any:
    """The message in a line, mended if need be; an error in the place of an answer that is none; else None."""
    from mcp_types import jsonrpc_message_adapter

    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(mended(line.decode()), by_name=False)
    number = _answered(line)
    if number is None:
        return None
    return jsonrpc_message_adapter.validate_json(_error_line(number, _NO_JSON, "the answer is no valid message"))


def _answered(line: bytes) -> bytes | None:
    """The id of the request that a line answers which is no valid message, as JSON; None if it does not say.

    Lines of a log are no answers, also when they are JSON with an id, or quote a message.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        head, tail = line[:_SEEN], line[-_SEEN:]
        is_answer = line.lstrip()[:1] == b"{" and b'"jsonrpc"' in head + tail and b'"method"' not in head + tail
        return _id_in(head, tail) if is_answer else None
    is_answer = isinstance(data, dict) and "jsonrpc" in data and "method" not in data
    number = data.get("id") if is_answer else None
    return str(number).encode() if type(number) is int else None


def _is_heard(message: Any, asked: set[int | str]) -> bool:
    """Whether a message is passed on. Each request takes a task, and a server might never read the answers."""
    method = getattr(message, "method", None)
    if method is None:
        return True
    if method == "notifications/cancelled":
        number = (message.params or {}).get("requestId")
        if isinstance(number, int | str):  # else it is nobody's
            asked.discard(number)  # it gets no answer
    elif (number := getattr(message, "id", None)) is not None:
        if number in asked or len(asked) >= MAX_ASKED:
            return False
        asked.add(number)
    return True


async def _write(process: Process, outgoing: Any, incoming: Any, asked: set[int | str], written: anyio.Event) -> None:
    try:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await send(process.stdin, text.encode() + b"\n")
                if not hasattr(message.message, "method"):
                    asked.discard(message.message.id)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        incoming.close()  # so that no request waits for an answer for ever
    finally:
        written.set()


async def _listen(process: Process, trace: Trace, name: str) -> None:
    """Read standard error all the time, or a talkative child would stand still."""
    with suppress(OSError):
        while data := await receive(process.stderr):
            trace.stderr = (trace.stderr + data[-STDERR_BYTES:])[-STDERR_BYTES:]
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("MCP server %r: %r", name, data[-STDERR_BYTES:].decode(errors="replace"))


async def _watch(process: Process, incoming: Any) -> None:
    """End the connection when the child has ended but a child of it holds the output open."""
    while process.returncode is None:  # noqa: ASYNC110
        await anyio.sleep(WATCH_SECONDS)
    await anyio.sleep(WATCH_SECONDS)  # its last words are still to be read
    incoming.close()


class Lines:
    """Cuts what comes in pieces into lines, in time that grows with their length.

    In the place of an answer that is too long comes an error under its id, so that nobody waits for it.
    """

    __slots__ = ("_limit", "_parts", "_size", "_head", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def fed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, as UTF-8; an empty one for what is too long and has no id."""
        *ends, rest = chunk.split(b"\n")
        found: list[bytes] = []
        for end in ends:
            self._add(end)
            found.append(self._whole())
        self._add(rest)
        return found

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if len(self._head) < _SEEN:
            self._head = (self._head + piece[:_SEEN])[:_SEEN]
        if self._size <= self._limit:
            self._parts.append(piece)
        else:
            self._parts.clear()
            self._tail = (self._tail + piece[-_SEEN:])[-_SEEN:]

    def _whole(self) -> bytes:
        line = b"".join(self._parts) if self._size <= self._limit else self._error()
        self._parts, self._size, self._head, self._tail = [], 0, b"", b""
        try:
            line.decode()
        except UnicodeDecodeError:  # one wrong byte must not cost the message
            return line.decode(errors="replace").encode()
        return line

    def _error(self) -> bytes:
        """An error in the place of the message, if its id can be seen."""
        number = _id_in(self._head, self._tail)
        if number is None:
            return b""
        return _error_line(number, _CLOSED, f"the message exceeded the byte limit of {self._limit}")


def _id_in(head: bytes, tail: bytes) -> bytes | None:
    """The id of a message of which only the ends are known: it stands at one of them."""
    found = _ID.search(head) or _ID.search(tail)
    return None if found is None else found[1]


def _error_line(number: bytes, code: int, text: str) -> bytes:
    """An answer that says that there is none."""
    return b'{"jsonrpc": "2.0", "id": %s, "error": {"code": %d, "message": "%s"}}' % (number, code, text.encode())
