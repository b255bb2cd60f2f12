"""The innermost part of a chain: the model call itself."""

from __future__ import annotations

import logging
from typing import Any

from .async_callable import checked_async
from .errors import ConfigurationError
from .exchange import ChatNext, ChatRequest, ChatResponse
from .stream import start_attempt

logger = logging.getLogger("advisorchain")


def model_name(model: Any) -> str:
    """The model's name; of a plain function its own."""
    return str(getattr(model, "name", None) or getattr(model, "__name__", None) or type(model).__name__)


def called_model(request: ChatRequest) -> ChatNext | None:
    """The model that a request goes to: its own, else its client's; None outside a client's turn."""
    if request.model is not None:
        return request.model
    chain = request.context.turn.chain
    return None if chain is None else chain.model


def requested_model(request: ChatRequest) -> str | None:
    """The name of the model that a request goes to, its provider's name for it first; None outside a client's turn."""
    if request.options.model is not None:
        return request.options.model
    model = called_model(request)
    return None if model is None else model_name(model)


def has_emitted(request: ChatRequest, withdrawn: int, emitted_round: int) -> bool:
    """Whether a model call has emitted something that still stands, so that another one would have to withdraw it.

    ``withdrawn`` and ``emitted_round`` are the turn's ``attempt`` and ``emitted_round`` from before the call: what
    stood then is not its own, an outer advisor has asked before.
    """
    turn = request.context.turn
    round = request.round or turn.round
    if not request.streaming or turn.emitted_round < round:
        return False
    return emitted_round < round or turn.attempt != withdrawn


class ModelCall:
    """The innermost part of a chain: calls the model, keeps the ledger, starts a streamed attempt."""

    __slots__ = ("model", "_name", "_native_output", "_keeps_ledger")

    def __init__(self, model: ChatNext) -> None:
        self._name = model_name(model)
        self.model: ChatNext = checked_async(model, f"The model {self._name!r}")
        self._native_output = bool(getattr(model, "native_output", False))
        self._keeps_ledger = bool(getattr(model, "keeps_ledger", False))  # a sub-agent: its calls are counted already

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Call the model; the response knows the request that the model saw."""
        if request.model is not None:
            response = await ModelCall(request.model)(request.replace(model=None))
            seen = response.request or request
            return response.seen_as(seen.replace(model=request.model))  # it says which model has answered
        if request.output is not None and not self._native_output:
            request = request.with_instruction(request.output.instruction())
        if request.streaming:
            request = request.replace(emit=await start_attempt(request))
        steering = request.steering
        if steering is not None:
            steering.asked = len(steering)
        run = self._logged if logger.isEnabledFor(logging.DEBUG) else self.model
        observer = request.context.turn.observer
        if observer is None or self._keeps_ledger:  # a sub-agent's turn is watched as one
            response = await run(request)
        else:
            response = await observer.model_call(self._name, self.model, request, run)
        if not isinstance(response, ChatResponse):
            raise ConfigurationError(
                f"The model {self._name!r} returned {type(response).__name__}, not a ChatResponse."
            )
        if not self._keeps_ledger:
            request.context.turn.ledger.add_usage(response.usage)
        if request.offers is not None and response.message.tool_calls:
            request.offers[response.message.id] = (request.tools, request.options)
        if request.round == 0:  # no loop keeps the transcript
            added = request.context.turn.added_to(request.messages)
            if added:
                return response.replace(request=request, new_messages=(*added, response.message))
        return response.seen_as(request)

    async def _logged(self, request: ChatRequest) -> ChatResponse[Any]:
        turn = request.context.turn
        round, start = request.round or turn.round, turn.runtime.clock()
        logger.debug("turn %s round %d: model %s starts", turn.id, round, self._name)
        outcome = "error"
        try:
            response = await self.model(request)
            outcome = f"{response.stop_reason}, {len(response.message.tool_calls)} tool calls"
        finally:
            seconds = turn.runtime.clock() - start
            logger.debug(
                "turn %s round %d: model %s ends after %.3f s: %s", turn.id, round, self._name, seconds, outcome
            )
        return response
