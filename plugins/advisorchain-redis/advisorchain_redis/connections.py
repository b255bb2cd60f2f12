"""The connections of one store or state: a pool for each event loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from advisorchain import ConfigurationError

CONNECTIONS = 32
"""How many connections one event loop opens at most; further work waits for one."""
FAILURES = (RedisError, OSError, TimeoutError, UnicodeError)
"""What `Connections.eval` raises when the server does not do it."""


class _Open(NamedTuple):
    client: Any
    closing: AsyncGenerator[None]


async def _until_closed(client: Any) -> AsyncGenerator[None]:
    """Closes the client when it is closed itself, which event loops do when they end."""
    try:
        yield
    finally:
        await client.aclose()


class Connections:
    """Runs scripts in the server, over connections of the running event loop.

    Args:
        owner: the class that they are for, and what to use where they cannot be used: for error texts.
        url: of the server.
        timeout: seconds that one script may take in all, waiting for a connection included.

    Raises:
        ConfigurationError: the URL or the timeout is none.
    """

    def __init__(self, owner: str, url: str, timeout: float, *, on_trio: str) -> None:
        if not isinstance(url, str) or not url.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigurationError(f"{owner}(url) takes a URL like redis://localhost:6379/0.")
        _check_url(owner, url)
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigurationError(f"timeout must be seconds above 0, not {timeout!r}.")
        self._owner = owner
        self._on_trio = on_trio
        self._url = url
        self._timeout = timeout
        self._open: WeakKeyDictionary[Any, _Open] = WeakKeyDictionary()

    async def eval(self, script: str, keys: int, *arguments: Any) -> Any:
        """Run a script whose first arguments are ``keys``.

        Raises:
            ConfigurationError: not on asyncio.
            RedisError, OSError, TimeoutError, UnicodeError: see `FAILURES`.
        """
        client = await self.client()
        try:
            async with asyncio.timeout(self._timeout):  # redis-py's own timeouts are for each of its steps
                return await client.eval(script, keys, *arguments)
        except TimeoutError as exc:
            raise TimeoutError(f"no answer within {self._timeout:g} s") from exc

    async def client(self) -> Any:
        """The client of this event loop: connections belong to the loop that opened them.

        Raises:
            ConfigurationError: not on asyncio.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(f"{self._owner} needs asyncio; {self._on_trio}.") from None
        opened = self._open.get(loop)
        if opened is None:
            for known in self._open.keyrefs():  # made in one step: other threads have loops of their own
                if (other := known()) is not None and other.is_closed():
                    self._open.pop(other, None)  # what it had knows it, and would keep it for ever
            pool = BlockingConnectionPool.from_url(
                self._url,
                decode_responses=True,
                max_connections=CONNECTIONS,
                timeout=self._timeout,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                # Once more, at once: a pooled connection may be from before a restart, and scripts may be repeated.
                retry=Retry(NoBackoff(), 1),
            )
            client: Any = Redis.from_pool(pool)
            self._open[loop] = opened = _Open(client, _until_closed(client))
            await anext(opened.closing)
        return opened.client

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next use opens new ones."""
        opened = self._open.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.closing.aclose()
            await opened.client.aclose()  # also when the generator had not started


def _check_url(owner: str, url: str) -> None:
    """Refuse what redis-py would refuse at the first use, in texts that may repeat a piece of the password.

    Raises:
        ConfigurationError: the URL is none, or has an option that is none. The text does not repeat it.
    """
    try:
        parts = urlsplit(url)
        if parts.query:
            parse_qs(parts.query, strict_parsing=True)
        is_whole = parts.scheme == "unix" or re.fullmatch(r"/?[0-9]*", parts.path)
        if is_whole and not parts.fragment:
            pool: Any = BlockingConnectionPool.from_url(url)
            pool.make_connection()  # it knows the options, and connects later
            return
    except (ValueError, TypeError):
        pass
    raise ConfigurationError(
        f"{owner}: url= is no URL like redis://user:password@localhost:6379/0, or has an option that Redis clients do "
        "not know. In a password, @ : / ? # % and the like are written with %, for example %40 for @."
    )
