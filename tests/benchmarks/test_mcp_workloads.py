"""The benchmark of calls over MCP really calls, on both sides and over every way. Quick: part of every test run."""

from __future__ import annotations

import asyncio
from typing import get_args

import mcp_workloads
import pytest
from mcp_workloads import Kind, Served, measured_apart, overhead_of_a_call


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_call_can_be_measured(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_workloads, "CALLS", 3)
    found = asyncio.run(overhead_of_a_call(kind, 2))

    assert 0 < found.bare_seconds < 1
    assert 0.5 < found.value < 5


def test_a_process_of_its_own_tells_what_it_measured() -> None:
    found = asyncio.run(measured_apart("direct", 1))

    assert 0 < found.best <= found.seconds < 1


def test_the_two_protocols_are_what_they_are_called() -> None:
    async def protocol(kind: Kind) -> str | None:
        served = await Served.start(kind)
        try:
            (status,) = served.tools.status()
            return status.protocol
        finally:
            await served.stop()

    assert asyncio.run(protocol("streams")) == "2025-11-25"
    assert asyncio.run(protocol("direct")) == "2026-07-28"
