"""One turn, ready to run: the same code under ``call``, ``stream`` and inside another turn."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .chain import AdvisorChain
from .errors import ConfigurationError
from .exchange import ChatRequest, ChatResponse, Emit
from .stream import Outlet
from .tools.batch import with_unique_ids
from .tools.registry import ProvidedTools

if TYPE_CHECKING:
    from .observation import Observer

logger = logging.getLogger("advisorchain")


class PreparedTurn(NamedTuple):
    """A turn's chain and request, the tool providers to ask before it starts, and what watches it.

    ``client`` is its name in logs and traces.
    """

    client: str
    chain: AdvisorChain
    request: ChatRequest
    providers: Sequence[ProvidedTools]
    observer: Observer | None = None

    def run(self, emit: Emit | None = None) -> Awaitable[ChatResponse[Any]]:
        """Run the chain, validate the output, settle the stream's text, end the turn; ``emit`` makes it streamed."""
        request = self.request
        turn = request.context.turn
        outlet: Outlet | None = None
        if emit is not None:
            outlet = Outlet(turn, emit)
            request = request.replace(emit=outlet, streaming=True)
        observer = turn.observer = self.observer
        if observer is None:
            return self._run(request, outlet)
        return observer.turn(self.client, request, partial(self._run, request, outlet))

    async def _run(self, request: ChatRequest, outlet: Outlet | None) -> ChatResponse[Any]:
        turn = request.context.turn
        turn.ledger.started = turn.runtime.clock()
        turn.chain = self.chain
        if debug := logger.isEnabledFor(logging.DEBUG):
            logger.debug("turn %s of %s starts", turn.id, self.client)
        try:
            if self.providers:
                request = await _with_provided_tools(request, self.providers)
            response = await self.chain(request)
            if not isinstance(response, ChatResponse):
                raise ConfigurationError(
                    f"The chain answered with {type(response).__name__}, not a ChatResponse; does an advisor miss "
                    "'return await call_next(request)'?"
                )
            ledger = turn.ledger
            if response.usage is not ledger.usage:
                response = response.replace(usage=ledger.usage)
            if response.message.tool_calls and response.tool_calls:  # left to the caller, who finds them by id
                response = with_unique_ids(response, turn)
            elif request.output is not None:
                response = response.replace(output=request.output.validate(response.text))
            if outlet is not None:
                await outlet.settle(response.text)
                if response.request is not None:  # nobody listens any more
                    response = response.replace(request=response.request.muted())
        except BaseException as error:
            if debug:
                logger.debug(
                    "turn %s ends after %.3f s: %s", turn.id, turn.runtime.clock() - turn.ledger.started,
                    type(error).__name__,
                )  # fmt: skip
            if turn.has_callbacks:
                await turn.end(None, error)
            raise
        if turn.has_callbacks:
            turn.transcript = list(response.new_messages)
            await turn.end(response, None)
        if debug:
            logger.debug(
                "turn %s ends after %.3f s: %s, %d model calls, %d tool calls",
                turn.id, turn.runtime.clock() - turn.ledger.started, response.stop_reason, ledger.model_calls,
                ledger.tool_calls,
            )  # fmt: skip
        return response


async def _with_provided_tools(request: ChatRequest, providers: Sequence[ProvidedTools]) -> ChatRequest:
    """Ask the tool providers, once per turn; each sees the tools before it, and may name its own accordingly."""
    for provided in providers:
        tools = await provided.added_to(request)
        if tools is not request.tools:
            request = request.replace(tools=tools)
        for source, text in (getattr(provided.provider, "instructions", None) or {}).items():
            request = request.with_instruction(f"About the tools of {source}: {text}")
    return request
