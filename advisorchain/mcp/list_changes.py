"""`ListChanges`: tells clients that a `ToolRegistry` that is served has changed; each event loop has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import current_token
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ServerEvent, ToolsListChanged

from .exposure import ExposedTools

WATCH_SECONDS = 0.5
"""How often registries are looked at for changes that clients are to be told."""
TELL_SECONDS = 1.0
"""How long a client that does not read may take to be told."""


class ListChanges:
    """Who is to be told of changes, and the watch for them. A server in this process may serve several event loops.

    Attributes:
        on_listen: the handler of the requests by which clients of 2026 ask to be told.
    """

    def __init__(self, exposed: ExposedTools) -> None:
        self._exposed = exposed
        self._clients: WeakKeyDictionary[Any, _Clients] = WeakKeyDictionary()
        self.on_listen = ListenHandler(self)

    def add(self, connection: Any) -> None:
        """Tell a client of before 2026, as long as it is connected."""
        connections = self._here().connections
        connections.add(connection)
        connection.exit_stack.callback(connections.discard, connection)

    async def publish(self, event: ServerEvent) -> None:
        """Tell the clients of 2026; with `subscribe` this is the SDK's ``SubscriptionBus``."""
        await self._here().bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Tell a client of 2026, until what is returned is called."""
        return self._here().bus.subscribe(listener)

    async def watch(self) -> None:
        """Tell the clients of this event loop when a registry has changed; runs as long as the server is served."""
        clients = self._here()
        while True:
            await anyio.sleep(WATCH_SECONDS)
            version = self._exposed.version
            if version != clients.told:
                clients.told = version
                # In one process each connection has a watch, and takes it along: none is to stop half way.
                with anyio.CancelScope(shield=True):
                    await clients.tell()

    def _here(self) -> _Clients:
        loop = current_token().native_token
        clients = self._clients.get(loop)
        if clients is None:
            clients = self._clients[loop] = _Clients(self._exposed.version)
        return clients


class _Clients:
    """Those of one event loop, and which version of the tools they were told of."""

    def __init__(self, told: int) -> None:
        self.told = told
        self.bus = InMemorySubscriptionBus()
        self.connections: set[Any] = set()

    async def tell(self) -> None:
        await self.bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as group:
            for connection in self.connections:
                group.start_soon(_tell, connection)


async def _tell(connection: Any) -> None:
    with anyio.move_on_after(TELL_SECONDS):
        await connection.notify("notifications/tools/list_changed", None)
