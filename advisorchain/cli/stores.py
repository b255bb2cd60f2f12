"""The memory store that a URL on the command line means."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .. import plugins
from ..memory import MemoryStore, SqliteStore
from .choice import UsageProblem

GROUP = "memory_stores"
PREFIX = "sqlite:///"
PLUGINS = {"postgresql": "postgres", "postgres": "postgres", "redis": "redis", "rediss": "redis"}
"""The name of the plugin for a URL's scheme, where that is another name or the plugin is one of ours."""


def open_store(url: str) -> MemoryStore:
    """The store of a URL. Of what is wrong with it, only the scheme is told: the rest may hold a password.

    A plugin named like the scheme gets the URL as its option ``url``, or as its first option if it has no such.

    Raises:
        UsageProblem: there is no store for such URLs, or no such file, or it is another program's: looking makes no
            file, and no tables.
        PluginError: the plugin for such URLs is missing, broken, or there are two; or it refuses the URL.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite":
        if not url.startswith(PREFIX) or len(url) == len(PREFIX):
            raise UsageProblem(f"--store takes sqlite:///path, for example sqlite:///memory.db, not {url!r}.")
        path = Path(url[len(PREFIX) :])
        if not path.is_file():
            raise UsageProblem(f"--store: there is no file {path}.")
        if not _has_conversations(path):
            raise UsageProblem(f"--store: {path} is no file of a SqliteStore: it has no tables for conversations.")
        return SqliteStore(path)
    if not separator or not rest:
        raise UsageProblem("--store takes sqlite:///path, for example sqlite:///memory.db, or a URL like redis://host.")
    return _plugin(scheme, url)


def _has_conversations(path: Path) -> bool:
    """Whether a file has a store's tables; True also when it cannot be read: the store says why."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return file.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_schema'").fetchone() is not None
    except sqlite3.Error:
        return True


def _plugin(scheme: str, url: str) -> MemoryStore:
    name = PLUGINS.get(scheme, scheme)
    if scheme not in PLUGINS and name not in [plugin.name for plugin in plugins.available(GROUP)]:
        raise UsageProblem(
            f"--store takes sqlite:///path, postgresql://…, redis://…, or the URL of another store's plugin; there is "
            f"none for {scheme}://…"
        )
    options = plugins.options_of(plugins.find(GROUP, name))
    first = "url" if not options or "url" in options else next(iter(options))
    store: MemoryStore = plugins.load(GROUP, name, **{first: url})
    return store
