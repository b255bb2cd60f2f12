"""`check_advisor`: the contract that every advisor keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel

from ..client import ChatClient
from ..events import Restarted, RoundStarted, TextDelta, ToolFinished, ToolStarted
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..invocation import ToolInvocation, ToolResult
from ..messages import AssistantMessage, ToolCall, ToolMessage, check_pairing
from ..tools.definition import Tool
from .contract import made, told

MakeAdvisor = Callable[[], Any]

TURNS = 20
"""How many turns run at once."""
SECONDS = 5.0
"""How long a turn may take to end once it is cancelled. (Where a call is shielded, neither ends.)"""


async def check_advisor(make_advisor: MakeAdvisor, *, context: Mapping[Any, Any] | None = None) -> None:
    """Check an advisor against the contract of `Advisor`, on the running event loop.

    It stands in turns with two model calls and a tool call. Checked: under ``call`` and ``stream`` it does the same,
    and it does not change text that was streamed; it may be entered again in one turn; a cancellation passes it, and
    it works afterwards; turns at the same time do not meet; it mutates no request, response, invocation or result.

    Args:
        make_advisor: gives a new advisor, sync or async; called twice for each check. Its limits (budgets, rates) must
            let `TURNS` such turns pass.
        context: values for the context of every turn.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in (_same_under_call_and_stream, _entered_again, _cancelled, _turns_at_once, _nothing_mutated):
        advisor, second = await made(make_advisor), await made(make_advisor)
        with told(rule, advisor):
            await rule(advisor, second, dict(context or {}))


# The turn that an advisor stands in -----------------------------------------------------------------------------------


class _EchoModel:
    """Calls the tool with the prompt, then answers with its result; ``hang`` names what waits for ever."""

    name = "echo"

    def __init__(self) -> None:
        self.hang = ""
        self.reached = anyio.Event()

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        await anyio.lowlevel.checkpoint()
        if self.hang == "model":
            self.reached.set()
            await anyio.sleep_forever()
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            call = ToolCall("check_echo", {"text": request.user_text})
            return ChatResponse(AssistantMessage(tool_calls=(call,)))
        text = f"The tool says: {last.text}"
        for start in range(0, len(text), 5):
            await request.emit(TextDelta(text[start : start + 5]))
        return ChatResponse(AssistantMessage(content=text))


def _client(model: _EchoModel, *advisors: Any) -> ChatClient:
    async def echo(arguments: dict[str, Any]) -> str:
        await anyio.lowlevel.checkpoint()
        if model.hang == "tool":
            model.reached.set()
            await anyio.sleep_forever()
        return f"echo of {arguments['text']}"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = Tool.from_schema("check_echo", echo, input_schema=schema, description="Say the text again.", read_only=True)
    return ChatClient(model, tools=[tool], advisors=advisors, name="check_advisor")


def _what(response: ChatResponse[Any]) -> dict[str, Any]:
    """What must be the same under call and stream."""
    return {
        "text": response.text,
        "stop_reason": response.stop_reason,
        "messages": [(message.role, message.text) for message in response.new_messages],
        "metadata": sorted(map(str, response.metadata)),
    }


class _Warnings(logging.Handler):
    """Notes when the edge of the stream had to withdraw text."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found = False

    def emit(self, record: logging.LogRecord) -> None:
        self.found = self.found or "changed the answer after it had been streamed" in record.getMessage()


async def _same_under_call_and_stream(advisor: Any, second: Any, context: dict[Any, Any]) -> None:
    """Under call and stream it must do the same."""
    called = await _client(_EchoModel(), advisor).call("same", conversation_id="check", context=context)
    warnings, log = _Warnings(), logging.getLogger("advisorchain")
    log.addHandler(warnings)
    events: list[Any] = []
    try:
        async with _client(_EchoModel(), second).stream("same", conversation_id="check", context=context) as stream:
            async for event in stream:
                events.append(event)
            streamed = await stream.response()
    finally:
        log.removeHandler(warnings)
    assert _what(called) == _what(streamed), f"Called: {_what(called)}. Streamed: {_what(streamed)}."
    text = ""
    for event in events:
        if event.path == () and isinstance(event, RoundStarted | Restarted):
            text = ""
        elif event.path == () and isinstance(event, TextDelta):
            text += event.text
    assert text == streamed.text, f"A reader of the stream has {text!r}, the answer is {streamed.text!r}."
    assert not warnings.found, 'It changes text that has been streamed; give it streams = "hold".'
    started = sorted(event.call.id for event in events if isinstance(event, ToolStarted))
    finished = sorted(event.result.call_id for event in events if isinstance(event, ToolFinished))
    assert started == finished, f"Tools that started: {started}; that finished: {finished}."


async def _entered_again(advisor: Any, second: Any, context: dict[Any, Any]) -> None:
    """It may be entered twice in one turn, one after the other."""
    answers: list[ChatResponse[Any]] = []

    class Twice:
        name, order = "check_twice", advisor.order

        async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            for _ in range(2):
                answers.append(await call_next(request))
            return answers[-1]

    response = await _client(_EchoModel(), Twice(), advisor).call("again", conversation_id="check", context=context)
    for answer in answers:
        assert isinstance(answer, ChatResponse), f"It answered with {type(answer).__name__}."
    check_pairing(response.new_messages)
    assert response.text, "The second time there was no answer."


class _Returns:
    """Stands right outside an advisor, and notes what it still returns once it is cancelled."""

    name = "check_returns"

    def __init__(self, order: int) -> None:
        self.order = order
        self.cancelled = False
        self.found: list[str] = []

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Note a response."""
        response = await call_next(request)
        if self.cancelled:
            self.found.append("a response")
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Note a result."""
        result = await call_next(invocation)
        if self.cancelled:
            self.found.append("a tool result")
        return result


async def _cancelled(advisor: Any, second: Any, context: dict[Any, Any]) -> None:
    """A cancellation must pass it at once, and it must work afterwards."""
    for number, place in enumerate(("model", "tool")):
        model, outside = _EchoModel(), _Returns(advisor.order)
        model.hang = place
        client = _client(model, outside, advisor)

        async def turn(client: ChatClient = client, number: int = number, model: _EchoModel = model) -> None:
            try:
                await client.call("cancelled", conversation_id=f"check {number}", context=context)
            finally:
                model.reached.set()  # an advisor may answer without the model, or the tool

        start = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            await model.reached.wait()
            outside.cancelled, start = True, anyio.current_time()
            group.cancel_scope.cancel()
        seconds = anyio.current_time() - start
        assert seconds < SECONDS, f"Cancelled in the {place}, it took {seconds:.1f} s to end; {SECONDS:g} are allowed."
        assert not outside.found, f"Cancelled in the {place}, it made {' and '.join(outside.found)} of that."
        outside.cancelled = False
        model.hang = ""
        after = await client.call("after", conversation_id=f"check {number} after", context=context)
        assert after.text, "It did not answer afterwards."


async def _turns_at_once(advisor: Any, second: Any, context: dict[Any, Any]) -> None:
    """Turns at the same time must not meet."""
    client = _client(_EchoModel(), advisor)
    found: dict[str, str] = {}

    async def turn(prompt: str) -> None:
        response = await client.call(prompt, conversation_id=f"check {prompt}", context=context)
        found[prompt] = " ".join(message.text for message in response.new_messages)

    prompts = [f"<{number}>" for number in range(TURNS)]
    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(turn, prompt)
    for prompt, text in found.items():
        others = [other for other in prompts if other != prompt and other in text]
        assert not others, f"The turn {prompt} has text of {others}: {text!r}."


# Mutation -------------------------------------------------------------------------------------------------------------


def _slots(value: Any) -> dict[str, Any]:
    """The attributes of a request, response, invocation or result; lists and dicts as copies."""
    return {name: _copied(getattr(value, name)) for name in type(value).__slots__ if hasattr(value, name)}


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return dict(value)
    return list(value) if type(value) is list else value


_MAY_CHANGE = {"offers", "steering"}  # the loop's own, written by the terminal and by `ChatRequest.steer`


class _Watch:
    """An advisor that notes what passes it, to see later whether somebody has changed it."""

    def __init__(self, name: str, order: int) -> None:
        self.name = name
        self.order = order
        self._seen: list[tuple[Any, dict[str, Any]]] = []

    def _note(self, value: Any) -> None:
        self._seen.append((value, _slots(value)))

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Note the request that goes in, and the response that comes out."""
        self._note(request)
        response = await call_next(request)
        self._note(response)
        return response

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Note the invocation that goes in, and the result that comes out."""
        self._note(invocation)
        result = await call_next(invocation)
        self._note(result)
        return result

    def changed(self) -> list[str]:
        """What is not as it was."""
        found: list[str] = []
        for value, before in self._seen:
            now = _slots(value)
            for name, old in before.items():
                new = now.get(name)
                same = old == new if isinstance(old, dict | list) else old is new
                if not same and name not in _MAY_CHANGE:
                    found.append(f"{type(value).__name__}.{name}")
        return sorted(set(found))


async def _nothing_mutated(advisor: Any, second: Any, context: dict[Any, Any]) -> None:
    """It must change copies (`replace`), never what it was given."""
    outer, inner = _Watch("check_outside", advisor.order), _Watch("check_inside", advisor.order)
    client = _client(_EchoModel(), outer, advisor, inner)
    await client.call("mutate", conversation_id="check", context=context)
    changed = [*outer.changed(), *inner.changed()]
    assert not changed, f"Changed in place: {', '.join(changed)}."
