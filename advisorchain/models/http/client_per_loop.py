"""An SDK's clients: one per event loop, because the connections of a pool belong to the loop that opened them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import current_token

from ...errors import ConfigurationError


class SdkClient(Protocol):
    """What the clients of OpenAI's and Anthropic's SDKs have in common."""

    def is_closed(self) -> bool:
        """Whether it was closed."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...

    def with_options(self, *, max_retries: int) -> Self:
        """A copy that retries so often."""
        ...


C = TypeVar("C", bound=SdkClient)


class _Open(NamedTuple, Generic[C]):
    client: C
    closing: AsyncGenerator[None]


async def _until_closed(client: SdkClient) -> AsyncGenerator[None]:
    """Closes the client when it is closed itself.

    Event loops close the async generators that are left when they end (and when they are dropped), so that
    ``asyncio.run(client.call(...))`` leaves no open socket behind.
    """
    try:
        yield
    finally:
        await client.close()


def own_client(make: Callable[[], C]) -> C:
    """A client of checked settings.

    Raises:
        ConfigurationError: the SDK cannot make it, because of a proxy or of certificates that the environment names.
    """
    try:
        return make()
    except OSError as exc:
        raise ConfigurationError(
            f"The HTTP client cannot be made ({exc}): can the certificates be read that SSL_CERT_FILE and SSL_CERT_DIR "
            "name?"
        ) from exc
    except Exception as exc:  # not told, nor in a traceback: it may quote a part of the proxy's password
        raise ConfigurationError(
            f"The HTTP client cannot be made ({type(exc).__name__}): do HTTPS_PROXY, HTTP_PROXY and ALL_PROXY have "
            "addresses with http:// or https://, without special characters in their passwords? One with socks5:// "
            "needs the package socksio."
        ) from None


class ClientPerLoop(Generic[C]):
    """Makes the SDK's client at first use in an event loop, and keeps it for that loop.

    Args:
        make: makes a client; it is told never to retry, because a hidden retry multiplies the chain's own.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._open: WeakKeyDictionary[Any, _Open[C]] = WeakKeyDictionary()

    async def get(self) -> C:
        """The client of the running event loop."""
        loop = current_token().native_token
        opened = self._open.get(loop)
        if opened is not None and not opened.client.is_closed():
            return opened.client
        for known in self._open.keyrefs():  # made in one step: other threads have loops of their own
            ended = known()
            if ended is not None and (left := self._open.get(ended)) is not None and left.client.is_closed():
                self._open.pop(ended, None)  # what closed its client knows it, and would keep it for ever
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
