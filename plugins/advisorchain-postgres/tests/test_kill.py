"""A process that is killed anywhere in a turn leaves whole turns, or nothing of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tests" / "memory" / "killed_turns.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")

Kill = Callable[[int, int], list[int]]


@pytest.fixture
def kill(server: Any, schema: str, query: Any) -> Kill:
    """Kill so many children, in a database of their own; how many turns there were after each."""
    query(f"CREATE DATABASE {schema}")

    def run(times: int, seed: int) -> list[int]:
        dsn = server.dsn.replace("/postgres?", f"/{schema}?")
        command = [sys.executable, str(SCRIPT), dsn, str(times), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, f"seed {seed}: {done.stdout[-300:]}\n{done.stderr[-3000:]}"
        return [int(line.split()[1]) for line in done.stdout.splitlines()]

    return run


def test_killed_at_30_random_points(kill: Kill) -> None:
    turns = kill(30, int.from_bytes(os.urandom(4), "big"))
    assert len(turns) == 30
    assert turns[-1] > 60 + 30, "no child came so far as to store a turn"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_killed_at_200_random_points(kill: Kill, part: int) -> None:
    assert len(kill(50, 1000 + part)) == 50
