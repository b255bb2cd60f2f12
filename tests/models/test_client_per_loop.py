"""`ClientPerLoop`: what an event loop used is closed with it, and forgotten."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, Self

import trio

from advisorchain.models.http.client_per_loop import ClientPerLoop


class Client:
    """Looks like an SDK's client."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    async def close(self) -> None:
        self.closed = True

    def with_options(self, *, max_retries: int) -> Self:
        assert max_retries == 0
        return self


def test_event_loops_that_have_ended_are_forgotten() -> None:
    made: list[weakref.ref[Client]] = []

    def make() -> Client:
        client = Client()
        made.append(weakref.ref(client))
        return client

    clients: ClientPerLoop[Any] = ClientPerLoop(make)

    async def use() -> None:
        assert await clients.get() is await clients.get()

    for _ in range(3):
        asyncio.run(use())
        trio.run(use)
    gc.collect()
    assert len(made) == 6
    left = [client for each in made if (client := each()) is not None]
    assert len(left) <= 1 and all(client.closed for client in left)
