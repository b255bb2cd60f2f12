"""How the SDK's clients are made: keys, addresses, headers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from anthropic import AsyncAnthropic

from advisorchain import ConfigurationError
from advisorchain.models.http.addresses import shown_address
from advisorchain.models.http.client_per_loop import own_client

_WITHOUT_SAMPLING = "2026-10-21"
ANTHROPIC_URL = "https://api.anthropic.com"
_NO_KEY = "none"


def client_factory(
    api_key: str | None, base_url: str | None, headers: Mapping[str, str] | None
) -> Callable[[], AsyncAnthropic]:
    """Makes clients with these settings, or with those of the environment.

    Raises:
        ConfigurationError: there is no key, or the address is none.
    """
    url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"base_url must start with http:// or https:// (is {shown_address(url)!r}).")
    if url is not None and url.rstrip("/").endswith("/v1"):
        raise ConfigurationError(f"base_url must be without /v1, which is added to it (is {shown_address(url)!r}).")
    key = api_key or os.environ.get("ANTHROPIC_API_KEY") or None
    token = None if key else os.environ.get("ANTHROPIC_AUTH_TOKEN") or None
    if not key and not token:
        if url is None:
            raise ConfigurationError(
                "There is no Anthropic API key: set the environment variable ANTHROPIC_API_KEY, or give AnthropicModel "
                "api_key=... (or base_url=... of a server that needs none, or client=... for other credentials)."
            )
        key = _NO_KEY  # the SDK wants one

    def make() -> AsyncAnthropic:
        # No spans of the SDK: a chain has its own for every model call.
        return AsyncAnthropic(
            api_key=key,
            auth_token=token,
            base_url=url,
            default_headers=dict(headers or {}),
            max_retries=0,
            open_telemetry=False,
        )

    return lambda: own_client(make)


def takes_sampling(client: AsyncAnthropic) -> bool:
    """Whether ``temperature`` and ``top_p`` may be sent: Anthropic's own API refuses them since this version."""
    if str(client.default_headers.get("anthropic-version", "")) < _WITHOUT_SAMPLING:
        return True
    is_anthropic = client.base_url.host.endswith("anthropic.com") or type(client) is not AsyncAnthropic
    return not is_anthropic


def secret_of(client: AsyncAnthropic) -> str | None:
    """What must appear in no text."""
    secret = client.api_key or client.auth_token
    return None if secret == _NO_KEY else secret
