"""What the tests of the stores share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisorchain.memory import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=30)
    yield store
    store.close()
