"""One circuit as plain, immutable data, and the rules by which it changes: no clock, no lock, no I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

from .errors import ConfigurationError

CircuitState = Literal["closed", "open", "half_open"]
"""Closed: calls pass. Open: they are refused. Half open: one call, the probe, is under way."""

HISTORY = 20
"""How many transitions a circuit remembers."""


class Transition(NamedTuple):
    """A change of state: when (seconds of the breaker's clock), to which, and why."""

    at: float
    state: CircuitState
    reason: str


class Admission(NamedTuple):
    """What a circuit says to a call.

    Attributes:
        admitted: whether it may be made.
        probe: whether it is the probe of a half-open circuit.
        changes: the circuit's `Circuit.changes`, to be given back with the outcome.
        retry_after: when refused: seconds until the next probe; None when a probe is under way.
    """

    admitted: bool
    probe: bool
    changes: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class CircuitRules:
    """When a circuit opens, and for how long.

    Args:
        failures: consecutive failed attempts that open it.
        reset_after: seconds until a probe may be made.
        window: ``(number, seconds)``: so many failed attempts within so many seconds open it too, whatever succeeded
            between them; None: only consecutive ones count.
        lease: seconds after which a probe that has reported nothing counts as lost.

    Raises:
        ConfigurationError: a value is out of range.
    """

    failures: int = 3
    reset_after: float = 60.0
    window: tuple[int, float] | None = (10, 60.0)
    lease: float = float("inf")

    def __post_init__(self) -> None:
        if not isinstance(self.failures, int) or self.failures < 1:
            raise ConfigurationError(f"failures must be an int of at least 1 (is {self.failures!r}).")
        if not isinstance(self.reset_after, int | float) or not self.reset_after > 0:
            raise ConfigurationError(f"reset_after must be over 0 seconds (is {self.reset_after!r}).")
        window = self.window
        if window is not None and not (
            isinstance(window, tuple | list)
            and len(window) == 2
            and isinstance(window[0], int)
            and isinstance(window[1], int | float)
            and min(window) > 0
        ):
            raise ConfigurationError(f"window must be (number of failed attempts, seconds) or None (is {window!r}).")


@dataclass(frozen=True, slots=True)
class Circuit:
    """What is known about one source.

    Attributes:
        state: ``"closed"``, ``"open"`` or ``"half_open"``.
        failures: failed attempts since the last success.
        proven: whether the source has answered since the circuit was last closed.
        recent: when the latest failed attempts happened.
        until: open: when a probe may be made. Half open: when the probe counts as lost.
        changes: how often the state has changed; the outcome of a call that was admitted before a change is ignored.
        history: the latest transitions.
        calm: closed, proven, and no failure since the last success: there is nothing to look after.
    """

    state: CircuitState = "closed"
    failures: int = 0
    proven: bool = False
    recent: tuple[float, ...] = ()
    until: float = 0.0
    changes: int = 0
    history: tuple[Transition, ...] = ()
    calm: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "calm", self.state == "closed" and self.proven and not self.failures)

    def admits(self, now: float) -> bool:
        """Whether a call would be admitted."""
        return self.state == "closed" or now >= self.until

    def admit(self, now: float, rules: CircuitRules) -> tuple[Circuit, Admission]:
        """Ask for a call; a circuit whose time is over turns half open, and the call is its probe."""
        if self.state == "closed":
            return self, Admission(True, False, self.changes)
        if now < self.until:
            wait = self.until - now if self.state == "open" else None
            return self, Admission(False, False, self.changes, wait)
        reason = "time for a probe" if self.state == "open" else "the probe was lost"
        circuit = self._turn("half_open", now, reason, until=now + rules.lease)
        return circuit, Admission(True, True, circuit.changes)

    def succeeded(self, admission: Admission, now: float) -> Circuit:
        """The source has answered."""
        if admission.changes != self.changes:
            return self
        if admission.probe:
            return self._turn("closed", now, "the probe succeeded", failures=0, proven=True, recent=())
        return self if self.calm else replace(self, failures=0, proven=True)

    def failed(self, admission: Admission, now: float, rules: CircuitRules) -> Circuit:
        """The source has failed."""
        if admission.changes != self.changes:
            return self
        if admission.probe:
            return self._turn("open", now, "the probe failed", until=now + rules.reset_after)
        failures, recent = self.failures + 1, self.recent
        reason = f"{failures} failures in a row" if failures >= rules.failures else ""
        if rules.window is not None:
            number, seconds = rules.window
            recent = (*self.recent, now)[-number:]
            if not reason and len(recent) == number and now - recent[0] <= seconds:
                reason = f"{number} failures within {seconds:g} s"
        if reason:
            until = now + rules.reset_after
            return self._turn("open", now, reason, failures=failures, recent=recent, until=until, proven=False)
        return replace(self, failures=failures, recent=recent)

    def released(self, admission: Admission, now: float) -> Circuit:
        """A call has told nothing (it was cancelled, say): a probe's place is free again."""
        if not admission.probe or admission.changes != self.changes:
            return self
        return self._turn("open", now, "the probe told nothing", until=now)

    def _turn(self, state: CircuitState, now: float, reason: str, **changes: Any) -> Circuit:
        history = (*self.history, Transition(now, state, reason))[-HISTORY:]
        return replace(self, state=state, history=history, changes=self.changes + 1, **changes)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a `SharedState`."""
        data = asdict(self)
        del data["calm"]
        data["recent"] = list(self.recent)
        data["history"] = [list(transition) for transition in self.history]
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Circuit:
        """The circuit of `to_json`."""
        return Circuit(
            state=data["state"],
            failures=data["failures"],
            proven=data["proven"],
            recent=tuple(data["recent"]),
            until=data["until"],
            changes=data["changes"],
            history=tuple(Transition(*transition) for transition in data["history"]),
        )
