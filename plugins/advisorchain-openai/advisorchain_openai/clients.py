"""The SDK's clients: one per event loop, because the connections of a pool belong to the loop that opened them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token
from openai import AsyncOpenAI

from advisorchain import ConfigurationError

from .failures import shown_address

OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"


class _Open(NamedTuple):
    client: AsyncOpenAI
    closing: AsyncGenerator[None]


async def _until_closed(client: AsyncOpenAI) -> AsyncGenerator[None]:
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

    def __init__(self, make: Callable[[], AsyncOpenAI]) -> None:
        self._make = make
        self._open: WeakKeyDictionary[object, _Open] = WeakKeyDictionary()

    async def get(self) -> AsyncOpenAI:
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


class Settings(NamedTuple):
    """What a client is made with: the key, the server's address, and headers of every request."""

    key: str
    url: str | None
    headers: dict[str, str]

    def make(self) -> AsyncOpenAI:
        """A client with these settings."""
        return AsyncOpenAI(api_key=self.key, base_url=self.url, default_headers=self.headers, max_retries=0)


def client_settings(
    model: str, api_key: str | None, base_url: str | None, headers: Mapping[str, str] | None
) -> Settings:
    """These settings, and those of the environment where they say nothing.

    Args:
        model: the name of the model's class, for the text of an error.
        api_key: the key.
        base_url: the server's address.
        headers: of every request.

    Raises:
        ConfigurationError: there is no key, or the key or the address is none.
    """
    url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"base_url must start with http:// or https:// (is {shown_address(url)!r}).")
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key:
        if url is None:
            raise ConfigurationError(
                f"There is no OpenAI API key: set the environment variable OPENAI_API_KEY, or give {model} "
                "api_key=... (or base_url=... of a server that needs none)."
            )
        key = _NO_KEY  # the SDK wants one
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("The OpenAI API key has a character that no HTTP header can hold, perhaps a line end.")
    return Settings(key, url, dict(headers or {}))


def secret_of(client: AsyncOpenAI) -> str | None:
    """What must appear in no text; None when there is no key, and the one that stands in for it is just a word."""
    return None if client.api_key == _NO_KEY else client.api_key or None


def server_of(url: str) -> tuple[str | None, int | None]:
    """Host and port of an address; None for what it does not tell."""
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None, None
