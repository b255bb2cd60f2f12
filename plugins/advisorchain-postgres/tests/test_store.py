"""`PostgresStore` keeps the contract, whatever the ids and the schema."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from typing import Any

import anyio
import pytest

from advisorchain import AssistantMessage, ConfigurationError, MemoryStoreError, Message, UserMessage
from advisorchain.testing import check_memory_store
from advisorchain_postgres import PostgresStore
from advisorchain_postgres.keys import escaped, key, unescaped


def turn(number: int | str = 0) -> tuple[Message, ...]:
    return UserMessage(content=f"question {number}"), AssistantMessage(content=f"answer {number}")


async def test_the_contract(server: Any, schema: str) -> None:
    numbers = itertools.count()
    await check_memory_store(lambda: PostgresStore(server.dsn, schema=f"{schema}_{next(numbers)}"))


async def test_the_contract_with_one_connection(server: Any, schema: str) -> None:
    numbers = itertools.count()
    make = lambda: PostgresStore(server.dsn, schema=f"{schema}_{next(numbers)}", max_connections=1)  # noqa: E731
    await check_memory_store(make)


STRANGE = ["", "\0", "\\0", "\\", "\\\\0", "a\0b\\", "\\#", "x" * 255, "x" * 256, "好" * 90, "\0" * 5000, "x" * 100_000]


async def test_ids_of_every_kind(store: PostgresStore) -> None:
    """NUL, which a text in PostgreSQL cannot have; and more than its indexes take."""
    for text in STRANGE:
        await store.append(text, text, [UserMessage(content=text, id=text or "m")], branch=text)
        await store.append(text, "later", [UserMessage(content="later")], branch=text)
    assert await store.conversations() == tuple(sorted(STRANGE))
    for text in STRANGE:
        found = await store.load(text, branch=text)
        assert [turn.id for turn in found.turns] == [text, "later"]
        assert (found[0].id, found[0].text) == (text or "m", text)  # type: ignore[union-attr]
        earlier = await store.load(text, branch=text, before=found[1].id)  # type: ignore[union-attr]
        assert earlier == found[:1]
        assert await store.load(text, branch=text, before=found[0].id) == ()  # type: ignore[union-attr]
        await store.delete(text)
    assert await store.conversations() == ()


def test_keys_are_apart() -> None:
    assert len({key(text)[0] for text in STRANGE}) == len(STRANGE)
    assert all(unescaped(escaped(text)) == text and "\0" not in escaped(text) for text in STRANGE)


async def test_deleting_leaves_no_row(store: PostgresStore, schema: str, query: Any) -> None:
    tables = ("memory_lines", "memory_turns", "memory_messages")
    for number in range(3):
        await store.append("c", f"t{number}", turn(number))
        await store.append("c", f"t{number}", turn(number), branch="b")
    counts = [query(f"SELECT count(*) FROM {schema}.{table}")[0][0] for table in tables]
    assert counts == [2, 6, 12]
    await store.delete("c")
    assert [query(f"SELECT count(*) FROM {schema}.{table}")[0][0] for table in tables] == [0, 0, 0]


async def test_appends_beside_deletes(store: PostgresStore) -> None:
    """A turn that is stored while its conversation is deleted is there as a whole, or not at all."""

    async def append(line: int) -> None:
        for number in range(30):
            await store.append("c", f"{line}-{number}", turn(number), branch=str(line % 2))

    async def delete() -> None:
        for _ in range(20):
            await store.delete("c")
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as group:
        for line in range(4):
            group.start_soon(append, line)
        group.start_soon(delete)
        group.start_soon(delete)
    for branch in "01":
        found = await store.load("c", branch=branch)
        assert all(len(each.messages) == 2 for each in found.turns)
        assert await store.load("c", branch=branch, last_turns=len(found.turns)) == found
        await store.append("c", "next", turn(), branch=branch)
        assert (await store.load("c", branch=branch)).turns[-1].id == "next"


WRONG_DSN = [
    "localhost",
    "",
    None,
    "http://user:hunter2@localhost",
    "postgresql://user:hunter2/x@localhost/db",
    "postgresql://user:x@hunter2@localhost/db",
    "postgresql://user:12/hunter2@localhost/db",
    "postgresql://user:hunter2%zz@localhost/db",
    "postgresql://user:hunter2@localhost:0x1/db",
    "postgresql://user:hunter2@localhost:99999/db",
    "host=localhost passwort=hunter2",
    "host=localhost password=hunter2 secret",
    "host=localhost port=many password=hunter2",
]


@pytest.mark.parametrize("wrong", WRONG_DSN)
def test_the_dsn_is_checked_and_never_told(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"postgresql://user:password@localhost") as caught:
        PostgresStore(wrong)
    error: BaseException | None = caught.value
    assert "hunter2" not in str(error)
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"max_connections": 0}, "max_connections"),
        ({"max_connections": 1.5}, "max_connections"),
        ({"schema": ""}, "schema"),
        ({"schema": 'x"; DROP'}, "schema"),
        ({"schema": "x" * 64}, "schema"),
        ({"schema": None}, "schema"),
    ],
)
def test_options_are_checked(options: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{text} must be"):
        PostgresStore("postgresql://localhost/db", **options)


@pytest.mark.parametrize("bound", [-1, True, 1.5, "2"])
async def test_bounds_are_checked(store: PostgresStore, bound: Any) -> None:
    for name in ("last_turns", "last_messages"):
        with pytest.raises(ConfigurationError, match=f"{name} must be None or an int of at least 0"):
            await store.load("c", **{name: bound})


def test_on_trio() -> None:
    store = PostgresStore("postgresql://localhost/db")
    for work in (lambda: store.load("c"), lambda: store.append("c", "t", turn()), store.conversations, store.aclose):
        with pytest.raises(ConfigurationError, match="needs asyncio; on trio use SqliteStore"):
            anyio.run(work, backend="trio")


def test_on_one_event_loop_after_the_other(server: Any, schema: str, query: Any) -> None:
    store = PostgresStore(server.dsn, schema=schema)
    for number in range(3):
        asyncio.run(store.append("c", f"t{number}", turn(number)))  # the loop's end closes its connections
    found: Any = asyncio.run(store.load("c"))
    assert len(found.turns) == 3
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'advisorchain'"
    deadline = time.monotonic() + 10
    while query(left) != [(0,)]:  # the server needs a moment to notice
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.05)
    assert len(store._connections._loops) == 1  # the last one's, until there is another


async def test_a_closed_store_opens_again(store: PostgresStore) -> None:
    await store.append("c", "t", turn())
    await store.aclose()
    await store.aclose()
    assert len(await store.load("c")) == 2


async def test_messages_that_cannot_be_stored(store: PostgresStore) -> None:
    with pytest.raises(MemoryStoreError, match="cannot be written as JSON"):
        await store.append("c", "t", [*turn(), UserMessage(content="a", metadata={"x": object()})])
    with pytest.raises(MemoryStoreError, match="Could not append turn"):
        await store.append("c\ud800", "t", turn())
    assert await store.conversations() == ()


async def test_a_damaged_message(store: PostgresStore, schema: str, query: Any) -> None:
    await store.append("c", "t1", turn())
    await store.append("c", "t2", turn())
    query(f"UPDATE {schema}.memory_messages SET body = '{{\"role\":' WHERE place = 2")
    with pytest.raises(MemoryStoreError, match=r"turn 't2' is damaged .*; restore the database"):
        await store.load("c")
    assert len(await store.load("c", last_turns=0)) == 0


async def test_the_tables_of_a_later_version(store: PostgresStore, server: Any, schema: str, query: Any) -> None:
    await store.append("c", "t", turn())
    query(f"UPDATE {schema}.memory_schema SET version = 99")
    later = PostgresStore(server.dsn, schema=schema)
    with pytest.raises(
        MemoryStoreError, match=r"has version 99 of the tables, .* up to 1; update advisorchain-postgres"
    ):
        await later.load("c")
    query(f"UPDATE {schema}.memory_schema SET version = 1")
    assert len(await later.load("c")) == 2
    await later.aclose()


async def test_tables_that_vanish_are_made_again(store: PostgresStore, schema: str, query: Any) -> None:
    await store.append("c", "t", turn())
    query(f"DROP SCHEMA {schema} CASCADE")
    assert await store.load("c") == ()
    await store.append("c", "t", turn())
    assert len(await store.load("c")) == 2


async def test_two_schemas_are_apart(store: PostgresStore, server: Any, schema: str) -> None:
    other = PostgresStore(server.dsn, schema=schema + "_Other")
    await store.append("c", "t", turn())
    assert await other.conversations() == ()
    await other.append("d", "t", turn())
    assert (await store.conversations(), await other.conversations()) == (("c",), ("d",))
    await other.aclose()


async def test_a_hidden_default_of_the_database(store: PostgresStore, schema: str, query: Any) -> None:
    """Whatever isolation the database asks for, tasks that append at once do not fail each other."""
    query("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
    try:
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(store.append, "c", f"t{number}", turn(number))
        assert len((await store.load("c")).turns) == 30
    finally:
        query("ALTER ROLE postgres RESET default_transaction_isolation")
