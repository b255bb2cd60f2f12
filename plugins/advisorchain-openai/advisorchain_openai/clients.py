"""One SDK client per event loop: the connections of a pool belong to the loop that opened them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token
from openai import AsyncOpenAI


class _Open(NamedTuple):
    client: AsyncOpenAI
    closing: AsyncGenerator[None]


async def _until_closed(client: AsyncOpenAI) -> AsyncGenerator[None]:
    """Closes the client when it is closed itself.

    Event loops close the async generators that are left when they end (and when they are dropped), so that
    ``asyncio.run(client.call(...))`` leaves no open socket behind.
    """
    try:
        yield
    finally:
        await client.close()


class ClientPerLoop:
    """Makes the SDK's client at first use in an event loop, and keeps it for that loop.

    Args:
        make: makes a client; it is told never to retry, because a hidden retry multiplies the chain's own.
    """

    def __init__(self, make: Callable[[], AsyncOpenAI]) -> None:
        self._make = make
        self._open: WeakKeyDictionary[object, _Open] = WeakKeyDictionary()

    async def get(self) -> AsyncOpenAI:
        """The client of the running event loop."""
        loop = current_token().native_token
        opened = self._open.get(loop)
        if opened is not None and not opened.client.is_closed():
            return opened.client
        client = self._make().with_options(max_retries=0)
        closing = _until_closed(client)
        # Kept before the first await: a second call of this loop must find it.
        self._open[loop] = _Open(client, closing)
        await anext(closing)
        return client

    async def aclose(self) -> None:
        """Close the client of the running event loop; the next call opens another one."""
        opened = self._open.pop(current_token().native_token, None)
        if opened is not None:
            await opened.closing.aclose()
            await opened.client.close()  # also when the generator had not started
