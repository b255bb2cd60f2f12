"""Circuit breaker: a source that keeps failing is left alone for a while, then tried by a single call."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..advisor import Advisor
from ..async_callable import passes_on
from ..circuit import Admission, Circuit, CircuitRules, CircuitState, Transition, changed_data, circuit_of
from ..context import Turn
from ..disguise import Disguises, Matcher
from ..errors import CircuitOpenError, ConfigurationError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..failures import source_failed, tells_nothing, tool_failure
from ..invocation import ToolInvocation, ToolResult
from ..model_call import called_model, model_name
from ..order import Order
from ..setting_checks import check_function, check_template
from ..shared_state import SharedState
from ..state_access import Change, StateAccess, StateAwayError, check_state
from ..tools.execution import UnknownTool
from ..waiting_room import WaitingRoom

if TYPE_CHECKING:
    from ..tools.definition import Tool

T = TypeVar("T")

Told = Literal["succeeded", "failed", "released"]
"""What a call has told of its source; released: nothing."""

NOTICE = (
    "These tools are out of service at the moment: {titles}. Do what can be done without them, and say what is missing."
)
"""Added to the system message when tools were left out of a request."""
LEASE_SECONDS = 120.0
"""A probe, or a call on trial, that has reported nothing for so long is lost: it hangs, or its process is gone."""
_CALM_TOOLS = 1000

_NEW = Circuit()


class _Calm:
    """A source that works; ``over`` as soon as a call of it has failed. Calls pass without a look at the circuit."""

    __slots__ = ("source", "admission", "over")

    def __init__(self, source: str, circuit: Circuit) -> None:
        self.source = source
        self.admission = Admission(True, False, circuit.changes)
        self.over = False


class CircuitBreakerAdvisor(Advisor):
    """Stops calling a source that keeps failing; calls raise `CircuitOpenError` until a single probe has succeeded.

    A source is an MCP server (or what else a tool's ``source`` names), for local tools each tool by its name, and with
    ``models=True`` each model by its name. The tools of an open source are not offered to the model.

    What counts as a failure: timeouts, lost connections, any exception that shows no answer of the source. What does
    not: a `ToolError` or a missing permission (the source has answered), invalid arguments, a cancellation.

    While a source is not known to work (it has not answered yet, or its last attempt failed), only as many calls are
    under way at once as failures are left; others wait for their outcome, for at most ``patience`` seconds.

    Args:
        failures: consecutive failed attempts that open a circuit; every attempt of a retried call counts.
        reset_after: seconds until the probe.
        window: ``(number, seconds)``: so many failed attempts in so many seconds open it too; None: no such limit.
        models: break model calls, too.
        patience: see above; 0: nobody waits.
        source: ``source(tool) -> str | None`` names the source of a tool; None: the tool is not guarded.
        counts: ``counts(error) -> bool``: whether an exception is a failure of the source.
        matchers: by source: which result texts are failures in disguise, as in `ToolFallbackAdvisor`; a transient one
            counts as a `ConnectionError`.
        clock: seconds; default: that of the turn's `Runtime`, with ``state`` the time of day, which processes share.
        state: where circuits are kept when processes share them; default: in this advisor. While it does not work, the
            advisor goes on with the circuits as it has last seen them, and asks again every 10 seconds.
        notice: template of the sentence added to the system message when tools are left out; knows ``{titles}``.
            None: no sentence.

    Raises:
        ConfigurationError: a value is out of range.
    """

    order: int = Order.CIRCUIT_BREAKER

    def __init__(
        self,
        *,
        failures: int = 3,
        reset_after: float = 60.0,
        window: tuple[int, float] | None = (10, 60.0),
        models: bool = False,
        patience: float = 1.0,
        source: Callable[[Tool], str | None] | None = None,
        counts: Callable[[BaseException], bool] | None = None,
        matchers: Mapping[str, Matcher | None] | None = None,
        clock: Callable[[], float] | None = None,
        state: SharedState | None = None,
        notice: str | None = NOTICE,
        order: int = Order.CIRCUIT_BREAKER,
        name: str | None = None,
    ) -> None:
        self.rules = CircuitRules(failures, reset_after, window, LEASE_SECONDS)
        if not isinstance(patience, int | float) or not patience >= 0:
            raise ConfigurationError(f"patience must be at least 0 seconds (is {patience!r}).")
        check_function("source", source, "a tool")
        check_function("counts", counts, "an exception")
        check_function("clock", clock, "no arguments")
        if notice is not None:
            check_template("notice", notice, "titles")
        self.models = models
        self.patience = patience
        self.notice = notice
        self.order = order
        if name is not None:
            self.name = name
        self._source = source
        self._counts = counts or source_failed
        self._disguises = Disguises(matchers)
        self._first = self._disguises.first
        self._clock = clock if clock is not None or state is None else time.time
        self._state: StateAccess | None = None
        if state is not None:
            check_state(state, max(reset_after, window[1] if window else 0), "this circuit breaker")
            self._state = StateAccess(state, f"Advisor {self.name!r}", "keeps its circuits in this process")
        self._circuits: dict[str, Circuit] = {}  # with a shared state: as last seen
        self._calm: dict[str, _Calm] = {}  # sources that are known to work; none with a shared state
        self._calm_tools: dict[Tool, _Calm] = {}  # by tool: the way past everything else
        self._troubled: set[str] = set()
        self._watches = models or state is not None  # or something is in trouble: whether `advise` has work to do
        self._room = WaitingRoom()  # for the outcomes of calls on trial
        self._lock = threading.Lock()

    def states(self) -> dict[str, CircuitState]:
        """By source: ``"closed"``, ``"open"`` or ``"half_open"``; with a shared state, as this process last saw it."""
        return {source: circuit.state for source, circuit in list(self._circuits.items())}

    def history(self, source: str) -> tuple[Transition, ...]:
        """The latest transitions of a source, oldest first."""
        return self.circuit(source).history

    def circuit(self, source: str) -> Circuit:
        """All that is known about a source."""
        return self._circuits.get(source, _NEW)

    @passes_on
    def advise(self, request: ChatRequest, call_next: ChatNext) -> CoroutineType[Any, Any, ChatResponse[Any]]:
        """Leave out the tools of open sources; with ``models=True``, guard the model call."""
        if self._watches:
            return self._watch(request, call_next)  # type: ignore[return-value]  # mypy has no CoroutineType
        return call_next(request)  # type: ignore[return-value]  # an awaitable is enough

    async def _watch(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        if self._troubled or self._state is not None:
            request = await self._without_open(request)
        if not self.models:
            return await call_next(request)
        turn = request.context.turn
        model = called_model(request)
        source = "model" if model is None else model_name(model)
        calm = self._calm.get(source)
        if calm is None:
            return await self._guarded(source, turn, partial(call_next, request))
        try:
            response = await call_next(request)
        except BaseException as error:
            await self._tell(source, turn, calm.admission, self._told(error))
            raise
        if calm.over:
            await self._tell(source, turn, calm.admission, "succeeded")
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Make the call if its source's circuit lets it.

        Raises:
            CircuitOpenError: the circuit is open.
        """
        tool = invocation.tool
        calm = self._calm_tools.get(tool)
        if calm is None:
            return await self._advise_tool(invocation, call_next)
        try:
            result = await call_next(invocation)
        except BaseException as error:
            await self._tell(calm.source, invocation.context.turn, calm.admission, self._told(error))
            raise
        if (result.content or " ")[0] in self._first and (failure := self._disguised(invocation, result)) is not None:
            await self._tell(calm.source, invocation.context.turn, calm.admission, self._told(failure))
        elif calm.over:
            await self._tell(calm.source, invocation.context.turn, calm.admission, "succeeded")
        return result

    async def _advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """A call of a tool that is not known to work."""
        tool = invocation.tool
        if type(tool) is UnknownTool:
            self._refuse_left_out(invocation)
            return await call_next(invocation)
        source = self.source_of(tool)
        if source is None:
            return await call_next(invocation)
        disguised = partial(self._disguised, invocation)
        call = partial(call_next, invocation)
        result: ToolResult = await self._guarded(source, invocation.context.turn, call, disguised)
        with self._lock:  # or another thread takes the circuit out in between
            calm = self._calm.get(source)
            if calm is not None:
                if len(self._calm_tools) >= _CALM_TOOLS:  # of servers whose tools are new objects in every turn
                    self._calm_tools.clear()
                self._calm_tools[tool] = calm
        return result

    def _disguised(self, invocation: ToolInvocation, result: ToolResult) -> BaseException | None:
        """The failure that a result's text stands for, or None for an honest one."""
        failure = self._disguises.failure(invocation, result)
        return ConnectionError("A result that reports a failure of its source.") if failure == "transient" else None

    def source_of(self, tool: Tool) -> str | None:
        """The source that a tool belongs to; None: it is not guarded."""
        if self._source is not None:
            return self._source(tool)
        return tool.name if tool.source == "local" else tool.source

    def _refuse_left_out(self, invocation: ToolInvocation) -> None:
        """Say of a tool that was left out, and called all the same, that it is out of service, not that there is none.

        Raises:
            CircuitOpenError: it was left out.
        """
        tool = invocation.request.tools.get(invocation.tool.name)
        source = self.source_of(tool) if tool is not None else None
        if source is not None and source in self._troubled:
            _, admission = self._circuits[source].admit(self._now(invocation.context.turn), self.rules)
            if not admission.admitted:
                raise CircuitOpenError(source, admission.retry_after)

    async def _without_open(self, request: ChatRequest) -> ChatRequest:
        """The request without tools whose calls would be refused."""
        sources = {source for tool in request.tools if (source := self.source_of(tool)) is not None}
        if self._state is not None:
            keys = {self._key(source): source for source in sources}
            for key, data in (await self._state.load_each(keys)).items():
                self._keep(keys[key], circuit_of(data), request.context.turn)
        now = self._now(request.context.turn)
        closed = {source for source in sources & self._troubled if not self._circuits[source].admits(now)}
        if not closed:
            return request
        left_out = [tool for tool in request.tools if self.source_of(tool) in closed]
        kept = [tool for tool in request.tools if self.source_of(tool) not in closed]
        options = request.options
        choice = options.tool_choice
        if (choice == "required" and not kept) or choice in [tool.name for tool in left_out]:
            options = options.replace(tool_choice="auto")
        request = request.replace(tools=kept, options=options)
        if self.notice is None:
            return request
        return request.with_instruction(self.notice.format(titles=", ".join(tool.label for tool in left_out)))

    # One call --------------------------------------------------------------------------------------------------------

    async def _guarded(
        self,
        source: str,
        turn: Turn,
        call: Callable[[], Awaitable[T]],
        disguised: Callable[[T], BaseException | None] | None = None,
    ) -> T:
        admission = await self._admitted(source, turn)
        told: Told = "released"  # also when a function of the caller's fails, which says what it was
        try:
            try:
                result = await call()
            except BaseException as error:
                told = self._told(error)
                raise
            failure = disguised(result) if disguised is not None else None
            told = "succeeded" if failure is None else self._told(failure)
            return result
        finally:
            await self._tell(source, turn, admission, told)

    async def _admitted(self, source: str, turn: Turn) -> Admission:
        """Wait for a place while enough calls are out on trial.

        Raises:
            CircuitOpenError: the circuit is open.
        """
        left, until = self.patience, 0.0
        while True:
            admission: Admission = await self._change(
                source, turn, partial(self._admit, turn, left > 0), lambda given: self._ended(turn, given, "released")
            )
            if admission.admitted:
                return admission
            if not admission.full:
                raise CircuitOpenError(source, admission.retry_after)
            until = until or time.monotonic() + left
            await self._room.wait(source, left)
            left = until - time.monotonic()

    def _admit(self, turn: Turn, wait: bool, circuit: Circuit) -> tuple[Circuit, Admission]:
        return circuit.admit(self._now(turn), self.rules, wait=wait)

    def _told(self, error: BaseException) -> Told:
        failure = tool_failure(error)
        if failure is None or tells_nothing(failure):
            return "released"
        return "failed" if self._counts(failure) else "succeeded"

    async def _tell(self, source: str, turn: Turn, admission: Admission, told: Told) -> None:
        """Note the outcome of a call."""
        try:
            await self._change(source, turn, self._ended(turn, admission, told))
        finally:
            self._room.left(source)

    def _ended(self, turn: Turn, admission: Admission, told: Told) -> Callable[[Circuit], tuple[Circuit, None]]:
        def end(circuit: Circuit) -> tuple[Circuit, None]:
            now = self._now(turn)
            if told == "failed":
                return circuit.failed(admission, now, self.rules), None
            return circuit.succeeded(admission, now) if told == "succeeded" else circuit.released(admission, now), None

        return end

    # The circuits ----------------------------------------------------------------------------------------------------

    def _now(self, turn: Turn) -> float:
        return self._clock() if self._clock is not None else turn.runtime.clock()

    def _key(self, source: str) -> str:
        """Where a shared state has the circuit: breakers of one name share it."""
        return f"{self.name}|circuit|{source}"

    async def _change(
        self,
        source: str,
        turn: Turn,
        change: Callable[[Circuit], tuple[Circuit, T]],
        undo: Callable[[T], Callable[[Circuit], tuple[Circuit, None]]] | None = None,
    ) -> T:
        """Replace a circuit by what ``change`` makes of it, atomically.

        ``undo`` is for a caller who is cancelled while a shared state saves it: see `StateAccess.change`.
        """
        if self._state is not None:
            back: Callable[[tuple[Circuit, T]], Change[None]] | None = None
            if undo is not None:
                back = lambda made: lambda data: (changed_data(undo(made[1]), data)[0], None)  # noqa: E731
            try:
                new, value = await self._state.change(self._key(source), partial(changed_data, change), back)
            except StateAwayError:
                pass  # as last seen, the circuit goes on in this process
            else:
                self._keep(source, new, turn)
                return value
        with self._lock:
            old = self._circuits.get(source)
            new, value = change(old or _NEW)
            if new is not old:
                self._keep(source, new, turn)
            return value

    def _keep(self, source: str, circuit: Circuit, turn: Turn) -> None:
        if turn.observer is not None and circuit.state != self.circuit(source).state:
            about = {"advisorchain.circuit_breaker.source": source, "advisorchain.circuit_breaker.state": circuit.state}
            turn.note("advisorchain.circuit_breaker", about)
        self._circuits[source] = circuit
        calm = self._calm.pop(source, None)
        if calm is not None:
            calm.over = True
            self._calm_tools.clear()
        if circuit.calm and self._state is None:
            self._calm[source] = _Calm(source, circuit)
        if circuit.state == "closed":
            self._troubled.discard(source)
        else:
            self._troubled.add(source)
        self._watches = bool(self.models or self._state is not None or self._troubled)
