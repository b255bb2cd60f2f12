"""`check_model`: the contract that every model keeps."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..context import Context, Turn
from ..errors import AdvisorChainError
from ..events import Event, TextDelta
from ..exchange import ChatRequest, ChatResponse, Emit, discard
from ..invocation import ToolInvocation, ToolResult
from ..messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from ..models import ChatModel
from ..options import ChatOptions
from ..runtime import Runtime
from ..shield import in_trio
from ..tool_set import ToolSet
from ..tools import Tool
from .contract import check_rule

MakeModel = Callable[[], ChatModel | Awaitable[ChatModel]]

CALLS = 8
"""How many calls run at once."""
SECONDS = 5.0
"""How long a call may take to end once it is cancelled."""
TOOL = "check_echo"
"""The name of the tool that is offered; its one argument is ``text``."""


async def check_model(
    make_model: MakeModel, *, broken: MakeModel | None = None, tools: bool = True, exact: bool = False
) -> None:
    """Check a model against the contract of `ChatModel`, on the running event loop.

    Checked: what is streamed is the text of the answer; usage is not negative; tool calls are well formed, and their
    results are taken; a conversation with earlier tool calls is taken; calls at the same time do not mix; a
    cancellation ends a call and leaves nothing; it works in two event loops; it changes nothing of the request. The
    prompts ask for one word, or for one tool call: some 30 calls in all, which at a provider cost money.

    Args:
        make_model: gives a model, sync or async; called once for each check. One with ``aclose()`` or ``close()`` is
            closed after its check.
        broken: gives a model that cannot answer (its key is wrong, its server is away); None: whether failures are
            errors of this package is not checked.
        tools: whether the model calls tools.
        exact: whether equal requests get equal answers: those of call and stream are compared.

    Raises:
        AssertionError: says which rule is broken, what was expected, and what was found.
    """
    for rule in _RULES:
        await check_rule(rule, make_model, exact)
    if tools:
        await check_rule(_calls_tools, make_model, exact)
    if broken is not None:
        await check_rule(_fails, broken, exact)


def _that(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


# One call -------------------------------------------------------------------------------------------------------------


async def _execute(invocation: ToolInvocation) -> ToolResult:
    raise AssertionError("it ran a tool, which is the loop's part.")


async def _echo(arguments: dict[str, Any]) -> str:
    return str(arguments["text"])


def _request(
    messages: Sequence[Message], *, emit: Emit | None = None, tools: bool = False, options: ChatOptions | None = None
) -> ChatRequest:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    echo = Tool.from_schema(TOOL, _echo, description="Say the text again.", input_schema=schema)
    return ChatRequest(
        tuple(messages),
        tools=ToolSet([echo] if tools else []),
        context=Context(Turn(Runtime())),
        execute=_execute,
        options=ChatOptions() if options is None else options,  # its own: a wrong model may change it
        emit=emit or discard,
        streaming=emit is not None,
    )


def _prompt(word: str) -> list[Message]:
    return [UserMessage(content=f"Answer with this one word and nothing else: {word}")]


def _tool_prompt(word: str) -> list[Message]:
    return [UserMessage(content=f'Call the tool {TOOL} once, with the text "{word}".')]


async def _answer(model: ChatModel, request: ChatRequest) -> ChatResponse[Any]:
    """The answer to a request, if it is one."""
    response = await model(request)
    _that(isinstance(response, ChatResponse), f"it answered with {type(response).__name__}, not a ChatResponse.")
    message = response.message
    _that(isinstance(message, AssistantMessage), f"its message is a {type(message).__name__}, no AssistantMessage.")
    _that(bool(message.text or message.tool_calls), f"its message says nothing: {message!r}.")
    _that(isinstance(response.usage, Usage), f"its usage is {response.usage!r}.")
    for name, count in dataclasses.asdict(response.usage).items():
        _that(count is None or (type(count) is int and count >= 0), f"its usage has {count!r} for {name}.")
    return response


async def _streamed(model: ChatModel, request: ChatRequest) -> ChatResponse[Any]:
    """The answer to a request while it is streamed: its text is that of the deltas."""
    events: list[Event] = []

    async def emit(event: Event) -> None:
        await anyio.lowlevel.checkpoint()
        events.append(event)

    response = await _answer(model, request.replace(emit=emit, streaming=True))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    _that(text == response.message.text, f"the deltas are {text!r}, the answer is {response.message.text!r}.")
    wrong = [event for event in events if not isinstance(event, Event)]
    _that(not wrong, f"it emitted {wrong}, which are no events.")
    return response


# The rules ------------------------------------------------------------------------------------------------------------


async def _answers(model: ChatModel, exact: bool) -> None:
    """It answers; what it streams is the text of the answer, and usage is not negative."""
    name = getattr(model, "name", None)
    _that(isinstance(name, str) and name != "", f"its name is {name!r}, not a text.")
    called = await _answer(model, _request(_prompt("apple")))
    streamed = await _streamed(model, _request(_prompt("apple")))
    if exact:
        texts = called.message.text, streamed.message.text
        _that(texts[0] == texts[1], f"called it answers {texts[0]!r}, streamed {texts[1]!r}.")


async def _calls_tools(model: ChatModel, exact: bool) -> None:
    """Its tool calls are well formed, called and streamed, and it takes their results."""
    for ask in (_answer, _streamed):
        word = f"pear{ask.__name__.strip('_')}"
        asked = _tool_prompt(word)
        response = await ask(model, _request(asked, tools=True, options=ChatOptions(tool_choice="required")))
        calls = response.message.tool_calls
        _that(bool(calls), f"asked to call the tool {TOOL} it answers {response.message.text!r}.")
        ids = [call.id for call in calls]
        _that(len(set(ids)) == len(ids) and all(ids), f"the ids of its calls are {ids}.")
        for call in calls:
            _that(call.name == TOOL, f"it calls {call.name!r}; offered is {TOOL!r}.")
            arguments = call.arguments
            try:
                given = json.loads(arguments) if isinstance(arguments, str) else arguments
            except ValueError:
                raise AssertionError(f"the arguments of its call are no JSON: {arguments!r}.") from None
            _that(isinstance(given, dict) and isinstance(given.get("text"), str), f"its call has {arguments!r}.")
        results = [ToolMessage(content=word, call_id=call.id, name=call.name) for call in calls]
        await ask(model, _request([*asked, response.message, *results], tools=True))


async def _takes_conversations(model: ChatModel, exact: bool) -> None:
    """It takes a conversation with a system text, earlier tool calls, failed and empty results, and any characters."""
    calls = (ToolCall("gone", {"text": "好 🙂 \u2028 \x00"}, "call_1"), ToolCall("gone", {}, "call_2"))
    before: list[Message] = [
        SystemMessage(content="Be brief. 好 🙂"),
        UserMessage(content="Look it up: 'quotes', \"double\", \\, \u2028, tab\t."),
        AssistantMessage(content="", tool_calls=calls),
        ToolMessage(content="", call_id="call_1", name="gone"),
        ToolMessage(content="no such thing", call_id="call_2", name="gone", is_error=True),
        AssistantMessage(content="There is nothing."),
    ]
    await _answer(model, _request([*before, *_prompt("plum")]))
    await _streamed(model, _request([*before, *_prompt("plum")]))


async def _at_once(model: ChatModel, exact: bool) -> None:
    """Calls at the same time do not mix."""
    words = [f"fruit{number}end" for number in range(CALLS)]
    found: dict[str, str] = {}

    async def ask(number: int, word: str) -> None:
        response = await (_streamed if number % 2 else _answer)(model, _request(_prompt(word)))
        found[word] = response.message.text

    async with anyio.create_task_group() as group:
        for number, word in enumerate(words):
            group.start_soon(ask, number, word)
    for word, text in found.items():
        others = [other for other in words if other != word and other in text]
        _that(not others, f"the answer to the prompt with {word!r} has {others}: {text!r}.")


def _tasks() -> set[Any]:
    return set() if in_trio() else {task for task in asyncio.all_tasks() if not task.done()}


async def _cancelled(model: ChatModel, exact: bool) -> None:
    """A cancellation ends a call, streamed or not, leaves nothing behind, and it works afterwards."""
    await _answer(model, _request(_prompt("quince")))  # what it keeps for good, it has now
    before = _tasks()
    for streamed in (False, True):
        reached = anyio.Event()
        answers: list[Any] = []

        async def hang(event: Event, reached: anyio.Event = reached) -> None:
            reached.set()
            await anyio.sleep_forever()

        async def call(
            emit: Emit | None = hang if streamed else None,
            reached: anyio.Event = reached,
            answers: list[Any] = answers,
        ) -> None:
            try:
                response = await model(_request(_prompt("quince"), emit=emit))
                if reached.is_set():
                    answers.append(response)
            finally:
                reached.set()

        start = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            if streamed:
                await reached.wait()
            else:
                await anyio.lowlevel.checkpoint()  # it is on its way
            start = anyio.current_time()
            group.cancel_scope.cancel()
        seconds = anyio.current_time() - start
        how = "streamed" if streamed else "called"
        _that(seconds < SECONDS, f"{how} and cancelled it took {seconds:.1f} s to end; {SECONDS:g} are allowed.")
        _that(not (streamed and answers), f"{how} and cancelled it made a response of that.")
        await anyio.lowlevel.checkpoint()
        left = _tasks() - before
        _that(not left, f"{how} and cancelled it left tasks behind: {', '.join(map(repr, left))}.")
        await _answer(model, _request(_prompt("quince")))


async def _in_two_loops(model: ChatModel, exact: bool) -> None:
    """It works in an event loop, in another one in a thread, and in the first one again."""
    backend = "trio" if in_trio() else "asyncio"
    await _answer(model, _request(_prompt("cherry")))
    request = _request(_prompt("cherry"))
    await anyio.to_thread.run_sync(lambda: anyio.run(_answer, model, request, backend=backend))
    await _streamed(model, _request(_prompt("cherry")))


async def _changes_nothing(model: ChatModel, exact: bool) -> None:
    """It changes nothing of the request: messages, options, tools."""
    options = ChatOptions(stop=("§",), extra={})
    request = _request(_prompt("grape"), tools=True, options=options)
    attributes = {name: getattr(request, name) for name in ChatRequest.__slots__}
    content = _content(request)
    await _answer(model, request)
    changed = [name for name, value in attributes.items() if getattr(request, name) is not value]
    _that(not changed, f"it sets {', '.join(changed)} of the request; it must use replace().")
    now = _content(request)
    changed = [name for name, value in content.items() if now[name] != value]
    _that(not changed, f"it changes {', '.join(changed)} of the request.")


def _content(request: ChatRequest) -> dict[str, Any]:
    return {
        "messages": [message.model_dump_json() for message in request.messages],
        "options": copy.deepcopy(request.options.model_dump()),
        "tools": [(tool.name, tool.description, copy.deepcopy(dict(tool.input_schema))) for tool in request.tools],
    }


async def _fails(model: ChatModel, exact: bool) -> None:
    """What goes wrong at the provider is an error of this package, called and streamed."""
    for ask in (_answer, _streamed):
        try:
            await ask(model, _request(_prompt("fig")))
        except AdvisorChainError:
            continue
        except AssertionError:
            raise
        except Exception as exc:
            raise AssertionError(f"It raised {exc!r}, which is no AdvisorChainError.") from exc
        raise AssertionError("The broken model answers.")


_RULES = (_answers, _takes_conversations, _at_once, _cancelled, _in_two_loops, _changes_nothing)
