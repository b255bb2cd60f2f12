"""`check_shared_state`: the contract that every shared state keeps."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ..shared_state import SharedState
from ..state_access import StateAccess
from .contract import check_rule

MakeState = Callable[[], SharedState | Awaitable[SharedState]]

TASKS = 100
"""How many tasks count in one value at once."""


async def check_shared_state(make_state: MakeState) -> None:
    """Check a shared state against the contract of `SharedState`.

    Args:
        make_state: gives an empty state; called once for each check, may be async. A state with ``aclose()`` or
            ``close()`` is closed after its check.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in (_is_one, *_CHECKS):
        await check_rule(rule, make_state)


def _that(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


async def _is_one(state: Any) -> None:
    """It has the methods of a `SharedState`."""
    _that(isinstance(state, SharedState), "it has no load(key) and save(key, value, version).")


async def _missing(state: SharedState) -> None:
    """A key that was never saved has no value, and version 0."""
    found = await state.load("nothing")
    _that(tuple(found) == (None, 0), f"load of an unknown key gives {found!r}, not (None, 0).")
    _that(await state.save("nothing", {}, 7) is False, "save with version 7 of what is not there was not refused.")
    found = await state.load("nothing")
    _that(tuple(found) == (None, 0), f"after a refused save, load gives {found!r}, not (None, 0).")


async def _keeps(state: SharedState) -> None:
    """What was saved comes back, and every save changes the version."""
    values: list[dict[str, Any]] = [
        {},
        {"text": 'tab\t, quote ", NUL \x00, 好, 🙂, \u2028', "": None, "deep": {"list": [1, -2.5, True, {"x": []}]}},
        {"time": 1_784_000_000.123456, "small": 5e-324, "big": 2**53, "long": "x" * 100_000},
        {},
    ]
    versions, version = [0], 0
    for value in values:
        saved = await state.save("k", value, version)
        _that(saved is True, f"save with the version that load gave was not done (it returned {saved!r}).")
        found, version = await state.load("k")
        _that(found == value, f"load gives {found!r}, not {value!r}.")
        _that(isinstance(version, int) and version not in versions, f"{version!r} is not a new version.")
        again, same = await state.load("k")
        _that((again, same) == (found, version), "two loads without a save between them give different answers.")
        versions.append(version)
    for old in versions[:-1]:
        _that(await state.save("k", {"late": True}, old) is False, f"save with the old version {old} was not refused.")
    _that(await state.load("k") == ({}, version), "a refused save has changed the value or its version.")


async def _race(state: SharedState) -> None:
    """Of all that read the same version, one can save."""
    for round_ in range(5):
        _, version = await state.load("k")
        won: list[int] = []

        async def save(task: int, version: int = version, won: list[int] = won) -> None:
            if await state.save("k", {"task": task}, version):
                won.append(task)

        async with anyio.create_task_group() as group:
            for task in range(20):
                group.start_soon(save, task)
        _that(len(won) == 1, f"{len(won)} of 20 saves of one version were done in round {round_}, not 1.")
        found, _ = await state.load("k")
        _that(found == {"task": won[0]}, f"the value is {found!r}, not that of the save that was done.")


async def _count(state: SharedState) -> None:
    """Those who count in one value at once, as processes do, lose nothing."""

    def add(value: dict[str, Any] | None) -> tuple[dict[str, Any], None]:
        return {"count": (value or {"count": 0})["count"] + 1}, None

    async with anyio.create_task_group() as group:
        for _ in range(TASKS):
            group.start_soon(StateAccess(state, "check_shared_state", "fails").change, "k", add)
    found, _ = await state.load("k")
    _that(found == {"count": TASKS}, f"the value is {found!r}, not {TASKS}.")


async def _copies(state: SharedState) -> None:
    """Values are copies: who changes what was saved or loaded changes nothing here."""
    value: dict[str, Any] = {"list": [1], "deep": {"x": 1}}
    expected = copy.deepcopy(value)
    await state.save("k", value, 0)
    value["list"].append(2)
    value["deep"]["x"] = 2
    found, version = await state.load("k")
    _that(found == expected, f"load gives {found!r}, not {expected!r}, which was saved: the caller's object was kept.")
    assert found is not None
    found["list"].append(3)
    found["deep"]["x"] = 3
    _that(await state.load("k") == (expected, version), "changing a value that was loaded has changed the stored one.")


async def _keys(state: SharedState) -> None:
    """A key is any text, and values of different keys are apart."""
    keys = [
        "k",
        "K",
        "k ",
        " k",
        "",
        " ",
        "a:b",
        "a|b",
        "a/b",
        "a\\b",
        "a\nb",
        "a\x00b",
        "*",
        "k*",
        "%",
        "..",
        "{k}",
        "好 🙂",
    ]
    keys += ["e\u0301", "\u00e9", "'; --", '"', "\ud800", "x" * 2_000, "x" * 1_999 + "y"]
    for number, key in enumerate(keys):
        _that(tuple(await state.load(key)) == (None, 0), f"key {key[:20]!r} has a value that was saved under another.")
        _that(await state.save(key, {"number": number}, 0), f"save under key {key[:20]!r} was not done.")
    for number, key in enumerate(keys):
        found, _ = await state.load(key)
        _that(found == {"number": number}, f"key {key[:20]!r} has {found!r}, not {{'number': {number}}}.")


_CHECKS = (_missing, _keeps, _race, _count, _copies, _keys)
