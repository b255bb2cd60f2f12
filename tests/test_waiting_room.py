"""`WaitingRoom`: who waits for the end of a call, and what is left when nobody waits."""

from __future__ import annotations

import anyio
import pytest

from advisorchain.waiting_room import WaitingRoom


async def test_those_of_one_source_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.waiting_room.RECHECK_SECONDS", 60.0)
    room, woken = WaitingRoom(), list[str]()

    async def wait(source: str) -> None:
        await room.wait(source, 60)
        woken.append(source)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for source in ("a", "b", "a"):
                group.start_soon(wait, source)
            await anyio.wait_all_tasks_blocked()
            room.left("nobody")
            room.left("a")
            await anyio.wait_all_tasks_blocked()
            assert woken == ["a", "a"]
            room.left("b")
    assert woken == ["a", "a", "b"]


async def test_nobody_waits_long_and_nothing_is_kept() -> None:
    room = WaitingRoom()
    with anyio.fail_after(10):
        await room.wait("a", 60)
        await room.wait("a", 0.001)
    with anyio.move_on_after(0.001):
        await room.wait("a", 60)
    assert not room._events  # or an event loop that has ended would be kept
