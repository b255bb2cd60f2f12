"""Providers of its own for every test, and no complaint of OpenTelemetry in any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from traced import Traced, no_complaints


@pytest.fixture
def traced() -> Iterator[Traced]:
    with no_complaints():
        yield Traced()
