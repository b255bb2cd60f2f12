"""What the models of this distribution have in common: a name, options, a time limit, and a connection to a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import anyio
from openai import AsyncOpenAI

from advisorchain import ChatOptions, ChatRequest, ChatResponse, ConfigurationError, ModelError
from advisorchain.models import check_calls_allowed

from .connection import Connection


class ServerModel(ABC):
    """A model at a server; a subclass says how a request is written and how an answer is read.

    Args:
        model: the model's name at its provider.
        api_key, base_url, headers, client: see `Connection`.
        options: default options.
        timeout: seconds for one model call; None: no limit.
        provider: names the provider.

    Raises:
        ConfigurationError: there is no API key, or an argument is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None,
        options: ChatOptions | Mapping[str, Any] | None,
        timeout: float | None,
        client: AsyncOpenAI | Callable[[], AsyncOpenAI] | None,
        headers: Mapping[str, str] | None,
        provider: str,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise ConfigurationError(f"model must be the name of a model, for example 'gpt-5-mini', not {model!r}.")
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be over 0 seconds, or None for no limit (is {timeout!r}).")
        self._name = model
        self.provider = provider
        self.options = ChatOptions.of(options)
        self.timeout = timeout
        self._connection = Connection(
            type(self).__name__, provider, api_key=api_key, base_url=base_url, headers=headers, client=client
        )

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self._name

    @property
    def server_address(self) -> str | None:
        """The host that is asked; None before the first call of a model whose ``client=`` is a function."""
        return self._connection.server[0]

    @property
    def server_port(self) -> int | None:
        """The port that is asked; None where `server_address` is."""
        return self._connection.server[1]

    async def __call__(self, request: ChatRequest, /) -> ChatResponse[Any]:
        """Ask the model once, and emit the pieces of its answer while they arrive.

        Raises:
            ModelError: the call failed; says whether it may succeed later, and when.
            ConfigurationError: a message or an option cannot be sent, or the calls of real models are forbidden.
        """
        check_calls_allowed(self)
        options = request.options.over(self.options)
        seconds = options.timeout if options.timeout is not None else self.timeout
        with anyio.move_on_after(seconds):
            return await self._ask(request, options, seconds)
        raise ModelError(
            f"{self.provider}: no whole answer within {seconds:g} s.", transient=True, provider=self.provider
        )

    @abstractmethod
    async def _ask(self, request: ChatRequest, options: ChatOptions, seconds: float | None) -> ChatResponse[Any]:
        """One request, and its answer."""

    async def aclose(self) -> None:
        """Close the HTTP client of the running event loop, unless it was given; a later call opens another one."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"
