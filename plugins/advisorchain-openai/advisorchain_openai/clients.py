"""How the SDK's clients are made: keys, addresses, headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from openai import AsyncOpenAI

from advisorchain import ConfigurationError
from advisorchain.models.http.addresses import shown_address
from advisorchain.models.http.client_per_loop import own_client

OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"


class Settings(NamedTuple):
    """What a client is made with: the key, the server's address, and headers of every request."""

    key: str
    url: str | None
    headers: dict[str, str]

    def make(self) -> AsyncOpenAI:
        """A client with these settings.

        Raises:
            ConfigurationError: see `own_client`.
        """
        return own_client(
            lambda: AsyncOpenAI(api_key=self.key, base_url=self.url, default_headers=self.headers, max_retries=0)
        )


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
