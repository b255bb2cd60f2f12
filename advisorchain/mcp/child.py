"""`Process`: a child process with a process group of its own, whose pipes are waited for on the event loop.

Not asyncio's subprocesses: they wait for ever when the event loop ends while one is being started, and keep a transport
open as long as anybody holds a pipe. POSIX only.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from contextlib import suppress
from typing import IO

import anyio
import anyio.lowlevel

logger = logging.getLogger("advisorchain.mcp")

END_SECONDS = 2.0
"""How long a child has to end by itself once its input is closed."""
KILL_SECONDS = 2.0
"""How long it and its children have after SIGTERM, and then after SIGKILL."""
_POLL = 0.01
_CHUNK = 262_144


class Process:
    """A child in a process group of its own, with pipes that are waited for on the event loop.

    Args:
        command: the program and its arguments.
        env: all of its variables.
        cwd: its working directory.

    Attributes:
        pid: of the child and of its process group.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: list[str], env: dict[str, str], cwd: str | None) -> None:
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self.pid = self._popen.pid
        for file in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(file.fileno(), False)

    @property
    def stdin(self) -> IO[bytes]:
        """Its input."""
        assert self._popen.stdin is not None
        return self._popen.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Its output."""
        assert self._popen.stdout is not None
        return self._popen.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Its standard error."""
        assert self._popen.stderr is not None
        return self._popen.stderr

    @property
    def returncode(self) -> int | None:
        """How it ended; None: it runs."""
        return self._popen.poll()

    def close_input(self) -> None:
        """Close its input; who waits to write gets ``ClosedResourceError``."""
        if not self.stdin.closed:
            anyio.notify_closing(self.stdin)
            self.stdin.close()

    def release(self) -> None:
        """Close what is left of the pipes."""
        for file in (self.stdin, self.stdout, self.stderr):
            file.close()


async def receive(file: IO[bytes]) -> bytes:
    """What can be read now, at least one byte; nothing at the end.

    Raises:
        OSError: the pipe is broken.
    """
    await anyio.lowlevel.checkpoint()  # one that never stops must not keep the others waiting
    while True:
        try:
            return os.read(file.fileno(), _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(file)


async def send(file: IO[bytes], data: bytes) -> None:
    """Write all of it.

    Raises:
        ClosedResourceError: it was closed meanwhile.
        OSError: nobody reads any more.
    """
    left = memoryview(data)
    while left:
        if file.closed:
            raise anyio.ClosedResourceError
        try:
            left = left[os.write(file.fileno(), left) :]
        except BlockingIOError:
            await anyio.wait_writable(file)


async def ended(process: Process, name: str) -> None:
    """Close its input, wait, and then end it and all that it has started by force."""
    process.close_input()
    await _exited(process, END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # also what is left of a family whose head has gone
        os.killpg(process.pid, signal.SIGTERM)
        with anyio.move_on_after(KILL_SECONDS):
            while _family_lives(process):  # noqa: ASYNC110
                await anyio.sleep(_POLL)
            return
        os.killpg(process.pid, signal.SIGKILL)
    if not await _exited(process, KILL_SECONDS):
        logger.warning("MCP server %r: its process %d does not end.", name, process.pid)


def _family_lives(process: Process) -> bool:
    _ = process.returncode  # a child that has ended is one as long as nobody has asked
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def _exited(process: Process, seconds: float) -> bool:
    """Whether it ends in time."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(_POLL)
    return process.returncode is not None
