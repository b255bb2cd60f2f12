"""``advisorchain audit``: verify, head and show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisorchain.audit import JsonLinesSink, head

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def file(work_dir: Path) -> Path:
    path = work_dir / "audit.jsonl"
    sink = JsonLinesSink(path)
    for number in range(3):
        record = {
            "kind": "tool",
            "time": 1790000000.0 + number,
            "tool": f"add{number}",
            "outcome": "ok",
            "seconds": 0.5,
        }
        sink.write({**record, "conversation": "\x1b[31mred\n", "cache": "hit"})
    sink.write(
        {
            "kind": "turn",
            "time": 1790000009.0,
            "model": "m1",
            "input_tokens": 7,
            "outcome": "error",
            "error": "ModelError",
        }
    )
    return path


def test_verify_and_head(advisorchain: Any, file: Path) -> None:
    printed = advisorchain("audit", "head", file)
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, head(file) + "\n", "")
    done = advisorchain("audit", "verify", file)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "OK: records 1 to 5 (without a key)",
        f"head: {head(file)}",
        "whether the end was cut off, only --expect with a head kept elsewhere can tell",
    ]
    expected = advisorchain("audit", "verify", file, "--expect", printed.stdout.strip())
    assert (expected.returncode, len(expected.stdout.splitlines())) == (0, 2)

    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    cut = advisorchain("audit", "verify", file, "--expect", printed.stdout.strip())
    assert cut.returncode == 1
    assert cut.stdout.startswith(
        "FAILED (cut): The records end at number 4; number 5 was expected: the end was cut off.\n"
    )
    file.write_bytes(b"".join(lines).replace(b"add1", b"add9"))
    changed = advisorchain("audit", "verify", file)
    assert changed.returncode == 1
    assert changed.stdout.splitlines()[0] == "FAILED (changed): audit.jsonl:3: record 3 was changed."
    assert changed.stdout.splitlines()[1].startswith("intact up to record 2: 2:")
    file.write_bytes(b"".join(lines)[:-10])
    torn = advisorchain("audit", "verify", file)
    assert (torn.returncode, torn.stdout[:13]) == (1, "FAILED (torn)")
    JsonLinesSink(file).write({"kind": "test"})
    after = advisorchain("audit", "verify", file)
    assert after.returncode == 0
    assert after.stdout.startswith("torn: audit.jsonl:5 (")


def test_verify_with_a_key(advisorchain: Any, work_dir: Path) -> None:
    path = work_dir / "keyed.jsonl"
    JsonLinesSink(path, key=KEY.encode()).write({"kind": "test"})
    done = advisorchain("audit", "verify", path, "--key-env", "AUDIT_KEY", AUDIT_KEY=KEY)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "OK: records 1 to 2 (HMAC)")
    for options, environment in ([[], {}], [["--key-env", "AUDIT_KEY"], {"AUDIT_KEY": KEY[::-1]}]):
        done = advisorchain("audit", "verify", path, *options, **environment)
        assert (done.returncode, done.stdout[:12]) == (1, "FAILED (key)")
    unset = advisorchain("audit", "verify", path, "--key-env", "AUDIT_KEY")
    assert unset.returncode == 1
    assert "The environment variable 'AUDIT_KEY'" in unset.stderr
    assert KEY not in done.stdout + unset.stderr


def test_show_prints_a_table(advisorchain: Any, file: Path) -> None:
    done = advisorchain("audit", "show", file)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert rows[0] == ["#", "time", "kind", "conversation", "what", "outcome", "seconds", "tokens", "details"]
    assert rows[3][:2] == ["2", "2026-09-21"]
    assert rows[3][3:] == ["tool", "[31mred", "add0", "ok", "0.500", "cache=hit"]
    assert rows[-1][3:] == ["turn", "m1", "error", "7/?", "error=ModelError"]
    assert "\x1b" not in done.stdout
    newest = advisorchain("audit", "show", file, "-n", "1")
    assert "add0" not in newest.stdout
    assert "ModelError" in newest.stdout


def test_show_a_time_that_is_none(advisorchain: Any, work_dir: Path) -> None:
    sink = JsonLinesSink(work_dir / "odd.jsonl")
    for time in (1e300, float("nan"), "then", -1e12, True):
        sink.write({"kind": "odd", "time": time})
    done = advisorchain("audit", "show", sink.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("odd") == 5 and "1e+300" in done.stdout


@pytest.mark.parametrize("command", ["verify", "head", "show"])
def test_a_file_that_is_not_there(advisorchain: Any, command: str) -> None:
    done = advisorchain("audit", command, "nowhere.jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: Cannot read the audit file nowhere.jsonl: No such file or directory.\n"
