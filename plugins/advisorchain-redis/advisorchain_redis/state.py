"""`RedisState`: circuits and rate limits in Redis or Valkey, shared by processes and machines."""

from __future__ import annotations

import json
import random
from typing import Any

from advisorchain import ConfigurationError, SharedStateError

from .connections import FAILURES, Connections
from .scripts import SAVE_STATE

_random = random.SystemRandom()  # not copied by a fork


class RedisState:
    """A `SharedState` in Redis or Valkey, for ``CircuitBreakerAdvisor(state=...)`` and ``RateLimitAdvisor(state=...)``.

    One server, or one that is replicated. asyncio only. It may be shared by several advisors, tasks, threads and event
    loops; advisors of one name and kind share what they keep in it.

    Args:
        url: ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS, or ``unix://path``.
        prefix: of all keys.
        timeout: seconds that one load or save may take in all; then `SharedStateError`. Advisors wait 5 at most.
        ttl: seconds after which a value that nobody has saved meanwhile is forgotten. A circuit that is forgotten is
            closed, a rate limit starts full: a longer ``reset_after`` or ``per`` is refused by their advisors.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    def __init__(
        self, url: str, *, prefix: str = "advisorchain:state", timeout: float = 2.0, ttl: float = 86_400.0
    ) -> None:
        if not isinstance(ttl, int | float) or not 0.001 <= ttl < 1e10:
            raise ConfigurationError(f"ttl must be seconds above 0, not {ttl!r}.")
        self._connections = Connections("RedisState", url, timeout, on_trio="on trio leave state= out")
        self.prefix = prefix
        self.timeout = timeout
        self.ttl = ttl

    async def load(self, key: str) -> tuple[dict[str, Any] | None, int]:
        """The value and its version; ``(None, 0)`` when there is none.

        Raises:
            SharedStateError: no connection, no answer in time, or the value is damaged.
            ConfigurationError: not on asyncio.
        """
        stored = await self._eval(f"load {key!r}", "return redis.call('GET', KEYS[1])", key)
        if stored is None:
            return None, 0
        version, _, text = stored.partition(" ")
        try:
            value = json.loads(text)
            if isinstance(value, dict):
                return value, int(version)
        except ValueError:
            pass
        raise SharedStateError(
            f"Could not load {key!r} from Redis: the value is damaged, or of another program. Delete it, or choose "
            "another prefix=."
        )

    async def save(self, key: str, value: dict[str, Any], version: int) -> bool:
        """Store the value if the stored version still is ``version`` (0: there is none); whether it was stored.

        Raises:
            SharedStateError: no connection, no answer in time, or the value is no JSON data.
            ConfigurationError: not on asyncio.
        """
        try:
            text = json.dumps(value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as exc:
            raise SharedStateError(f"Could not save {key!r} in Redis: the value is no JSON data ({exc}).") from exc
        # A random version never comes again, also after the value was forgotten, and tells this save from all others.
        new = _random.randrange(1, 1 << 62)
        return bool(await self._eval(f"save {key!r}", SAVE_STATE, key, version, new, text, int(self.ttl * 1000)))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next use opens new ones."""
        await self._connections.aclose()

    def __repr__(self) -> str:
        return f"RedisState(prefix={self.prefix!r}, ttl={self.ttl!r})"

    async def _eval(self, what: str, script: str, key: str, *arguments: Any) -> Any:
        name = f"{self.prefix}:{key}".encode(errors="surrogatepass")
        try:
            return await self._connections.eval(script, 1, name, *arguments)
        except FAILURES as exc:
            why = str(exc).rstrip(".") or type(exc).__name__
            raise SharedStateError(
                f"Could not {what} in Redis: {why}. Check that the server runs and that url= is right."
            ) from exc
