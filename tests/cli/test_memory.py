"""``advisorchain memory``: list, show, delete."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage
from advisorchain.memory import SqliteStore

STORE = ("--store", "sqlite:///memory.db")


@pytest.fixture
def path(work_dir: Path) -> Path:
    """A store with three conversations in the user's directory."""
    path = work_dir / "memory.db"
    store = SqliteStore(path)

    async def fill() -> None:
        await store.append("user-1", "t1", [UserMessage(content="好?"), AssistantMessage(content="yes\nand no")])
        picture: Any = (TextPart(text="this"), ImagePart(url="https://example.org/a.png"))
        await store.append(
            "user-1",
            "t2",
            [
                UserMessage(content=picture),
                AssistantMessage(tool_calls=(ToolCall("look", {"at": "x" * 500}, "c0"),)),
                ToolMessage(content="[bold]seen[/] \x1b[31m", call_id="c0", name="look", is_error=True),
                AssistantMessage(content="done"),
            ],
        )
        await store.append("user-1", "t1", [UserMessage(content="inner")], branch="researcher")
        await store.append("evil\x1b[2J\nuser-9", "t1", [UserMessage(content="hi")])
        await store.append("other", "t1", [UserMessage(content="hi")])

    anyio.run(fill)
    store.close()
    return path


def test_list(advisorchain: Any, path: Path) -> None:
    done = advisorchain("memory", "list", *STORE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [repr("evil\x1b[2J\nuser-9"), "other", "user-1"]
    absolute = advisorchain("memory", "list", "--store", f"sqlite:///{path}")
    assert absolute.stdout == done.stdout


def test_show(advisorchain: Any, path: Path) -> None:
    done = advisorchain("memory", "show", "user-1", *STORE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[:4] == ["turn t1", "  user: 好?", "  assistant: yes", "  and no"]
    assert lines[4:7] == ["turn t2", "  user: this", "  user: [image]"]
    assert lines[7].startswith("  assistant calls look({'at': 'xxx") and lines[7].endswith("…)")
    assert lines[8:] == ["  tool look (error): [bold]seen[/] [31m", "  assistant: done"]


def test_show_less(advisorchain: Any, path: Path) -> None:
    assert advisorchain("memory", "show", "user-1", "--last", "1", *STORE).stdout.startswith("turn t2\n")
    assert "inner" in advisorchain("memory", "show", "user-1", "--branch", "researcher", *STORE).stdout
    shown = json.loads(advisorchain("memory", "show", "user-1", "--json", *STORE).stdout)
    assert [message["role"] for message in shown] == ["user", "assistant", "user", "assistant", "tool", "assistant"]


def test_delete(advisorchain: Any, path: Path) -> None:
    kept = advisorchain("memory", "delete", "user-1", *STORE, input="n\n")
    assert kept.returncode == 1 and "with all its branches? [y/N]" in kept.stdout
    assert "user-1" in advisorchain("memory", "list", *STORE).stdout
    done = advisorchain("memory", "delete", "user-1", *STORE, input="y\n")
    assert done.returncode == 0 and done.stdout.endswith("deleted user-1\n")
    assert advisorchain("memory", "delete", "other", "--yes", *STORE).stdout == "deleted other\n"
    assert advisorchain("memory", "list", *STORE).stdout.splitlines() == [repr("evil\x1b[2J\nuser-9")]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("list",), 2, "--store"),
        (("list", "--store", "memory.db"), 2, "--store takes sqlite:///path"),
        (("list", "--store", "redis://"), 2, "--store takes sqlite:///path"),
        (("list", "--store", "mysql://ada:hunter2@x"), 2, "there is none for mysql://…"),
        (("list", "--store", "redis://:hunter2@127.0.0.1:1"), 1, "Could not list the conversations in Redis"),
        (
            ("list", "--store", "postgres://ada:hunter2@127.0.0.1:1/db"),
            1,
            "Could not list the conversations in Postgres",
        ),
        (("list", "--store", "postgresql://ada:hunter2/x@127.0.0.1/db"), 1, "dsn= is no URL"),
        (("list", "--store", "sqlite:///"), 2, "--store takes sqlite:///path"),
        (("list", "--store", "sqlite:///missing.db"), 2, "there is no file missing.db"),
        (("list", "--store", "sqlite:///my_tools.py"), 1, "it is no SQLite file"),
        (("show", "nobody", *STORE), 2, "no conversation 'nobody'"),
        (("delete", "nobody", "--yes", *STORE), 2, "no conversation 'nobody'"),
        (("show", "user-1", "--last", "0", *STORE), 2, "--last"),
    ],
)
def test_problems_are_one_line(advisorchain: Any, path: Path, arguments: Any, code: int, text: str) -> None:
    done = advisorchain("memory", *arguments)
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1 or code == 2
    assert done.stdout == "" and "hunter2" not in done.stderr
    assert not (path.parent / "missing.db").exists(), "looking makes no file"


def test_a_file_of_another_program_is_left_alone(advisorchain: Any, path: Path) -> None:
    other = path.parent / "other program's.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = other.read_bytes()
    done = advisorchain("memory", "list", "--store", f"sqlite:///{other.name}")
    assert done.returncode == 2 and "is no file of a SqliteStore" in " ".join(done.stderr.split())
    assert other.read_bytes() == before and sorted(path.parent.glob("other*")) == [other]
