"""Plugins: advisors, models, stores, indexes, tools and sinks that installed distributions offer by name.

A distribution names them as entry points, in the groups ``advisorchain.advisors``, ``.models``, ``.memory_stores``,
``.tool_indexes``, ``.tools`` and ``.audit_sinks``: name -> class, or factory, that takes keyword arguments. Nothing is
imported before it is asked for by name, and one that is broken breaks nothing else. The groups may be written with or
without ``advisorchain.``.

    plugins.available("advisors")                       # what there is, and what is wrong with it
    plugins.load("advisors", "retry", tool={"attempts": 3})

**Locked down.** The environment variable ``ADVISORCHAIN_PLUGINS`` says which plugins may be imported: names of
distributions (``advisorchain-redis``) and of single plugins (``memory_stores/redis``), separated by commas; ``none``,
or an empty value, allows none. If it is not set, all are allowed. The built-ins are always allowed, and nothing can
take their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import PluginError
from ..version import __version__
from .allowed import ALLOW_VARIABLE, Allowed, allowing
from .built_in import BUILT_IN, DISTRIBUTION, PUBLISHED
from .groups import GROUPS, KINDS, PREFIX, PluginInfo, checked_group, hint, near
from .making import imported, made_by, options_of
from .metadata import Entry, installed

__all__ = [
    "ALLOW_VARIABLE",
    "GROUPS",
    "PluginInfo",
    "allowing",
    "available",
    "find",
    "info",
    "load",
    "make",
    "named_model",
    "options_of",
]

# What there is --------------------------------------------------------------------------------------------------------


def available(group: str | None = None, *, allow: Iterable[str] | None = None) -> tuple[PluginInfo, ...]:
    """Every plugin that is installed, by group and name, also those that cannot be loaded; nothing is imported.

    Args:
        group: only of this group.
        allow: distributions and ``group/name``, as in ``ADVISORCHAIN_PLUGINS``, which holds too; None: no more than it.

    Raises:
        PluginError: there is no such group, or ``allow`` or the variable cannot be understood.
    """
    wanted = None if group is None else checked_group(group)
    may = Allowed(allow)
    own = [each for each in _built_in() if wanted in (None, each.group)]
    others = [entry for entry in installed(__version__) if wanted in (None, entry.group)]
    return tuple(sorted([*own, *_judged(others, may)], key=lambda each: (_place(each), each.distribution)))


def info(group: str, name: str, /, *, allow: Iterable[str] | None = None) -> PluginInfo:
    """The plugin of that name, if it may be loaded; nothing is imported.

    Args:
        group: its group, with or without ``advisorchain.``.
        name: its name.
        allow: see `available`.

    Raises:
        PluginError: there is none (the nearest name is told), or there are several, it is not allowed, or its metadata
            says that it cannot work.
    """
    return _info(checked_group(group), name, allow, name)


def _info(group: str, name: str, allow: Iterable[str] | None, asked: str) -> PluginInfo:
    if not isinstance(name, str):
        raise PluginError(f"The name of a plugin is a text, not {name!r}.")
    value = BUILT_IN[group].get(name)
    if value is not None:
        return PluginInfo(group, name, DISTRIBUTION, __version__, value)
    known = available(group, allow=allow)
    found = [each for each in known if each.name == name]
    if not found:
        raise PluginError(_missing(group, name, known, asked))
    usable = [each for each in found if each.problem is None]
    if len(usable) != 1:
        raise PluginError(" ".join(f"Plugin {each}: {each.problem}." for each in found))
    return usable[0]


def _place(plugin: PluginInfo) -> tuple[int, str]:
    return (GROUPS.index(plugin.group) if plugin.group in GROUPS else len(GROUPS), plugin.name)


def _built_in() -> Iterable[PluginInfo]:
    for group, names in BUILT_IN.items():
        for name, value in names.items():
            yield PluginInfo(group, name, DISTRIBUTION, __version__, value)


def _judged(entries: list[Entry], may: Allowed) -> Iterable[PluginInfo]:
    rivals: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.problem is None and may(entry):
            rivals.setdefault((entry.group, entry.name), []).append(entry)
    for entry in entries:
        same = rivals.get((entry.group, entry.name), [])
        problem = entry.problem
        if not entry.group:  # metadata that cannot be read
            pass
        elif entry.group not in GROUPS:
            nearest = near(entry.group, GROUPS)
            problem = f"there is no group {PREFIX}{entry.group}" + (f"; {nearest} is meant?" if nearest else "")
        elif not may(entry):
            problem = f"it is not allowed by {may.why(entry)}"
        elif entry.name in BUILT_IN[entry.group]:
            problem = f"{DISTRIBUTION} itself has the name, and keeps it"
        elif problem is None and len(same) > 1:
            others = " and ".join(sorted({each.distribution for each in same} - {entry.distribution}))
            problem = f"{others} has the same name: uninstall one, or allow one only with {ALLOW_VARIABLE}"
        yield PluginInfo(entry.group, entry.name, entry.distribution, entry.version, entry.value, problem)


# Loading --------------------------------------------------------------------------------------------------------------


def find(group: str, name: str, /, *, allow: Iterable[str] | None = None) -> Callable[..., Any]:
    """Import the plugin of that name, and give its class or factory.

    Args:
        group: its group, with or without ``advisorchain.``.
        name: its name.
        allow: see `available`.

    Raises:
        PluginError: see `info`; or it cannot be imported, or is nothing that can be called.
    """
    return imported(info(group, name, allow=allow))


def load(group: str, name: str, /, **options: Any) -> Any:
    """Import the plugin of that name, and make one.

    Args:
        group: its group, with or without ``advisorchain.``.
        name: its name.
        options: what its class or factory takes, by keyword.

    Raises:
        PluginError: see `find`; or it has no such option (the nearest is told), refuses one, or makes something that
            does not belong to the group.
    """
    return make(group, name, options)


def make(group: str, name: str, options: Mapping[str, Any], /, *, allow: Iterable[str] | None = None) -> Any:
    """As `load`, with the options as a mapping, and with ``allow``, see `available`."""
    with allowing(allow):
        return made_by(info(group, name), options)


def named_model(name: str, options: Mapping[str, Any] | None = None, /, *, allow: Iterable[str] | None = None) -> Any:
    """The model of a name as it is written in files and commands: ``keyword``, or ``openai:gpt-5-mini``.

    Args:
        name: the plugin's name; what follows a colon is its option ``model``.
        options: its other options.
        allow: see `available`.

    Raises:
        PluginError: see `load`.
    """
    plugin, colon, model = name.partition(":")
    given = dict(options or {})
    if colon:
        given["model"] = model
    with allowing(allow):
        return made_by(_info("models", plugin, None, name), given)


def _missing(group: str, name: str, known: Iterable[PluginInfo], asked: str) -> str:
    kind = KINDS[group]
    if distribution := PUBLISHED.get(group, {}).get(name):
        return f"The {kind} {asked!r} needs the plugin {distribution}: pip install {distribution}"
    names = dict.fromkeys([*(each.name for each in known if each.problem is None), *PUBLISHED.get(group, {})])
    return f"There is no {kind} {asked!r}; {hint(name, names, 'known are')}"
