"""What kind of failure an exception is: transient, a matter of permission, or permanent.

One table for retry, fallback and circuit breaker, which plugins extend with `register_failure`. Libraries are known by
what their exceptions look like: none is imported.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from .context import ContextKey
from .errors import (
    AdvisorChainError,
    CircuitOpenError,
    ConfigurationError,
    McpConnectionError,
    McpError,
    ModelError,
    ToolArgumentsError,
    ToolPermissionError,
    ToolTimeoutError,
    UnknownToolError,
)

FailureClass: TypeAlias = Literal["transient", "permission", "permanent"]
"""Transient: the same call may succeed later. Permission: the caller may not. Permanent: everything else."""
Judge: TypeAlias = Callable[[Any], FailureClass | None]
"""Looks at an exception; None when it cannot tell."""

ATTEMPTS = ContextKey[dict[tuple[str, str | int], int]]("advisorchain.attempts")
"""What took more than one attempt in a turn, written by `RetryAdvisor`: attempts by turn id and call id (tool calls) or
round (model calls)."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""HTTP statuses after which the same request may succeed."""
PERMISSION_STATUS = frozenset({401, 403, 407})
"""HTTP statuses of missing permission."""
TRANSIENT_MCP_CODES = frozenset({-32603, -32000, -32001})
"""Codes of MCP errors that say nothing about the call: internal error, connection closed, request timeout."""

_TRANSIENT_ERRNO = frozenset({
    errno.EAGAIN, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH, errno.EPIPE, errno.ETIMEDOUT,
})  # fmt: skip
_HTTP_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2")
_HTTP: dict[str, FailureClass] = dict.fromkeys(
    ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"), "transient"
)
_SDK: dict[str, FailureClass] = {"APIConnectionError": "transient"}  # the others tell an HTTP status
_REDIS: dict[str, FailureClass] = {
    "AuthenticationError": "permission", "ConnectionError": "transient", "TimeoutError": "transient",
}  # fmt: skip
_BY_NAME: dict[str, dict[str, FailureClass]] = {
    **dict.fromkeys(_HTTP_PACKAGES, _HTTP),
    "requests": {"SSLError": "permanent", "ConnectionError": "transient", "Timeout": "transient"},
    "aiohttp": {
        "ClientSSLError": "permanent", "ClientConnectorCertificateError": "permanent",
        "ClientConnectionError": "transient", "ClientPayloadError": "transient",
    },
    "anyio": {"BrokenResourceError": "transient", "ClosedResourceError": "transient", "EndOfStream": "transient"},
    "openai": _SDK, "anthropic": _SDK, "redis": _REDIS, "valkey": _REDIS,
}  # fmt: skip
"""By package, and by the names of its exception classes; the most specific class has the first word."""
_UNSENT_BY_NAME: dict[str, frozenset[str]] = {
    **dict.fromkeys(_HTTP_PACKAGES, frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})),
    "requests": frozenset({"ConnectTimeout"}),
    "aiohttp": frozenset({"ClientConnectorError"}),
}


class FailureTable:
    """Classifies exceptions; yours come before the built-in ones.

    Example::

        table.register(StockServiceBusy, "transient")
        table.register(VendorError, lambda error: "transient" if error.code == 17 else None)
    """

    __slots__ = ("_entries", "_unsent")

    def __init__(self) -> None:
        self._entries: dict[type[BaseException], FailureClass | Judge] = {}
        self._unsent: set[type[BaseException]] = set()

    def register(
        self, exception: type[BaseException], failure: FailureClass | Judge, *, sent: bool | None = None
    ) -> None:
        """Say what an exception class and its subclasses are; the last word on a class counts.

        Args:
            exception: the class.
            failure: its failure class, or a function of the exception that returns one, or None to leave the question
                to its base classes.
            sent: False: it is only raised before anything was sent, so that even a call that must not happen twice may
                be made again.

        Raises:
            ConfigurationError: one of them is none of these.
        """
        if not isinstance(exception, type) or not issubclass(exception, BaseException):
            raise ConfigurationError(f"register_failure takes an exception class, not {exception!r}.")
        if not callable(failure) and failure not in get_args(FailureClass):
            raise ConfigurationError(
                f"{exception.__name__} is 'transient', 'permission', 'permanent' or a function, not {failure!r}."
            )
        self._entries[exception] = failure
        if sent is False:
            self._unsent.add(exception)
        else:
            self._unsent.discard(exception)

    def classify(self, error: BaseException) -> FailureClass:
        """The class of an exception; ``"permanent"`` when nothing is known about it.

        An `ExceptionGroup` of one exception is that exception.
        """
        error = unwrapped(error)
        for kind in type(error).__mro__:
            for entries in (self._entries, _BUILT_IN):
                entry = entries.get(kind)
                if entry is None:
                    continue
                found = entry(error) if callable(entry) else entry
                if found is not None:
                    return found
        return _by_looks(error) or self._of_inner(error) or "permanent"

    def _of_inner(self, error: BaseException) -> FailureClass | None:
        """The class of what an exception holds; of a group when all of it is of that class."""
        if isinstance(error, BaseExceptionGroup):
            classes: set[FailureClass] = {self.classify(inner) for inner in error.exceptions}
            return classes.pop() if len(classes) == 1 else None  # one real error among them would come back
        reason = _attribute(error, "reason") if isinstance(error, OSError) else None  # urllib's URLError
        return self.classify(reason) if isinstance(reason, BaseException) and reason is not error else None

    def unsent(self, error: BaseException) -> bool:
        """Whether the exception says that nothing was sent: no connection was made."""
        error = unwrapped(error)
        for kind in type(error).__mro__:
            if kind in self._unsent or kind in _BUILT_IN_UNSENT:
                return True
            if kind.__name__ in _UNSENT_BY_NAME.get(_package(kind), ()):
                return True
        reason = _attribute(error, "reason") if isinstance(error, OSError) else None
        return isinstance(reason, BaseException) and reason is not error and self.unsent(reason)


def unwrapped(error: BaseException) -> BaseException:
    """The only exception of a group of one, at any depth."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an exception tells of, if it looks like one that does."""
    response = _attribute(error, "response")
    for owner, name in (
        (response, "status_code"), (error, "status_code"), (response, "status"), (error, "status"), (error, "code"),
    ):  # fmt: skip
        value = _attribute(owner, name)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return None


def mcp_code(error: BaseException) -> int | None:
    """The JSON-RPC code that an exception tells of, if it looks like an MCP error."""
    for owner in (_attribute(error, "error"), error):
        code = _attribute(owner, "code")
        if isinstance(code, int) and -32768 <= code <= -32000:
            return code
    return None


def retry_after(error: BaseException) -> float | None:
    """Seconds to wait, when the exception says so: ``retry_after``, or an HTTP header (seconds or a date)."""
    error = unwrapped(error)
    value = _attribute(error, "retry_after")
    for owner in (_attribute(error, "response"), error):
        headers = _attribute(owner, "headers")
        if value is None and hasattr(headers, "get"):
            value = headers.get("retry-after") or headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = _seconds(value)
    except Exception:  # of a server or a library that means something else by it
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    with suppress(ValueError):
        return float(value)
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to import

    date = parsedate_to_datetime(value)
    return (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _attribute(owner: Any, name: str) -> Any:
    """An attribute, or None: some exceptions have properties that raise."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def tool_failure(error: BaseException) -> BaseException | None:
    """The error that is a tool's failure, or None when the exception must propagate.

    A transport may leak an asyncio ``CancelledError`` although nobody cancels the task: that is the tool's failure, and
    so is ``SystemExit``, and a group of nothing but failures.
    """
    error = unwrapped(error)
    if isinstance(error, BaseExceptionGroup):
        final = error.subgroup(lambda leaf: isinstance(leaf, AdvisorChainError) and leaf.ends_turn)
        if final is not None:
            return tool_failure(final.exceptions[0])
        if all(tool_failure(inner) is not None for inner in error.exceptions):
            return error
    if isinstance(error, Exception | SystemExit):
        return error
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # trio
            return error
        return error if task is not None and task.cancelling() == 0 else None
    return None


def tells_nothing(error: BaseException) -> bool:
    """Whether an error says nothing about a tool's or model's source: it was not reached, or the turn was ended."""
    if isinstance(error, ToolArgumentsError | UnknownToolError):
        return True
    return isinstance(error, AdvisorChainError) and error.ends_turn


def source_failed(error: BaseException) -> bool:
    """Whether an exception shows a failing source, and not just an answer that says no."""
    failure = classify(error)
    if failure != "permanent":
        return failure == "transient"
    if isinstance(error, AdvisorChainError):  # a tool's or a model's own answer
        return False
    return http_status(error) is None and mcp_code(error) is None


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _of_status(status: int | None) -> FailureClass | None:
    if status is None:
        return None
    if status in TRANSIENT_STATUS:
        return "transient"
    return "permission" if status in PERMISSION_STATUS else "permanent"


def _by_its_word(error: ModelError | McpError) -> FailureClass:
    if error.transient:
        return "transient"
    return "permission" if error.status in PERMISSION_STATUS else "permanent"


def _of_own_error(error: AdvisorChainError) -> FailureClass:
    return "transient" if getattr(error, "transient", False) else "permanent"


def _of_os_error(error: OSError) -> FailureClass | None:
    return "transient" if error.errno in _TRANSIENT_ERRNO else None


def _of_name_lookup(error: socket.gaierror) -> FailureClass:
    return "transient" if error.errno == socket.EAI_AGAIN else "permanent"


def _by_looks(error: BaseException) -> FailureClass | None:
    found = _of_status(http_status(error))
    if found is not None:
        return found
    code = mcp_code(error)
    if code is not None:
        return "transient" if code in TRANSIENT_MCP_CODES else "permanent"
    for kind in type(error).__mro__:
        found = _BY_NAME.get(_package(kind), {}).get(kind.__name__)
        if found is not None:
            return found
    return None


_BUILT_IN: dict[type[BaseException], FailureClass | Judge] = {
    ModelError: _by_its_word,
    ToolTimeoutError: "transient",
    ToolPermissionError: "permission",
    CircuitOpenError: "transient",
    McpError: _by_its_word,
    AdvisorChainError: _of_own_error,
    PermissionError: "permission",
    TimeoutError: "transient",
    ConnectionError: "transient",
    socket.gaierror: _of_name_lookup,
    OSError: _of_os_error,
    asyncio.CancelledError: "transient",  # leaked by a transport, see `tool_failure`
    asyncio.IncompleteReadError: "transient",
}
_BUILT_IN_UNSENT: frozenset[type[BaseException]] = frozenset(
    {ConnectionRefusedError, socket.gaierror, CircuitOpenError, McpConnectionError}
)

DEFAULT_FAILURES = FailureTable()
"""The table that `classify` and the built-in advisors use."""


def register_failure(
    exception: type[BaseException], failure: FailureClass | Judge, *, sent: bool | None = None
) -> None:
    """Add an exception class to the table that everything uses; see `FailureTable.register`."""
    DEFAULT_FAILURES.register(exception, failure, sent=sent)


def classify(error: BaseException) -> FailureClass:
    """Whether a failure is ``"transient"``, a matter of ``"permission"``, or ``"permanent"``."""
    return DEFAULT_FAILURES.classify(error)
