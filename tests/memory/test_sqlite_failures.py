"""When the file is locked, damaged, replaced, read-only or the disk full: a clear error, no hang, and recovery."""

# ruff: noqa: ASYNC240  # short work on small files

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import AssistantMessage, ChatClient, MemoryStoreError, Message, UserMessage
from advisorchain.advisors import MemoryAdvisor
from advisorchain.memory import SqliteStore
from advisorchain.memory.sqlite import THREADS
from advisorchain.testing import ScriptedModel


def turn(number: int | str = 0, size: int = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}" + "." * size)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """One that does not wait long."""
    store = SqliteStore(path, busy_timeout=0.3)
    yield store
    store.close()


async def expect(store: SqliteStore, text: str, *, writing_only: bool = False) -> None:
    """Loading and appending fail with this text, soon."""
    start = time.monotonic()
    with pytest.raises(MemoryStoreError, match=text) as caught:
        await store.append("c", "new", turn("new"))
    assert str(store.path) in str(caught.value) and "'new'" in str(caught.value), "says where and what"
    if not writing_only:
        with pytest.raises(MemoryStoreError, match=text):
            await store.load("c")
    assert time.monotonic() - start < 10


async def test_locked(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await expect(store, "another process or thread has locked it", writing_only=True)
        assert len(await store.load("c")) == 2, "reading goes on"
        other.execute("ROLLBACK")
    await store.append("c", "t2", turn(2))
    assert len(await store.load("c")) == 4


async def test_many_that_wait_for_a_locked_file_wait_together(store: SqliteStore, path: Path) -> None:
    store.busy_timeout = 1.0
    await store.append("c", "t1", turn(1))
    errors: list[MemoryStoreError] = []
    loaded: list[int] = []

    async def add(number: int) -> None:
        with pytest.raises(MemoryStoreError, match=r"lock|kept") as caught:
            await store.append("c", f"new{number}", turn(number))
        errors.append(caught.value)

    async def load() -> None:
        loaded.append(len(await store.load("c")))

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        async with anyio.create_task_group() as group:
            for number in range(15 * THREADS):
                group.start_soon(add, number)
            await anyio.sleep(0.05)
            group.start_soon(load)
        assert time.monotonic() - start < 10, "15 times the busy timeout, were it one after the other"
        assert len(errors) == 15 * THREADS and loaded == [2], "who only reads behind them is not locked out"
        other.execute("ROLLBACK")
    await store.append("c", "t2", turn(2))
    store.busy_timeout = 30.0
    with closing(sqlite3.connect(path, isolation_level=None)) as other:  # later ones have all their time again
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(store.append, "c", "t3", turn(3))
            await anyio.sleep(0.1)
            other.execute("ROLLBACK")
    assert len(await store.load("c")) == 6


async def test_locked_altogether(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn(1))
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        await expect(store, "another process or thread has locked it")
        other.execute("ROLLBACK")
    assert len(await store.load("c")) == 2


async def test_kept_by_another_thread(store: SqliteStore) -> None:
    store._lock.acquire()
    await expect(store, "other threads have kept the file for 0.3 s")
    store._lock.release()
    await store.append("c", "t1", turn(1))


async def test_no_sqlite_file(store: SqliteStore, path: Path) -> None:
    path.write_bytes(b"something else entirely" * 1000)
    await expect(store, "it is no SQLite file")
    path.unlink()
    await store.append("c", "t1", turn(1))
    assert len(await store.load("c")) == 2


async def test_damaged_and_restored(store: SqliteStore, path: Path) -> None:
    for number in range(200):
        await store.append("c", f"t{number}", turn(number, size=500))
    store.close()
    backup = path.with_suffix(".backup")
    shutil.copy(path, backup)
    raw = bytearray(path.read_bytes())
    for at in range(4096, len(raw)):
        raw[at] = at * 7 % 251
    path.write_bytes(raw)
    await expect(store, "damaged|no SQLite file")
    shutil.copy(backup, path)
    assert len(await store.load("c")) == 400
    await store.append("c", "more", turn("more"))


@pytest.mark.parametrize("at", [40, 4096, 5000, 9000])
async def test_a_few_damaged_bytes_never_pass_as_another_error(store: SqliteStore, path: Path, at: int) -> None:
    for number in range(50):
        await store.append("c", f"t{number}", turn(number, size=500))
    store.close()
    raw = bytearray(path.read_bytes())
    raw[at : at + 16] = b"\xff" * 16
    path.write_bytes(raw)
    for work in (store.load("c"), store.append("c", "t0", turn()), store.delete("c"), store.conversations()):
        try:
            await work
        except MemoryStoreError as exc:
            assert str(path) in str(exc)


async def test_a_damaged_message_is_named(store: SqliteStore, path: Path) -> None:
    await store.append("c", "t1", turn(1))
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE memory_messages SET body = '{\"role\": ' WHERE position = 0")
        db.commit()
    with pytest.raises(MemoryStoreError, match=r"conversation 'c' .* turn 't1' is damaged"):
        await store.load("c")
    await store.append("d", "t1", turn(1))
    assert len(await store.load("d")) == 2, "the other conversations are well"
    await store.delete("c")
    assert await store.load("c") == ()


@pytest.mark.parametrize("replaced", [False, True])
async def test_removed_or_replaced_while_open(store: SqliteStore, path: Path, tmp_path: Path, replaced: bool) -> None:
    """What is written goes to the file of that name, not to one that nobody can find any more."""
    await store.append("c", "t1", turn(1))
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    if replaced:
        other = SqliteStore(tmp_path / "other.db")
        await other.append("c", "other", turn("other"))
        other.close()
        (tmp_path / "other.db").rename(path)
    await store.append("c", "t2", turn(2))
    fresh = SqliteStore(path)
    assert [t.id for t in (await fresh.load("c")).turns] == (["other", "t2"] if replaced else ["t2"])
    fresh.close()


async def test_the_directory_does_not_exist(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "memory.db")
    await expect(store, "the directory .*missing does not exist; make it")
    (tmp_path / "missing").mkdir()
    await store.append("c", "t1", turn(1))
    store.close()


async def test_a_directory_in_its_place(tmp_path: Path) -> None:
    await expect(SqliteStore(tmp_path), "it is a directory")


async def test_read_only(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who may not write; the tests may run as root, who may."""
    await store.append("c", "t1", turn(1))
    store.close()
    connect: Any = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda path, **more: connect(f"file:{path}?mode=ro", uri=True, **more))
        await expect(store, "it is read-only; give this process write access", writing_only=True)
        assert len(await store.load("c")) == 2
    store.close()
    await store.append("c", "t2", turn(2))


async def test_what_cannot_be_written_is_named(store: SqliteStore) -> None:
    with pytest.raises(MemoryStoreError, match="the user message 'm1' cannot be written as JSON") as raised:
        await store.append("c", "t1", [UserMessage(id="m1", content="my PIN is 4711", metadata={"x": object()})])
    assert "4711" not in str(raised.value), "errors are logged, conversations are not"
    with pytest.raises(MemoryStoreError, match="surrogates"):
        await store.append("\ud800", "t1", turn())
    assert await store.conversations() == ()


# A full disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(mounted)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs is not allowed here; the quota test covers it")
    yield mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)


async def fill(store: SqliteStore) -> int:
    for number in range(1000):
        try:
            await store.append("c", f"t{number}", turn(number, size=5000))
        except MemoryStoreError as exc:
            assert "disk" in str(exc) and "free" in str(exc)
            return number
    raise AssertionError("the disk is never full")


async def test_a_full_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    store = SqliteStore(small_disk / "memory.db")
    stored = await fill(store)
    assert stored > 5
    with pytest.raises(MemoryStoreError, match="disk"):
        await store.append("c", "more", turn("more", size=300_000))
    ballast.unlink()
    assert [t.id for t in (await store.load("c")).turns] == [f"t{number}" for number in range(stored)]
    await store.append("c", "after", turn("after", size=5000))
    assert len((await store.load("c")).turns) == stored + 1
    store.close()


QUOTA = """
import resource, sys, anyio
from advisorchain import AssistantMessage, MemoryStoreError, UserMessage
from advisorchain.memory import SqliteStore

def turn(size):
    return UserMessage(content="q"), AssistantMessage(content="." * size)

async def main():
    store = SqliteStore(sys.argv[1])
    await store.append("c", "t0", turn(10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    stored = 1
    try:
        for number in range(1, 500):
            await store.append("c", f"t{number}", turn(5000))
            stored += 1
    except MemoryStoreError as exc:
        assert "disk" in str(exc), exc
    else:
        raise AssertionError("no quota")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert [t.id for t in (await store.load("c")).turns] == [f"t{n}" for n in range(stored)]
    await store.append("c", "after", turn(5000))
    assert len((await store.load("c")).turns) == stored + 1
    store.close()

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no quotas of this kind")
def test_over_the_quota(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", QUOTA, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]


# Seen from a client --------------------------------------------------------------------------------------------------


async def test_a_call_fails_before_finished_and_the_next_one_works(run: Any, store: SqliteStore, path: Path) -> None:
    client = ChatClient(ScriptedModel(["one", "two", "three"]), advisors=[MemoryAdvisor(store)])
    await run(client, "1?", conversation_id="c")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemoryStoreError, match="locked"):
            await run(client, "2?", conversation_id="c")
        assert not any(type(event).__name__ == "Finished" for event in run.events)
        other.execute("ROLLBACK")
    await run(client, "3?", conversation_id="c")
    assert [message.text for message in await store.load("c")] == ["1?", "one", "3?", "three"]


async def test_half_a_character_fails_no_turn(run: Any, store: SqliteStore) -> None:
    client = ChatClient(ScriptedModel(["yes \ud83d"]), advisors=[MemoryAdvisor(store)])
    await run(client, "cut \ud83d", conversation_id="c")
    assert [message.text for message in await store.load("c")] == ["cut ?", "yes ?"]


async def test_a_load_that_fails_calls_no_model(run: Any, store: SqliteStore, path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    model = ScriptedModel([])
    with pytest.raises(MemoryStoreError, match="no SQLite file"):
        await run(ChatClient(model, advisors=[MemoryAdvisor(store)]), "hi", conversation_id="c")
    assert model.requests == []
    assert os.path.getsize(path) == 11_000, "the file is left as it was"
