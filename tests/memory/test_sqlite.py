"""`SqliteStore`: one file, many threads and processes, versions, and a load that does not scan."""

from __future__ import annotations

import math
import multiprocessing
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import AssistantMessage, ConfigurationError, MemoryStoreError, Message, UserMessage
from advisorchain.memory import SqliteStore, sqlite_schema
from advisorchain.memory.sqlite import THREADS


def turn(number: int | str = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")


async def test_the_file_outlives_the_store(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn(1))
    store.close()
    other = SqliteStore(path)
    assert [message.text for message in await other.load("c")] == ["question 1", "answer 1"]
    other.close()
    await store.append("c", "t2", turn(2))
    assert len(await store.load("c")) == 4, "a closed store opens again"


async def test_the_file_is_its_owners_alone(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn())
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.glob(f"{path.name}*")}
    assert path.name in modes and set(modes.values()) == {"0o600"}, modes


async def test_the_settings_of_the_file(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn())
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection is not None
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (1,), "NORMAL"


def test_arguments(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="InMemoryStore"):
        SqliteStore(":memory:")
    for wrong in ("", None, 7):
        with pytest.raises(ConfigurationError, match="path of a file"):
            SqliteStore(wrong)  # type: ignore[arg-type]
    for seconds in (-1, "2", math.inf, math.nan):
        with pytest.raises(ConfigurationError, match="busy_timeout"):
            SqliteStore(path, busy_timeout=seconds)  # type: ignore[arg-type]
    assert not path.exists(), "nothing is made before it is used"
    assert repr(SqliteStore(path)) == f"SqliteStore({str(path)!r})"


@pytest.mark.parametrize("bounds", [{"last_turns": -1}, {"last_messages": 1.5}, {"last_turns": True}])
async def test_bounds_are_checked(store: SqliteStore, bounds: Any) -> None:
    with pytest.raises(ConfigurationError, match="at least 0"):
        await store.load("c", **bounds)


# Loading the end of a long conversation ------------------------------------------------------------------------------


async def steps_of_load(store: SqliteStore, conversation_id: str, **bounds: Any) -> int:
    """How many instructions SQLite's machine ran, by ten."""
    await store.conversations()
    assert store._connection is not None
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._connection.set_progress_handler(count, 10)
    found = await store.load(conversation_id, **bounds)
    store._connection.set_progress_handler(None, 10)
    assert len(found) == 20
    return steps


@pytest.mark.parametrize("bounds", [{"last_messages": 20}, {"last_turns": 10}, {"last_messages": 20, "last_turns": 50}])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_loading_the_end_does_not_scan(store: SqliteStore, bounds: Any, analyzed: bool) -> None:
    for conversation_id, turns in (("short", 50), ("other", 50), ("long", 5000)):
        await store.load(conversation_id)
        assert store._connection is not None
        with store._connection as db:  # many turns at once; appends would take minutes
            db.execute("BEGIN")
            for number in range(turns):
                row = db.execute(
                    "INSERT INTO memory_turns (conversation, branch, turn, size) VALUES (?, '', ?, 2)",
                    (conversation_id, f"t{number}"),
                )
                for position, message in enumerate(turn(number)):
                    body = message.model_dump_json()
                    values = (row.lastrowid, position, message.id, body)  # type: ignore[union-attr]
                    db.execute("INSERT INTO memory_messages VALUES (?, ?, ?, ?)", values)
    if analyzed:
        assert store._connection is not None
        store._connection.execute("ANALYZE")
    short = await steps_of_load(store, "short", **bounds)
    long = await steps_of_load(store, "long", **bounds)
    assert long <= short * 1.2 + 2


# Many at once --------------------------------------------------------------------------------------------------------


def append_in_process(path: str, process: int, count: int, ready: Any) -> None:
    async def run() -> None:
        store = SqliteStore(path, busy_timeout=30)

        async def add(number: int) -> None:
            await store.append("c", f"{process}-{number}", turn(f"{process}-{number}"))
            await store.append("c", f"{process}-{number}", [AssistantMessage(content="more", id=f"more-{number}")])

        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(add, number)
        store.close()

    ready.wait()
    anyio.run(run)


async def test_50_tasks_in_each_of_4_processes(store: SqliteStore, path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    processes = [context.Process(target=append_in_process, args=(str(path), number, 50, ready)) for number in range(4)]
    for process in processes:
        process.start()
    ready.set()
    for process in processes:
        await anyio.to_thread.run_sync(process.join, 60)
        assert process.exitcode == 0
        process.close()
    found = await store.load("c")
    assert sorted(t.id for t in found.turns) == sorted(f"{p}-{n}" for p in range(4) for n in range(50))
    for stored in found.turns:
        texts = [message.text for message in stored.messages]
        assert texts == [f"question {stored.id}", f"answer {stored.id}", "more"]
    assert [t.id for t in (await store.load("c")).turns] == [t.id for t in found.turns]


async def test_tools_keep_their_threads(store: SqliteStore) -> None:
    """However many loads wait for SQLite, the threads of everyone else are free."""
    used: list[int] = []

    async def watch() -> None:
        used.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)

    async with anyio.create_task_group() as group:
        for number in range(3 * THREADS):
            group.start_soon(store.append, "c", f"t{number}", turn(number))
            group.start_soon(watch)
    assert set(used) == {0}
    assert len((await store.load("c")).turns) == 3 * THREADS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_after_a_fork(path: Path) -> None:
    """The child opens the file for itself, also when the parent was at work on it."""
    store = SqliteStore(path)
    anyio.run(store.append, "c", "parent", turn(1))
    store._lock.acquire()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            anyio.run(store.append, "c", "child", turn(2))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    store._lock.release()
    anyio.run(store.append, "c", "parent again", turn(3))
    found: Any = anyio.run(store.load, "c")
    assert [t.id for t in found.turns] == ["parent", "child", "parent again"]
    store.close()


def test_one_store_on_several_event_loops(path: Path) -> None:
    store = SqliteStore(path)
    for number, backend in enumerate(["asyncio", "trio", "asyncio"]):

        async def add(number: int = number) -> None:
            await store.append("c", f"t{number}", turn(number))

        anyio.run(add, backend=backend)
    found: Any = anyio.run(store.load, "c")
    assert len(found.turns) == 3
    store.close()


async def test_a_program_that_changes_its_directory_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("memory.db")
    await store.append("c", "t1", turn(1))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    await store.append("c", "t2", turn(2))
    assert len(await store.load("c")) == 4
    store.close()
    assert os.listdir() == []


async def test_a_cancelled_append_is_whole_or_nothing(store: SqliteStore) -> None:
    for number in range(30):
        with anyio.move_on_after(0.0002 * number):
            await store.append("c", f"t{number}", turn(number))
    for stored in (await store.load("c")).turns:
        assert len(stored.messages) == 2
    await store.append("c", "last", turn("last"))


# Versions ------------------------------------------------------------------------------------------------------------


async def test_an_older_file_is_migrated(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.append("c", "t1", turn(1))
    store.close()
    more = ("ALTER TABLE memory_turns ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",)
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", [*sqlite_schema.MIGRATIONS, more])
    assert len(await store.load("c")) == 2
    await store.append("c", "t2", turn(2))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT version FROM memory_schema").fetchall() == [(2,)]
        assert db.execute("SELECT colour FROM memory_turns").fetchall() == [("red",), ("red",)]


async def test_a_failed_migration_changes_nothing(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append("c", "t1", turn(1))
    store.close()
    wrong = ("ALTER TABLE memory_turns ADD COLUMN colour TEXT", "ALTER TABLE nonsense ADD COLUMN a")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_schema, "MIGRATIONS", [*sqlite_schema.MIGRATIONS, wrong])
        with pytest.raises(MemoryStoreError, match="nonsense"):
            await store.load("c")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT version FROM memory_schema").fetchall() == [(1,)]
        assert "colour" not in [row[1] for row in db.execute("PRAGMA table_info(memory_turns)")]
    assert len(await store.load("c")) == 2


async def test_a_file_of_a_later_version_is_left_alone(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn(1))
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE memory_schema SET version = 99")
        db.commit()
    for _ in range(2):
        with pytest.raises(MemoryStoreError, match=r"version 99 .* update advisorchain"):
            await store.append("c", "t2", turn(2))


async def test_an_application_may_keep_its_own_tables_beside_ours(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 7")
        db.execute("CREATE TABLE orders (id INTEGER)")
        db.commit()
    await store.append("c", "t1", turn(1))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (7,)
        assert db.execute("SELECT * FROM orders").fetchall() == []


def test_importing_the_package_does_not_import_sqlite() -> None:
    import subprocess

    code = "import advisorchain.advisors, sys; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
