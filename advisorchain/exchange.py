"""What passes along the chain: requests, responses, tool invocations and tool results.

Slotted classes with a hand-written ``replace()``, because one is made on every hop (``dataclasses.replace`` costs
2 µs). Treat them as read-only: change a copy, never the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, cast

from typing_extensions import TypeVar

from .context import Context, ContextKey
from .errors import ConfigurationError
from .events import Event
from .invocation import ToolInvocation, ToolResult
from .messages import NOTHING_USED, AssistantMessage, Message, SystemMessage, ToolCall, Usage, with_paragraph
from .options import NO_OPTIONS, ChatOptions
from .output import OutputType
from .tool_set import ToolSet

if TYPE_CHECKING:
    from .tools.definition import Tool

T = TypeVar("T", default=str)

ChatNext: TypeAlias = "Callable[[ChatRequest], Awaitable[ChatResponse[Any]]]"
"""The rest of the chain; may be called 0, 1 or n times, also concurrently. A model is one too."""
ToolNext: TypeAlias = "Callable[[ToolInvocation], Awaitable[ToolResult]]"
"""The rest of the tool chain."""
Emit: TypeAlias = Callable[[Event], Awaitable[None]]
"""Hands an event to the stream; never waits for the reader."""
Tap: TypeAlias = Callable[[Event, Emit], Awaitable[None]]
"""Sees an event on its way out: pass it on with ``await emit(event)``, change it, or drop it."""
StopReason: TypeAlias = Literal["final", "return_direct", "limit", "length", "filtered", "refused", "suspended"]
"""Why a turn ended."""

Offers: TypeAlias = "dict[str, tuple[ToolSet, ChatOptions]]"
"""By the answer's message id: what the model was offered when it gave the answer."""

RETURN_DIRECT = ContextKey[Mapping[str, bool]]("advisorchain.return_direct")
"""Overrides of tools' ``return_direct`` by name, of the call over those of the client."""

CONVERSATION = ContextKey[str]("advisorchain.conversation")
"""In the context of a sub-agent: the id of the conversation in whose turn it runs."""

_KEEP: Any = object()


class _Done:
    """An awaitable that is done: emitting costs no coroutine."""

    __slots__ = ()

    def __await__(self) -> Iterator[None]:
        return iter(())


DONE = cast("Awaitable[None]", _Done())


def discard(event: Event) -> Awaitable[None]:
    """The `Emit` of a request that is not streamed: drops the event."""
    return DONE


class Steering(list[Message]):
    """The messages that advisors have added with ``request.steer`` in a round.

    Attributes:
        asked: how many there were when the model was last asked.
    """

    asked = 0


class ChatRequest:
    """One request on its way to the model.

    Attributes:
        messages: the conversation, system messages included.
        tools: the tools that the model may call; ``get(name)`` finds one.
        options: options of the model call.
        output: the requested output type, or None for text.
        conversation_id: names the conversation for memory, or None; never invented.
        context: what the turn shares, see `Context`.
        model: a model to use instead of the chain's own, or None.
        tool_results: this round's tool results, stamped with ``return_direct``.
        round: counts the rounds of the running loop from 1; 0 outside a loop.
        emit: ``await request.emit(event)`` hands an event to the stream; does nothing under ``call``.
        streaming: whether anyone listens.
        execute: runs one tool invocation through the tool advisors.
        steering: where the running loop collects the messages of `steer`.
        offers: by the answer's message id: the tools and options that the model had. Written by the terminal model
            call, so that an advisor that edits an answer cannot widen it; a loop gives every round its own.
    """

    __slots__ = (
        "messages", "tools", "options", "output", "conversation_id", "context", "model", "tool_results", "round",
        "emit", "streaming", "execute", "steering", "offers",
    )  # fmt: skip

    def __init__(
        self,
        messages: tuple[Message, ...],
        *,
        tools: ToolSet,
        context: Context,
        execute: ToolNext,
        options: ChatOptions = NO_OPTIONS,
        output: OutputType[Any] | None = None,
        conversation_id: str | None = None,
        model: ChatNext | None = None,
        tool_results: tuple[ToolResult, ...] = (),
        round: int = 0,
        emit: Emit = discard,
        streaming: bool = False,
        steering: Steering | None = None,
        offers: Offers | None = None,
    ) -> None:
        self.messages = messages
        self.tools = tools
        self.options = options
        self.output = output
        self.conversation_id = conversation_id
        self.context = context
        self.model = model
        self.tool_results = tool_results
        self.round = round
        self.emit = emit
        self.streaming = streaming
        self.execute = execute
        self.steering = steering
        self.offers = offers

    def replace(
        self,
        *,
        messages: Iterable[Message] = _KEEP,
        tools: Iterable[Tool] = _KEEP,
        options: ChatOptions = _KEEP,
        output: OutputType[Any] | None = _KEEP,
        conversation_id: str | None = _KEEP,
        context: Context = _KEEP,
        model: ChatNext | None = _KEEP,
        tool_results: tuple[ToolResult, ...] = _KEEP,
        round: int = _KEEP,
        emit: Emit = _KEEP,
        streaming: bool = _KEEP,
        execute: ToolNext = _KEEP,
        steering: Steering | None = _KEEP,
        offers: Offers | None = _KEEP,
    ) -> ChatRequest:
        """A copy with some attributes changed; ``messages`` and ``tools`` take any iterable."""
        new = _new_request(ChatRequest)
        new.messages = self.messages if messages is _KEEP else messages if type(messages) is tuple else tuple(messages)
        new.tools = self.tools if tools is _KEEP else tools if type(tools) is ToolSet else ToolSet(tools)
        new.options = self.options if options is _KEEP else options
        new.output = self.output if output is _KEEP else output
        new.conversation_id = self.conversation_id if conversation_id is _KEEP else conversation_id
        new.context = self.context if context is _KEEP else context
        new.model = self.model if model is _KEEP else model
        new.tool_results = self.tool_results if tool_results is _KEEP else tool_results
        new.round = self.round if round is _KEEP else round
        new.emit = self.emit if emit is _KEEP else emit
        new.streaming = self.streaming if streaming is _KEEP else streaming
        new.execute = self.execute if execute is _KEEP else execute
        new.steering = self.steering if steering is _KEEP else steering
        new.offers = self.offers if offers is _KEEP else offers
        return new

    def for_round(
        self,
        round: int,
        messages: tuple[Message, ...],
        tool_results: tuple[ToolResult, ...],
        steering: Steering | None = None,
    ) -> ChatRequest:
        """The request of a loop's next round, with offers of its own; made every round, so without `replace`."""
        new = _new_request(ChatRequest)
        new.messages = messages
        new.tools = self.tools
        new.options = self.options
        new.output = self.output
        new.conversation_id = self.conversation_id
        new.context = self.context
        new.model = self.model
        new.tool_results = tool_results
        new.round = round
        new.emit = self.emit
        new.streaming = self.streaming
        new.execute = self.execute
        new.steering = steering
        new.offers = {}
        return new

    def with_tools(self, tools: ToolSet, messages: tuple[Message, ...]) -> ChatRequest:
        """A copy with other tools and messages; an advisor may make one every round, so without `replace`."""
        new = self.for_round(self.round, messages, self.tool_results, self.steering)
        new.tools = tools
        new.offers = self.offers
        return new

    @property
    def user_text(self) -> str:
        """The text of the last user message, or ``""``."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.text
        return ""

    def muted(self) -> ChatRequest:
        """A copy whose events are dropped: for side calls and concurrent ``call_next``."""
        return self.replace(emit=discard, streaming=False)

    def tap(self, fn: Tap) -> ChatRequest:
        """A copy whose events pass through ``await fn(event, emit)`` on their way out."""
        if not self.streaming:
            return self
        outer = self.emit
        return self.replace(emit=lambda event: fn(event, outer))

    def fork(self) -> ChatRequest:
        """A copy with a child context: reads fall through, writes stay. Needed for concurrent ``call_next``."""
        return self.replace(context=self.context.fork())

    def steer(self, message: Message) -> ChatRequest:
        """A copy with a message appended, which the running loop also keeps in its transcript for good."""
        if self.steering is not None:
            self.steering.append(message)
        return self.replace(messages=(*self.messages, message))

    def with_instruction(self, text: str) -> ChatRequest:
        """A copy whose system message also says ``text``; a system message is added when there is none."""
        messages = self.messages
        if messages and type(messages[0]) is SystemMessage:
            return self.replace(messages=(with_paragraph(messages[0], text), *messages[1:]))
        return self.replace(messages=(SystemMessage(content=text), *messages))

    def __repr__(self) -> str:
        return f"ChatRequest({len(self.messages)} messages, {len(self.tools)} tools, round={self.round})"


_new_request = ChatRequest.__new__


class ChatResponse(Generic[T]):
    """An answer.

    Raises:
        ConfigurationError: ``message`` is no `AssistantMessage`.

    Attributes:
        message: the assistant's message.
        usage: tokens; for a whole turn all its model calls together. Its counts are None where nobody has said any.
        stop_reason: why it ended.
        new_messages: what follows the caller's last message, ending with ``message``.
        direct_results: the tool results that were returned directly, artifacts kept.
        request: the last request that the model really saw.
        metadata: what advisors and the model's adapter say about the answer.
    """

    __slots__ = (
        "message", "usage", "stop_reason", "new_messages", "direct_results", "request", "metadata", "_output",
    )  # fmt: skip

    def __init__(
        self,
        message: AssistantMessage,
        *,
        usage: Usage | None = None,
        stop_reason: StopReason = "final",
        new_messages: tuple[Message, ...] = (),
        direct_results: tuple[ToolResult, ...] = (),
        request: ChatRequest | None = None,
        metadata: Mapping[str, Any] | None = None,
        output: Any = _KEEP,
    ) -> None:
        self.message = message if type(message) is AssistantMessage else _answer(message)
        self.usage = NOTHING_USED if usage is None else usage
        self.stop_reason: StopReason = stop_reason
        self.new_messages: tuple[Message, ...] = new_messages or (message,)
        self.direct_results = direct_results
        self.request = request
        self.metadata: Mapping[str, Any] = metadata if metadata is not None else {}
        self._output = output

    def replace(
        self,
        *,
        message: AssistantMessage = _KEEP,
        usage: Usage | None = _KEEP,
        stop_reason: StopReason = _KEEP,
        new_messages: tuple[Message, ...] = _KEEP,
        direct_results: tuple[ToolResult, ...] = _KEEP,
        request: ChatRequest | None = _KEEP,
        metadata: Mapping[str, Any] = _KEEP,
        output: Any = _KEEP,
    ) -> ChatResponse[T]:
        """A copy with some attributes changed.

        A changed ``message`` also takes the old one's place at the end of ``new_messages``.
        """
        new = cast("ChatResponse[T]", _new_response(ChatResponse))
        if message is _KEEP:
            new.message = self.message
            new.new_messages = self.new_messages if new_messages is _KEEP else new_messages
        else:
            new.message = _answer(message)
            new.new_messages = (*self.new_messages[:-1], message) if new_messages is _KEEP else new_messages
        new.usage = self.usage if usage is _KEEP else usage or NOTHING_USED
        new.stop_reason = self.stop_reason if stop_reason is _KEEP else stop_reason
        new.direct_results = self.direct_results if direct_results is _KEEP else direct_results
        new.request = self.request if request is _KEEP else request
        new.metadata = self.metadata if metadata is _KEEP else metadata
        new._output = self._output if output is _KEEP else output
        return new

    def seen_as(self, request: ChatRequest) -> ChatResponse[T]:
        """A copy that knows the request that the model saw; made on every model call, so without `replace`."""
        new = cast("ChatResponse[T]", _new_response(ChatResponse))
        new.message = self.message
        new.usage = self.usage
        new.stop_reason = self.stop_reason
        new.new_messages = self.new_messages
        new.direct_results = self.direct_results
        new.request = request
        new.metadata = self.metadata
        new._output = self._output
        return new

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client must run (server-side calls left out)."""
        calls = self.message.tool_calls
        for call in calls:
            if call.executed_by != "client":
                return tuple([call for call in calls if call.executed_by == "client"])
        return calls

    @property
    def output(self) -> T:
        """The answer as the requested output type; its text when none was requested."""
        return cast("T", self.text if self._output is _KEEP else self._output)

    def __repr__(self) -> str:
        return f"ChatResponse({self.text[:80]!r}, stop_reason={self.stop_reason!r}, calls={len(self.tool_calls)})"


_new_response = ChatResponse.__new__


def _answer(message: AssistantMessage) -> AssistantMessage:
    if not isinstance(message, AssistantMessage):
        raise ConfigurationError(
            f"A ChatResponse holds an AssistantMessage, not {type(message).__name__}: write "
            "ChatResponse(AssistantMessage(content=...))."
        )
    return message
