"""``advisorchain trace view``."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from made_traces import travel_turn, write_sdk_file

from advisorchain.cli.trace_page import trace_page
from advisorchain.cli.trace_spans import read_spans

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(work_dir: Path) -> Path:
    return write_sdk_file(work_dir / "turn.jsonl", travel_turn())


def test_view(advisorchain: Any, file: Path, work_dir: Path) -> None:
    done = advisorchain("trace", "view", "turn.jsonl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "wrote turn.html: 1 turn, 38 spans\n", "")
    page = (work_dir / "turn.html").read_text(encoding="utf-8")
    assert "<title>turn.jsonl</title>" in page
    assert page == trace_page(read_spans(file), "turn.jsonl")
    again = advisorchain("trace", "view", "turn.jsonl", "-o", "turn.html")
    assert again.returncode == 0
    elsewhere = advisorchain("trace", "view", "turn.jsonl", "--output", "other.html")
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "wrote other.html: 1 turn, 38 spans\n")
    assert (work_dir / "other.html").read_text(encoding="utf-8") == page


def test_what_is_not_ours_is_kept(advisorchain: Any, file: Path, work_dir: Path) -> None:
    mine = work_dir / "mine.html"
    mine.write_text("<p>mine</p>", encoding="utf-8")
    refused = advisorchain("trace", "view", "turn.jsonl", "-o", "mine.html")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: mine.html is there and is no trace page: name another one with -o, or give --force.\n"
    )
    assert mine.read_text(encoding="utf-8") == "<p>mine</p>"
    assert advisorchain("trace", "view", "turn.jsonl", "-o", "mine.html", "--force").returncode == 0
    assert "advisorchain trace view" in mine.read_text(encoding="utf-8")
    before = file.read_bytes()
    itself = advisorchain("trace", "view", "turn.jsonl", "-o", "turn.jsonl", "--force")
    assert (itself.returncode, itself.stderr) == (
        2,
        "error: The page would replace its trace file turn.jsonl: name another one with -o.\n",
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["missing.jsonl"], 1, "Cannot read the trace file missing.jsonl: No such file or directory."),
        (["."], 1, "Cannot read the trace file .: Is a directory."),
        (["my_tools.py"], 1, "my_tools.py, line 2: this is not JSON (Expecting value at column 1). A trace file has"),
        (["turn.jsonl", "-o", "."], 2, ". is a directory: name a file with -o."),
        (["turn.jsonl", "-o", "no/where.html"], 1, "Cannot write the page no/where.html: No such file or directory."),
    ],
)
def test_what_goes_wrong_is_one_line(
    advisorchain: Any, file: Path, work_dir: Path, arguments: list[str], code: int, error: str
) -> None:
    done = advisorchain("trace", "view", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error: {error}")
    assert done.stderr.count("\n") == 1
    assert not list(work_dir.glob("*.html"))


def test_hostile_names_do_not_reach_the_terminal(advisorchain: Any, work_dir: Path) -> None:
    path = work_dir / "a\x1b[31m\nb.jsonl"
    write_sdk_file(path, travel_turn())
    done = advisorchain("trace", "view", path.name)
    assert (done.returncode, done.stdout) == (0, "wrote a[31m b.html: 1 turn, 38 spans\n")


def test_the_wheel_has_what_the_page_is_made_of(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("advisorchain-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assets = ROOT / "advisorchain" / "cli" / "trace_assets"
    assert {f"advisorchain/cli/trace_assets/{path.name}" for path in assets.iterdir()} <= names
    code = f"""
import sys
sys.path.insert(0, {str(wheel)!r})
import advisorchain.cli.trace_page as page
assert page.__file__.startswith({str(wheel)!r}), page.__file__
assert page.trace_page([], "t")
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
