"""Limits of the tool loop: what they count, when they are reached, and what happens then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..context import Ledger
from ..errors import ConfigurationError
from ..invocation import ToolResult
from ..messages import ToolCall
from .canonical import canonical_arguments

Limit = Literal["rounds", "calls", "calls_per_tool", "repeats", "seconds", "tokens"]
OnLimit = Literal["answer", "stop", "raise"]

DEFAULT_OUTCOMES: dict[str, OnLimit] = {
    "rounds": "answer",
    "calls": "answer",
    "calls_per_tool": "answer",
    "repeats": "answer",
    "seconds": "stop",
    "tokens": "stop",
}


@dataclass(frozen=True, slots=True)
class Breach:
    """A limit that the next batch of calls would break."""

    limit: Limit
    allowed: float
    outcome: OnLimit
    message: str


def _result_key(result: ToolResult) -> int:
    if not result.parts:
        return hash(result.content)
    return hash((result.content, repr(result.parts)))


class Repeats:
    """Counts identical calls with identical results since the last round that brought something new.

    A-B-A-B is counted too, because only a new pair of call and result starts the count again. Arguments are compared
    only once a tool has given the same result twice: before that nothing can be a repeat.
    """

    __slots__ = ("_first", "_counts", "_news")

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], tuple[ToolCall, int]] = {}  # (tool, result) -> its first call, news then
        self._counts: dict[str, dict[tuple[int, bytes], tuple[int, int]]] = {}  # tool -> (result, arguments) -> news, n
        self._news = 0

    def count(self, call: ToolCall) -> int:
        """How often the call has given the same result since something new came up."""
        counts = self._counts.get(call.name)
        if counts is None:
            return 0
        key = canonical_arguments(call.arguments)
        return max([n for (_, args), (news, n) in counts.items() if args == key and news == self._news], default=0)

    def record(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        """Note a round's calls and results."""
        again: list[tuple[ToolCall, int]] = []
        is_news = False
        for call, result in zip(calls, results, strict=True):
            outcome = _result_key(result)
            if (call.name, outcome) in self._first:
                again.append((call, outcome))
            else:
                is_news = True
                self._first[call.name, outcome] = (call, self._news + 1)
        if again:
            is_news = self._record_again(again) or is_news
        if is_news:
            self._news += 1

    def _record_again(self, again: Sequence[tuple[ToolCall, int]]) -> bool:
        """Count calls whose result is known; whether one of them is a new pair after all."""
        is_news = False
        pairs: list[tuple[str, tuple[int, bytes]]] = []
        for call, outcome in again:
            counts = self._counts.setdefault(call.name, {})
            first, news = self._first[call.name, outcome]
            counts.setdefault((outcome, canonical_arguments(first.arguments)), (news, 1))
            pair = (outcome, canonical_arguments(call.arguments))
            is_news = is_news or pair not in counts
            pairs.append((call.name, pair))
        now = self._news + 1 if is_news else self._news
        for name, pair in pairs:
            news, count = self._counts[name].get(pair, (now, 0))
            self._counts[name][pair] = (now, count + 1 if news == now else 1)
        return is_news


class LoopLimits:
    """The limits of a loop; see `ToolCallingAdvisor` for the parameters.

    Raises:
        ConfigurationError: a limit is not positive, or an outcome is unknown.
    """

    __slots__ = ("rounds", "calls", "calls_per_tool", "repeats", "seconds", "tokens", "outcomes")

    def __init__(
        self,
        *,
        rounds: int | None,
        calls: int | None,
        calls_per_tool: int | Mapping[str, int] | None,
        repeats: int | None,
        seconds: float | None,
        tokens: int | None,
        on_limit: OnLimit | Mapping[Limit, OnLimit] | None,
    ) -> None:
        for name, value in (
            ("max_rounds", rounds), ("max_calls", calls), ("max_repeats", repeats), ("max_seconds", seconds),
            ("max_tokens", tokens),
        ):  # fmt: skip
            if value is not None and (not isinstance(value, int | float) or value <= 0):
                raise ConfigurationError(f"{name} must be over 0, or None for no limit (is {value!r}).")
        per_tool = calls_per_tool if isinstance(calls_per_tool, Mapping) else {"any tool": calls_per_tool}
        for name, value in per_tool.items():
            if not isinstance(name, str):
                raise ConfigurationError(f"max_calls_per_tool goes by the names of tools, not by {name!r}.")
            if value is not None and (not isinstance(value, int) or value < 0):
                raise ConfigurationError(f"max_calls_per_tool must be an int of at least 0 (is {value!r}).")
        self.rounds = rounds
        self.calls = calls
        self.calls_per_tool = calls_per_tool
        self.repeats = repeats
        self.seconds = seconds
        self.tokens = tokens
        self.outcomes = dict(DEFAULT_OUTCOMES)
        chosen = on_limit if isinstance(on_limit, Mapping) else dict.fromkeys(DEFAULT_OUTCOMES, on_limit)
        for limit, outcome in chosen.items():
            if limit not in DEFAULT_OUTCOMES:
                raise ConfigurationError(f"on_limit: unknown limit {limit!r}; known are {', '.join(DEFAULT_OUTCOMES)}.")
            if outcome is None:
                continue
            if outcome not in ("answer", "stop", "raise"):
                raise ConfigurationError(f"on_limit: {limit} must be 'answer', 'stop' or 'raise', not {outcome!r}.")
            self.outcomes[limit] = outcome

    def check(
        self,
        batch: Sequence[ToolCall],
        counted: Sequence[ToolCall],
        ledger: Ledger,
        repeats: Repeats | None,
        now: float,
    ) -> Breach | None:
        """The first limit that running this batch would break, or None.

        ``counted`` are the calls that the limit of identical calls counts.
        """
        if self.tokens is not None and (ledger.usage.total_tokens or 0) >= self.tokens:
            return self._breach("tokens", self.tokens, f"{self.tokens} tokens")
        if self.seconds is not None and now - ledger.started >= self.seconds:
            return self._breach("seconds", self.seconds, f"{self.seconds:g} seconds")
        if self.rounds is not None and ledger.rounds >= self.rounds:
            return self._breach("rounds", self.rounds, f"{self.rounds} tool rounds")
        if self.calls is not None and ledger.tool_calls + len(batch) > self.calls:
            return self._breach("calls", self.calls, f"{self.calls} tool calls")
        if self.calls_per_tool is not None:
            wanted: dict[str, int] = {}
            for call in batch:
                wanted[call.name] = wanted.get(call.name, 0) + 1
            for name, count in wanted.items():
                allowed = self.calls_per_tool
                if isinstance(allowed, Mapping):
                    if name not in allowed:
                        continue
                    allowed = allowed[name]
                if ledger.calls_by_tool.get(name, 0) + count > allowed:
                    return self._breach("calls_per_tool", allowed, f"{allowed} calls of the tool {name!r}")
        if self.repeats is not None and repeats is not None:
            for call in counted:
                if repeats.count(call) >= self.repeats:
                    what = f"{self.repeats} identical calls of the tool {call.name!r} with the same result"
                    return self._breach("repeats", self.repeats, what)
        return None

    def _breach(self, limit: Limit, allowed: float, what: str) -> Breach:
        return Breach(limit, allowed, self.outcomes[limit], f"The limit of {what} in one turn is reached.")
