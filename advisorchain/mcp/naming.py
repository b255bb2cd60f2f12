"""The names under which the model sees MCP tools: valid everywhere, stable, and out of reach of hostile servers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from ..errors import ConfigurationError
from .listed_tool import ListedTool

Prefix: TypeAlias = Literal["auto", "always"] | Callable[[ListedTool], str] | None
Key: TypeAlias = tuple[str, str]
"""A server's name, and the tool's name there."""

MAX_NAME = 64
"""How long a name may be: what every provider accepts."""

_VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_INVALID = re.compile(r"[^a-zA-Z0-9_-]")
_READABLE = re.compile(r"[a-zA-Z0-9]")


def public_names(
    tools: Sequence[ListedTool],
    *,
    taken: Collection[str] = (),
    prefix: Prefix = "auto",
    servers: Collection[str] = (),
) -> dict[Key, str]:
    """A name for every tool, by ``(server, original name)``; no two are the same, none is in ``taken``.

    The order of the tools does not matter. Names go by rank: local tools (``taken``) first, then the tools of trusted
    servers, then the rest. A lower rank never changes a name of a higher one.

    Args:
        tools: the tools of all servers, also of those that are down and were listed before: names are stable as long
            as the tools are the same.
        taken: the names of local tools.
        prefix:
            ``"auto"``: the original name, with characters that providers refuse replaced by ``_``. A tool whose name
            belongs to a higher rank becomes ``server_tool``; so do all tools of one rank that share a name, whoever
            came first. So does a tool of an untrusted server whose name begins with the name of another server and
            ``_``, because it would pass for a tool of that one.
            ``"always"``: every tool is ``server_tool``.
            ``None``: no prefix; a name that two tools have is an error.
            A function of a `ListedTool`: what it returns; a name that two tools have is an error.
            Names over 64 characters, and those that still are not unique, end in a hash of server and original name.
        servers: the names of all servers that are configured, whether or not they have tools now.

    Raises:
        ConfigurationError: two tools have one name and ``prefix`` is None or a function, or the function returned a
            name that providers refuse. Lists all of them.
    """
    found = {(tool.server, tool.name): tool for tool in sorted(tools, key=_rank)}
    if prefix is None:
        return _checked({key: _shortened(key, _clean(key[1])) for key in found}, taken, "None")
    if callable(prefix):
        return _checked({key: prefix(tool) for key, tool in found.items()}, taken, "a function")
    if prefix not in ("auto", "always"):
        raise ConfigurationError(f"prefix must be 'auto', 'always', None or a function, not {prefix!r}.")
    everyone = sorted({*servers, *(server for server, _ in found)})
    claims = [(f"{_clean(server).lower()}_", server) for server in everyone if _clean(server)]
    names: dict[Key, str] = {}
    used = set(taken)
    for trusted in (True, False):
        keys = [key for key, tool in found.items() if tool.trusted is trusted]
        bare = {key: _bare(key, () if trusted else claims) for key in keys} if prefix == "auto" else {}
        _assign(keys, bare, names, used)
    return names


def _assign(keys: Sequence[Key], bare: Mapping[Key, str | None], names: dict[Key, str], used: set[str]) -> None:
    """Name the tools of one rank: bare, else prefixed, else with a hash; adds to ``names`` and ``used``."""
    left = keys
    for candidates in (bare, {key: _prefixed(key) for key in keys}):
        wanted = {key: name for key in left if (name := candidates.get(key)) is not None}
        counts = Counter(wanted.values())
        chosen = {key: name for key, name in wanted.items() if counts[name] == 1 and name not in used}
        names.update(chosen)
        used.update(chosen.values())
        left = [key for key in left if key not in chosen]
    for key in left:
        digits = 8
        name = _hashed(key, f"{_clean(key[0]) or 'server'}_{_clean(key[1]) or 'tool'}", digits)
        while name in used and digits < 32:  # somebody has taken the trouble to find a tool name with this hash
            digits += 8
            name = _hashed(key, f"{_clean(key[0]) or 'server'}_{_clean(key[1]) or 'tool'}", digits)
        number = 1
        while name in used:
            number += 1
            name = f"tool_{_digest(key)[:40]}_{number}"
        names[key] = name
        used.add(name)


def _rank(tool: ListedTool) -> tuple[bool, str, str]:
    return (not tool.trusted, tool.server, tool.name)


def _clean(name: str) -> str:
    """The name with every character that a provider refuses replaced; empty when nothing readable is left."""
    cleaned = _INVALID.sub("_", name)
    return cleaned if _READABLE.search(cleaned) else ""


def _bare(key: Key, claims: Sequence[tuple[str, str]]) -> str | None:
    name = _clean(key[1])
    if not name or len(name) > MAX_NAME:
        return None
    lower = name.lower()
    poses = any(lower.startswith(start) and server != key[0] for start, server in claims)
    return None if poses else name


def _prefixed(key: Key) -> str | None:
    server, name = map(_clean, key)
    whole = f"{server or 'server'}_{name}"
    return whole if name and len(whole) <= MAX_NAME else None


def _shortened(key: Key, name: str) -> str:
    return name if name and len(name) <= MAX_NAME else _hashed(key, name or "tool", 8)


def _hashed(key: Key, name: str, digits: int) -> str:
    return f"{name[: MAX_NAME - 1 - digits]}_{_digest(key)[:digits]}"


def _digest(key: Key) -> str:
    return hashlib.sha256("\0".join(key).encode(errors="surrogatepass")).hexdigest()


def _checked(names: dict[Key, str], taken: Collection[str], how: str) -> dict[Key, str]:
    """The names, if every one is valid and unique."""
    invalid = [
        f"{_shown(key)}: {name!r}"
        for key, name in names.items()
        if not isinstance(name, str) or not _VALID.fullmatch(name)
    ]
    if invalid:
        raise ConfigurationError(
            f"Names of MCP tools may have 1 to {MAX_NAME} letters (a-z), digits, '_' and '-'; the function that is "
            f"given as prefix returned for {'; '.join(invalid)}."
        )
    owners: dict[str, list[str]] = {}
    for key, name in names.items():
        owners.setdefault(name, ["a local tool"] if name in taken else []).append(_shown(key))
    clashes = [f"{name!r} ({', '.join(who)})" for name, who in sorted(owners.items()) if len(who) > 1]
    if clashes:
        raise ConfigurationError(
            f"Tools share a name, and prefix is {how}: {'; '.join(clashes)}. Use prefix='auto' or 'always', or leave "
            "tools out with filter=."
        )
    return names


def _shown(key: Key) -> str:
    return f"{key[0]}/{key[1]}"
