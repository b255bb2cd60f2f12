"""The memory store that a URL on the command line means."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from ..errors import ConfigurationError
from ..memory import MemoryStore, SqliteStore
from .choice import UsageProblem, described

GROUP = "advisorchain.memory_stores"
PREFIX = "sqlite:///"
PLUGINS = {"postgresql": "postgres", "postgres": "postgres", "redis": "redis", "rediss": "redis"}
"""The name of the plugin for a URL's scheme, where that is another name or the plugin is one of ours."""


def open_store(url: str) -> MemoryStore:
    """The store of a URL. Of what is wrong with it, only the scheme is told: the rest may hold a password.

    Raises:
        UsageProblem: there is no store for such URLs, or no such file: looking does not make one.
        ConfigurationError: the plugin for such URLs is missing, broken, or there are two; or it refuses the URL.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite":
        if not url.startswith(PREFIX) or len(url) == len(PREFIX):
            raise UsageProblem(f"--store takes sqlite:///path, for example sqlite:///memory.db, not {url!r}.")
        path = Path(url[len(PREFIX) :])
        if not path.is_file():
            raise UsageProblem(f"--store: there is no file {path}.")
        return SqliteStore(path)
    if not separator or not rest:
        raise UsageProblem("--store takes sqlite:///path, for example sqlite:///memory.db, or a URL like redis://host.")
    return _plugin(scheme, url)


def _plugin(scheme: str, url: str) -> MemoryStore:
    name = PLUGINS.get(scheme, scheme)
    found = list(entry_points(group=GROUP, name=name))
    if not found and scheme in PLUGINS:
        raise ConfigurationError(
            f"--store {scheme}://… needs the plugin advisorchain-{name}: pip install advisorchain-{name}"
        )
    if not found:
        raise UsageProblem(
            f"--store takes sqlite:///path, postgresql://…, redis://…, or the URL of another store's plugin; there is "
            f"none for {scheme}://…"
        )
    if len(found) > 1:
        both = ", ".join(sorted(entry.dist.name if entry.dist else entry.value for entry in found))
        raise ConfigurationError(f"--store {scheme}://…: several distributions have a store {name!r}: {both}.")
    try:
        make = found[0].load()
    except Exception as exc:  # the plugin is somebody else's code
        raise ConfigurationError(f"--store {scheme}://…: cannot import {found[0].value}: {described(exc)}") from exc
    store: MemoryStore = make(url)
    return store
