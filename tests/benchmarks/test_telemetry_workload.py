"""The benchmark of tracing really traces where it says so. Quick: part of every test run."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest
import telemetry_workload
from telemetry_workload import Kind, client, price, price_apart, tracing


@pytest.mark.parametrize("kind", [kind for kind in get_args(Kind) if kind != "absent"])
def test_it_can_be_measured(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_workload, "TURNS", dict.fromkeys(telemetry_workload.TURNS, 3))
    found = asyncio.run(price(kind, 2))

    assert 0 < found.bare_seconds < 1
    assert 0.1 < found.value < 200


def test_a_process_of_its_own_tells_what_it_measured() -> None:
    found = asyncio.run(price_apart("absent", 1))

    assert 0 < found.best <= found.seconds < 1


def test_what_is_traced() -> None:
    settings = tracing("recorded")
    ended: list[str] = []
    processor = settings["tracer_provider"]._active_span_processor._span_processors[0]
    processor.on_end = lambda span: ended.append(span.name)
    asyncio.run(client(settings).call("Go."))
    assert len(ended) == 14 and ended[0] == "chat bench" and ended[-1] == "invoke_agent chat_client"
