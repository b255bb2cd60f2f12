"""Addresses of servers, as they may be shown, and as a trace tells them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def shown_address(url: str) -> str:
    """An address for people to read: without a user's name, a password or a query, which may hold keys."""
    scheme = _SCHEME.match(url)
    start = scheme[0] if scheme else ""
    return start + re.split("[?#]", url.removeprefix(start).rpartition("@")[2])[0]


def server_of(url: str) -> tuple[str | None, int | None]:
    """Host and port of an address; None for what it does not tell."""
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None, None
