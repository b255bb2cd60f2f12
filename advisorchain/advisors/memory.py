"""Memory: a turn begins with the conversation's history, and is stored when it ends."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal

from ..advisor import Advisor
from ..async_callable import passes_on
from ..context import Context, ContextKey, Turn
from ..errors import ConfigurationError, MemoryStoreError
from ..exchange import CONVERSATION, ChatNext, ChatRequest, ChatResponse
from ..memory.history import merged, with_distinct_calls
from ..memory.in_memory import InMemoryStore
from ..memory.store import History, MemoryStore, have_distinct_ids
from ..memory.windows import Window
from ..messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..order import Order
from ..turn_end import TurnEnd

logger = logging.getLogger("advisorchain")

CLOSING_NOTE = "(This turn ended early, without an answer: {error}.)"
"""What ``keep_failed=True`` stores as the answer of a turn that failed; ``{error}`` is the type of the error."""

APPEND_SECONDS = 4.0
"""How long a store may take for a turn: less than the end of a turn has, so that the store's failure is told as one."""

_SHOWN = ContextKey[tuple[Turn, History]]("advisorchain.memory.shown")
_STORED_AS = ContextKey[str]("advisorchain.memory.stored_as")


class _Remembered:
    """What one turn needs to know between its beginning and its end."""

    __slots__ = ("conversation_id", "branch", "turn", "turn_id", "sent", "history", "replaced")

    def __init__(self, conversation_id: str, branch: str, turn: Turn) -> None:
        self.conversation_id = conversation_id
        self.branch = branch
        self.turn = turn
        self.turn_id = turn.id
        self.sent: Sequence[Message] = ()
        self.history: tuple[Message, ...] = ()
        self.replaced: History | None = None

    def shown(self, request: ChatRequest) -> ChatRequest:
        """The request with the history after the leading system messages."""
        history = self.history
        if not history:
            return request
        messages = request.messages
        if self.replaced is not None:
            messages = _without(messages, self.replaced)
        if type(messages[0]) is not SystemMessage:
            return request.with_tools(request.tools, history + messages)
        head = 1
        while type(messages[head]) is SystemMessage:
            head += 1
        return request.with_tools(request.tools, messages[:head] + history + messages[head:])


class MemoryAdvisor(Advisor):
    """Remembers conversations: loads the history once per turn, stores the turn once, when it has ended.

    Outside the tool loop (``order=Order.MEMORY``, the default) the user's messages and the final answer are stored;
    inside (``order=Order.MEMORY_INSIDE``) the whole turn, tool calls and results included. System messages are never
    stored. A turn that fails, is cancelled or leaves tool calls open stores nothing. A call without
    ``conversation_id`` has no memory.

    Args:
        store: where conversations are kept.
        window: how much of the history a turn reads: `LastTurns`, `LastMessages`, `TokenWindow`; default: all of it.
        order: outside or inside the tool loop.
        keep_failed: inside only: of a turn that fails after its tools have run, store the complete rounds and a
            closing note, so that the side effects are remembered.
        history: what to do when the caller posts a history of its own: ``"error"``, or ``"replace"``: it takes the
            place of the stored one in this call, and only what follows it is stored.
        branch: in a sub-agent: remember under the conversation of the turn around it, in a branch named by the
            sub-agent's path. Without it a sub-agent has no memory.

    Raises:
        ConfigurationError: an argument is wrong; the store keeps no tool messages and is to stand inside the loop; in a
            call: the caller posts a history.
        MemoryStoreError: in a call: the store failed. Nothing of the turn is stored, and the call fails.
    """

    order: int = Order.MEMORY

    def __init__(
        self,
        store: MemoryStore,
        *,
        window: Window | None = None,
        order: int = Order.MEMORY,
        keep_failed: bool = False,
        history: Literal["error", "replace"] = "error",
        branch: bool = False,
        name: str | None = None,
    ) -> None:
        if isinstance(store, type) or not isinstance(store, MemoryStore):
            raise ConfigurationError(
                f"MemoryAdvisor(store) takes a memory store, for example InMemoryStore() or SqliteStore(path), not "
                f"{store!r}."
            )
        if window is not None and (isinstance(window, type) or not hasattr(window, "load")):
            raise ConfigurationError(f"window= takes a window, for example LastTurns(20), not {window!r}.")
        if history not in ("error", "replace"):
            raise ConfigurationError(f"history must be 'error' or 'replace', not {history!r}.")
        self.store = store
        self.window = window
        self.order = order
        self.keep_failed = keep_failed
        self.on_posted = history
        self.branch = branch
        if name is not None:
            self.name = name
        if not store.lossless:
            if order > Order.TOOL_LOOP:
                raise ConfigurationError(
                    f"Advisor {self.name!r} (order {int(order)}) stands inside the tool loop, but its store "
                    f"{type(store).__name__} cannot keep tool messages: give it an order below {int(Order.TOOL_LOOP)}, "
                    "or another store."
                )
            self.outside = "tool_loop"  # type: ignore[misc]  # of this instance: the chain knows where its loop is
        if keep_failed:
            self.inside = "tool_loop"  # type: ignore[misc]
        self._turns: dict[Turn, _Remembered] = {}
        self._told = False

    @passes_on
    def advise(  # pyright: ignore[reportIncompatibleMethodOverride]  # any awaitable will do
        self, request: ChatRequest, call_next: ChatNext
    ) -> Coroutine[Any, Any, ChatResponse[Any]]:
        """Put the history after the leading system messages; what follows is for the end of the turn."""
        remembered = self._turns.get(request.context.turn)
        if remembered is None:
            return self._begin(request, call_next)
        return call_next(remembered.shown(request))  # type: ignore[return-value]

    # The beginning of a turn -----------------------------------------------------------------------------------------

    async def _begin(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Load the history, once per turn, and go on."""
        context = request.context
        turn = context.turn
        conversation_id, branch = request.conversation_id, ""
        if conversation_id is None:
            conversation_id, branch = self._branch(request, turn)
            if conversation_id is None:
                return await call_next(request)
        remembered = _Remembered(conversation_id, branch, turn)
        if turn.continues:  # who sends a transcript twice gets two answers: each is stored as a turn of its own
            remembered.turn_id = context.setdefault(_STORED_AS, f"{turn.id}.{turn.runtime.ids()}")
        inside = request.round > 0 or self.order > Order.TOOL_LOOP
        posted = self._is_posted(turn)
        if posted and self.on_posted == "error":
            raise ConfigurationError(
                f"The call posts a history, but advisor {self.name!r} keeps that of conversation "
                f"{remembered.conversation_id!r}: send only the new message (or client.execute_tools(...).messages "
                'as they are), leave conversation_id out, or make it MemoryAdvisor(..., history="replace").'
            )
        outer = context.get(_SHOWN)
        shown = outer[1] if outer is not None and outer[0] is turn else None  # by another memory, further outside
        # A memory among the guards stands where some of them have spoken: its request says what those let through.
        allowed = request.messages if self.order < Order.MEMORY else turn.input
        if allowed is not None and shown:
            allowed = _without(allowed, shown)
        remembered.sent = _sent(allowed, turn, inside, posted)
        if not posted:
            if self.window is None:
                loading = self.store.load(conversation_id, branch=branch)
            else:
                loading = self.window.load(self.store, conversation_id, branch)
            loaded = await turn.operation("search_memory", loading, target=type(self.store).__name__)
            again = self._turns.get(turn)
            if again is not None:  # a concurrent call_next of the same turn was faster: one snapshot for all
                return await call_next(again.shown(request))
            if loaded:
                self._take(loaded, shown, remembered, context)
        self._turns[turn] = remembered
        context.at_turn_end(partial(self._end, remembered, inside))
        return await call_next(remembered.shown(request))

    def _is_posted(self, turn: Turn) -> bool:
        """Whether the caller has sent more than this turn: a history of its own."""
        if len(turn.messages) == 1 and type(turn.messages[0]) is UserMessage:
            return False
        sent = _without_system(turn.messages)
        if turn.continues:
            return self.on_posted == "replace" and _start_of_turn(sent) > 0
        return any(isinstance(message, AssistantMessage | ToolMessage) for message in sent)

    def _branch(self, request: ChatRequest, turn: Turn) -> tuple[str | None, str]:
        """The conversation and the branch of a turn that has no conversation of its own; None: it has no memory."""
        if turn.path and self.branch:
            conversation_id = request.context.get(CONVERSATION)
            if conversation_id is not None:
                return conversation_id, "/".join(turn.path)
        if not self._told:
            self._told = True
            hint = "; a sub-agent remembers with MemoryAdvisor(..., branch=True)" if turn.path else ""
            logger.warning("Advisor %r: a call without conversation_id has no memory%s (said once)", self.name, hint)
        return None, ""

    def _take(self, loaded: History, shown: History | None, remembered: _Remembered, context: Context) -> None:
        """Make the loaded history this turn's snapshot."""
        if not isinstance(loaded, History):
            raise ConfigurationError(
                f"The store of advisor {self.name!r} ({type(self.store).__name__}) gave {type(loaded).__name__}, not a "
                "History: make one with History([StoredTurn(id, messages), ...])."
            )
        turn = remembered.turn
        if turn.continues:  # what was stored when the same transcript was sent before
            loaded = History(stored for stored in loaded.turns if not stored.id.startswith(f"{turn.id}."))
        if shown is not None:  # keep what this memory does not have
            remembered.replaced = shown
            for message in shown:
                if isinstance(message, AssistantMessage):
                    turn.call_ids.difference_update([call.id for call in message.tool_calls])
            loaded = merged(shown, loaded)
        remembered.history = with_distinct_calls(loaded, turn.call_ids)
        context[_SHOWN] = (turn, remembered.history)

    # The end of a turn -----------------------------------------------------------------------------------------------

    def _end(self, remembered: _Remembered, inside: bool, end: TurnEnd) -> Awaitable[None] | None:
        """Store the turn, in one append."""
        self._turns.pop(remembered.turn, None)
        response = end.response
        if response is None:
            messages = self._failed(remembered, end) if self.keep_failed else ()
        elif response.stop_reason == "suspended" or response.tool_calls:
            return None
        else:
            messages = response.new_messages if inside else (response.message,)
        if not messages:
            return None
        stored = _with_distinct_ids(_without_system((*remembered.sent, *messages)))
        turn = remembered.turn
        if turn.observer is not None:
            append = self._append(remembered, stored)
            count = {"gen_ai.memory.record.count": len(stored)}
            return turn.operation("upsert_memory", append, target=type(self.store).__name__, attributes=count)
        if getattr(self.store.append, "__func__", None) is not InMemoryStore.append:
            return self._append(remembered, stored)
        # It never waits: no shield against cancellation is needed.
        _finish(self.store.append(remembered.conversation_id, remembered.turn_id, stored, branch=remembered.branch))
        return None

    async def _append(self, remembered: _Remembered, stored: Sequence[Message]) -> None:
        import anyio

        with anyio.move_on_after(APPEND_SECONDS) as limit:
            await self.store.append(remembered.conversation_id, remembered.turn_id, stored, branch=remembered.branch)
        if limit.cancelled_caught:
            raise MemoryStoreError(
                f"The store of advisor {self.name!r} ({type(self.store).__name__}) did not say within "
                f"{APPEND_SECONDS:g} s that it has stored turn {remembered.turn_id!r} of conversation "
                f"{remembered.conversation_id!r}. Check that it works and is not locked, and try again."
            )

    def _failed(self, remembered: _Remembered, end: TurnEnd) -> tuple[Message, ...]:
        """The complete rounds of a turn that failed, and a closing note; empty when there is none."""
        rounds = end.messages[len(remembered.turn.messages) :]
        if not any(isinstance(message, ToolMessage) for message in rounds):
            return ()
        last = rounds[-1]
        if isinstance(last, AssistantMessage) and not last.tool_calls:
            return rounds
        return (*rounds, AssistantMessage(content=CLOSING_NOTE.format(error=type(end.error).__name__)))


def _finish(append: Coroutine[Any, Any, None]) -> None:
    """Run what never waits."""
    try:
        append.send(None)
    except StopIteration:
        return


def _without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if SystemMessage in map(type, messages):
        return tuple([message for message in messages if type(message) is not SystemMessage])
    return messages


def _without(messages: tuple[Message, ...], history: History) -> tuple[Message, ...]:
    """The messages after a history, all of them if it is not there.

    One that is in it may also be new, when the caller sends an object twice.
    """
    left = Counter(map(id, history))
    kept: list[Message] = []
    for message in messages:
        if left[id(message)]:
            left[id(message)] -= 1
        else:
            kept.append(message)
    return tuple(kept) if not left.total() else messages


def _sent(allowed: tuple[Message, ...] | None, turn: Turn, inside: bool, posted: bool) -> Sequence[Message]:
    """What the caller sent, as far as it is stored; of a posted history only what follows it.

    Guards further outside may have changed it: what they ``allowed`` counts (None: there are none). What advisors
    between them and the memory have added is for this turn only.
    """
    sent = turn.messages
    if len(sent) == 1 and (allowed is None or sent[0] is allowed[-1]):  # as most turns begin
        return sent
    sent = _without_system(sent)
    if posted:
        sent = sent[_start_of_turn(sent) :]
    if allowed is not None:
        ids = {getattr(message, "id", None) for message in sent}
        sent = tuple([message for message in allowed if getattr(message, "id", None) in ids])
        if not sent:  # all of it was rewritten
            sent = _without_system(allowed)
            sent = sent[_start_of_turn(sent) :]
    if inside:
        return sent
    return [message for message in sent if not isinstance(message, AssistantMessage | ToolMessage | SystemMessage)]


def _with_distinct_ids(messages: Sequence[Message]) -> Sequence[Message]:
    """A store keeps a message once in a turn; one that was sent twice on purpose gets another id, always the same."""
    if have_distinct_ids(messages):
        return messages
    ids = [getattr(message, "id", None) for message in messages]
    counts: dict[str, int] = {}
    distinct: list[Message] = []
    for message, key in zip(messages, ids, strict=True):
        if isinstance(key, str):
            counts[key] = number = counts.get(key, 0) + 1
            if number > 1:
                message = message.model_copy(update={"id": f"{key}#{number}"})
        distinct.append(message)
    return distinct


def _start_of_turn(messages: Sequence[Message]) -> int:
    """Where the last user messages begin; 0 when there are none."""
    start = len(messages)
    while start and type(messages[start - 1]) is not UserMessage:
        start -= 1
    while start and type(messages[start - 1]) is UserMessage:
        start -= 1
    return start
