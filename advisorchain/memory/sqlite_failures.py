"""What an error of SQLite means, and what to do about it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process or thread has locked it; try again, or raise busy_timeout.",
    sqlite3.SQLITE_LOCKED: "another process or thread has locked it; try again, or raise busy_timeout.",
    sqlite3.SQLITE_READONLY: "it is read-only; give this process write access to the file and its directory.",
    sqlite3.SQLITE_PERM: "access is denied; give this process access to the file and its directory.",
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again.",
    sqlite3.SQLITE_IOERR: "the disk failed or is full; check free space and quotas, and try again.",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; put a backup in its place, or move it away to start anew.",
    sqlite3.SQLITE_NOTADB: "it is no SQLite file; give another path, put a backup in its place, or move it away.",
}


def is_locked(error: Exception) -> bool:
    """Whether others have kept the file for all of the time that there was to wait for it."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explained(error: Exception, path: Path) -> str:
    """One sentence: what happened, and what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    advice = _ADVICE.get(code & 0xFF) if code is not None else None
    if code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        if not path.parent.is_dir():
            advice = f"the directory {path.parent} does not exist; make it."
        elif path.is_dir():
            advice = "it is a directory; give the path of a file."
        else:
            advice = "it cannot be opened; check that this process may read and write the file and its directory."
    return f"{advice} ({error})" if advice is not None else f"{error}."
