"""The file of `JsonLinesSink`: many writers, torn lines, full disks, rotation, locks, fsync."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisorchain import AuditError, ConfigurationError
from advisorchain.audit import JsonLinesSink, head, records, verify

KEY = b"0123456789abcdef0123456789abcdef"

WRITER = """
import sys, anyio
from advisorchain.audit import JsonLinesSink

path, who, count, rotate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sink = JsonLinesSink(path, rotate_bytes=rotate or None)

async def work(task):
    for number in range(count):
        sink.write({"kind": "test", "who": f"{who}.{task}", "number": number, "text": "x" * (number % 300)})
        await anyio.sleep(0)

async def main():
    async with anyio.create_task_group() as group:
        for task in range(4):
            group.start_soon(work, task)

anyio.run(main)
"""

ENDLESS = """
import sys
from advisorchain.audit import JsonLinesSink

sink = JsonLinesSink(sys.argv[1], rotate_bytes=int(sys.argv[2]) or None)
number = 0
while True:
    sink.write({"kind": "test", "number": number, "text": "x" * (number * 977 % 6000)})
    number += 1
    print(number, flush=True)
"""


def write(sink: JsonLinesSink, *numbers: int) -> None:
    for number in numbers:
        assert sink.write({"kind": "test", "number": number}) is None


def numbers(path: Path) -> list[int]:
    return [record["number"] for record in records(path) if record["kind"] == "test"]


def python(code: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("rotate", [0, 300_000])
def test_ten_thousand_records_of_two_processes_and_eight_tasks(tmp_path: Path, rotate: int) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [python(WRITER, path, who, 1250, rotate) for who in ("a", "b")]
    for writer in writers:
        finish(writer)
    report = verify(path)
    assert report.ok, report.problem
    assert (report.first, report.torn) == (1, [])
    assert (len(report.files) > 5) is bool(rotate)
    found = [record for file in report.files for record in records(file) if record["kind"] == "test"]
    assert len(found) == 10_000
    for who in ("a", "b"):
        for task in range(4):  # nothing lost, nothing doubled, and each task's records in its order
            assert [r["number"] for r in found if r["who"] == f"{who}.{task}"] == list(range(1250))
    assert len({r["who"][0] for r in found[:6000]}) == 2, "the processes did not run at once"
    assert report.head == head(path)


def test_threads_and_sinks_of_one_process_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sinks = [JsonLinesSink(path, rotate_bytes=20_000) for _ in range(2)]
    threads = [threading.Thread(target=write, args=(sinks[n % 2], *range(200))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = verify(path)
    assert report.ok, report.problem
    assert sorted(n for file in report.files for n in numbers(Path(file))) == sorted([*range(200)] * 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_share_its_parents_lock(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "audit.jsonl")
    write(sink, -1)
    child = os.fork()
    if child == 0:
        try:
            write(sink, *range(500))
            os._exit(0)
        finally:
            os._exit(1)
    write(sink, *range(500, 1000))
    assert os.waitpid(child, 0)[1] == 0
    assert verify(sink.path).ok
    assert sorted(numbers(sink.path)) == list(range(-1, 1000))


@pytest.mark.parametrize("rotate", [0, 30_000])
def test_killed_while_it_writes(tmp_path: Path, rotate: int) -> None:
    chance = random.Random(rotate)
    path = tmp_path / "audit.jsonl"
    acknowledged = 0
    for _ in range(8):
        writer = python(ENDLESS, path, rotate)
        assert writer.stdout is not None
        for _ in range(chance.randrange(1, 60)):
            writer.stdout.readline()
        time.sleep(chance.random() * 0.003)
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        acknowledged += 1 + int((rest.split() or ["0"])[-1] or 0) if rest.endswith("\n") else 0
        report = verify(path)
        assert report.problem is None or report.problem.kind == "torn", report.problem
        write(JsonLinesSink(path, rotate_bytes=rotate or None), -1)
        assert verify(path).ok
    report = verify(path)
    found = [n for file in report.files for n in numbers(Path(file))]
    assert found.count(-1) == 8
    assert len(found) >= acknowledged


@pytest.mark.parametrize("cut", [1, 2, 40, 76, 77, 150])
@pytest.mark.parametrize("junk", [b"", b"\0\0\0\0"])
def test_a_torn_last_line_is_reported_and_does_not_break_the_next_append(
    tmp_path: Path, cut: int, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    write(JsonLinesSink(path), 0, 1, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut] + junk)
    report = verify(path)
    assert report.problem is not None
    assert report.problem.kind == "torn"
    assert report.count == 3  # the start, 0 and 1
    sink = JsonLinesSink(path)
    write(sink, 3)
    after = verify(path)
    assert after.ok, after.problem
    if whole == path.read_bytes()[: len(whole)]:  # only the line's end was missing: the record is kept
        assert (cut, junk, after.torn, numbers(path)) == (1, b"", [], [0, 1, 2, 3])
        return
    assert "of a torn record; going on behind it" in caplog.text
    assert len(after.torn) == 1
    assert numbers(path) == [0, 1, 3]
    data = bytearray(path.read_bytes())  # the torn bytes are under the chain too
    data[len(whole) - cut - 1] ^= 1
    path.write_bytes(data)
    assert not verify(path).ok


def test_a_torn_line_of_another_process_is_noticed_by_a_running_one(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "audit.jsonl")
    write(sink, 0)
    with sink.path.open("ab") as file:
        file.write(b'{"seq":3,"prev":"')
    write(sink, 1)
    report = verify(sink.path)
    assert report.ok
    assert len(report.torn) == 1
    assert numbers(sink.path) == [0, 1]


@pytest.mark.parametrize("kept", [0, 1, 30, 200])
def test_killed_while_it_starts_the_file(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "audit.jsonl"
    JsonLinesSink(path)
    path.write_bytes(path.read_bytes()[:kept])
    write(JsonLinesSink(path), 0)
    assert verify(path).ok
    assert numbers(path) == [0]


LIMITED = """
import resource, sys
from advisorchain.audit import JsonLinesSink
from advisorchain import AuditError

sink = JsonLinesSink(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))  # the kernel takes a part, then nothing
kept = failed = 0
for number in range(60):
    try:
        sink.write({"kind": "test", "number": number})
        kept += 1
    except AuditError as exc:
        failed += 1
        text = str(exc)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink.write({"kind": "test", "number": 1000})
print(kept, failed, text)
"""


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    kept, failed, text = finish(python(LIMITED, path)).split(maxsplit=2)
    assert int(kept) > 3
    assert int(kept) + int(failed) == 60
    assert text.startswith(f"Cannot write to the audit file {path}: ")
    report = verify(path)
    assert report.ok, report.problem
    assert report.torn == [], "a part of a record stayed"
    assert numbers(path) == [*range(int(kept)), 1000]


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("may not mount a small disk")
    try:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 8000)
        with JsonLinesSink(disk / "audit.jsonl") as sink:
            kept = 0
            with pytest.raises(AuditError, match="No space left on device"):
                for kept in range(100):
                    sink.write({"kind": "test", "number": kept, "text": "x" * 700})
            report = verify(sink.path)
            assert report.ok, report.problem
            assert numbers(sink.path) == list(range(kept))
            filler.unlink()  # somebody makes room
            write(sink, 1000)
            assert verify(sink.path).ok
            assert numbers(sink.path) == [*range(kept), 1000]
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("left", [b"", b'{"seq":3,"prev":"00'], ids=["emptied", "torn"])
def test_a_full_disk_just_when_somebody_has_changed_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    """What could not be written then (a start, the mark behind torn bytes) is not taken for written."""
    path = tmp_path / "audit.jsonl"
    sink = JsonLinesSink(path, key=KEY)
    write(sink, 0)
    if left:
        with path.open("ab") as file:
            file.write(left)
    else:
        os.truncate(path, 0)

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(AuditError, match="No space left"):
            write(sink, 1)
    write(sink, 2, 3)
    report = verify(path, key=KEY)
    assert report.ok, report.problem
    assert numbers(path) == ([0, 2, 3] if left else [2, 3])
    write(JsonLinesSink(path, key=KEY), 4)  # it has its start, so others know whose it is


def test_a_program_that_changes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink = JsonLinesSink("audit.jsonl")
    write(sink, 0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink._look = 0.0  # it is time to look whether the file is still there
    write(sink, 1)
    assert numbers(tmp_path / "audit.jsonl") == [0, 1]
    assert not list(Path().iterdir())


# Rotation ------------------------------------------------------------------------------------------------------------


def test_a_rotated_file_starts_with_its_predecessors_head(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = JsonLinesSink(path, rotate_bytes=2000)
    write(sink, *range(40))
    report = verify(path)
    assert report.ok, report.problem
    assert report.files == [*(f"{path}.{n}" for n in range(1, len(report.files))), str(path)]
    assert len(report.files) > 3
    assert all(Path(file).stat().st_size <= 2300 for file in report.files)
    start = next(records(path))
    before = Path(report.files[-2])
    assert start["previous"] == {
        "file": before.name, "count": start["seq"] - 1, "hash": head(before).partition(":")[2],
    }  # fmt: skip
    assert [n for file in report.files for n in numbers(Path(file))] == list(range(40))
    # Older files may be moved away; what is left says where it starts.
    Path(report.files[0]).unlink()
    left = verify(path)
    assert left.ok
    assert left.first > 1
    # A file in the middle is missing or another one.
    middle = Path(report.files[2])
    middle.write_bytes(middle.read_bytes()[:-1])
    assert not verify(path).ok


@pytest.mark.parametrize("step", ["link", "rename"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_it_rotates(tmp_path: Path, step: str, after: bool) -> None:
    path = tmp_path / "audit.jsonl"
    code = f"""
import os
from advisorchain.audit import JsonLinesSink
real = os.{step}
def die(*a):
    if {after}:
        real(*a)
    os._exit(9)
os.{step} = die
sink = JsonLinesSink({str(path)!r}, rotate_bytes=2000)
for number in range(100):
    sink.write({{"kind": "test", "number": number}})
"""
    process = python(code)
    process.communicate()
    assert process.returncode == 9
    assert verify(path).ok
    write(JsonLinesSink(path, rotate_bytes=2000), 1000)
    report = verify(path)
    assert report.ok, report.problem
    assert len(report.files) == 2
    found = [n for file in report.files for n in numbers(Path(file))]
    assert found == [*range(len(found) - 1), 1000]


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    """Writers may know the file by the link or by its own path: there is one chain."""
    for name in ("data", "app"):
        (tmp_path / name).mkdir()
    path, link = tmp_path / "data" / "audit.jsonl", tmp_path / "app" / "audit.jsonl"
    link.symlink_to(path)
    sinks = [JsonLinesSink(link, rotate_bytes=1000), JsonLinesSink(path, rotate_bytes=1000)]
    for number in range(40):
        write(sinks[number % 3 == 0], number)
    assert link.is_symlink()
    assert [file.name for file in link.parent.iterdir()] == ["audit.jsonl"]
    for name in (path, link):
        report = verify(name)
        assert report.ok, report.problem
        assert report.first == 1 and len(report.files) > 3
        assert report.head == head(path)


def test_a_rotated_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.1").write_text("somebody else's")
    write(JsonLinesSink(path, rotate_bytes=1000), *range(5))
    assert (tmp_path / "audit.jsonl.1").read_text() == "somebody else's"
    assert verify(path).ok


@pytest.mark.parametrize("change", ["removed", "renamed", "emptied"])
def test_a_file_that_goes_away_under_the_sink(tmp_path: Path, change: str) -> None:
    sink = JsonLinesSink(tmp_path / "audit.jsonl")
    write(sink, 0)
    kept = head(sink.path)
    if change == "removed":
        sink.path.unlink()
    elif change == "emptied":
        os.truncate(sink.path, 0)
    else:
        sink.path.rename(tmp_path / "moved.jsonl")
        write(sink, 1)  # may still go into the file that it has open
        assert verify(tmp_path / "moved.jsonl").ok
    sink._look = 0.0  # a second later
    write(sink, 1)
    assert numbers(sink.path) == [1]
    assert verify(sink.path).ok
    found = verify(sink.path, expect=kept).problem
    assert found is not None
    assert found.kind == "rewritten"


# Settings and locks --------------------------------------------------------------------------------------------------


def test_a_lock_that_is_not_given_back(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "audit.jsonl", lock_seconds=0.05)
    with sink.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match=r"has been locked by another process for 0\.05 s"):
            write(sink, 0)
    write(sink, 1)
    assert numbers(sink.path) == [1]


def test_what_cannot_be_an_audit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("my notes\n")
    with pytest.raises(ConfigurationError, match=r"notes\.txt is not an audit file"):
        JsonLinesSink(other)
    assert other.read_text() == "my notes\n"
    with pytest.raises(ConfigurationError, match=r"Cannot open the audit file .*No such file"):
        JsonLinesSink(tmp_path / "nowhere" / "audit.jsonl")
    with pytest.raises(ConfigurationError, match="Cannot open the audit file"):
        JsonLinesSink(tmp_path)
    with pytest.raises(ConfigurationError, match="fsync must be"):
        JsonLinesSink(tmp_path / "a", fsync="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rotate_bytes must be"):
        JsonLinesSink(tmp_path / "a", rotate_bytes=0)
    with pytest.raises(ConfigurationError, match=r"'AUDIT_KEY'.*is not set"):
        JsonLinesSink(tmp_path / "a", key="AUDIT_KEY")
    monkeypatch.setenv("AUDIT_KEY", "short")
    with pytest.raises(ConfigurationError, match="has 5 bytes; it needs at least 16"):
        JsonLinesSink(tmp_path / "a", key="AUDIT_KEY")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("first", "second"), [(KEY, None), (None, KEY), (KEY, KEY[::-1])])
def test_another_key_is_refused(tmp_path: Path, first: bytes | None, second: bytes | None) -> None:
    path = tmp_path / "audit.jsonl"
    write(JsonLinesSink(path, key=first), 0)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="give the sink the same key="):
        JsonLinesSink(path, key=second)
    assert path.read_bytes() == before


@pytest.mark.parametrize("record", [{}, {"kind": "x", "hash": 1}, {"kind": "x", "seq": 1}, {"kind": "x", "prev": 1}])
def test_a_record_that_would_break_the_chain(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(AuditError, match="not empty"):
        JsonLinesSink(tmp_path / "a").write(record)


def test_odd_values_stay_one_line_of_json(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "a")
    sink.write({"kind": "test", "number": 0, "text": 'line\nbreak "quote" \\ \x00 你好 \ud800', "nan": float("nan")})
    sink.write({"kind": "test", "number": 1, "object": object(), "bytes": b"\xff", "set": {1}})
    assert verify(sink.path).ok
    assert [json.loads(line)["seq"] for line in sink.path.read_text().splitlines()] == [1, 2, 3]
    assert os.stat(sink.path).st_mode & 0o777 == 0o600


async def test_fsync_runs_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, threads = os.fsync, list[int]()

    def fsync(fd: int) -> None:
        threads.append(threading.get_ident())
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    always = JsonLinesSink(tmp_path / "always", fsync="always")
    never = JsonLinesSink(tmp_path / "never")
    waiting = always.write({"kind": "test", "number": 0})
    assert numbers(always.path) == [0], "it is written before it is awaited"
    assert waiting is not None
    await waiting
    assert never.write({"kind": "test", "number": 0}) is None
    durable = never.write({"kind": "test", "number": 1}, durable=True)
    assert durable is not None
    await durable
    assert len(threads) == 2
    interval = JsonLinesSink(tmp_path / "interval", fsync="interval", fsync_seconds=1)
    for number in range(20):
        assert interval.write({"kind": "test", "number": number}) is None
    with anyio.fail_after(10):
        while len(threads) < 3:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    await anyio.sleep(0.1)
    assert len(threads) == 3, "one fsync for all of them"
    assert threading.get_ident() not in threads
