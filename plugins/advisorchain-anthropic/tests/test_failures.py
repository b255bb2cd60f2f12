"""Provider failures as `ModelError`."""

from __future__ import annotations

import email.utils
import time

import pytest

from advisorchain.models.http.addresses import shown_address
from advisorchain.models.http.failed_response import retry_after
from advisorchain_anthropic.failures import reported_error


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
    ("error", "transient"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, True),
        ({"type": "timeout_error", "message": "late"}, True),
        ({"type": "authentication_error", "message": "bad"}, False),
        ({"type": "billing_error", "message": "no money"}, False),
        ({"type": "new_error"}, True),
        ("went wrong", True),
    ],
)
def test_an_error_inside_an_answer(error: object, transient: bool) -> None:
    found = reported_error(error, provider="anthropic", secret=None)
    assert (found.transient, found.status, found.provider) == (transient, None, "anthropic")
    assert str(found).startswith("anthropic: ")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example/v2/", "https://api.example/v2/"),
        ("http://ann:pass@localhost:8080/a", "http://localhost:8080/a"),
        ("http://ann:p/a?s#s@localhost", "http://localhost"),
        ("https://x.example/a?key=pass#b", "https://x.example/a"),
        ("ann:pass@x.example", "x.example"),
        ("x.example?next=http://pass", "x.example"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert shown_address(url) == shown


def test_a_secret_that_the_server_echoes_is_not_shown() -> None:
    error = {"message": "key sk-1234 is bad"}
    assert "sk-1234" not in str(reported_error(error, provider="anthropic", secret="sk-1234"))


def test_a_short_secret_is_taken_out_where_it_stands_alone() -> None:
    found = reported_error({"message": "key k, k-1 and (k) in the back"}, provider="anthropic", secret="k")
    assert str(found) == "anthropic: key ***, ***-1 and (***) in the back"
    found = reported_error({"message": "xsk-12345x"}, provider="anthropic", secret="sk-12345")
    assert str(found) == "anthropic: x***x"
