"""Provider failures as `ModelError`."""

from __future__ import annotations

import email.utils
import time

import httpx2
import openai
import pytest

from advisorchain.models.http.addresses import shown_address
from advisorchain.models.http.failed_response import retry_after
from advisorchain_openai.failures import model_error, reported_error


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


def test_an_error_in_a_list_is_the_servers_own_sentence() -> None:
    """The form of Gemini's compatible endpoint: a list of one."""
    response = httpx2.Response(400, request=httpx2.Request("POST", "https://example.com/v1/chat/completions"))
    body = [{"error": {"code": 400, "message": "Unknown name '$ref'.", "status": "INVALID_ARGUMENT"}}]
    error = openai.BadRequestError("Error code: 400 - [...]", response=response, body=body)
    found = model_error(error, provider="gemini", url="https://example.com/v1", secret=None)
    assert (str(found), found.status, found.transient) == ("gemini: HTTP 400: Unknown name '$ref'.", 400, False)


def test_a_short_secret_is_taken_out_where_it_stands_alone() -> None:
    found = reported_error({"message": "key k, k-1 and (k) in the back"}, provider="openai", secret="k")
    assert str(found) == "openai: key ***, ***-1 and (***) in the back"
    found = reported_error({"message": "xsk-12345x"}, provider="openai", secret="sk-12345")
    assert str(found) == "openai: x***x"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.example/v1/", "https://api.example/v1/"),
        ("http://ann:pass@localhost:8080/v1", "http://localhost:8080/v1"),
        ("https://x.example/v1?key=pass#b", "https://x.example/v1"),
        ("ann:pass@x.example", "x.example"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    assert shown_address(url) == shown
