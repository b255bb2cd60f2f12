"""What one turn shares: its ``Context`` of typed keys, its ``Ledger`` of what was spent, its ``Turn``.

Every copy of a request holds the same context, so what an inner advisor writes in round 1 is there in round 2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .messages import NOTHING_USED, Message, Usage
from .runtime import Runtime
from .turn_end import AtTurnEnd, TurnEnd, run_callbacks

if TYPE_CHECKING:
    from .chain import AdvisorChain
    from .exchange import ChatResponse
    from .observation import Attributes, Observer

T = TypeVar("T")
D = TypeVar("D")

_MISSING: Any = object()


if TYPE_CHECKING:  # no str to a type checker, which would then take a value of any type

    class _Text:
        def __init__(self, name: str) -> None: ...

else:
    _Text = str  # hashed and compared in C, which lookups need several times in every round


class ContextKey(_Text, Generic[T]):
    """A typed key of a `Context`; two keys of one name are the same key, and so is the name itself.

    Example: ``COUNT = ContextKey[int]("my_plugin.count")``.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The key as plain text."""
        return str(self)

    def __repr__(self) -> str:
        return f"ContextKey({str(self)!r})"


class Ledger:
    """What a turn has spent, written where it is spent; a sub-agent's usage and model calls count in its parent's too.

    Attributes:
        usage: the tokens of all model calls.
        model_calls: those that were answered, made by any attempt.
        tool_calls, calls_by_tool: tool calls, in all and by the name that the model called; attempts are not counted.
        rounds: batches of tool calls, refused ones included.
        started: when the turn began, in seconds of the clock of its `Runtime`.
    """

    __slots__ = ("usage", "model_calls", "tool_calls", "calls_by_tool", "rounds", "started", "_parent")

    def __init__(self, started: float, parent: Ledger | None = None) -> None:
        self.usage = NOTHING_USED
        self.model_calls = 0
        self.tool_calls = 0
        self.calls_by_tool: dict[str, int] = {}
        self.rounds = 0
        self.started = started
        self._parent = parent

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of one model call."""
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.model_calls += 1
            if usage is not NOTHING_USED:
                ledger.usage = usage if ledger.model_calls == 1 else ledger.usage + usage
            ledger = ledger._parent


class Turn:
    """One turn: from the caller's message to the answer, however many model calls that takes."""

    __slots__ = (
        "id", "continues", "runtime", "ledger", "messages", "input", "transcript", "call_ids", "path",
        "chain", "observer", "round", "attempt", "emitted_round", "_callbacks", "_sub_agents",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        *,
        id: str | None = None,
        messages: tuple[Message, ...] = (),
        call_ids: set[str] | None = None,
        parent: Turn | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        self.id = id or runtime.ids()
        """The same in every call that goes on with the turn."""
        self.continues = id is not None
        """The caller goes on with a turn that began in an earlier call: it sent that turn's `Transcript`."""
        self.runtime = runtime
        self.ledger: Ledger = Ledger(0.0, parent.ledger if parent is not None else None)
        self.messages = messages
        """What the caller sent."""
        self.input: tuple[Message, ...] | None = None
        """The messages that the guards outside `Order.MEMORY` have let through; None: there are no guards."""
        self.transcript: list[Message] = []
        """What every complete round has added so far."""
        self.call_ids = call_ids if call_ids is not None else set()
        """The ids of all tool calls so far: providers may give one twice."""
        self.path = path
        """``()``, or the names of the sub-agents that lead to this turn."""
        self.chain: AdvisorChain | None = None
        """The client's chain that runs the turn; None until it starts."""
        self.observer: Observer | None = None
        """What watches the turn; None: nothing does."""
        self.round = 1
        """The running round."""
        self.attempt = 0
        """How often streamed text was withdrawn."""
        self.emitted_round = 0
        """The last round that has emitted something (streaming only)."""
        self._callbacks: list[AtTurnEnd] | None = None
        self._sub_agents: dict[str, int] | None = None

    def added_to(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What ``messages`` hold behind the caller's last one: an earlier pass, and feedback on it."""
        if not self.messages or not messages or messages[-1] is self.messages[-1]:
            return ()
        last = self.messages[-1].id
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].id == last:
                return messages[index + 1 :]
        return ()

    def path_of(self, sub_agent: str) -> tuple[str, ...]:
        """The path of a sub-agent that starts in this turn; from its second run on it ends in ``#2``, ``#3``, ..."""
        if self._sub_agents is None:
            self._sub_agents = {}
        number = self._sub_agents[sub_agent] = self._sub_agents.get(sub_agent, 0) + 1
        return (*self.path, sub_agent if number == 1 else f"{sub_agent}#{number}")

    def note(self, name: str, attributes: Attributes | None = None) -> None:
        """See `Context.note`."""
        if self.observer is not None:
            self.observer.note(name, attributes)

    def operation(
        self, name: str, running: Awaitable[T], *, target: str = "", attributes: Attributes | None = None
    ) -> Awaitable[T]:
        """See `Context.operation`."""
        observer = self.observer
        return running if observer is None else observer.operation(name, running, target, attributes)

    @property
    def has_callbacks(self) -> bool:
        """Whether anything waits for the end of the turn."""
        return self._callbacks is not None

    def end(self, response: ChatResponse[Any] | None, error: BaseException | None) -> Awaitable[None]:
        """Run the ``at_turn_end`` callbacks, last registered first, shielded from cancellation for 5 s.

        Raises:
            Exception: the first callback's error, when the turn itself had none; later ones are logged.
        """
        end = TurnEnd(response, error, (*self.messages, *self.transcript))
        return run_callbacks(self._callbacks or [], end, self.id)


class Context:
    """Values shared by everything that handles one turn, under `ContextKey` or plain ``str`` keys."""

    __slots__ = ("turn", "_values", "_parent")

    def __init__(self, turn: Turn, values: dict[Any, Any] | None = None, parent: Context | None = None) -> None:
        self.turn = turn
        self._values: dict[Any, Any] = values if values is not None else {}
        self._parent = parent

    @property
    def ledger(self) -> Ledger:
        """What the turn has spent so far."""
        return self.turn.ledger

    def fork(self, turn: Turn | None = None) -> Context:
        """A child context: reads fall through to this one, writes stay in the child."""
        return Context(turn or self.turn, None, self)

    def at_turn_end(self, callback: AtTurnEnd) -> None:
        """Have ``callback(turn_end)`` run when the turn ends, however it ends; last registered runs first.

        What it returns is awaited, unless it is None.
        """
        turn = self.turn
        if turn._callbacks is None:
            turn._callbacks = []
        turn._callbacks.append(callback)

    def note(self, name: str, attributes: Attributes | None = None) -> None:
        """Tell whoever watches the turn that something has happened: an event on the span of the advisor at work.

        Args:
            name: what, for example ``"my_plugin.quota_reached"``.
            attributes: more about it; no content (texts of users, arguments, results).
        """
        self.turn.note(name, attributes)

    def operation(
        self, name: str, running: Awaitable[T], *, target: str = "", attributes: Attributes | None = None
    ) -> Awaitable[T]:
        """Have whoever watches the turn see ``running`` as an operation: a span of its own.

        Without a watcher it is returned as it is. ``hits = await context.operation("retrieval", search(text),
        target="handbook")``.

        Args:
            name: ``"retrieval"``, ``"search_memory"``, ``"upsert_memory"``, or a name of yours.
            running: what to await; if its result has a length, that is recorded as the number of what was found.
            target: what it works on: an index, a store.
            attributes: more about it; no content.
        """
        return self.turn.operation(name, running, target=target, attributes=attributes)

    @overload
    def get(self, key: ContextKey[T]) -> T | None: ...
    @overload
    def get(self, key: ContextKey[T], default: D) -> T | D: ...
    @overload
    def get(self, key: str, default: Any = None) -> Any: ...
    def get(self, key: Any, default: Any = None) -> Any:
        """The value under ``key``, here or in a parent; else ``default``."""
        context: Context | None = self
        while context is not None:
            values = context._values
            if values:
                value = values.get(key, _MISSING)
                if value is not _MISSING:
                    return value
            context = context._parent
        return default

    @overload
    def __getitem__(self, key: ContextKey[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    @overload
    def __setitem__(self, key: ContextKey[T], value: T) -> None: ...
    @overload
    def __setitem__(self, key: str, value: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value

    @overload
    def setdefault(self, key: ContextKey[T], default: T) -> T: ...
    @overload
    def setdefault(self, key: str, default: Any) -> Any: ...
    def setdefault(self, key: Any, default: Any) -> Any:
        """The value under ``key``; if there is none here or in a parent, ``default``, which is stored here."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            self._values[key] = value = default
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key, _MISSING) is not _MISSING  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[Any]:
        seen: set[Any] = set()
        context: Context | None = self
        while context is not None:
            for key in context._values:
                if key not in seen:
                    seen.add(key)
                    yield key
            context = context._parent
