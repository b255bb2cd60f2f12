"""`ConfiguredClient`: a client that was made from a file, and closes what was opened for it."""

from __future__ import annotations

import inspect
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..client import ChatClient

if TYPE_CHECKING:
    from ..mcp.tools import McpTools

logger = logging.getLogger("advisorchain")


class ConfiguredClient(ChatClient):
    """A `ChatClient` that `ChatClient.from_config` made, with the stores, sinks, models and MCP servers of its own.

    Nothing is connected before a turn needs it. Use it as ``async with``, or call `aclose` at the end, in the event
    loop in which it was used; `close` is for sync code that used ``call_sync``. A later use opens anew.
    """

    _made: tuple[Any, ...] = ()
    _fleets: tuple[McpTools, ...] = ()

    @property
    def mcp(self) -> tuple[McpTools, ...]:
        """The MCP servers of the file, for their ``status()``: one `McpTools` for those with the same settings."""
        return self._fleets

    async def aclose(self) -> None:
        """Close what was made for this client: MCP servers, stores, sinks, models, and tools that can be closed.

        What fails to close is logged, and the rest is closed all the same.
        """
        for thing in reversed(self._made):
            close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
            if not callable(close):
                continue
            try:
                closing = close()
                if inspect.isawaitable(closing):
                    await closing
            except Exception as exc:
                logger.warning("%s could not be closed: %s", type(thing).__name__, type(exc).__name__, exc_info=exc)

    def close(self) -> None:
        """`aclose` for sync code: closes what ``call_sync`` and ``stream_sync`` have opened.

        Raises:
            ConfigurationError: called on the background loop itself.
        """
        from ..sync import run_sync

        run_sync(self.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
