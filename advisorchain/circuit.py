"""One circuit as plain, immutable data, and the rules by which it changes: no clock, no lock, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from .errors import ConfigurationError
from .setting_checks import check_number

T = TypeVar("T")

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
        trial: when admitted on trial: since when.
        full: not admitted only because enough calls are out on trial; ask again when one of them has ended.
    """

    admitted: bool
    probe: bool
    changes: int
    retry_after: float | None = None
    trial: float | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class CircuitRules:
    """When a circuit opens, and for how long.

    Args:
        failures: consecutive failed attempts that open it.
        reset_after: seconds until a probe may be made.
        window: ``(number, seconds)``: so many failed attempts within so many seconds open it too, whatever succeeded
            between them; None: only consecutive ones count.
        lease: seconds after which a probe, or a call on trial, that has reported nothing counts as lost.

    Raises:
        ConfigurationError: a value is out of range.
    """

    failures: int = 3
    reset_after: float = 60.0
    window: tuple[int, float] | None = (10, 60.0)
    lease: float = float("inf")

    def __post_init__(self) -> None:
        check_number("failures", self.failures, least=1, whole=True)
        check_number("reset_after (seconds)", self.reset_after, over=0)
        window = self.window
        if window is None:
            return
        if not isinstance(window, tuple | list) or len(window) != 2:
            raise ConfigurationError(f"window must be (number of failed attempts, seconds) or None (is {window!r}).")
        check_number("window: the number of failed attempts", window[0], least=1, whole=True)
        check_number("window: the number of seconds", window[1], over=0)


@dataclass(frozen=True, slots=True)
class Circuit:
    """What is known about one source.

    Attributes:
        state: ``"closed"``, ``"open"`` or ``"half_open"``.
        failures: failed attempts since the last success.
        proven: whether the source has answered since the circuit was last closed.
        recent: when the latest failed attempts happened.
        until: open: when a probe may be made. Half open: when the probe counts as lost.
        changes: how often the state has changed; the outcome of a call that was admitted before a change is ignored,
            unless it is the success of a probe and another one is under way.
        history: the latest transitions.
        trials: since when calls are out on trial: those made while the source was not known to work.
        calm: closed, proven, and no failure since the last success: there is nothing to look after.
    """

    state: CircuitState = "closed"
    failures: int = 0
    proven: bool = False
    recent: tuple[float, ...] = ()
    until: float = 0.0
    changes: int = 0
    history: tuple[Transition, ...] = ()
    trials: tuple[float, ...] = ()
    calm: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "calm", self.state == "closed" and self.proven and not self.failures)

    def admits(self, now: float) -> bool:
        """Whether a call would be admitted."""
        return self.state == "closed" or now >= self.until

    def admit(self, now: float, rules: CircuitRules, *, wait: bool = False) -> tuple[Circuit, Admission]:
        """Ask for a call; a circuit whose time is over turns half open, and the call is its probe.

        Args:
            now: the time.
            rules: the rules.
            wait: whether the caller would wait for a place on trial: as long as the source is not known to work, only
                as many calls are out at once as failures are left.
        """
        if self.state == "closed":
            if not wait or self.calm:
                return self, Admission(True, False, self.changes)
            trials = tuple(since for since in self.trials if now - since < rules.lease)
            if len(trials) >= max(1, rules.failures - self.failures):
                return self, Admission(False, False, self.changes, full=True)
            return replace(self, trials=(*trials, now)), Admission(True, False, self.changes, trial=now)
        if now < self.until:
            left = self.until - now if self.state == "open" else None
            return self, Admission(False, False, self.changes, left)
        reason = "time for a probe" if self.state == "open" else "the probe was lost"
        circuit = self._turn("half_open", now, reason, until=now + rules.lease)
        return circuit, Admission(True, True, circuit.changes)

    def succeeded(self, admission: Admission, now: float) -> Circuit:
        """The source has answered; also to a probe that was taken for lost, and only took its time."""
        if admission.probe and self.state == "half_open":
            return self._turn("closed", now, "the probe succeeded", failures=0, proven=True, recent=())
        if admission.changes != self.changes:
            return self
        return self if self.calm else replace(self, failures=0, proven=True, trials=())

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
        return replace(self, failures=failures, recent=recent, trials=self._trials_without(admission))

    def released(self, admission: Admission, now: float) -> Circuit:
        """A call has told nothing (it was cancelled, say): its place is free again."""
        if admission.changes != self.changes:
            return self
        if admission.probe:
            return self._turn("open", now, "the probe told nothing", until=now)
        trials = self._trials_without(admission)
        return self if trials == self.trials else replace(self, trials=trials)

    def _trials_without(self, admission: Admission) -> tuple[float, ...]:
        if admission.trial is None or admission.trial not in self.trials:
            return self.trials
        at = self.trials.index(admission.trial)
        return self.trials[:at] + self.trials[at + 1 :]

    def _turn(self, state: CircuitState, now: float, reason: str, **changes: Any) -> Circuit:
        history = (*self.history, Transition(now, state, reason))[-HISTORY:]
        return replace(self, state=state, history=history, changes=self.changes + 1, trials=(), **changes)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a `SharedState`."""
        data = asdict(self)
        del data["calm"]
        data["recent"] = list(self.recent)
        data["trials"] = list(self.trials)
        data["history"] = [list(transition) for transition in self.history]
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Circuit:
        """The circuit of `to_json`.

        Raises:
            LookupError, TypeError: it is none.
        """
        circuit = Circuit(
            state=data["state"],
            failures=data["failures"],
            proven=data["proven"],
            recent=tuple(data["recent"]),
            until=data["until"],
            changes=data["changes"],
            history=tuple(Transition(*transition) for transition in data["history"]),
            trials=tuple(data.get("trials", ())),
        )
        times = (*circuit.recent, *circuit.trials, *(transition.at for transition in circuit.history))
        numbers = (circuit.failures, circuit.until, circuit.changes, *times)
        if circuit.state not in get_args(CircuitState) or not all(isinstance(each, int | float) for each in numbers):
            raise TypeError("This is no circuit.")
        return circuit


def circuit_of(data: dict[str, Any] | None) -> Circuit:
    """The circuit of a shared value; a new one for data that is none (of another version, say)."""
    if data is None:
        return Circuit()
    try:
        return Circuit.from_json(data)
    except (LookupError, TypeError):
        return Circuit()


def changed_data(
    change: Callable[[Circuit], tuple[Circuit, T]], data: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, tuple[Circuit, T]]:
    """A change of a circuit as one of a shared value: the new data, or None when it stays, and the outcome."""
    old = circuit_of(data)
    new, value = change(old)
    return None if new is old else new.to_json(), (new, value)
