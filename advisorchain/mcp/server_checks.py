"""What an `McpServer` may be told. Wrong settings are refused when it is made, in words that hold no secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ..context import ContextKey
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from .server import McpServer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")  # of visible ASCII characters, no blank at the ends


class _Kind(NamedTuple):
    """What a setting must be: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_listing(value: Any, *kinds: type) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, str | bytes | Mapping)
        and all(isinstance(each, kinds) for each in value)
    )


def _is_table(value: Any, *kinds: type) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(each, kinds) for key, each in value.items()
    )


def _is_auth(value: Any) -> bool:
    """Whether the HTTP client takes it as ``auth``; without importing that client, which takes time."""
    return callable(value) or isinstance(value, tuple) or hasattr(value, "auth_flow")


def _or_none(kind: _Kind) -> _Kind:
    return _Kind(f"{kind.words}, or None", lambda value: value is None or kind.fits(value))


_YES_OR_NO = _Kind("True or False", lambda value: isinstance(value, bool))
_SECONDS = _Kind("over 0 seconds", _is_seconds)
_COUNT = _Kind("an int of at least 1", _is_count)
_TEXT = _Kind("a text", _is_text)
_FUNCTION = _Kind("a function", callable)

_SETTINGS: dict[str, _Kind] = {
    "cwd": _or_none(_Kind("a path", lambda value: isinstance(value, str | PurePath))),
    "trusted": _YES_OR_NO,
    "return_direct": _Kind(
        'True, False or None (for single tools write overrides={"tool": {"return_direct": True}})',
        lambda value: value is None or isinstance(value, bool),
    ),
    "overrides": _Kind('settings by tool, such as {"tool": {"timeout": 5}}', lambda value: _is_table(value, Mapping)),
    "connect_timeout": _SECONDS,
    "list_timeout": _SECONDS,
    "call_timeout": _or_none(_SECONDS),
    "list_ttl": _or_none(_SECONDS),
    "era": _Kind("'auto' or 'legacy'", lambda value: value in ("auto", "legacy")),
    "instructions": _YES_OR_NO,
    "meta": _Kind("context keys by the key of _meta", lambda value: _is_table(value, ContextKey, str)),
    "max_tools": _COUNT,
    "max_description_chars": _COUNT,
    "max_result_bytes": _COUNT,
    "elicitation": _or_none(_Kind("an async function", callable)),
    "sampling": _or_none(_Kind("Sampling(client)", lambda value: hasattr(value, "max_calls"))),
    "roots": _Kind("a list of paths", lambda value: _is_listing(value, str, PurePath)),
}

_OVERRIDES: dict[str, _Kind] = {
    "title": _or_none(_TEXT),
    "description": _or_none(_TEXT),
    "tags": _or_none(_Kind("a list of texts", lambda value: _is_listing(value, str))),
    "return_direct": _YES_OR_NO,
    **dict.fromkeys(("read_only", "destructive", "idempotent", "open_world"), _or_none(_YES_OR_NO)),
    "timeout": _or_none(_SECONDS),
    "parallel": _YES_OR_NO,
    "repeatable": _YES_OR_NO,
    "result_converter": _or_none(_FUNCTION),
    "max_result_chars": _or_none(_Kind("an int of at least 0", lambda value: _is_count(value, 0))),
}


def check_server(server: McpServer) -> None:
    """Check all settings of a server.

    Raises:
        ConfigurationError: one makes no sense; says which, and what it must be.
    """
    if not isinstance(server.name, str) or not _NAME.fullmatch(server.name):
        raise ConfigurationError(
            f"An MCP server cannot be named {server.name!r}: give it name= of letters, digits, '_', '-' and '.'."
        )
    where = f"MCP server {server.name!r}"
    for setting, kind in _SETTINGS.items():
        _check(f"{where}: {setting}", kind, getattr(server, setting))
    for tool, settings in server.overrides.items():
        unknown = settings.keys() - _OVERRIDES
        if unknown:
            raise ConfigurationError(
                f"{where}: overrides of {tool!r} has {', '.join(sorted(map(str, unknown)))}; possible are "
                f"{', '.join(sorted(_OVERRIDES))}."
            )
        for setting, value in settings.items():
            _check(f"{where}: overrides of {tool!r}: {setting}", _OVERRIDES[setting], value)
    if not _is_table(server.env, str):
        raise ConfigurationError(f"{where}: env must be texts by the names of the variables.")
    if server.headers is not None and not callable(server.headers):
        check_headers(server.headers, f"{where}: ")
    if server.auth is not None and not _is_auth(server.auth):
        raise ConfigurationError(
            f"{where}: auth must be an httpx2.Auth; a token goes into headers={{'Authorization': 'Bearer ...'}}."
        )


def check_headers(headers: Any, where: str = "") -> None:
    """Check that HTTP allows the headers: the error of the HTTP client would repeat a value, which may be a secret.

    Args:
        headers: which.
        where: how the error begins.

    Raises:
        ConfigurationError: they are no texts, or one has a character that HTTP does not allow there.
    """
    if not _is_table(headers, str):
        raise ConfigurationError(f"{where}headers= must be texts by name, or an async function that returns them.")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"{where}headers= has the name {name[:100]!r}, which HTTP does not allow.")
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"{where}the value of the header {name!r} has characters that HTTP does not allow; perhaps a line "
                "break at its end, as files have it."
            )


def check_url(kind: str, url: Any) -> None:
    """Check that it is an address over HTTP; does not repeat it, for it may hold a password.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        sound = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port if parts is not None else None  # a ValueError when it is no number
    except ValueError:
        sound = False
    if not sound:
        raise ConfigurationError(f"McpServer.{kind} takes a URL like https://host/mcp.")


def _check(what: str, kind: _Kind, value: Any) -> None:
    if not kind.fits(value):
        raise ConfigurationError(f"{what} must be {kind.words} (is {value!r:.200}).")
