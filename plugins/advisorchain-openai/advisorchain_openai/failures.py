"""What can go wrong with a model call, as `ModelError`: transient or not, when to try again, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import openai

from advisorchain import ModelError
from advisorchain.models.http.failed_response import is_transient, retry_after
from advisorchain.models.http.redaction import redacted, redacted_value

# The same request fails again, however long one waits.
_PERMANENT_CODES = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "invalid_api_key", "context_length_exceeded", "model_not_found",
    "invalid_prompt", "bio_policy", "cyber_policy", "content_policy_violation", "misalignment_policy_violation",
    "data_residency_mismatch", "invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url",
    "image_too_large", "image_too_small", "image_parse_error", "image_content_policy_violation", "invalid_image_mode",
    "image_file_too_large", "unsupported_image_media_type", "empty_image_file", "image_file_not_found",
})  # fmt: skip
_PERMANENT_TYPES = frozenset({"invalid_request_error", "authentication_error", "permission_error"})
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
    if isinstance(error, openai.APITimeoutError):
        return ModelError(f"{provider}: no answer from {url} in time.", transient=True, provider=provider)
    if isinstance(error, openai.APIConnectionError):
        reason = redacted(str(error.__cause__ or error), secret) or type(error.__cause__ or error).__name__
        return ModelError(f"{provider}: no connection to {url} ({reason}).", transient=True, provider=provider)
    if isinstance(error, openai.APIStatusError):
        headers, status = error.response.headers, error.status_code
        transient = is_transient(status) and str(error.code) not in _PERMANENT_CODES
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
    """The `ModelError` for an ``error`` that a server put into the body of a successful answer, or into its stream."""
    details: Mapping[str, Any] = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {"message": error}
    text = redacted(str(details.get("message") or dict(details)), secret)[:_LONGEST_TEXT]
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    if status is not None:
        transient = is_transient(status)
    else:
        transient = str(code) not in _PERMANENT_CODES and str(details.get("type")) not in _PERMANENT_TYPES
    return ModelError(f"{provider}: {text}", transient=transient, status=status, provider=provider)


def _text_of(error: openai.APIStatusError) -> str:
    """The server's own sentence, without the SDK's rendering of the whole body."""
    body: Any = error.body
    if isinstance(body, list) and len(body) == 1:  # Gemini's compatible endpoint
        body = body[0].get("error", body[0]) if isinstance(body[0], Mapping) else body[0]
    if isinstance(body, Mapping):
        inner = cast("Mapping[str, Any]", body)
        for key in ("message", "detail", "error"):
            if isinstance(inner.get(key), str):
                return cast("str", inner[key])[:_LONGEST_TEXT]
    return error.message[:_LONGEST_TEXT]


def _redact(error: BaseException, secret: str) -> None:
    """Take the secret out of an SDK error: a server may have echoed it."""
    error.args = tuple([redacted(arg, secret) if isinstance(arg, str) else arg for arg in error.args])
    if isinstance(error, openai.APIError):
        error.message = redacted(error.message, secret)
        if secret in str(error.body):
            error.body = redacted_value(error.body, secret)
