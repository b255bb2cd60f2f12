"""How an advisor uses a `SharedState` that may be slow, contended or away."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from .errors import AdvisorChainError, ConfigurationError
from .failures import tool_failure
from .shared_state import SharedState
from .shield import run_shielded

logger = logging.getLogger("advisorchain")

T = TypeVar("T")

Change = Callable[[dict[str, Any] | None], tuple[dict[str, Any] | None, T]]
"""Gets a value, or None; returns the new one, or None to leave it as it is, and what is to be returned."""

ANSWER_SECONDS = 5.0
"""How long one load or save may take; a state may have a shorter timeout of its own."""
CONTENTION_SECONDS = 10.0
"""How long a change is tried again because others were faster; after that, the state does not work."""
AWAY_SECONDS = 10.0
"""How long a state that has failed is left alone, so that not every call waits for its timeout."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_LOADS_AT_ONCE = 8


class StateAwayError(AdvisorChainError):
    """The shared state does not work at the moment. Advisors go on without it: this never leaves them."""


class StateAccess:
    """Loads and changes values of a shared state, with deadlines.

    A state that raises, or does not answer, is left alone for `AWAY_SECONDS`: meanwhile everything raises
    `StateAwayError` at once. Then one caller asks it again, and when it answers, all use it again. That it is away is
    logged once, as a warning; that it is back, too.

    Args:
        state: the state.
        owner: whose state it is, for the log, for example ``"Advisor 'circuit_breaker'"``.
        meanwhile: what the owner does without it, for the log, for example ``"keeps its circuits in this process"``.
        clock: monotonic seconds.
    """

    __slots__ = ("_ask_at", "_clock", "meanwhile", "owner", "state")

    def __init__(
        self, state: SharedState, owner: str, meanwhile: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = state
        self.owner = owner
        self.meanwhile = meanwhile
        self._clock = clock
        self._ask_at: float | None = None  # None: it works

    async def load(self, key: str) -> tuple[dict[str, Any] | None, int]:
        """The value and its version; ``(None, 0)`` when there is none.

        Raises:
            StateAwayError: the state does not work.
            ConfigurationError: the state says that it cannot work here at all.
        """

        self._may_ask()
        found = await self._load(key)
        self._works()
        return found

    async def load_each(self, keys: Collection[str]) -> dict[str, dict[str, Any] | None]:
        """The values, some at a time; those that could not be loaded are absent.

        Raises:
            ConfigurationError: the state says that it cannot work here at all.
        """
        import anyio

        waiting, found, errors = iter(keys), dict[str, dict[str, Any] | None](), list[ConfigurationError]()

        async def load() -> None:
            try:
                for key in waiting:
                    found[key], _ = await self.load(key)
            except StateAwayError:
                pass
            except ConfigurationError as error:  # a task group would wrap it
                errors.append(error)

        if len(keys) == 1:  # a task group costs more than a load
            await load()
        else:
            async with anyio.create_task_group() as group:
                for _ in range(min(_LOADS_AT_ONCE, len(keys))):
                    group.start_soon(load)
        if errors:
            raise errors[0]
        return found

    async def change(self, key: str, change: Change[T], undo: Callable[[T], Change[None]] | None = None) -> T:
        """Replace a value, atomically, also for a caller who is cancelled meanwhile.

        Args:
            key: of the value.
            change: called again when somebody else was faster.
            undo: given what ``change`` has returned, the change that takes it back, made when the caller was
                cancelled meanwhile; None: it stays.

        Raises:
            StateAwayError: the state does not work.
            ConfigurationError: the state says that it cannot work here at all.
        """
        from anyio.lowlevel import checkpoint_if_cancelled

        self._may_ask()
        done: list[T] = []

        async def whole() -> None:
            done.append(await self._change(key, change))

        try:
            await run_shielded(whole)  # left half-way, nobody would know whether it was saved
            if undo is not None:
                await checkpoint_if_cancelled()
        except BaseException:
            if done and undo is not None:
                with suppress(StateAwayError):
                    await run_shielded(partial(self._change, key, undo(done[0])))
            raise
        return done[0]

    async def _change(self, key: str, change: Change[T]) -> T:
        pause, give_up_at = _FIRST_PAUSE, self._clock() + CONTENTION_SECONDS
        while True:
            value, version = await self._load(key)
            new, result = change(value)
            if new is None or await self._answer(partial(self.state.save, key, new, version)):
                self._works()
                return result
            if self._clock() >= give_up_at:
                raise self._failed(f"others were always faster for {CONTENTION_SECONDS:g} s")
            await _sleep(random.random() * pause)  # at random, or the same ones meet again
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _may_ask(self) -> None:
        if self._ask_at is not None:
            now = self._clock()
            if now < self._ask_at:
                raise StateAwayError(f"The shared state of {self.owner} is left alone for a while: it has failed.")
            self._ask_at = now + AWAY_SECONDS  # one asks, the others wait for what it finds

    def _works(self) -> None:
        if self._ask_at is not None:
            self._ask_at = None
            logger.warning("%s: its shared state works again.", self.owner)

    async def _load(self, key: str) -> tuple[dict[str, Any] | None, int]:
        async def ask() -> tuple[dict[str, Any] | None, int]:
            value, version = await self.state.load(key)
            return value, version

        return await self._answer(ask)

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        import anyio

        try:
            with anyio.fail_after(ANSWER_SECONDS):
                return await ask()
        except BaseException as error:
            failure = tool_failure(error)  # also a cancellation that nobody asked for, which connections let out
            if failure is None or isinstance(failure, ConfigurationError):
                raise
            name, text = type(failure).__name__, str(failure)
            raise self._failed(f"{name}: {text}" if text else name) from error

    def _failed(self, why: str) -> StateAwayError:
        if self._ask_at is None:
            logger.warning(
                "%s: its shared state failed (%s). It %s, and asks again every %g s.",
                self.owner, why, self.meanwhile, AWAY_SECONDS,
            )  # fmt: skip
        self._ask_at = self._clock() + AWAY_SECONDS
        return StateAwayError(f"The shared state of {self.owner} does not work.")


async def _sleep(seconds: float) -> None:
    import anyio

    await anyio.sleep(seconds)


def check_forgetting(state: SharedState, seconds: float, what: str) -> None:
    """Refuse a state that forgets (its ``ttl``, in seconds) what an advisor needs for longer.

    Raises:
        ConfigurationError: it forgets too early; says after how many seconds it may.
    """
    ttl = getattr(state, "ttl", None)
    if isinstance(ttl, int | float) and ttl < seconds:
        raise ConfigurationError(
            f"The state forgets values after {ttl:g} s, but {what} needs them for {seconds:g} s. Give it a longer ttl=."
        )
