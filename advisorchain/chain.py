"""The chain: sorts and checks advisors, and composes them into two onions around the model and around the tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from .advisor import Advisor, derived_name
from .async_callable import checked_async
from .errors import ConfigurationError
from .exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from .invocation import ToolInvocation, ToolResult
from .model_call import ModelCall
from .order import Order, checked_order
from .stream import emit_text

if TYPE_CHECKING:
    from .explain import ChainExplanation
    from .observation import Observer

Advise = Callable[[ChatRequest, ChatNext], Awaitable[ChatResponse[Any]]]
AdviseTool = Callable[[ToolInvocation, ToolNext], Awaitable[ToolResult]]

_SIDES = (None, "tool_loop")


class Entry:
    """One advisor in its place: what `AdvisorChain` found out about it."""

    __slots__ = ("advisor", "name", "order", "advise", "advise_tool", "is_tool_loop")

    def __init__(self, advisor: Any, name: str, order: int) -> None:
        self.advisor = advisor
        self.name = name
        self.order = order
        self.advise: Advise | None = _overridden(advisor, name, "advise", Advisor.advise)
        self.advise_tool: AdviseTool | None = _overridden(advisor, name, "advise_tool", Advisor.advise_tool)
        self.is_tool_loop = bool(getattr(advisor, "is_tool_loop", False))
        for setting, known in (("streams", ("pass", "hold")), ("inside", _SIDES), ("outside", _SIDES)):
            value = getattr(advisor, setting, known[0])
            if value not in known:
                raise ConfigurationError(f"Advisor {name!r}: {setting} must be one of {known}, not {value!r}.")

    @property
    def wraps(self) -> str:
        """``"chat"``, ``"tool"``, ``"both"``, or ``"nothing"``."""
        if self.advise is None:
            return "nothing" if self.advise_tool is None else "tool"
        return "chat" if self.advise_tool is None else "both"


def _overridden(advisor: Any, name: str, method_name: str, default: Any) -> Any:
    method = getattr(advisor, method_name, None)
    if method is None or getattr(method, "__func__", None) is default:
        return None
    return checked_async(method, f"{method_name} of advisor {name!r}")


def _watched(entry: Entry) -> Advise:
    return lambda request, call_next: request.context.turn.observer.advise(entry, request, call_next)  # type: ignore[union-attr]


def _watched_tool(entry: Entry) -> AdviseTool:
    return lambda invocation, call_next: invocation.context.turn.observer.advise_tool(entry, invocation, call_next)  # type: ignore[union-attr]


def _link(advise: Advise, call_next: ChatNext) -> ChatNext:
    return lambda request: advise(request, call_next)


def _link_tool(advise_tool: AdviseTool, call_next: ToolNext, hold: bool) -> ToolNext:
    if hold:
        return lambda invocation: advise_tool(invocation.replace(request=invocation.request.muted()), call_next)
    return lambda invocation: advise_tool(invocation, call_next)


def _noting_input(call_next: ChatNext) -> ChatNext:
    def note(request: ChatRequest) -> Awaitable[ChatResponse[Any]]:
        turn = request.context.turn
        turn.input = turn.input or request.messages  # the first, if the turn is asked again
        return call_next(request)

    return note


def _link_hold(advise: Advise, call_next: ChatNext) -> ChatNext:
    async def hold(request: ChatRequest) -> ChatResponse[Any]:
        if not request.streaming:
            return await advise(request, call_next)
        response = await advise(request.muted(), call_next)
        await emit_text(request, response.text)
        return response

    return hold


class AdvisorChain:
    """Advisors around a model, sorted, checked and composed once; itself a ``ChatNext``, so chains nest.

    Args:
        advisors: in order of registration, which equal orders keep.
        model: the innermost call.
        tool: runs a tool call itself.

    Raises:
        ConfigurationError: an order is out of range, an advisor is there twice, two have one name, there is more than
            one tool loop, or an advisor stands on the wrong side of it.
    """

    __slots__ = ("entries", "model", "_run_tool", "_onions", "_watched_onions")
    keeps_ledger = True  # as the model of another chain: its model calls are in the turn's ledger already

    def __init__(self, advisors: Iterable[Any], model: ChatNext, *, tool: ToolNext) -> None:
        self.entries = _arrange(advisors)
        self.model = model
        self._run_tool = tool
        self._onions = self._composed(watched=False)
        self._watched_onions: tuple[ChatNext, ToolNext] | None = None

    def _composed(self, watched: bool) -> tuple[ChatNext, ToolNext]:
        """The chat onion and the tool onion; ``watched``: every pass goes through the turn's observer."""
        chat: ChatNext = ModelCall(self.model)
        tool = self._run_tool
        guarded = False
        for entry in reversed(self.entries):
            if entry.order < Order.MEMORY and entry.advise is not None and not guarded:
                # Right inside the innermost guard: what all of them let through is what memory may store.
                guarded, chat = True, _noting_input(chat)
            hold = getattr(entry.advisor, "streams", "pass") == "hold"
            if entry.advise is not None:
                chat = (_link_hold if hold else _link)(_watched(entry) if watched else entry.advise, chat)
            if entry.advise_tool is not None:
                tool = _link_tool(_watched_tool(entry) if watched else entry.advise_tool, tool, hold)
        return chat, tool

    def __call__(self, request: ChatRequest) -> Awaitable[ChatResponse[Any]]:
        """Send a request through the chain; its tool calls go through this chain's tool advisors."""
        observer = request.context.turn.observer
        chat, tool = self._onions if observer is None else self._onions_for(observer)
        if request.execute is not tool:
            request = request.replace(execute=tool)
        return chat(request)

    def _onions_for(self, observer: Observer) -> tuple[ChatNext, ToolNext]:
        if not observer.advisors:
            return self._onions
        if self._watched_onions is None:
            self._watched_onions = self._composed(watched=True)
        return self._watched_onions

    @property
    def execute(self) -> ToolNext:
        """Runs one tool invocation through the tool advisors."""
        return self._onions[1]

    def execute_for(self, observer: Observer | None) -> ToolNext:
        """`execute`, for a turn that ``observer`` watches."""
        return self._onions[1] if observer is None else self._onions_for(observer)[1]

    @property
    def tool_loop(self) -> Entry | None:
        """The entry of the tool loop, or None."""
        return next((entry for entry in self.entries if entry.is_tool_loop), None)

    def explain(self) -> ChainExplanation:
        """The chain as a structure; printed, it is a readable onion."""
        from .explain import explain_chain

        return explain_chain(self)


def _arrange(advisors: Iterable[Any]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    explicit: dict[str, Any] = {}
    derived: list[Entry] = []
    seen: set[int] = set()
    for advisor in advisors:
        if isinstance(advisor, type):
            raise ConfigurationError(f"{advisor.__name__} is a class; pass an instance: {advisor.__name__}(...).")
        if inspect.isfunction(advisor):
            raise ConfigurationError(
                f"The function {advisor.__name__!r} is no advisor yet: decorate it with @chat_advisor(order=...) or "
                "@tool_advisor(order=...)."
            )
        name, is_explicit = _name_of(advisor)
        if id(advisor) in seen:
            raise ConfigurationError(
                f"The same instance of advisor {name!r} is in the chain twice; make two instances, with name=."
            )
        seen.add(id(advisor))
        entry = Entry(advisor, name, checked_order(getattr(advisor, "order", None), name))
        if entry.wraps == "nothing":
            raise ConfigurationError(
                f"Advisor {name!r} ({type(advisor).__name__}) has neither advise nor advise_tool; define one of them."
            )
        if not is_explicit:
            derived.append(entry)
        elif name in explicit:
            raise ConfigurationError(
                f"Two advisors are named {name!r} ({type(explicit[name]).__name__} and {type(advisor).__name__}); "
                "give one of them another name=."
            )
        else:
            explicit[name] = advisor
        entries.append(entry)
    taken = set(explicit)
    for entry in derived:
        number = 1
        base = entry.name
        while entry.name in taken:
            number += 1
            entry.name = f"{base}#{number}"
        taken.add(entry.name)
    entries.sort(key=lambda entry: entry.order)
    _check_loop(entries)
    return tuple(entries)


def _name_of(advisor: Any) -> tuple[str, bool]:
    """The advisor's name, and whether somebody chose it."""
    name = getattr(advisor, "name", None)
    if name is None:
        return derived_name(type(advisor)), False
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"The name of {type(advisor).__name__} must be a text, not {name!r}.")
    if getattr(advisor, "has_derived_name", False):  # of the function that it was made from
        return name, False
    if isinstance(advisor, Advisor) and "name" not in advisor.__dict__ and name == derived_name(type(advisor)):
        return name, False
    return name, True


def _check_loop(entries: list[Entry]) -> None:
    loops = [entry for entry in entries if entry.is_tool_loop]
    if not loops:
        return
    if len(loops) > 1:
        raise ConfigurationError(
            f"A chain has one tool loop, this one has {len(loops)}: {', '.join(repr(e.name) for e in loops)}."
        )
    loop = loops[0]
    if loop.advise is None:
        raise ConfigurationError(f"The tool loop {loop.name!r} does not define advise.")
    position = entries.index(loop)
    for index, entry in enumerate(entries):
        if getattr(entry.advisor, "inside", None) == "tool_loop" and index < position:
            side, relation = "inside", "above"
        elif getattr(entry.advisor, "outside", None) == "tool_loop" and index > position:
            side, relation = "outside", "below"
        else:
            continue
        raise ConfigurationError(
            f"Advisor {entry.name!r} (order {entry.order}) must be {side} the tool loop {loop.name!r} "
            f"(order {loop.order}): give it an order {relation} {loop.order}."
        )
