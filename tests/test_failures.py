"""Which failure an exception is: the table, what libraries' exceptions look like, and what plugins add."""

from __future__ import annotations

import asyncio
import errno
import socket
import urllib.error
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.message import Message as Headers
from email.utils import format_datetime
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from advisorchain import (
    AdvisorChainError,
    CircuitOpenError,
    ConfigurationError,
    FailureTable,
    ModelError,
    ToolArgumentsError,
    ToolError,
    ToolPermissionError,
    ToolTimeoutError,
    TurnAbortedError,
    classify,
)
from advisorchain.failures import DEFAULT_FAILURES, retry_after, source_failed, tells_nothing

REQUEST = httpx2.Request("GET", "http://example.com")


def http_error(status: int, **headers: str) -> httpx2.HTTPStatusError:
    response = httpx2.Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return httpx2.HTTPStatusError(f"{status}", request=REQUEST, response=response)


class VendorError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (BrokenPipeError(), "transient"),
        (OSError(errno.EHOSTUNREACH, "no route"), "transient"),
        (FileNotFoundError(errno.ENOENT, "no file"), "permanent"),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), "transient"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "permanent"),
        (PermissionError(), "permission"),
        (TypeError(), "permanent"),
        (ValueError(), "permanent"),
        (RuntimeError(), "permanent"),
        (asyncio.CancelledError(), "transient"),
        (anyio.BrokenResourceError(), "transient"),
        (anyio.ClosedResourceError(), "transient"),
        (httpx2.ConnectError("x"), "transient"),
        (httpx2.ReadTimeout("x"), "transient"),
        (httpx2.RemoteProtocolError("x"), "transient"),
        (httpx2.UnsupportedProtocol("x"), "permanent"),
        (http_error(503), "transient"),
        (http_error(429), "transient"),
        (http_error(529), "transient"),
        (http_error(501), "permanent"),
        (http_error(404), "permanent"),
        (http_error(401), "permission"),
        (http_error(403), "permission"),
        (urllib.error.HTTPError("http://e", 503, "busy", Headers(), None), "transient"),
        (urllib.error.HTTPError("http://e", 404, "gone", Headers(), None), "permanent"),
        (urllib.error.URLError(ConnectionRefusedError()), "transient"),
        (urllib.error.URLError("unknown url type"), "permanent"),
        (MCPError(-32603, "internal"), "transient"),
        (MCPError(-32000, "closed"), "transient"),
        (MCPError(-32001, "timeout"), "transient"),
        (MCPError(-32602, "invalid params"), "permanent"),
        (MCPError(-32601, "no such method"), "permanent"),
        (ModelError("x", transient=True), "transient"),
        (ModelError("x"), "permanent"),
        (ModelError("x", status=401), "permission"),
        (ToolError("x"), "permanent"),
        (ToolArgumentsError("x"), "permanent"),
        (ToolTimeoutError("x"), "transient"),
        (ToolPermissionError("approve"), "permission"),
        (CircuitOpenError("crm"), "transient"),
        (TurnAbortedError("x"), "permanent"),
        (AdvisorChainError("x"), "permanent"),
        (ExceptionGroup("one", [ExceptionGroup("one", [TimeoutError()])]), "transient"),
        (ExceptionGroup("two", [TimeoutError(), ConnectionResetError()]), "transient"),
        (ExceptionGroup("two", [TimeoutError(), TypeError()]), "permanent"),
    ],
    ids=repr,
)
def test_built_in_classes(error: BaseException, expected: str) -> None:
    assert classify(error) == expected


def test_a_table_takes_classes_and_functions() -> None:
    class Busy(VendorError):
        pass

    table = FailureTable()
    assert table.classify(VendorError()) == "permanent"
    table.register(VendorError, lambda error: "transient" if "17" in str(error) else None)
    assert table.classify(VendorError("code 17")) == "transient"
    assert table.classify(VendorError("code 18")) == "permanent"
    table.register(Busy, "permission")
    assert table.classify(Busy("code 17")) == "permission", "the most specific class has the first word"
    table.register(TimeoutError, "permanent")
    assert table.classify(TimeoutError()) == "permanent", "over a built-in"
    assert classify(TimeoutError()) == "transient", "other tables do not change"


def looks_like(name: str, *bases: type[Exception]) -> type[Exception]:
    """An exception class of another library, known by its package and name alone."""
    package, _, name = name.partition(".")
    return type(name, bases or (Exception,), {"__module__": f"{package}.exceptions"})


@pytest.mark.parametrize(
    ("name", "bases", "expected"),
    [
        ("openai.APIConnectionError", (), "transient"),
        ("anthropic.APIConnectionError", (), "transient"),
        ("redis.ConnectionError", (), "transient"),
        ("redis.AuthenticationError", (looks_like("redis.ConnectionError"),), "permission"),
        ("valkey.TimeoutError", (), "transient"),
        ("requests.ReadTimeout", (looks_like("requests.Timeout", OSError),), "transient"),
        ("requests.SSLError", (looks_like("requests.ConnectionError", OSError),), "permanent"),
        ("aiohttp.ServerDisconnectedError", (looks_like("aiohttp.ClientConnectionError"),), "transient"),
        ("elsewhere.ConnectionError", (), "permanent"),
    ],
)
def test_classes_of_other_libraries(name: str, bases: tuple[type[Exception], ...], expected: str) -> None:
    assert classify(looks_like(name, *bases)("x")) == expected


def test_a_table_judges_what_an_exception_holds() -> None:
    table = FailureTable()
    table.register(VendorError, "transient", sent=False)
    for error in (
        ExceptionGroup("two", [VendorError(), TimeoutError()]),
        ExceptionGroup("nested", [ExceptionGroup("two", [VendorError(), VendorError()]), VendorError()]),
        urllib.error.URLError(VendorError()),
    ):
        assert table.classify(error) == "transient", error
    assert table.classify(ExceptionGroup("two", [VendorError(), TypeError()])) == "permanent"
    assert table.unsent(urllib.error.URLError(VendorError()))
    assert table.unsent(urllib.error.URLError(ConnectionRefusedError()))
    assert not table.unsent(urllib.error.URLError(TimeoutError()))


def test_unsent() -> None:
    table = FailureTable()
    for error in (
        ConnectionRefusedError(),
        httpx2.ConnectError("x"),
        httpx2.ConnectTimeout("x"),
        httpx2.PoolTimeout("x"),
    ):
        assert table.unsent(error), error
    for error in (ConnectionResetError(), httpx2.ReadTimeout("x"), ToolTimeoutError("x"), VendorError()):
        assert not table.unsent(error), error
    table.register(VendorError, "transient", sent=False)
    assert table.unsent(VendorError())
    table.register(VendorError, "transient")
    assert not table.unsent(VendorError())


def test_what_shows_a_failing_source() -> None:
    for error in (TimeoutError(), RuntimeError("crashed"), http_error(503), MCPError(-32000, "closed")):
        assert source_failed(error), error
    for error in (http_error(404), http_error(401), MCPError(-32602, "params"), ToolError("no"), ModelError("no")):
        assert not source_failed(error), error
    assert tells_nothing(ToolArgumentsError("x")) and tells_nothing(TurnAbortedError("x"))
    assert not tells_nothing(ToolError("x")) and not tells_nothing(TimeoutError())


def test_retry_after() -> None:
    assert retry_after(ModelError("x", retry_after=2.5)) == 2.5
    assert retry_after(http_error(429, retry_after="7")) == 7
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = retry_after(http_error(503, retry_after=date))
    assert seconds is not None and 95 < seconds <= 100
    assert retry_after(http_error(503, retry_after="soon")) is None
    assert retry_after(http_error(503, retry_after="nan")) is None
    assert retry_after(http_error(503, retry_after="-3")) == 0
    assert retry_after(ModelError("x", retry_after=float("inf"))) is None, "nobody waits for ever"
    assert retry_after(TimeoutError()) is None


@pytest.mark.parametrize(
    "value", [lambda: 3, [1], object(), 10**400, "Wed, 21 Oct 2015 07:28:00 +99999999999999999999"]
)
def test_what_is_no_time_to_wait_is_ignored(value: Any) -> None:
    class Odd(Exception):
        retry_after = value

    class OddHeader(Exception):
        headers: Mapping[str, Any] = {"retry-after": value}

    assert retry_after(Odd()) is None
    assert retry_after(OddHeader()) is None


def test_where_and_how_libraries_tell_when_to_come_back() -> None:
    class Telegram(Exception):
        retry_after = timedelta(seconds=3)

    class Plain(Exception):
        headers: Mapping[str, str] = {"Retry-After": "4"}

    headers = Headers()
    headers["Retry-After"] = "9"
    assert retry_after(Telegram()) == 3
    assert retry_after(urllib.error.HTTPError("http://x", 503, "busy", headers, None)) == 9
    assert retry_after(Plain()) == 4
    zoneless = f"{datetime.now(UTC) + timedelta(seconds=60):%a, %d %b %Y %H:%M:%S} -0000"
    assert 57 < (retry_after(http_error(503, retry_after=zoneless)) or 0) <= 60


def test_an_exception_whose_properties_raise() -> None:
    class Touchy(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("there was none")

        retry_after = status_code = error = code = response

    assert classify(Touchy()) == "permanent"
    assert retry_after(Touchy()) is None


@pytest.mark.parametrize("arguments", [("TimeoutError", "transient"), (VendorError, "flaky"), (int, "transient")])
def test_bad_registrations(arguments: tuple[object, object]) -> None:
    with pytest.raises(ConfigurationError):
        DEFAULT_FAILURES.register(*arguments)  # type: ignore[arg-type]
