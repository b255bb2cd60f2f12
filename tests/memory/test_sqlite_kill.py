"""A process that is killed anywhere in a turn leaves whole turns, or nothing of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_turns.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")


def kill(path: Path, times: int, seed: int) -> list[int]:
    """Kill so many children; how many turns there were after each."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), str(times), str(seed)], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-300:]}\n{done.stderr[-3000:]}"
    return [int(line.split()[1]) for line in done.stdout.splitlines()]


def test_killed_at_40_random_points(tmp_path: Path) -> None:
    turns = kill(tmp_path / "memory.db", 40, seed=int.from_bytes(os.urandom(4), "big"))
    assert len(turns) == 40
    assert turns[-1] > 80, "no child came so far as to store a turn"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_at_200_random_points(tmp_path: Path, part: int) -> None:
    assert len(kill(tmp_path / "memory.db", 50, seed=1000 + part)) == 50
