"""Budget: a turn, or a conversation, may spend so much; checked before it is spent."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..advisor import Advisor
from ..context import ContextKey, Turn
from ..errors import BudgetExceededError, ConfigurationError, SharedStateError
from ..exchange import ChatNext, ChatRequest, ChatResponse
from ..messages import Usage
from ..model_call import called_model, requested_model
from ..order import Order
from ..setting_checks import check_mapping, check_number
from ..shield import run_shielded

logger = logging.getLogger("advisorchain")

Per = Literal["turn", "conversation"]
OnUnknownPrice = Literal["error", "warn"]

POST_SECONDS = 5.0
"""How long the state of conversations may take for one answer."""
CHARS_PER_TOKEN = 4
"""How tokens are estimated when a model reports none."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a million tokens cost, in any one currency.

    ``cache_read`` and ``cache_write`` are for input tokens read from and written to the provider's cache; default:
    like ``input``.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            value = getattr(self, name)
            if value is not None or name in ("input", "output"):
                check_number(f"ModelPrice: {name}", value)

    def cost(self, usage: Usage) -> float:
        """What a model call cost."""
        read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        plain = max(0, (usage.input_tokens or 0) - read - written)
        total = plain * self.input + (usage.output_tokens or 0) * self.output
        total += read * (self.input if self.cache_read is None else self.cache_read)
        total += written * (self.input if self.cache_write is None else self.cache_write)
        return total / 1_000_000


@dataclass(slots=True)
class Spent:
    """What was spent: tokens, cost in the currency of the prices, seconds, and model calls."""

    tokens: float = 0
    cost: float = 0.0
    seconds: float = 0.0
    calls: int = 0

    def add(self, other: Spent) -> None:
        """Add another one to this one."""
        self.tokens += other.tokens
        self.cost += other.cost
        self.seconds += other.seconds
        self.calls += other.calls

    def plus(self, other: Spent) -> Spent:
        """A new one: both together."""
        return Spent(
            self.tokens + other.tokens, self.cost + other.cost, self.seconds + other.seconds, self.calls + other.calls
        )

    def minus(self, other: Spent) -> Spent:
        """A new one, less the other one."""
        return Spent(
            self.tokens - other.tokens, self.cost - other.cost, self.seconds - other.seconds, self.calls - other.calls
        )


class BudgetState(Protocol):
    """Where the spending of conversations is kept."""

    async def add(self, conversation_id: str, spent: Spent) -> Spent:
        """Add to what the conversation has spent, atomically, and return the sum.

        What calls on their way may take is added before them, and taken back after: numbers may be negative.
        """
        ...


class InMemoryBudget:
    """The spending of conversations in this process; above ``max_conversations``, the longest unused is forgotten."""

    def __init__(self, *, max_conversations: int = 100_000) -> None:
        self.max_conversations = max_conversations
        self._lock = threading.Lock()
        self._spent: OrderedDict[str, Spent] = OrderedDict()

    async def add(self, conversation_id: str, spent: Spent) -> Spent:
        """See `BudgetState`."""
        with self._lock:
            total = self._spent.setdefault(conversation_id, Spent())
            self._spent.move_to_end(conversation_id)
            total.add(spent)
            if len(self._spent) > self.max_conversations:
                self._spent.popitem(last=False)
            return Spent(total.tokens, total.cost, total.seconds, total.calls)


class _TurnSpent:
    """What one turn has spent; sub-agents with the same advisor share it."""

    __slots__ = ("turn", "conversation_id", "spent", "posted", "reserved", "noted_tokens", "noted_calls")

    def __init__(self, turn: Turn, conversation_id: str | None) -> None:
        self.turn = turn
        self.conversation_id = conversation_id
        self.spent = Spent()
        self.reserved = Spent()
        """What the calls on their way may take."""
        self.posted = Spent()
        """What the conversation knows of both."""
        # What the ledger has of calls that passed this advisor; its others are a sub-agent's without it.
        self.noted_tokens = 0
        self.noted_calls = 0

    def brought_up_to_date(self, dearest: ModelPrice) -> Spent:
        """What is spent now: with the time, and with what sub-agents without this advisor have spent."""
        spent, ledger = self.spent, self.turn.ledger
        tokens = (ledger.usage.total_tokens or 0) - self.noted_tokens
        if tokens > 0:
            self.noted_tokens += tokens
            spent.tokens += tokens
            spent.cost += tokens * max(dearest.input, dearest.output) / 1_000_000
        calls = ledger.model_calls - self.noted_calls
        if calls > 0:
            self.noted_calls += calls
            spent.calls += calls
        spent.seconds = self.turn.runtime.clock() - ledger.started
        return spent

    def unposted(self) -> Spent:
        """What the conversation does not know yet."""
        return self.spent.plus(self.reserved).minus(self.posted)


class BudgetAdvisor(Advisor):
    """Refuses a model call when the budget is spent: it raises `BudgetExceededError`, and the turn ends.

    Every attempt is checked, a retried one too. A call that is on its way counts with its ``max_tokens`` option, if it
    has one; without one, the calls that run at once (of one conversation: in all its turns) may overdraw the budget by
    what they use. Their number is never above ``max_calls``. What sub-agents use counts; give them the same advisor to
    stop them half-way too.

    Args:
        max_tokens: input and output tokens. Of a model that reports none, they are estimated from its texts.
        max_cost: in the currency of ``prices``.
        prices: `ModelPrice`, or a mapping of its arguments, by the model's name. Tokens of sub-agents
            without this advisor cost the dearest price.
        max_seconds: wall time; a call that is on its way is not cut.
        max_calls: model calls, failed ones included.
        per: ``"turn"``, or ``"conversation"``: all turns of one conversation together; a call without a
            ``conversation_id`` is then a conversation of its own.
        on_unknown_price: a model without a price, when there is a ``max_cost``: ``"error"`` refuses the call,
            ``"warn"`` logs it once and takes the dearest price.
        state: where conversations are kept, a `BudgetState`; default: in this process. While it fails, or does not
            answer within 5 seconds, calls are refused with `SharedStateError`.

    Raises:
        ConfigurationError: there is no limit, or ``max_cost`` without ``prices``.
    """

    order: int = Order.BUDGET

    def __init__(
        self,
        *,
        max_tokens: float | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, ModelPrice | Mapping[str, float]] | None = None,
        max_seconds: float | None = None,
        max_calls: int | None = None,
        per: Per = "turn",
        on_unknown_price: OnUnknownPrice = "error",
        state: BudgetState | None = None,
        order: int = Order.BUDGET,
        name: str | None = None,
    ) -> None:
        limits: dict[str, float | None] = {
            "tokens": max_tokens, "cost": max_cost, "seconds": max_seconds, "calls": max_calls,
        }  # fmt: skip
        self.limits = {limit: allowed for limit, allowed in limits.items() if allowed is not None}
        if not self.limits:
            raise ConfigurationError("A BudgetAdvisor needs max_tokens=, max_cost=, max_seconds= or max_calls=.")
        for limit, allowed in self.limits.items():
            check_number(f"max_{limit}", allowed, over=0)
        check_mapping("prices", prices, "{'model name': ModelPrice(input=2.0, output=8.0)}")
        if max_cost is not None and not prices:
            raise ConfigurationError("max_cost= needs prices={'model name': ModelPrice(input=..., output=...)}.")
        if per not in ("turn", "conversation"):
            raise ConfigurationError(f"per must be 'turn' or 'conversation', not {per!r}.")
        if on_unknown_price not in ("error", "warn"):
            raise ConfigurationError(f"on_unknown_price must be 'error' or 'warn', not {on_unknown_price!r}.")
        if state is not None and not callable(getattr(state, "add", None)):
            raise ConfigurationError(f"state must have async add(conversation_id, spent), not {state!r}.")
        self.prices = {model: _price_of(model, given) for model, given in (prices or {}).items()}
        self.per: Per = per
        self.on_unknown_price: OnUnknownPrice = on_unknown_price
        self.state: BudgetState = state or InMemoryBudget()
        self.order = order
        if name is not None:
            self.name = name
        self._dearest = ModelPrice(
            max((price.input for price in self.prices.values()), default=0.0),
            max((price.output for price in self.prices.values()), default=0.0),
        )
        self._key = ContextKey[_TurnSpent](f"advisorchain.budget.{id(self)}")
        self._turns: dict[int, _TurnSpent] = {}
        self._warned: set[str] = set()

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Check the budget, call, and note what was spent.

        Raises:
            BudgetExceededError: it is spent, or the model has no price.
            SharedStateError: the state of conversations failed before the call, so that nobody knows what is left.
        """
        model = requested_model(request) or "model"
        turn = self._turn(request)
        # A client as the model is a sub-agent: what it uses is in the turn's ledger already.
        nested = getattr(called_model(request), "keeps_ledger", False)
        price = self._price(model) if "cost" in self.limits and not nested else None
        claim = Spent() if nested else Spent(tokens=request.options.max_tokens or 0, calls=1)
        if price is not None:
            claim.cost = claim.tokens * price.output / 1_000_000
        made = False
        turn.reserved.add(claim)
        try:
            await self._check(turn, claim)
            made = not nested
            response = await call_next(request)
            if nested:
                return response
            usage = response.usage
            reported = usage.total_tokens
            if reported is None:
                usage = self._estimated(model, request, response)
            turn.noted_tokens += reported or 0
            turn.noted_calls += 1
            turn.spent.tokens += usage.total_tokens or 0
            turn.spent.cost += price.cost(usage) if price is not None else 0.0
            return response
        finally:
            turn.reserved = turn.reserved.minus(claim)
            turn.spent.calls += made
            if turn.conversation_id is not None and (made or nested or turn.unposted().calls):
                await self._settle(turn, turn.conversation_id)

    def _turn(self, request: ChatRequest) -> _TurnSpent:
        """The spending of the turn that the request belongs to, in a sub-agent of the outer one."""
        context = request.context
        turn = context.turn
        spent = self._turns.get(id(turn))
        if spent is None:
            spent = context.get(self._key)
            if spent is None:
                conversation = request.conversation_id if self.per == "conversation" else None
                spent = self._turns[id(turn)] = _TurnSpent(turn, conversation)
                context.at_turn_end(lambda end: self._end(turn))
            else:
                return spent
        if context.get(self._key) is None:  # a forked context does not see what its siblings have written
            context[self._key] = spent
        return spent

    def _end(self, turn: Turn) -> Awaitable[None] | None:
        """Forget the turn; tell its conversation what sub-agents have used since its last model call."""
        spent = self._turns.pop(id(turn))
        if spent.conversation_id is None:
            return None
        spent.brought_up_to_date(self._dearest)
        left = spent.unposted()
        return self._settle(spent, spent.conversation_id) if left.calls or left.tokens else None

    async def _settle(self, turn: _TurnSpent, conversation_id: str) -> None:
        """Post what a call that is over has used; its outcome stands, whatever the state says."""
        try:
            await self._post(turn, conversation_id)
        except SharedStateError as error:
            logger.warning(
                "%s What a call of turn %s has used is not counted, unless the turn makes another one.",
                error,
                turn.turn.id,
            )

    async def _post(self, turn: _TurnSpent, conversation_id: str) -> Spent:
        """Tell the conversation what it does not know yet of the turn; what it has spent in all.

        Raises:
            SharedStateError: the state failed. What a driver raises looks like a failure of the model to the advisors
                around: they would repeat the call, ask another model, or open the model's circuit.
        """
        turn.brought_up_to_date(self._dearest)
        new = turn.unposted()
        turn.posted.add(new)  # now, so that a concurrent call does not post it too
        totals: list[Spent] = []

        async def post() -> None:
            totals.append(await self.state.add(conversation_id, new))

        try:
            await run_shielded(post, POST_SECONDS)
        except Exception as error:
            raise SharedStateError(f"The state of advisor {self.name!r} failed ({type(error).__name__}).") from error
        finally:
            if not totals:
                turn.posted = turn.posted.minus(new)
        if not totals:
            raise SharedStateError(
                f"The state of advisor {self.name!r} did not answer within {POST_SECONDS:g} seconds."
            )
        return totals[0]

    async def _check(self, turn: _TurnSpent, claim: Spent) -> None:
        """Check whether the budget allows the claim, which is among what is reserved.

        A conversation learns of the claim in the same step: no other turn comes in between.
        """
        if turn.conversation_id is None:
            total = turn.brought_up_to_date(self._dearest).plus(turn.reserved)
        else:
            from anyio.lowlevel import checkpoint_if_cancelled

            total = await self._post(turn, turn.conversation_id)
            await checkpoint_if_cancelled()  # posting was shielded; nothing is spent for who has left meanwhile
        so_far = total.minus(claim)
        for limit, allowed in self.limits.items():
            spent = round(getattr(so_far, limit), 12)  # sums of costs are not exact
            wanted = getattr(claim, limit)
            if spent >= allowed or spent + wanted > allowed:
                more = f", and the next call may take {wanted:,.10g}" if spent < allowed else ""
                raise BudgetExceededError(
                    f"The budget of {allowed:,.10g} {limit} per {self.per} is spent: {round(spent, 6):,.10g}{more}.",
                    limit=limit,
                    allowed=allowed,
                    spent=spent,
                )

    def _price(self, model: str) -> ModelPrice:
        price = self.prices.get(model)
        if price is not None:
            return price
        text = f"Model {model!r} has no price; prices are known for {', '.join(map(repr, sorted(self.prices)))}."
        if self.on_unknown_price == "error":
            raise BudgetExceededError(text, limit="price", allowed=self.limits["cost"], spent=0)
        if model not in self._warned:
            self._warned.add(model)
            logger.warning("Advisor %r: %s The dearest price is taken.", self.name, text)
        return self._dearest

    def _estimated(self, model: str, request: ChatRequest, response: ChatResponse[Any]) -> Usage:
        if f"usage of {model}" not in self._warned and ("tokens" in self.limits or "cost" in self.limits):
            self._warned.add(f"usage of {model}")
            logger.warning("Advisor %r: model %r reports no usage; its tokens are estimated.", self.name, model)
        sent = sum(len(message.text) for message in request.messages)
        got = len(response.text) + sum(len(str(call.arguments or "")) for call in response.message.tool_calls)
        return Usage(sent // CHARS_PER_TOKEN + 1, got // CHARS_PER_TOKEN + 1)


def _price_of(model: str, given: Any) -> ModelPrice:
    if isinstance(given, ModelPrice):
        return given
    if isinstance(given, Mapping):
        try:
            return ModelPrice(**given)
        except TypeError as error:
            raise ConfigurationError(
                f"prices[{model!r}]: {str(error).removeprefix('ModelPrice.__init__() ')}."
            ) from None
    raise ConfigurationError(f"prices[{model!r}] must be a ModelPrice or a mapping of its arguments, not {given!r}.")
