"""Model fallback: when the model fails, another one answers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from ..advisor import Advisor
from ..errors import AdvisorChainError, ConfigurationError
from ..exchange import ChatNext, ChatRequest, ChatResponse
from ..failures import classify
from ..model_call import has_emitted, model_name, requested_model
from ..order import Order
from ..setting_checks import check_function

logger = logging.getLogger("advisorchain")


class ModelFallbackAdvisor(Advisor):
    """Sends a request to other models, in order, when the chain's own has failed.

    Every model is called through the same inner advisors (retry, breaker, budget). The decision is made anew for each
    model call of a turn. ``response.metadata["model"]`` is the name of the model that answered. When all fail, the last
    error is raised. Options go to each model, except ``ChatOptions.model``: that name is for the chain's own.

    Args:
        models: the others, in order.
        on: ``on(error) -> bool``: whether to try the next one; default: transient failures (see `classify`).
        on_partial: under streaming, the first model that has emitted something owns the answer: ``"raise"`` raises its
            error. ``"restart"``: the next model answers, and readers of the stream get `Restarted`, which withdraws
            what was emitted.

    Raises:
        ConfigurationError: there is no other model, or one is none.
    """

    order: int = Order.FALLBACK
    inside = "tool_loop"  # outside it would repeat tool calls that have been made

    def __init__(
        self,
        models: Sequence[ChatNext],
        *,
        on: Callable[[BaseException], bool] | None = None,
        on_partial: Literal["raise", "restart"] = "raise",
        order: int = Order.FALLBACK,
        name: str | None = None,
    ) -> None:
        check_function("on", on, "an exception")
        if callable(models) or isinstance(models, str) or not isinstance(models, Iterable):
            raise ConfigurationError("ModelFallbackAdvisor takes a list of models, for example [other_model].")
        self.models = tuple(models)
        if not self.models:
            raise ConfigurationError("ModelFallbackAdvisor needs at least one other model.")
        for model in self.models:
            if inspect.isclass(model) or not callable(model):
                raise ConfigurationError(f"ModelFallbackAdvisor: {model!r} is no model; pass an instance.")
        if on_partial not in ("raise", "restart"):
            raise ConfigurationError(f"on_partial must be 'raise' or 'restart', not {on_partial!r}.")
        self.on = on or _transient
        self.on_partial = on_partial
        self.order = order
        if name is not None:
            self.name = name

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Ask the chain's model, then the others."""
        turn = request.context.turn
        name = requested_model(request) or "model"
        others = iter(self.models)
        while True:
            withdrawn, emitted_round = turn.attempt, turn.emitted_round
            try:
                response = await call_next(request)
                break
            except Exception as error:
                if isinstance(error, AdvisorChainError) and error.ends_turn:
                    raise
                if self.on_partial == "raise" and has_emitted(request, withdrawn, emitted_round):
                    raise
                if not self.on(error):
                    raise
                other = next(others, None)
                if other is None:
                    raise
                logger.warning("Model %r failed (%s); %r is next.", name, type(error).__name__, model_name(other))
                name = model_name(other)
                request = request.replace(model=other)
                if request.options.model is not None:  # the other one's provider does not know it
                    request = request.replace(options=request.options.replace(model=None))
        return response.replace(metadata={**response.metadata, "model": name})


def _transient(error: BaseException) -> bool:
    return classify(error) == "transient"
