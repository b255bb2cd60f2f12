"""`JsonLinesSink`: an append-only, hash-chained file that many tasks, threads and processes may write."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Awaitable
from pathlib import Path
from typing import Literal

from ..errors import AuditError, ConfigurationError
from ..setting_checks import check_number
from .record_chain import NO_HASH, Digest, Predecessor, check_start, last_line, parse_line, start_record
from .sink import AuditRecord, encode_record

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("advisorchain.audit")

Fsync = Literal["never", "interval", "always"]

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
LOOK_SECONDS = 1.0
"""How long a file that somebody has removed or replaced may go unnoticed."""

if fcntl is not None:
    _flock = fcntl.flock
    _LOCK, _UNLOCK = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN


def _locked(fd: int) -> bool:
    """Lock the file if it is free."""
    try:
        _flock(fd, _LOCK)
    except BlockingIOError:
        return False
    return True


class JsonLinesSink:
    """Appends every record as one line of JSON; each line holds the hash of the one before and its own.

    A record is written inline, with one write under a file lock, so records of concurrent turns and of several
    processes neither interleave nor break the chain. See `verify` for what the chain proves.

    Args:
        path: the file; it is created with mode 600. Its directory must exist.
        fsync: when the disk has to confirm. ``"never"``: a record survives the end of the process, but perhaps not a
            power failure. ``"interval"``: at most ``fsync_seconds`` after it was written. ``"always"``: before the
            write counts as done. Always in a thread.
        fsync_seconds: see ``fsync``.
        rotate_bytes: before the file grows beyond it, it is renamed to ``path.1``, ``path.2``, ..., and a new one
            starts with its head. Needs a file system with hard links.
        key: the name of an environment variable with a secret of at least 16 bytes, or the bytes: the hashes are then
            HMACs, which nobody can make without the key, and so are the hashes of arguments.
        lock_seconds: how long a write waits for the lock of another process.

    Raises:
        ConfigurationError: the file cannot be opened, is no audit file, or was written with another key.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fsync: Fsync = "never",
        fsync_seconds: float = 1.0,
        rotate_bytes: int | None = None,
        key: str | bytes | None = None,
        lock_seconds: float = 5.0,
    ) -> None:
        if fsync not in ("never", "interval", "always"):
            raise ConfigurationError(f"fsync must be 'never', 'interval' or 'always', not {fsync!r}.")
        check_number("fsync_seconds", fsync_seconds, over=0)
        check_number("lock_seconds", lock_seconds)
        if rotate_bytes is not None:
            check_number("rotate_bytes", rotate_bytes, least=1, whole=True)
        if fcntl is None:
            raise ConfigurationError("JsonLinesSink needs file locks that this system does not have; use SqliteSink.")
        self.path = Path(path).absolute()  # the program may change its directory later
        self.fsync: Fsync = fsync
        self.fsync_seconds = fsync_seconds
        self.rotate_bytes = rotate_bytes
        self.lock_seconds = lock_seconds
        self._digest = Digest(key)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._fd: int | None = None
        # Where the chain stands, as of the size that the file then had.
        self._size = self._first = self._seq = 0
        self._hash = NO_HASH
        self._number = 1
        self._look = 0.0
        _sinks.add(self)
        with self._lock:
            try:
                self._acquire()
            except OSError as exc:
                raise ConfigurationError(f"Cannot open the audit file {self.path}: {exc.strerror or exc}.") from exc
            finally:
                self._unlock()

    # Writing ---------------------------------------------------------------------------------------------------------

    def write(self, record: AuditRecord, *, durable: bool = False) -> Awaitable[None] | None:
        """Append a record.

        Args:
            record: not empty, without ``seq``, ``prev`` and ``hash``, which the chain adds.
            durable: fsync, whatever ``fsync`` says.

        Raises:
            AuditError: it could not be written (disk full, file locked, ...); the file is as it was.
        """
        if not record or "hash" in record or "seq" in record or "prev" in record:
            raise AuditError("An audit record is not empty, and its fields are not named seq, prev or hash.")
        body = encode_record(record)
        synced: int | None = None
        with self._lock:
            fd = self._fd
            try:
                # What `_acquire` does when nobody else has written since: the fewest system calls.
                if (
                    fd is None
                    or time.monotonic() > self._look
                    or not _locked(fd)
                    or os.lseek(fd, 0, os.SEEK_END) != self._size
                ):
                    fd = self._acquire()
                if self.rotate_bytes is not None and self._first < self._size > self.rotate_bytes - len(body) - 200:
                    self._append(encode_record({"kind": "rotated", "time": time.time()}))
                    fd = self._rotate()
                self._append(body)
                if durable or self.fsync == "always":
                    synced = os.dup(fd)
            except OSError as exc:
                self._size = -1  # whatever was under way, the next write looks at the file anew
                raise AuditError(f"Cannot write to the audit file {self.path}: {exc.strerror or exc}.") from exc
            finally:
                self._unlock()
            if self.fsync == "interval" and self._timer is None:
                self._start_timer()
        return None if synced is None else self._sync(synced)

    def digest(self, data: bytes) -> str:
        """SHA-256, or with a key HMAC-SHA-256."""
        return self._digest(data)

    def close(self) -> None:
        """Have the disk confirm, unless ``fsync="never"``, and close the file. A later write opens it again."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._fd is not None:
                if self.fsync != "never":
                    os.fsync(self._fd)
                os.close(self._fd)
                self._fd = None

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        fd = self.__dict__.get("_fd")
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def __repr__(self) -> str:
        return f"JsonLinesSink({str(self.path)!r})"

    # Everything below runs with the threading lock held --------------------------------------------------------------

    def _append(self, body: bytes, before: bytes = b"") -> None:
        """Seal a record and write it, behind ``before``, with one write."""
        sealed = b'%s{"seq":%d,"prev":"%s",%s' % (before, self._seq + 1, self._hash.encode(), body[1:-1])
        own = self._digest(sealed[len(before) :] if before else sealed)
        line = b'%s,"hash":"%s"}\n' % (sealed, own.encode())
        try:
            written = os.write(self._fd, line)  # type: ignore[arg-type]
            while written < len(line):  # a full disk takes a part; then the next write says so
                written += os.write(self._fd, line[written:])  # type: ignore[arg-type]
        except OSError:
            os.ftruncate(self._fd, self._size)  # type: ignore[arg-type]
            raise
        self._size += len(line)
        self._seq += 1
        self._hash = own

    def _acquire(self) -> int:
        """Lock the file that now has the path, and know where its chain stands."""
        self._look = time.monotonic() + LOOK_SECONDS
        fd = self._fd
        if fd is not None:
            self._wait_for_lock(fd)
            if self._has_path(fd):
                size = os.fstat(fd).st_size
                if size != self._size:  # somebody else has written
                    self._read(size)
                return self._fd  # type: ignore[return-value]  # a rotation may have been finished
            os.close(fd)  # rotated or removed by somebody else
            self._fd = None
        while True:
            fd = os.open(self.path, _FLAGS, 0o600)
            try:
                self._wait_for_lock(fd)
            except BaseException:
                os.close(fd)
                raise
            if self._has_path(fd):
                break
            os.close(fd)
        self._fd = fd
        self._open(os.fstat(fd).st_size)
        return self._fd

    def _unlock(self) -> None:
        if self._fd is not None:
            _flock(self._fd, _UNLOCK)

    def _wait_for_lock(self, fd: int) -> None:
        """Lock the file. Writers hold the lock for microseconds, so this does not wait for long."""
        pause, deadline = 0.0001, time.monotonic() + self.lock_seconds
        while not _locked(fd):
            if time.monotonic() >= deadline:
                raise AuditError(
                    f"The audit file {self.path} has been locked by another process for {self.lock_seconds:g} s."
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.005)

    def _has_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(fd))
        except FileNotFoundError:
            return False

    def _open(self, size: int) -> None:
        """Read where the chain of a file just opened stands; start it if the file is empty."""
        self._number, self._first = 1, 0
        if size == 0:
            self._size, self._seq, self._hash = 0, 0, NO_HASH
            self._append(encode_record(start_record(self._digest, 1)))
            self._first = self._size
            return
        try:
            self._number, self._first = check_start(self.path, self._fd, self._digest)  # type: ignore[arg-type]
        except BaseException:
            os.close(self._fd)  # type: ignore[arg-type]
            self._fd = None
            raise
        self._read(size)

    def _read(self, size: int) -> None:
        """Read the tail: where the chain stands, and what a crash has left behind it."""
        if size == 0:  # somebody has emptied it
            self._open(size)
            return
        line, rest = last_line(self._fd, size)  # type: ignore[arg-type]
        self._size = size
        if line is not None:
            self._seq, self._hash = line.seq, line.stated
            if self._digest(line.sealed) != line.stated:
                logger.error("The last record of the audit file %s was changed; verify says more.", self.path)
            if not rest and b'"kind":"rotated"' in line.sealed[:120]:
                self._rotate()  # whoever began it was killed
            if not rest:
                return
        else:
            self._seq, self._hash = 0, NO_HASH
        closed = rest.endswith(b"\n")
        if not closed:
            whole = parse_line(rest + b"\n")
            if (
                whole
                and (whole.seq, whole.prev) == (self._seq + 1, self._hash)
                and self._digest(whole.sealed) == whole.stated
            ):
                os.write(self._fd, b"\n")  # type: ignore[arg-type]  # only the line's end is missing
                self._size, self._seq, self._hash = size + 1, whole.seq, whole.stated
                return
        # Closed with a mark, so that the torn bytes can never pass for a record.
        torn = {"bytes": len(rest), "digest": self._digest(rest[:-1] if closed else rest + b"~")}
        logger.error("The audit file %s ends in %d bytes of a torn record; going on behind it.", self.path, len(rest))
        record = {"kind": "torn", "time": time.time()} if line is not None else start_record(self._digest, 1)
        self._append(encode_record({**record, "torn": torn}), b"" if closed else b"~\n")

    def _rotate(self) -> int:
        """Give the file its number, and put a new one in its place that starts with its head.

        The path exists at every moment, and whoever is killed here leaves a state that the next writer completes.
        """
        old = self._fd
        assert old is not None
        number = self._number
        path = os.path.realpath(self.path)  # the file itself changes places, not a link to it
        while True:
            kept = Path(f"{path}.{number}")
            try:
                os.link(path, kept)
                break
            except FileExistsError:
                if os.path.samestat(os.stat(kept), os.fstat(old)):
                    break
                number += 1
        next_path = f"{path}.next"
        new = os.open(next_path, _FLAGS | os.O_TRUNC, 0o600)
        self._wait_for_lock(new)
        previous = Predecessor(kept.name, self._seq, self._hash)
        self._fd, self._size = new, 0
        try:
            self._append(encode_record(start_record(self._digest, number + 1, previous)))
            os.rename(next_path, path)
        except BaseException:
            os.close(new)
            self._fd, self._size = None, 0
            os.close(old)
            raise
        self._number, self._first = number + 1, self._size
        if self.fsync != "never":
            os.fsync(old)
            directory = os.open(kept.parent, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        os.close(old)
        return new

    # The disk's confirmation -----------------------------------------------------------------------------------------

    async def _sync(self, fd: int) -> None:
        import anyio.to_thread

        try:
            await anyio.to_thread.run_sync(os.fsync, fd)
        except OSError as exc:
            raise AuditError(f"The disk did not confirm the audit file {self.path}: {exc.strerror or exc}.") from exc
        finally:
            os.close(fd)

    def _start_timer(self) -> None:
        sink = weakref.ref(self)
        self._timer = threading.Timer(self.fsync_seconds, lambda: _sync_now(sink()))
        self._timer.daemon = True
        self._timer.start()

    def _after_fork(self) -> None:
        """A child shares the parent's open file, and with it its lock: it must open the file itself."""
        self._lock = threading.Lock()
        self._timer = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _sync_now(sink: JsonLinesSink | None) -> None:
    if sink is None:
        return
    with sink._lock:
        sink._timer = None
        fd = None if sink._fd is None else os.dup(sink._fd)
    if fd is not None:
        try:
            os.fsync(fd)
        except OSError as exc:
            logger.error("The disk did not confirm the audit file %s: %s", sink.path, exc)
        finally:
            os.close(fd)


_sinks: weakref.WeakSet[JsonLinesSink] = weakref.WeakSet()


def _renew_after_fork() -> None:
    for sink in _sinks:
        sink._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_after_fork)
