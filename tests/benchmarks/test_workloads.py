"""Both sides really do the work, and the gate really fails. Quick: part of every test run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import gate
import pytest
from measurement import Measured, Quiet
from workloads import DONE, SIDES, WORKLOADS, Advised, Script, Workload, check


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_side_does_the_whole_workload(name: str, side: str) -> None:
    workload = WORKLOADS[name]
    asyncio.run(check(SIDES[side](workload), workload))


def test_work_left_out_is_noticed() -> None:
    with pytest.raises(AssertionError, match=r"W2, Advised: did .*, not "):
        asyncio.run(check(Advised(WORKLOADS["W3"]), WORKLOADS["W2"]))


@pytest.mark.parametrize("side", SIDES)
def test_invalid_arguments_do_not_reach_the_function(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.Script.next", _invalid_once())
    DONE.reset()
    asyncio.run(SIDES[side](Workload("invalid", "one call with a wrong type")).request())
    assert DONE.tool_calls == 0


def _invalid_once() -> Callable[[Script], list[tuple[str, str, str]] | None]:
    answers = [[("c0", "add", '{"a": "one", "b": 2}')], None]
    return lambda script: answers.pop(0)


def row(values: list[float]) -> gate.Row:
    """A row that measures these values, one after the other, and then the last one again and again."""

    async def prepare() -> gate.Measure:
        async def measure() -> Measured:
            ratio = values.pop(0) if len(values) > 1 else values[0]
            return Measured(ratio, ratio * 1e-6, 1e-6, ratio * 1e-6, 1e-6)

        return measure

    return gate.Row("W0", "made up", 2.0, 1.0, prepare)


@pytest.mark.parametrize(
    ("values", "found", "fails"),
    [
        ([1.5, 9.0, 1.0], 1.5, False),  # the median counts
        ([9.0, 9.0, 9.0, 9.0, 1.9, 9.0], 1.9, False),  # a second chance, where the best batch counts
        ([9.0], 9.0, True),
    ],
)
def test_the_gate_fails_above_the_limit_twice(
    values: list[float], found: float, fails: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "ROWS", [row(values)])
    monkeypatch.setattr(gate, "QUIET_SECONDS", 0.0)
    assert gate.main(["--repeats", "3"]) == int(fails)
    printed = capsys.readouterr()
    assert f"{found:.2f}" in printed.out
    assert ("FAILED" in printed.out) is fails
    assert ("above its limit of 2.00, twice" in printed.err) is fails


def test_the_gate_refuses_an_unknown_workload(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gate.main(["--only", "W99"])
    assert "no such workload: W99" in capsys.readouterr().err


@pytest.mark.parametrize(("idle", "waits"), [(90, 1), (10, 3)])
def test_the_second_look_waits_for_a_quiet_moment(idle: int, waits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("measurement.time.sleep", slept.append)
    monkeypatch.setattr("measurement._ticks", lambda: (idle * len(slept), 100 * len(slept)))
    Quiet(0.6).wait()
    assert len(slept) == waits
