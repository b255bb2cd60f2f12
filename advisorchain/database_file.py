"""The file of a SQLite database: made for its owner only, and known again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def create_for_owner(path: Path) -> None:
    """Create the file with mode 600 if there is none, whatever the umask says; SQLite gives its WAL the same mode.

    ``:memory:`` is no file, and of one that cannot be created SQLite itself complains.
    """
    if str(path) == ":memory:":
        return
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600))


def identity(path: Path) -> tuple[int, int] | None:
    """Which file has the path now; None when there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
