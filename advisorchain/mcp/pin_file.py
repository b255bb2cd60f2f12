"""`PinFile`: pins in one JSON file that people can read, review and commit, and several processes may share."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..errors import ConfigurationError
from .pin import Pin, fingerprint_of

try:
    import fcntl
except ImportError:  # Windows: the file is still replaced in one step
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

VERSION = 1
_POLL = 0.01


class PinFile:
    """A `PinStore` in a JSON file, pure ASCII, so that hidden characters show as escapes.

    A change replaces the file in one step, under a lock (``<path>.lock``, which stays), so that a reader always sees a
    whole file and concurrent writers lose nothing. On Windows there is no lock. The directory is made if need be.

    Args:
        path: the file; need not exist.
        lock_seconds: how long a change waits for another process.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_seconds: float = 5.0) -> None:
        self.path = Path(path)
        self.lock_seconds = lock_seconds

    async def load(self, server: str) -> dict[str, Pin]:
        """The server's pins.

        Raises:
            ConfigurationError: the file cannot be read or is damaged.
        """
        return await _in_thread(lambda: self._pins(self._read(), server))

    async def save(self, server: str, pins: Mapping[str, Pin], *, replace: bool = False) -> dict[str, Pin]:
        """Add pins and return all that the server has then; those that are there stay unless ``replace``.

        Raises:
            ConfigurationError: the file cannot be read or written, is damaged, or stays locked.
        """

        def change(servers: dict[str, Any]) -> dict[str, Pin]:
            there = self._pins(servers, server)
            merged = {**there, **pins} if replace else {**pins, **there}
            servers[server] = {name: _data(pin) for name, pin in merged.items()}
            return merged

        return await _in_thread(lambda: self._change(change))

    async def forget(self, server: str, names: Iterable[str] | None = None) -> None:
        """Remove pins of these tools, or of all tools of the server.

        Raises:
            ConfigurationError: the file cannot be read or written, is damaged, or stays locked.
        """
        gone = None if names is None else set(names)

        def change(servers: dict[str, Any]) -> None:
            there = servers.pop(server, {})
            left = {} if gone is None else {name: pin for name, pin in there.items() if name not in gone}
            if left:
                servers[server] = left

        await _in_thread(lambda: self._change(change))

    async def servers(self) -> list[str]:
        """The names of the servers that have pins.

        Raises:
            ConfigurationError: the file cannot be read or is damaged.
        """
        return await _in_thread(lambda: sorted(self._read()))

    def _change(self, change: Callable[[dict[str, Any]], T]) -> T:
        try:
            path = Path(os.path.realpath(self.path))  # a link stays a link
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked(path):
                servers = self._read()
                before = json.dumps(servers, sort_keys=True)
                result = change(servers)
                if json.dumps(servers, sort_keys=True) != before:
                    _replace(path, {"version": VERSION, "servers": servers})
                return result
        except OSError as error:
            raise ConfigurationError(
                f"The pin file {self.path} cannot be written: {error.strerror or error}. Make the file and its "
                "directory writable, or give another path."
            ) from error

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(
                f"The pin file {self.path} cannot be read: {error.strerror or error}. Make it readable, or give "
                "another path."
            ) from error
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._damaged(str(error) if text.strip() else "it is empty")
        if not isinstance(data, dict) or not isinstance(data.get("servers"), dict):
            self._damaged("it has no 'servers'")
        if data.get("version") != VERSION:
            raise ConfigurationError(
                f"The pin file {self.path} has version {data.get('version')!r}, this program reads {VERSION}: use the "
                "program that wrote it, or another path."
            )
        servers: dict[str, Any] = data["servers"]
        for server, pins in servers.items():
            if not isinstance(pins, dict):
                self._damaged(f"the pins of {server!r} are no object")
        return servers

    def _pins(self, servers: Mapping[str, Any], server: str) -> dict[str, Pin]:
        pins: dict[str, Pin] = {}
        for name, data in servers.get(server, {}).items():
            try:
                pin = Pin(
                    sha256=data["sha256"],
                    meta_sha256=data["meta_sha256"],
                    first_seen=data["first_seen"],
                    definition=data["definition"],
                )
                whole = pin.definition["name"] == name and fingerprint_of(pin.definition) == pin.sha256
            except (KeyError, TypeError, ValueError):
                self._damaged(f"the pin of {server}/{name} is incomplete")
            if not whole:
                self._damaged(f"the pin of {server}/{name} does not fit its definition")
            pins[name] = pin
        return pins

    def _damaged(self, why: str) -> NoReturn:
        raise ConfigurationError(
            f"The pin file {self.path} is damaged: {why}. Restore it from a copy; or, to trust what the servers list "
            "now, remove it."
        )

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Generator[None]:
        if fcntl is None:
            yield
            return
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            until = time.monotonic() + self.lock_seconds
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise ConfigurationError(
                            f"The pin file {self.path} has been locked by another process for {self.lock_seconds:g} "
                            "seconds; find out what that process waits for, or raise lock_seconds."
                        ) from None
                    time.sleep(_POLL)
            yield
        finally:
            os.close(lock)  # which unlocks it

    def __repr__(self) -> str:
        return f"PinFile({str(self.path)!r})"


def _replace(path: Path, data: Any) -> None:
    """Write beside the file and put it in its place: nobody ever reads half of it."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump(data, file, indent=1, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(beside, path.stat().st_mode & 0o7777)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _data(pin: Pin) -> dict[str, Any]:
    return {
        "sha256": pin.sha256,
        "meta_sha256": pin.meta_sha256,
        "first_seen": pin.first_seen,
        "definition": pin.definition,
    }


async def _in_thread(work: Callable[[], T]) -> T:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(work)
