"""What can go wrong with a model call, as `ModelError`: transient or not, when to try again, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anthropic

from advisorchain import ModelError
from advisorchain.models.http.failed_response import is_transient, retry_after
from advisorchain.models.http.redaction import redacted, redacted_value

# The same request fails again, however long one waits.
_PERMANENT_CODES = frozenset({
    "contract_spend_limit_reached", "enforced_spend_limit_reached", "linked_organization_billing_unavailable",
    "linked_organization_spend_limit_reached", "organization_on_hold",
})  # fmt: skip
_PERMANENT_TYPES = frozenset({
    "invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error",
    "request_too_large",
})  # fmt: skip
_LONGEST_TEXT = 500


def model_error(error: Exception, *, provider: str, url: str, secret: str | None) -> ModelError:
    """The `ModelError` for an exception of the SDK.

    Args:
        error: what the SDK raised; the secret is taken out of its text too, because it becomes the cause.
        provider: the provider's name.
        url: where the request went, for connection errors; as `shown_address` gives it.
        secret: the API key, or None.
    """
    if secret:
        _redact(error, secret)
    if isinstance(error, anthropic.APITimeoutError):
        return ModelError(f"{provider}: no answer from {url} in time.", transient=True, provider=provider)
    if isinstance(error, anthropic.APIConnectionError):
        reason = redacted(str(error.__cause__ or error), secret) or type(error.__cause__ or error).__name__
        return ModelError(f"{provider}: no connection to {url} ({reason}).", transient=True, provider=provider)
    if isinstance(error, anthropic.APIStatusError):
        headers, status = error.response.headers, error.status_code
        transient = is_transient(status) and str(error.error_code) not in _PERMANENT_CODES
        # The provider's own word counts for more than the status.
        transient = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), transient)
        return ModelError(
            f"{provider}: HTTP {status}: {_text_of(error)}",
            transient=transient,
            retry_after=retry_after(headers),
            status=status,
            provider=provider,
        )
    return ModelError(f"{provider}: {type(error).__name__}: {str(error)[:_LONGEST_TEXT]}", provider=provider)


def reported_error(error: Any, *, provider: str, secret: str | None) -> ModelError:
    """The `ModelError` for an ``error`` that a server put into its stream, or into the body of a successful answer."""
    details: Mapping[str, Any] = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {"message": error}
    text = redacted(str(details.get("message") or dict(details)), secret)[:_LONGEST_TEXT]
    more = details.get("details")
    code = cast("Mapping[str, Any]", more).get("error_code") if isinstance(more, Mapping) else None
    transient = str(code) not in _PERMANENT_CODES and str(details.get("type")) not in _PERMANENT_TYPES
    return ModelError(f"{provider}: {text}", transient=transient, provider=provider)


def _text_of(error: anthropic.APIStatusError) -> str:
    """The server's own sentence, without the SDK's rendering of the whole body."""
    if error.api_message:
        return str(error.api_message)[:_LONGEST_TEXT]
    body: Any = error.body
    if isinstance(body, Mapping):
        inner = cast("Mapping[str, Any]", body)
        for key in ("message", "detail", "error"):
            if isinstance(inner.get(key), str):
                return cast("str", inner[key])[:_LONGEST_TEXT]
    return error.message[:_LONGEST_TEXT]


def _redact(error: BaseException, secret: str) -> None:
    """Take the secret out of an SDK error: a server may have echoed it."""
    error.args = tuple([redacted(arg, secret) if isinstance(arg, str) else arg for arg in error.args])
    if isinstance(error, anthropic.APIError):
        error.message = redacted(error.message, secret)
        if isinstance(error, anthropic.APIStatusError):
            error.api_message = redacted_value(error.api_message, secret)
        if secret in str(error.body):
            error.body = redacted_value(error.body, secret)
