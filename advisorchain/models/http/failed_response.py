"""What an HTTP response that failed says: whether to send the request again, and when."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping

TRANSIENT_STATUS = frozenset({408, 409, 429})
"""Statuses below 500 of a request that may succeed when it is sent again; from 500 on every status is one."""


def is_transient(status: int) -> bool:
    """Whether the same request may succeed later after this HTTP status."""
    return status in TRANSIENT_STATUS or status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` or ``retry-after`` (seconds or a date); None when not said."""
    try:
        return _seconds(float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return _seconds(float(value))
    except ValueError:
        pass
    date = email.utils.parsedate_tz(value)
    try:
        return None if date is None else _seconds(max(0.0, email.utils.mktime_tz(date) - time.time()))
    except (ValueError, OverflowError):  # a year that no calendar has
        return None


def _seconds(value: float) -> float | None:
    return value if math.isfinite(value) and value >= 0 else None
