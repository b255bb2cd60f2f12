"""``advisorchain memory`` with the URL of a PostgreSQL server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from advisorchain import AssistantMessage, UserMessage
from advisorchain_postgres import PostgresStore


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisorchain.cli", "memory", *arguments]
    kept = {**os.environ, "PYTHONUTF8": "1", **environment}
    return subprocess.run(command, env=kept, capture_output=True, text=True, encoding="utf-8", timeout=60)


@pytest.fixture
def dsn(server: Any, schema: str, query: Any) -> str:
    """A database with two conversations, for a user with the password ``hunter2``."""
    server.lock_out(f"ada_{schema}", "hunter2")
    query(f"CREATE DATABASE {schema} OWNER ada_{schema}")
    dsn: str = f"postgresql://ada_{schema}:hunter2@/{schema}?host={server.socket_directory}"

    async def fill() -> None:
        store = PostgresStore(dsn)
        for number in range(2):
            messages = UserMessage(content=f"{number}?"), AssistantMessage(content=f"{number}!")
            await store.append("user-1", f"t{number}", messages)
        await store.append("user-2", "t", [UserMessage(content="inner")], branch="researcher")

    asyncio.run(fill())
    return dsn


def test_list_show_delete(dsn: str) -> None:
    store = ("--store", dsn)
    done = program("list", *store)
    assert (done.returncode, done.stdout, done.stderr) == (0, "user-1\nuser-2\n", "")
    shown = program("show", "user-1", "--last", "1", *store)
    assert (shown.stdout, shown.stderr) == ("turn t1\n  user: 1?\n  assistant: 1!\n", "")
    inner = program("show", "user-2", "--branch", "researcher", "--json", *store)
    assert [message["content"] for message in json.loads(inner.stdout)] == ["inner"]
    deleted = program("delete", "user-1", "--yes", *store)
    assert (deleted.returncode, deleted.stdout, deleted.stderr) == (0, "deleted user-1\n", "")
    assert program("list", "--store", dsn.replace("postgresql://", "postgres://")).stdout == "user-2\n"
    unknown = program("show", "user-1", *store)
    assert unknown.returncode == 2 and "no conversation 'user-1'" in unknown.stderr


def test_the_password_from_the_environment(dsn: str) -> None:
    bare = dsn.replace(":hunter2@", "@")
    assert program("list", "--store", bare, PGPASSWORD="hunter2").stdout == "user-1\nuser-2\n"
    refused = program("list", "--store", bare, PGPASSWORD="wrong")
    assert refused.returncode == 1 and "password authentication failed" in refused.stderr


def test_problems_are_one_line_without_the_password(dsn: str) -> None:
    for wrong, text in (
        (dsn.replace("hunter2", "hunter3"), "password authentication failed"),
        (dsn.replace("?host=", "?host=/nowhere"), "Check that the server runs"),
        (dsn.replace("hunter2", "hunter3/x"), "dsn= is no URL"),
    ):
        done = program("list", "--store", wrong)
        assert done.returncode == 1 and text in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1 and "hunter" not in done.stderr
