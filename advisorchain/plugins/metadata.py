"""What the metadata of installed distributions says about plugins of advisorchain; nothing of theirs is imported."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .built_in import DISTRIBUTION
from .groups import PREFIX

if TYPE_CHECKING:
    from importlib.metadata import Distribution

MAX_NAME = 64
"""The longest name of a plugin, in characters."""
SETTLED = 2.0
"""Seconds without a change, after which a directory's time of change is trusted: it has the ticks of a clock."""

_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.\-]{{0,{MAX_NAME - 1}}}")
_VALUE = re.compile(r"(?P<value>\w+(\.\w+)*:\w+(\.\w+)*)\s*(\[[^\]]*\])?")


class Entry(NamedTuple):
    """One entry point in a group of advisorchain, as it is written."""

    group: str
    """Without the prefix."""
    name: str
    value: str
    distribution: str
    version: str
    problem: str | None
    """What is wrong with the entry itself, or with what its distribution requires."""


def normalized(distribution: str) -> str:
    """The name of a distribution in the spelling that is compared: ``My_Plugin`` is ``my-plugin``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


_known: tuple[tuple[object, ...], tuple[Entry, ...]] | None = None


def installed(version: str) -> tuple[Entry, ...]:
    """The entries of every installed distribution, as they come on the path; those of advisorchain itself are left out.

    Of a distribution that is there twice (editable and installed, say) the first on the path counts, as it does for
    imports. Metadata that cannot be read is an entry without group and name, with a problem. What was found is kept
    until the path, or a directory on it, changes.

    Args:
        version: advisorchain's own, against which requirements are checked.
    """
    global _known
    known, state = _known, _state(version)
    if known is not None and known[0] == state:
        return known[1]
    found = tuple(_found(version))
    _known = (state, found) if state is not None else None
    return found


def _state(version: str) -> tuple[object, ...] | None:
    """What the entries depend on; None: a directory has only just changed, and may change again in the clock's tick."""
    state: list[object] = [version, *map(id, sys.meta_path)]
    settled = time.time() - SETTLED
    for path in sys.path:
        try:
            changed = os.stat(path or ".").st_mtime
        except (OSError, ValueError):
            state.append(path)
            continue
        if changed > settled:
            return None
        state += (path or os.getcwd(), changed)
    return tuple(state)


def distributions() -> Iterable[Distribution]:
    """What is installed."""
    # Here: those who use built-ins only need none of it, and it takes 15 ms to import.
    from importlib import metadata

    return metadata.distributions()


def _found(version: str) -> Iterator[Entry]:
    seen: set[str] = {DISTRIBUTION}
    for found in distributions():
        try:
            place = _place(found)
        except Exception as exc:
            yield Entry("", "", "", "a distribution", "", f"its metadata cannot be read: {exc!r}")
            continue
        name = normalized(place.rpartition(".")[0].partition("-")[0])
        if name in seen:
            continue
        seen.add(name)
        try:
            text = found.read_text("entry_points.txt")
            if text and PREFIX in text:
                yield from _entries(_Metadata(found, place), text, version)
        except Exception as exc:  # whatever is in somebody else's metadata, the other plugins work
            yield Entry("", "", "", place, "", f"its metadata cannot be read: {exc!r}")


def _place(found: Distribution) -> str:
    """The directory of the metadata, without where that is: ``acme-1.0.dist-info``; as if there were one, if not."""
    path = getattr(found, "_path", None)
    if path is None:  # of a finder that has no files, as in frozen programs
        return f"{found.metadata['Name'].replace('-', '_')}-{found.version}.dist-info"
    return os.path.basename(str(path))


class _Metadata:
    """What is wanted of a METADATA file; its description, often long, is not parsed."""

    def __init__(self, found: Distribution, place: str) -> None:
        text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
        name, _, rest = place.rpartition(".")[0].partition("-")
        self.name = name or place
        self.version = rest.partition("-")[0]
        self.requires: list[str] = []
        for line in text.split("\n\n", 1)[0].splitlines():
            field, _, value = line.partition(":")
            if field == "Name":
                self.name = value.strip()
            elif field == "Version":
                self.version = value.strip()
            elif field == "Requires-Dist":
                self.requires.append(value.strip())


def _entries(own: _Metadata, text: str, version: str) -> Iterator[Entry]:
    requirement = requirement_problem(own.requires, version)
    entries: dict[tuple[str, str], Entry] = {}
    for group, line in _lines(text):
        key, equals, value = (part.strip() for part in line.partition("="))
        problem = _entry_problem(line, key, equals, value) or requirement
        if match := _VALUE.fullmatch(value):
            value = match["value"]
        before = entries.setdefault((group, key), Entry(group, key, value, own.name, own.version, problem))
        if before.value != value:
            twice = f"its distribution has the name twice, for {before.value} and {value}"
            entries[group, key] = before._replace(problem=twice)
    yield from entries.values()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group.startswith(PREFIX):
            yield group.removeprefix(PREFIX), line


def _entry_problem(line: str, name: str, equals: str, value: str) -> str | None:
    if not equals:
        return f"the entry point {line!r} is not of the form name = module:object"
    if not _NAME.fullmatch(name):
        return (
            f"the name {name!r} cannot be used: letters, digits, '_', '-' and '.' are allowed, {MAX_NAME} at most, and "
            "none of '-' and '.' first"
        )
    if not _VALUE.fullmatch(value):
        return f"the entry point names {value!r}, which is not of the form module:object"
    return None


def requirement_problem(requires: Sequence[str], version: str) -> str | None:
    """What a distribution requires of advisorchain that this version is not; None: nothing.

    Args:
        requires: its ``Requires-Dist`` lines; one whose marker does not hold here, or asks for an extra, is left out.
        version: advisorchain's own.
    """
    problems = (_line_problem(line, version) for line in requires if normalized(line).startswith(DISTRIBUTION))
    return next((problem for problem in problems if problem is not None), None)


@lru_cache(maxsize=1024)  # many plugins have the same line
def _line_problem(line: str, version: str) -> str | None:
    # Here, for those who have no plugins: it takes longer to import than all of this module.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return f"its requirement {line!r} cannot be read"
    if normalized(requirement.name) != DISTRIBUTION:
        return None
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    if not requirement.specifier.contains(version, prereleases=True):
        return f"it requires advisorchain{requirement.specifier}, and this is advisorchain {version}"
    return None
