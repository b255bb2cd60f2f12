"""A key taken out of what a server or an SDK says: it may have echoed it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

_SHORTEST_ANYWHERE = 8


def redacted(text: str, secret: str | None) -> str:
    """The text without the secret; one so short that it is part of other words, in its own place only."""
    if not secret or secret not in text:
        return text
    if len(secret) >= _SHORTEST_ANYWHERE:
        return text.replace(secret, "***")
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)


def redacted_value(value: Any, secret: str) -> Any:
    """JSON data without the secret."""
    if isinstance(value, str):
        return redacted(value, secret)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {redacted(name, secret): redacted_value(inner, secret) for name, inner in pairs}
    if isinstance(value, list):
        items: list[Any] = value
        return [redacted_value(item, secret) for item in items]
    return value
