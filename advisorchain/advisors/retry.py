"""Retry: model calls and tool calls again, when that is safe and may help."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from ..advisor import Advisor
from ..context import Context
from ..disguise import Disguises, Matcher
from ..errors import AdvisorChainError, CircuitOpenError, ConfigurationError, ModelError, ToolTimeoutError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..failures import (
    ATTEMPTS,
    DEFAULT_FAILURES,
    FailureClass,
    FailureTable,
    retry_after,
    tool_failure,
    unwrapped,
)
from ..invocation import ToolInvocation, ToolResult
from ..model_call import has_emitted
from ..order import Order
from ..setting_checks import check_function, check_mapping, check_number

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when to try again.

    Args:
        attempts: in all, the first included.
        wait: seconds before the second attempt.
        factor: by which every further wait is longer.
        max_wait: seconds that a wait is never longer than, unless the source asks for more (``Retry-After``).
        jitter: the share of a wait that is random: 0.5 waits between half of it and all of it.
        deadline: seconds for everything together, from the start of the first attempt. A wait that would end later is
            not begun, and an attempt from the second on is cut then. None: no deadline.
        attempt_timeout: seconds for each attempt, or None.
        replay: tools only: True: the call may happen twice. False: never again once it may have been sent. None: by the
            tool's own hints (``idempotent``, ``read_only``).

    Raises:
        ConfigurationError: a value is out of range.
    """

    attempts: int = 3
    wait: float = 0.5
    factor: float = 2.0
    max_wait: float = 30.0
    jitter: float = 0.5
    deadline: float | None = 60.0
    attempt_timeout: float | None = None
    replay: bool | None = None

    def __post_init__(self) -> None:
        check_number("RetryPolicy: attempts", self.attempts, least=1, whole=True)
        for name in ("wait", "factor", "max_wait", "jitter"):
            check_number(f"RetryPolicy: {name}", getattr(self, name))
        if self.jitter > 1:
            raise ConfigurationError(f"RetryPolicy: jitter is a share from 0 to 1 (is {self.jitter!r}).")
        if self.deadline is not None:
            check_number("RetryPolicy: deadline", self.deadline)
        if self.attempt_timeout is not None:
            check_number("RetryPolicy: attempt_timeout", self.attempt_timeout, over=0)
        if self.replay is not None and not isinstance(self.replay, bool):  # "false" is true
            raise ConfigurationError(f"RetryPolicy: replay is True, False or None (is {self.replay!r}).")

    def pause(self, attempt: int, error: BaseException, random: float) -> float:
        """Seconds to wait after the failed attempt ``attempt`` (from 1); ``random`` is from 0 to 1."""
        try:
            wait = min(self.max_wait, self.wait * float(self.factor) ** (attempt - 1)) if self.wait else 0.0
        except OverflowError:  # no float is that large
            wait = self.max_wait
        wait *= 1 - self.jitter * random
        return max(wait, retry_after(error) or 0.0)


MODEL_POLICY = RetryPolicy()
"""Three attempts, with waits of up to 0.5 and 1 second."""
TOOL_POLICY = RetryPolicy(attempts=2, wait=1.0, factor=1.0, jitter=0.0)
"""Two attempts, 1 second apart."""
NEVER = RetryPolicy(attempts=1)


class _DisguisedError(Exception):
    """A result whose text is a failure."""

    def __init__(self, result: ToolResult, failure: FailureClass) -> None:
        super().__init__(result.content[:200])
        self.attempts = 1
        self.result = result
        self.failure = failure


class RetryAdvisor(Advisor):
    """Repeats a failed model call or tool call, and nothing else: the rest of the turn is not run again.

    Only transient failures (see `classify`) are repeated, never an open circuit, never a bug. A tool call is repeated
    only when the tool is ``idempotent`` or ``read_only``, or when nothing was sent yet. Under streaming a model call is
    not repeated once something of it was emitted. When the attempts are used up, the last error is raised.

    What took more than one attempt says so: ``response.metadata["attempts"]`` (of the model call that gave the answer),
    ``ToolResult.metadata["attempts"]``, and ``attempts`` of the last error. `ATTEMPTS` in the turn's context has all.

    Args:
        model: the policy for model calls (a `RetryPolicy`, or a mapping of its arguments); None: never.
        tool: the policy for tool calls; None: never.
        tools: policies for some tools, by name (``server/tool`` for one of an MCP server); None: never.
        matchers: by source: which result texts are failures in disguise; as in `ToolFallbackAdvisor`. One that stays so
            is returned as it is.
        on_partial: ``"restart"``: repeat a model call although something of it was emitted; readers of the stream then
            get `Restarted`, which withdraws it.
        failures: the table that classifies exceptions.
        sleep: ``async sleep(seconds)``, for tests; default: ``anyio.sleep``.

    Raises:
        ConfigurationError: a policy is none.
    """

    order: int = Order.RETRY
    inside = "tool_loop"  # outside it would repeat tool calls that have been made

    def __init__(
        self,
        *,
        model: RetryPolicy | Mapping[str, Any] | None = MODEL_POLICY,
        tool: RetryPolicy | Mapping[str, Any] | None = TOOL_POLICY,
        tools: Mapping[str, RetryPolicy | Mapping[str, Any] | None] | None = None,
        matchers: Mapping[str, Matcher | None] | None = None,
        on_partial: Literal["raise", "restart"] = "raise",
        failures: FailureTable = DEFAULT_FAILURES,
        sleep: Sleep | None = None,
        order: int = Order.RETRY,
        name: str | None = None,
    ) -> None:
        if on_partial not in ("raise", "restart"):
            raise ConfigurationError(f"on_partial must be 'raise' or 'restart', not {on_partial!r}.")
        check_mapping("tools", tools, "{'budget': {'attempts': 5}, 'book': None}")
        check_function("sleep", sleep, "seconds")
        if not isinstance(failures, FailureTable):
            raise ConfigurationError(f"failures must be a FailureTable, not {failures!r}.")
        self.model = _policy("model", model, MODEL_POLICY)
        self.tool = _policy("tool", tool, TOOL_POLICY)
        self.tools = {key: _policy(f"tools[{key!r}]", value, self.tool) for key, value in (tools or {}).items()}
        self.on_partial = on_partial
        self.failures = failures
        self.order = order
        if name is not None:
            self.name = name
        self._sleep = sleep
        self._disguises = Disguises(matchers)
        self._first = self._disguises.first
        self._model_timeout = self.model.attempt_timeout
        self._untimed = all(policy.attempt_timeout is None for policy in (self.tool, *self.tools.values()))

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Call the model; again if that failed, is safe, and may help."""
        turn = request.context.turn
        start, withdrawn, emitted_round = turn.runtime.clock(), turn.attempt, turn.emitted_round
        try:
            if self._model_timeout is None:
                return await call_next(request)
            return await _within(self._model_timeout, call_next(request), _late_model)
        except Exception as error:
            first = error
        return await self._model_again(request, call_next, first, start, withdrawn, emitted_round)

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Call the tool; again if that failed, is safe, and may help."""
        start = invocation.request.context.turn.runtime.clock()
        try:
            if self._untimed or (seconds := self._policy_of(invocation).attempt_timeout) is None:
                result = await call_next(invocation)
            else:
                result = await _within(seconds, call_next(invocation), _late_tool(invocation.tool.name))
            if (result.content or " ")[0] not in self._first:
                return result
            disguised = self._disguises.failure(invocation, result)
            if disguised is None:
                return result
            first: BaseException = _DisguisedError(result, disguised)
        except BaseException as error:
            failure = _tool_failure(error)
            if failure is None:
                raise
            first = failure
        return await self._tool_again(invocation, call_next, first, start)

    def _policy_of(self, invocation: ToolInvocation) -> RetryPolicy:
        return self.tools.get(invocation.tool.policy_name, self.tool)

    # After a failed first attempt: apart, so that the first one pays for no closure -----------------------------------

    async def _model_again(
        self,
        request: ChatRequest,
        call_next: ChatNext,
        first: Exception,
        start: float,
        withdrawn: int,
        emitted_round: int,
    ) -> ChatResponse[Any]:
        turn = request.context.turn
        round = request.round or turn.round

        def repeatable(error: BaseException) -> bool:
            if not isinstance(error, Exception) or not self._may_help(error):
                return False
            return self.on_partial == "restart" or not has_emitted(request, withdrawn, emitted_round)

        async def attempt(seconds: float | None) -> ChatResponse[Any]:
            nonlocal withdrawn, emitted_round
            withdrawn, emitted_round = turn.attempt, turn.emitted_round
            if seconds is None:
                return await call_next(request)
            return await _within(seconds, call_next(request), _late_model)

        response, attempts = await self._again(self.model, request.context, round, first, start, repeatable, attempt)
        return response.replace(metadata={**response.metadata, "attempts": attempts})

    async def _tool_again(
        self, invocation: ToolInvocation, call_next: ToolNext, first: BaseException, start: float
    ) -> ToolResult:
        tool, policy = invocation.tool, self._policy_of(invocation)
        replay = bool(tool.idempotent or tool.read_only) if policy.replay is None else policy.replay

        def repeatable(error: BaseException) -> bool:
            failure = _tool_failure(error)
            return failure is not None and self._may_help(failure) and (replay or self.failures.unsent(failure))

        async def attempt(seconds: float | None) -> ToolResult:
            if seconds is None:
                result = await call_next(invocation)
            else:
                result = await _within(seconds, call_next(invocation), _late_tool(tool.name))
            disguised = self._disguises.failure(invocation, result)
            if disguised is not None:
                raise _DisguisedError(result, disguised)
            return result

        context, key = invocation.request.context, invocation.call.id
        try:
            result, attempts = await self._again(policy, context, key, first, start, repeatable, attempt)
        except _DisguisedError as error:
            result, attempts = error.result, error.attempts
            if attempts == 1:
                return result
        return result.replace(metadata={**(result.metadata or {}), "attempts": attempts})

    def _may_help(self, error: BaseException) -> bool:
        error = unwrapped(error)
        if isinstance(error, _DisguisedError):
            return error.failure == "transient"
        if isinstance(error, CircuitOpenError) or (isinstance(error, AdvisorChainError) and error.ends_turn):
            return False
        return self.failures.classify(error) == "transient"

    async def _again(
        self,
        policy: RetryPolicy,
        context: Context,
        key: str | int,
        first: BaseException,
        start: float,
        repeatable: Callable[[BaseException], bool],
        attempt: Callable[[float | None], Awaitable[T]],
    ) -> tuple[T, int]:
        """Everything after the failed first attempt: the result, and how many attempts it took.

        Raises:
            Exception: the last error.
        """
        if policy.attempts == 1 or not repeatable(first):
            raise first
        from tenacity import AsyncRetrying, RetryCallState

        turn = context.turn
        clock, jitter = turn.runtime.clock, turn.runtime.jitter
        attempts, what = 0, "model" if isinstance(key, int) else "tool"

        async def run() -> T:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise first  # made already, outside tenacity, whose successful path costs as much as a tool round
            context.note(
                "advisorchain.retry", {"advisorchain.retry.what": what, "advisorchain.retry.attempt": attempts}
            )
            seconds = policy.attempt_timeout
            if policy.deadline is not None:
                left = max(0.001, start + policy.deadline - clock())
                seconds = left if seconds is None else min(seconds, left)
            return await attempt(seconds)

        def retry(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome is not None else None
            return error is not None and repeatable(error)

        def wait(state: RetryCallState) -> float:
            assert state.outcome is not None
            error = state.outcome.exception()
            assert error is not None
            return policy.pause(state.attempt_number, error, jitter())

        def stop(state: RetryCallState) -> bool:
            if state.attempt_number >= policy.attempts:
                return True
            return policy.deadline is not None and clock() + state.upcoming_sleep >= start + policy.deadline

        import anyio

        retrying = AsyncRetrying(sleep=self._sleep or anyio.sleep, wait=wait, stop=stop, retry=retry, reraise=True)
        try:
            return await retrying(run), attempts
        except Exception as error:
            if attempts > 1 and isinstance(getattr(error, "attempts", 0), int):
                with suppress(AttributeError):  # some exceptions take none
                    error.attempts = attempts  # type: ignore[attr-defined]
            raise
        finally:
            if attempts > 1:
                context.setdefault(ATTEMPTS, {})[turn.id, key] = attempts


def _tool_failure(error: BaseException) -> BaseException | None:
    """The tool's failure, a cancellation that its transport leaked among them; None for what must propagate."""
    failure = tool_failure(error)
    return failure if isinstance(failure, Exception | CancelledError) else None


async def _within(seconds: float, running: Awaitable[T], late: Callable[[float], Exception]) -> T:
    import anyio

    with anyio.move_on_after(seconds) as scope:
        return await running
    assert scope.cancelled_caught
    raise late(seconds)


def _late_tool(tool: str) -> Callable[[float], Exception]:
    return lambda seconds: ToolTimeoutError(f"The tool {tool!r} did not answer within {seconds:g} seconds.")


def _late_model(seconds: float) -> Exception:
    return ModelError(f"The model did not answer within {seconds:g} seconds.", transient=True)


def _policy(what: str, value: Any, default: RetryPolicy) -> RetryPolicy:
    if value is None or value is False:
        return NEVER
    if isinstance(value, RetryPolicy):
        return value
    if isinstance(value, Mapping):
        names = [field.name for field in fields(RetryPolicy)]
        unknown = sorted(map(str, value.keys() - set(names)))
        if unknown:
            raise ConfigurationError(f"{what}: unknown {', '.join(unknown)}; known are {', '.join(names)}.")
        return RetryPolicy(**{name: value.get(name, getattr(default, name)) for name in names})
    raise ConfigurationError(f"{what} must be a RetryPolicy, a mapping of its arguments, or None; not {value!r}.")
