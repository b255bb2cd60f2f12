"""Rate limit: so many calls or tokens in a time, per model, tool or source."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Literal, Protocol

from ..advisor import Advisor
from ..context import Context, ContextKey
from ..errors import ConfigurationError, RateLimitError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..model_call import requested_model
from ..order import Order
from ..setting_checks import check_function, check_number, checked_names
from ..shared_state import SharedState
from ..shield import run_shielded
from ..state_access import Change, StateAccess, StateAwayError, check_state

logger = logging.getLogger("advisorchain")

By = Literal["model", "tool", "source"]
FORGET_ABOVE = 10_000
"""From how many buckets on the full ones are looked for."""

Scope = ContextKey[Any] | Callable[[Any], Hashable | None]


class _Buckets(Protocol):
    """Token buckets. A bucket starts full, with ``capacity`` in it, and gains ``rate`` per second up to its capacity.

    It may go below zero: who takes what is not there yet has to wait until the bucket would be back at zero. That is
    what makes it fair: who comes later waits longer.
    """

    async def take(self, key: str, amount: float, *, rate: float, capacity: float, max_wait: float) -> float:
        """Take from a bucket; a negative amount is given back, 0 only waits until the bucket is not below zero.

        Returns:
            Seconds to wait; over ``max_wait`` when nothing was taken.
        """
        ...


def _taken(level: float, passed: float, amount: float, *, rate: float, capacity: float) -> tuple[float, float]:
    """The new level of a bucket, and the seconds to wait."""
    left = min(capacity, min(capacity, level + max(0.0, passed) * rate) - amount)
    return left, 0.0 if left >= 0 or amount < 0 else -left / rate


class _OwnBuckets:
    """Buckets of this process; those that have filled up again are forgotten, they say nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float, float]] = {}
        self._forget_at = FORGET_ABOVE

    async def take(self, key: str, amount: float, *, rate: float, capacity: float, max_wait: float) -> float:
        with self._lock:
            now = self._clock()
            level, since, _ = self._buckets.get(key, (capacity, now, now))
            left, wait = _taken(level, now - since, amount, rate=rate, capacity=capacity)
            if wait <= max_wait:
                self._buckets[key] = (left, now, now + (capacity - left) / rate)
                if len(self._buckets) > self._forget_at:
                    self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket[2] > now}
                    self._forget_at = max(FORGET_ABOVE, 2 * len(self._buckets))
            return wait


class _SharedBuckets:
    """Buckets in a `SharedState`, for several processes; while that does not work, buckets of this process."""

    def __init__(self, state: StateAccess, clock: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self._own = _OwnBuckets(clock)

    async def take(self, key: str, amount: float, *, rate: float, capacity: float, max_wait: float) -> float:
        def take(amount: float) -> Change[float]:
            def change(stored: dict[str, Any] | None) -> tuple[dict[str, Any] | None, float]:
                now = self._clock()
                level, since = _level(stored, capacity, now)
                left, wait = _taken(level, now - since, amount, rate=rate, capacity=capacity)
                return (None if wait > max_wait else {"level": left, "time": max(now, since)}), wait

            return change

        def give_back(wait: float) -> Change[Any]:
            return take(-amount) if amount > 0 and wait <= max_wait else lambda stored: (None, None)

        try:
            return await self._state.change(key, take(amount), give_back)
        except StateAwayError:
            return await self._own.take(key, amount, rate=rate, capacity=capacity, max_wait=max_wait)


def _level(stored: dict[str, Any] | None, capacity: float, now: float) -> tuple[float, float]:
    """How much was in a bucket, and when; of data that says something else (of another version, say): it was full."""
    if stored is not None:
        level, since = stored.get("level"), stored.get("time")
        if isinstance(level, int | float) and isinstance(since, int | float):
            return level, since
    return capacity, now


class RateLimitAdvisor(Advisor):
    """Lets so many calls or tokens through in a time; a call above that waits its turn, or is refused.

    Who waits is served in the order of arrival. Every attempt counts, a retried one too. Use several, with names, for
    several limits.

    Args:
        calls: calls per ``per`` seconds; None: not limited.
        tokens: input and output tokens per ``per`` seconds, of models. They are known after the call: before it, as
            many are taken as the model's calls have used on average, and the difference is settled afterwards.
        per: seconds.
        by: what has a limit of its own: each ``"model"``, each ``"tool"``, or each ``"source"`` of tools.
        scope: who has a limit of their own: a context key, or a function of the request or invocation, that gives the
            user, the tenant, ... None there: a limit shared by all without one.
        burst: how many calls may come at once; default: ``calls``.
        max_wait: seconds a call may wait; 0: it is refused at once.
        names: only these models, tools (``server/tool`` for one of an MCP server) or sources.
        state: where the buckets are kept, for a limit that holds for all processes together; default: in this one.
            While it does not work, each process limits for itself, and asks again every 10 seconds.
        clock: seconds; default: monotonic, with a ``state`` Unix time, which processes share.
        sleep: waits some seconds; default: ``anyio.sleep``.

    Raises:
        ConfigurationError: a value makes no sense.
    """

    order: int = Order.RATE_LIMIT

    def __init__(
        self,
        *,
        calls: float | None = None,
        tokens: float | None = None,
        per: float = 60.0,
        by: By = "model",
        scope: Scope | None = None,
        burst: float | None = None,
        max_wait: float = 0.0,
        names: Iterable[str] | None = None,
        state: SharedState | None = None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        order: int = Order.RATE_LIMIT,
        name: str | None = None,
    ) -> None:
        limits = {"tokens": tokens, "calls": calls}
        self._limits = {unit: limit for unit, limit in limits.items() if limit is not None}
        if not self._limits:
            raise ConfigurationError("A RateLimitAdvisor needs calls= or tokens=.")
        for unit, limit in self._limits.items():
            check_number(unit, limit, over=0)
        check_number("per (seconds)", per, over=0)
        if burst is not None:
            check_number("burst", burst, least=1)
        if max_wait != math.inf:
            check_number("max_wait (seconds)", max_wait)
        check_function("clock", clock, "no arguments")
        check_function("sleep", sleep, "seconds")
        if by not in ("model", "tool", "source"):
            raise ConfigurationError(f"by must be 'model', 'tool' or 'source', not {by!r}.")
        if tokens is not None and by != "model":
            raise ConfigurationError(f"tokens= limits models; a {by} has none. Use calls=.")
        if scope is not None and not isinstance(scope, ContextKey) and not callable(scope):
            raise ConfigurationError(f"scope must be a ContextKey or a function, not {scope!r}.")
        self.calls = calls
        self.tokens = tokens
        self.per = per
        self.by: By = by
        self.scope = scope
        self.burst = burst
        self.max_wait = max_wait
        self.names: frozenset[str] | None = None
        if names is not None:
            given = [names] if isinstance(names, str) else names
            self.names = frozenset(checked_names("names", given, "a list of names of models, tools or sources"))
        self._sleep = sleep
        self._average: dict[str, float] = {}
        self._without_usage: set[str] = set()
        self.order = order
        if name is not None:
            self.name = name
        self._buckets: _Buckets
        if state is None:
            self._buckets = _OwnBuckets(clock or time.monotonic)
            return
        full_after = max(self._capacity(unit) * per / limit for unit, limit in self._limits.items())
        check_state(state, full_after + max_wait, "this rate limit")
        access = StateAccess(state, f"Advisor {self.name!r}", "limits the calls of this process for itself")
        self._buckets = _SharedBuckets(access, clock or time.time)

    def _capacity(self, unit: str) -> float:
        return self.burst if unit == "calls" and self.burst is not None else max(self._limits[unit], 1.0)

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Wait for the model's limit, call, and count the tokens.

        Raises:
            RateLimitError: the wait would be longer than ``max_wait``.
        """
        model = requested_model(request) or "model" if self.by == "model" else ""
        if self.by != "model" or (self.names is not None and model not in self.names):
            return await call_next(request)
        key = self._key("model", model, request.context, request)
        if self.tokens is None:
            await self._pass(key, f"Model {model!r}", 0.0)
            return await call_next(request)
        taken = min(self._average.get(model, 0.0), self.tokens)
        await self._pass(key, f"Model {model!r}", taken)
        used: float = 0.0
        try:
            response = await call_next(request)
            total = response.usage.total_tokens
            if total is None:
                self._warn_no_usage(model)
                total = int(taken)
            else:
                self._average[model] = (self._average.get(model, float(total)) * 3 + total) / 4
            used = total
            return response
        finally:
            if used != taken:
                await run_shielded(lambda: self._take(key, "tokens", used - taken, float("inf")), 5.0)

    def _warn_no_usage(self, model: str) -> None:
        if model not in self._without_usage:
            self._without_usage.add(model)
            logger.warning("Advisor %r: model %r reports no usage, so its tokens cannot be limited.", self.name, model)

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Wait for the limit of the tool or its source, and call.

        Raises:
            RateLimitError: the wait would be longer than ``max_wait``.
        """
        if self.by == "model":
            return await call_next(invocation)
        tool = invocation.tool
        name = tool.policy_name
        limited = tool.source if self.by == "source" else name if "/" in name else f"{tool.source}/{name}"
        if self.names is None or limited in self.names or (self.by == "tool" and name in self.names):
            key = self._key(self.by, limited, invocation.context, invocation)
            await self._pass(key, f"{self.by.capitalize()} {(tool.name if self.by == 'tool' else limited)!r}", 0.0)
        return await call_next(invocation)

    def _key(self, by: str, limited: str, context: Context, subject: Any) -> str:
        scope: Any = self.scope
        if scope is None:
            return f"{self.name}|{by}|{limited}"
        owner = context.get(scope) if isinstance(scope, ContextKey) else scope(subject)
        return f"{self.name}|{by}|{limited}|{owner!r}"

    async def _take(self, key: str, unit: str, amount: float, max_wait: float) -> float:
        rate, capacity = self._limits[unit] / self.per, self._capacity(unit)
        return await self._buckets.take(f"{key}|{unit}", amount, rate=rate, capacity=capacity, max_wait=max_wait)

    async def _pass(self, key: str, what: str, tokens: float) -> None:
        """Take one call and these tokens, and wait until they are there."""
        taken: list[tuple[str, float]] = []
        wait = 0.0
        try:
            for unit, limit in self._limits.items():
                amount = 1.0 if unit == "calls" else tokens
                seconds = await self._take(key, unit, amount, self.max_wait)
                if seconds > self.max_wait:
                    raise self._refused(what, unit, limit, seconds)
                taken.append((unit, amount))
                wait = max(wait, seconds)
            if wait > 0:
                import anyio

                await (self._sleep or anyio.sleep)(wait)
        except BaseException:  # it never ran
            if any(amount for _, amount in taken):
                await run_shielded(lambda: self._give_back(key, taken), 5.0)
            raise

    async def _give_back(self, key: str, taken: list[tuple[str, float]]) -> None:
        for unit, amount in taken:
            await self._take(key, unit, -amount, float("inf"))

    def _refused(self, what: str, unit: str, limit: float, wait: float) -> RateLimitError:
        again = f"there is room again in {float(f'{wait:.3g}'):,.10g} s"  # 86,400, not 8.64e+04
        text = f"{what} is limited to {limit:,.10g} {unit} in {self.per:,.10g} s; {again}."
        if self.max_wait:
            text += f" That is over max_wait={self.max_wait:g} s."
        return RateLimitError(text, retry_after=wait)
