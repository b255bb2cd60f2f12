"""The SDK's clients: one per event loop, because the connections of a pool belong to the loop that opened them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from anthropic import AsyncAnthropic
from anyio.lowlevel import current_token

from advisorchain import ConfigurationError

from .failures import shown_address

_WITHOUT_SAMPLING = "2026-10-21"
ANTHROPIC_URL = "https://api.anthropic.com"
_NO_KEY = "none"


class _Open(NamedTuple):
    client: AsyncAnthropic
    closing: AsyncGenerator[None]


async def _until_closed(client: AsyncAnthropic) -> AsyncGenerator[None]:
    """Closes the client when it is closed itself.

    Event loops close the async generators that are left when they end (and when they are dropped), so that
    ``asyncio.run(client.call(...))`` leaves no open socket behind.
    """
    try:
        yield
    finally:
        await client.close()


class ClientPerLoop:
    """Makes the SDK's client at first use in an event loop, and keeps it for that loop.

    Args:
        make: makes a client; it is told never to retry, because a hidden retry multiplies the chain's own.
    """

    def __init__(self, make: Callable[[], AsyncAnthropic]) -> None:
        self._make = make
        self._open: WeakKeyDictionary[object, _Open] = WeakKeyDictionary()

    async def get(self) -> AsyncAnthropic:
        """The client of the running event loop."""
        loop = current_token().native_token
        opened = self._open.get(loop)
        if opened is not None and not opened.client.is_closed():
            return opened.client
        client = self._make().with_options(max_retries=0)
        closing = _until_closed(client)
        # Kept before the first await: a second call of this loop must find it.
        self._open[loop] = _Open(client, closing)
        await anext(closing)
        return client

    async def aclose(self) -> None:
        """Close the client of the running event loop; the next call opens another one."""
        opened = self._open.pop(current_token().native_token, None)
        if opened is not None:
            await opened.closing.aclose()
            await opened.client.close()  # also when the generator had not started


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

    return make


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


def server_of(url: str) -> tuple[str | None, int | None]:
    """Host and port of an address; None for what it does not tell."""
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None, None
