"""`RedisStore`: conversations in Redis or Valkey, shared by processes and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisorchain import MemoryStoreError, Message, dump_messages, load_messages
from advisorchain.memory import History, StoredTurn, check_bounds, message_key

from .connections import FAILURES, Connections
from .scripts import APPEND, DELETE, LOAD


class RedisStore:
    """Keeps conversations in Redis or Valkey; one server, or one that is replicated, not a cluster. asyncio only.

    Every append and every load is one script, so it happens whole or not at all. How much survives a crash of the
    server is for its own settings to say (``appendonly``).

    Args:
        url: ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS, or ``unix://path``.
        prefix: of all keys.
        timeout: seconds that a call takes at most; then `MemoryStoreError`.

    Raises:
        ConfigurationError: the URL or the timeout is none.
    """

    lossless = True

    def __init__(self, url: str, *, prefix: str = "advisorchain:memory", timeout: float = 2.0) -> None:
        self._connections = Connections("RedisStore", url, timeout, on_trio="on trio use SqliteStore")
        self.prefix = prefix
        self.timeout = timeout

    async def load(
        self,
        conversation_id: str,
        *,
        branch: str = "",
        last_turns: int | None = None,
        last_messages: int | None = None,
        before: str | None = None,
    ) -> History:
        """See ``MemoryStore.load``."""
        check_bounds(last_turns, last_messages)
        what = f"load conversation {conversation_id!r}"
        turns = -1 if last_turns is None else last_turns
        messages = -1 if last_messages is None else last_messages
        base = self._base(conversation_id) + branch
        found = await self._eval(what, LOAD, base, turns, messages, int(before is not None), before or "")
        if found is None:
            raise MemoryStoreError(f"Could not {what}: it has no message {before!r} to load before.")
        try:
            return History([StoredTurn(turn, load_messages(f"[{','.join(bodies)}]")) for turn, bodies in found])
        except ValueError as exc:
            raise MemoryStoreError(f"Could not {what}: a message is damaged ({str(exc).splitlines()[0]}).") from exc

    async def append(
        self, conversation_id: str, turn_id: str, messages: Sequence[Message], *, branch: str = ""
    ) -> None:
        """See ``MemoryStore.append``."""
        if not messages:
            return
        what = f"append turn {turn_id!r} to conversation {conversation_id!r}"
        rows: list[str] = []
        for message in messages:
            try:
                rows += (message_key(message), dump_messages((message,))[1:-1])
            except Exception as exc:
                raise MemoryStoreError(f"Could not {what}: a message cannot be written as JSON ({exc}).") from exc
        base = self._base(conversation_id) + branch
        branches = self._branches(conversation_id)
        await self._eval(what, APPEND, self._all, branches, base, conversation_id, branch, turn_id, *rows)

    async def delete(self, conversation_id: str) -> None:
        """See ``MemoryStore.delete``."""
        base, branches = self._base(conversation_id), self._branches(conversation_id)
        await self._eval(f"delete conversation {conversation_id!r}", DELETE, self._all, branches, conversation_id, base)

    async def conversations(self) -> tuple[str, ...]:
        """See ``MemoryStore.conversations``."""
        found = await self._eval("list the conversations", "return redis.call('SMEMBERS', ARGV[1])", self._all)
        return tuple(sorted(found))

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next use opens new ones."""
        await self._connections.aclose()

    def __repr__(self) -> str:
        return f"RedisStore(prefix={self.prefix!r})"

    @property
    def _all(self) -> str:
        return f"{self.prefix}:conversations"

    def _branches(self, conversation_id: str) -> str:
        return f"{self.prefix}:branches:{conversation_id}"

    def _base(self, conversation_id: str) -> str:
        # With its length, so that no conversation and branch together look like another pair.
        return f"{self.prefix}:{len(conversation_id)}:{conversation_id}:"

    async def _eval(self, what: str, script: str, *arguments: Any) -> Any:
        try:
            return await self._connections.eval(script, 0, *arguments)
        except FAILURES as exc:
            why = str(exc).rstrip(".") or type(exc).__name__
            raise MemoryStoreError(
                f"Could not {what} in Redis: {why}. Check that the server runs and that url= is right, and try again."
            ) from exc
