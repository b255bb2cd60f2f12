"""Programs that the check runs: each with an end, and what it printed is told when it fails."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

WITHIN = 300.0
"""Seconds that one program may take."""
TOLD = 8000
"""Characters of a failed program's output that are told: the last ones."""

# What would lead a program back to the repository, or to another environment.
_LEADS_ELSEWHERE = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON")


_running: set[subprocess.Popen[str]] = set()
_running_lock = threading.Lock()


class CheckFailed(Exception):
    """What a user gets is not right; the text says what."""


def run(*command: str | Path, cwd: Path, more: Mapping[str, str] | None = None) -> str:
    """Run a program, and return what it printed on its standard output.

    Raises:
        CheckFailed: it fails, or takes longer than `WITHIN`; what it had started is ended then.
    """
    words = [str(word) for word in command]
    environment = {name: value for name, value in os.environ.items() if name not in _LEADS_ELSEWHERE}
    process = subprocess.Popen(
        words, cwd=cwd, env={**environment, "PYTHONUTF8": "1", **(more or {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
        start_new_session=True,
    )  # fmt: skip
    with _running_lock:
        _running.add(process)
    try:
        output, errors = process.communicate(timeout=WITHIN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        raise CheckFailed(f"{_shown(words)} took longer than {WITHIN:g} s\n{(output + errors)[-TOLD:]}") from None
    finally:
        with _running_lock:
            _running.discard(process)
    if process.returncode != 0:
        raise CheckFailed(f"{_shown(words)} failed with code {process.returncode}\n{(output + errors)[-TOLD:]}")
    return output


def end_all() -> None:
    """End every program that is running, with what it has started."""
    with _running_lock:
        for process in _running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Environment:
    """A virtual environment of its own, empty at first, with the Python that runs the check."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        run("uv", "venv", "--quiet", "--python", sys.executable, directory, cwd=directory.parent)
        self.python = directory / "bin" / "python"

    def install(self, *requirements: str | Path) -> None:
        """Install what is named, and what it requires; the rest comes from PyPI. Conflicts are errors."""
        command = ["uv", "pip", "install", "--quiet", "--python", self.python, *requirements]
        run(*command, cwd=self.directory.parent)
        run("uv", "pip", "check", "--quiet", "--python", self.python, cwd=self.directory.parent)

    def run(self, program: str, *arguments: str | Path, cwd: Path, more: Mapping[str, str] | None = None) -> str:
        """Run one of its programs."""
        return run(self.directory / "bin" / program, *arguments, cwd=cwd, more=more)


def _shown(words: list[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 300 else f"{text[:300]} …"
