"""Provider failures as `ModelError`."""

from __future__ import annotations

import email.utils
import time

import pytest

from advisorchain_openai.failures import reported_error, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": email.utils.formatdate(0, usegmt=True)}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    seconds = retry_after({"retry-after": email.utils.formatdate(time.time() + 60, usegmt=True)})
    assert seconds is not None and 50 < seconds <= 60


@pytest.mark.parametrize(
    ("error", "transient", "status"),
    [
        ({"message": "overloaded", "code": 503}, True, 503),
        ({"message": "bad", "code": 400}, False, 400),
        ({"message": "bad", "type": "invalid_request_error"}, False, None),
        ({"message": "the server had an error", "type": "server_error"}, True, None),
        ({"message": "no money", "code": "insufficient_quota"}, False, None),
        ("went wrong", True, None),
    ],
)
def test_an_error_inside_an_answer(error: object, transient: bool, status: int | None) -> None:
    found = reported_error(error, provider="openai", secret=None)
    assert (found.transient, found.status, found.provider) == (transient, status, "openai")
    assert str(found).startswith("openai: ")


def test_a_secret_that_the_server_echoes_is_not_shown() -> None:
    assert "sk-1234" not in str(reported_error({"message": "key sk-1234 is bad"}, provider="openai", secret="sk-1234"))
