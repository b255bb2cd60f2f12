"""How an advisor uses a `SharedState` that may be slow, contended or away."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import AdvisorChainError, ConfigurationError
from .failures import tool_failure
from .shared_state import SharedState
from .shield import run_shielded

if TYPE_CHECKING:
    from anyio.lowlevel import EventLoopToken

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


class _Asked(Generic[T]):
    """A change that somebody waits for."""

    __slots__ = ("_change", "_error", "_result", "made")

    def __init__(self, change: Change[T]) -> None:
        self._change = change
        self._error: Exception | None = None
        self._result: T
        self.made = False

    def of(self, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """The new value, or None when it stays; an error of the change is for the one who waits for it."""
        self._error = None
        try:
            new, self._result = self._change(value)
        except Exception as error:
            self._error = error
            return None
        return new

    def outcome(self) -> T:
        """What the change has returned, or raised."""
        if self._error is not None:
            raise self._error
        return self._result


class _Queue:
    """The changes of one key in one event loop: one save is under way, who comes meanwhile waits for the next one."""

    __slots__ = ("asked", "lock", "users")

    def __init__(self) -> None:
        import anyio

        self.asked: list[_Asked[Any]] = []
        self.lock = anyio.Lock(fast_acquire=True)
        self.users = 0


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

    __slots__ = ("_ask_at", "_clock", "_queues", "meanwhile", "owner", "state")

    def __init__(
        self, state: SharedState, owner: str, meanwhile: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = state
        self.owner = owner
        self.meanwhile = meanwhile
        self._clock = clock
        self._ask_at: float | None = None  # None: it works
        self._queues: dict[tuple[EventLoopToken, str], _Queue] = {}

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

        is_probe = self._may_ask()
        done: list[T] = []

        async def whole() -> None:
            done.append(await self._change(key, change, anyway=is_probe))

        try:
            await run_shielded(whole)  # left half-way, nobody would know whether it was saved
            if undo is not None:
                await checkpoint_if_cancelled()
        except BaseException:
            if done and undo is not None:
                with suppress(StateAwayError):
                    await run_shielded(partial(self._change, key, undo(done[0]), anyway=True))
            raise
        return done[0]

    async def _change(self, key: str, change: Change[T], *, anyway: bool) -> T:
        """Make a change; those of one key that come while one is under way are then made together, with one save.

        Each for itself, they would overtake each other: the more there are, the more saves of each would be in vain.

        Args:
            key: of the value.
            change: what to make of it.
            anyway: ask the state even if it is known to have failed.
        """
        from anyio.lowlevel import current_token

        where = current_token(), key
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = _Queue()
        queue.users += 1
        mine = _Asked(change)
        queue.asked.append(mine)
        try:
            async with queue.lock:
                if not mine.made:
                    if self._ask_at is not None and not anyway:
                        raise StateAwayError(f"The shared state of {self.owner} has failed meanwhile.")
                    await self._change_all(key, tuple(queue.asked))
                    queue.asked = [other for other in queue.asked if not other.made]
        finally:
            if not mine.made:
                queue.asked.remove(mine)
            queue.users -= 1
            if not queue.users:
                del self._queues[where]
        return mine.outcome()

    async def _change_all(self, key: str, asked: Collection[_Asked[Any]]) -> None:
        import anyio

        pause, give_up_at = _FIRST_PAUSE, self._clock() + CONTENTION_SECONDS
        while True:
            value, version = await self._load(key)
            new: dict[str, Any] | None = None
            for each in asked:
                made = each.of(value if new is None else new)
                new = new if made is None else made
            if new is None or await self._answer(partial(self.state.save, key, new, version)):
                self._works()
                for each in asked:
                    each.made = True
                return
            if self._clock() >= give_up_at:
                raise self._failed(f"others were always faster for {CONTENTION_SECONDS:g} s")
            await anyio.sleep(random.random() * pause)  # at random, or the same ones meet again
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _may_ask(self) -> bool:
        """Whether the caller is the one who asks a state that has failed whether it is back."""
        if self._ask_at is None:
            return False
        now = self._clock()
        if now < self._ask_at:
            raise StateAwayError(f"The shared state of {self.owner} is left alone for a while: it has failed.")
        self._ask_at = now + AWAY_SECONDS  # one asks, the others wait for what it finds
        return True

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


def check_state(state: Any, seconds: float, what: str) -> None:
    """Check that an advisor's ``state=`` is one, and that it forgets nothing (its ``ttl``) for so many seconds.

    Raises:
        ConfigurationError: it is none, or forgets too early; says after how many seconds it may.
    """
    if not isinstance(state, SharedState):
        raise ConfigurationError(f"state must have async load(key) and save(key, value, version), not {state!r}.")
    ttl = getattr(state, "ttl", None)
    if isinstance(ttl, int | float) and ttl < seconds:
        raise ConfigurationError(
            f"The state forgets values after {ttl:g} s, but {what} needs them for {seconds:g} s. Give it a longer ttl=."
        )
