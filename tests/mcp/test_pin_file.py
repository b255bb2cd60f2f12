"""The pin file: for people, whole at every moment, and shared by tasks and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import ConfigurationError
from advisorchain.mcp import Pin, PinFile, Pinning
from advisorchain.mcp.listed_tool import ListedTool

ADD = ListedTool(
    server="s",
    name="add",
    title="Add",
    description="Adds two numbers.",
    input_schema={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    output_schema={"type": "object"},
    annotations={"readOnlyHint": True},
    meta={"v": 1},
)
SUB = replace(ADD, name="sub", description="Subtracts. 减 \u200b\ud800")


async def test_the_file_is_for_people(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    store = PinFile(path)
    await Pinning(store).check("s", [SUB])
    text = path.read_text(encoding="ascii")
    assert "\\u200b" in text
    assert text.endswith("}\n")
    data = json.loads(text)
    assert data["version"] == 1
    assert data["servers"]["s"]["sub"]["definition"]["name"] == "sub"
    assert sorted(os.listdir(tmp_path)) == ["pins.json", "pins.json.lock"]
    assert await store.servers() == ["s"]
    assert repr(store) == f"PinFile({str(path)!r})"


async def test_nothing_is_written_when_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    await Pinning(PinFile(path)).check("s", [ADD])
    before = path.stat()
    await Pinning(PinFile(path)).check("s", [ADD])
    await PinFile(path).save("s", await PinFile(path).load("s"))
    await PinFile(path).forget("unknown")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_mode_and_link_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    link = tmp_path / "link.json"
    await Pinning(PinFile(real)).check("s", [ADD])
    real.chmod(0o640)
    link.symlink_to(real)
    await Pinning(PinFile(link)).check("s", [ADD, SUB])
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert set(await PinFile(real).load("s")) == {"add", "sub"}


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return edit


def pin_of(data: dict[str, Any]) -> dict[str, Any]:
    pin: dict[str, Any] = data["servers"]["s"]["add"]
    return pin


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text(""), "is damaged: it is empty"),
        (lambda path: path.write_bytes(b"\xff\xfe{"), "is damaged: "),
        (lambda path: path.write_text('{"version": 1, "serv'), "is damaged: Unterminated string"),
        (lambda path: path.write_text("[]"), "is damaged: it has no 'servers'"),
        (lambda path: path.write_text("[" * 100_000), "is damaged: "),
        (edited(lambda data: data.update(version=2)), "has version 2, this program reads 1"),
        (edited(lambda data: data["servers"].update(s=[])), "the pins of 's' are no object"),
        (edited(lambda data: pin_of(data).pop("sha256")), "the pin of s/add is incomplete"),
        (edited(lambda data: data["servers"]["s"].update(add=7)), "the pin of s/add is incomplete"),
        (edited(lambda data: pin_of(data).update(sha256="0" * 64)), "the pin of s/add does not fit"),
        (edited(lambda data: pin_of(data)["definition"].update(description="x")), "the pin of s/add does not fit"),
        (edited(lambda data: pin_of(data)["definition"].update(name="x")), "the pin of s/add does not fit"),
    ],
)
async def test_a_damaged_file_is_an_error(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "pins.json"
    await Pinning(PinFile(path)).check("s", [ADD])
    damage(path)
    before = path.read_bytes()
    for attempt in (PinFile(path).load("s"), PinFile(path).save("s", {"sub": Pin.of(SUB)})):
        with pytest.raises(ConfigurationError, match=message) as caught:
            await attempt
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


async def test_a_directory_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await PinFile(tmp_path).load("s")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match="cannot be"):
        await Pinning(PinFile(tmp_path / "file" / "pins.json")).check("s", [ADD])


async def test_a_write_that_fails_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pins.json"
    await Pinning(PinFile(path)).check("s", [ADD])
    before = path.read_bytes()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="cannot be written: No space left on device"):
        await Pinning(PinFile(path)).check("s", [ADD, SUB])
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["pins.json", "pins.json.lock"]


async def test_a_lock_that_stays(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "pins.json"
    with open(f"{path}.lock", "w") as lock:  # noqa: ASYNC230
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match=r"locked by another process for 0\.05 seconds"):
            await PinFile(path, lock_seconds=0.05).save("s", {"add": Pin.of(ADD)})
    await PinFile(path).save("s", {"add": Pin.of(ADD)})


async def test_many_tasks_lose_nothing(tmp_path: Path) -> None:
    store = PinFile(tmp_path / "pins.json", lock_seconds=60)

    async def pin(number: int) -> None:
        await Pinning(store).check(f"server {number % 5}", [replace(ADD, name=f"tool {number}")])

    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(pin, number)
    assert await store.servers() == [f"server {number}" for number in range(5)]
    assert sum([len(await store.load(f"server {number}")) for number in range(5)]) == 40


PROCESS = """
import asyncio, sys
from advisorchain.mcp.listed_tool import ListedTool
from advisorchain.mcp import PinFile, Pinning

async def main(path, process):
    for number in range(15):
        tool = ListedTool(server="s", name=f"{process}-{number}", description="x" * 500)
        report = await Pinning(PinFile(path, lock_seconds=60)).check("s", [tool])
        assert report.permitted == (tool,), report

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_processes_lose_nothing(tmp_path: Path, anyio_backend: str) -> None:
    path = tmp_path / "pins.json"
    command = [sys.executable, "-c", PROCESS, str(path)]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(4)]  # noqa: ASYNC220
    store = PinFile(path)
    with anyio.fail_after(100):
        while any(process.poll() is None for process in processes):
            await store.load("s")  # never half a file
            await anyio.sleep(0.005)
    assert [process.returncode for process in processes] == [0] * 4
    assert len(await store.load("s")) == 60
