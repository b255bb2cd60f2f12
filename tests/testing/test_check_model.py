"""`check_model`: the models of the package pass, and every kind of wrong model is found."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from advisorchain import (
    AssistantMessage,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    ModelError,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
)
from advisorchain.models import KeywordModel
from advisorchain.options import NO_OPTIONS
from advisorchain.testing import ScriptedModel, check_model


def answer(request: ChatRequest) -> Any:
    """What a perfect model says to the prompts of the check."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return f"The tool says {last.text}."
    if found := re.search(r'with the text "(\w+)"', last.text):
        return [ToolCall("check_echo", {"text": found[1]})]
    return last.text.rpartition(" ")[2]


async def test_the_scripted_model_passes() -> None:
    await check_model(
        lambda: ScriptedModel([answer] * 40, usage=Usage(1, 2)),
        broken=lambda: ScriptedModel([ModelError("away")] * 2),
        exact=True,
    )


async def test_the_keyword_model_passes() -> None:
    await check_model(KeywordModel, exact=True)


class Perfect:
    """Streams in pieces, and awaits something; the wrong models differ in one thing each."""

    name = "perfect"
    usage: Any = None

    async def __call__(self, request: ChatRequest) -> Any:
        said = answer(request)
        await anyio.lowlevel.checkpoint()
        if not isinstance(said, str):
            return ChatResponse(AssistantMessage(tool_calls=tuple(said)), usage=self.usage)
        for piece in self.pieces(said):
            await request.emit(TextDelta(piece))
        return ChatResponse(AssistantMessage(content=said), usage=self.usage)

    def pieces(self, text: str) -> list[str]:
        return [text[:2], text[2:]]


async def test_a_perfect_model_passes() -> None:
    await check_model(Perfect, exact=True)


async def test_the_maker_may_be_async_and_what_can_be_closed_is_closed() -> None:
    closed: list[Any] = []

    class Closes(Perfect):
        async def aclose(self) -> None:
            closed.append(self)

    async def make() -> Closes:
        return Closes()

    await check_model(make)
    assert len(set(map(id, closed))) == 7


async def test_a_model_without_tools_passes_when_it_says_so() -> None:
    class TextOnly(Perfect):
        async def __call__(self, request: ChatRequest) -> Any:
            return await super().__call__(request.replace(messages=[request.messages[-1].model_copy(update=PLAIN)]))

    PLAIN = {"content": "Say yes"}
    await check_model(TextOnly, tools=False)
    with pytest.raises(AssertionError, match="asked to call the tool check_echo it answers 'yes'"):
        await check_model(TextOnly)


# Wrong models ---------------------------------------------------------------------------------------------------------


class NoName(Perfect):
    name = ""


class Text(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        return "apple"


class Silent(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        return ChatResponse(AssistantMessage(content=""))


class StreamsHalf(Perfect):
    def pieces(self, text: str) -> list[str]:
        return [text[:2]]


class StreamsNothing(Perfect):
    def pieces(self, text: str) -> list[str]:
        return []


class NegativeUsage(Perfect):
    usage = Usage(3, -1)


class WrongTool(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        response = await super().__call__(request)
        calls = tuple(ToolCall("other", call.arguments) for call in response.message.tool_calls)
        return response.replace(message=response.message.model_copy(update={"tool_calls": calls}))


class SameIds(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        response = await super().__call__(request)
        calls = tuple(ToolCall(call.name, call.arguments, "1") for call in response.message.tool_calls * 2)
        return response.replace(message=response.message.model_copy(update={"tool_calls": calls}))


class HalfArguments(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        response = await super().__call__(request)
        calls = tuple(ToolCall(call.name, json.dumps(call.arguments)[:-2]) for call in response.message.tool_calls)
        return response.replace(message=response.message.model_copy(update={"tool_calls": calls}))


class RunsTools(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        response = await super().__call__(request)
        for call in response.message.tool_calls:
            await request.execute(call)  # type: ignore[arg-type]
        return response


class NoHistory(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        if any(isinstance(message, ToolMessage) and message.is_error for message in request.messages):
            raise ModelError("400: tools are not given")
        return await super().__call__(request)


class Mixes(Perfect):
    def __init__(self) -> None:
        self.last: Any = None

    async def __call__(self, request: ChatRequest) -> Any:
        self.last = request
        await anyio.lowlevel.checkpoint()
        return await super().__call__(request.replace(messages=self.last.messages))


class Swallows(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        try:
            return await super().__call__(request)
        except anyio.get_cancelled_exc_class():
            return ChatResponse(AssistantMessage(content="half"))


class OneLoop(Perfect):
    def __init__(self) -> None:
        self.token: Any = None

    async def __call__(self, request: ChatRequest) -> Any:
        token = anyio.lowlevel.current_token()
        self.token = self.token or token
        if token != self.token:
            raise RuntimeError("attached to a different loop")
        return await super().__call__(request)


class SetsOptions(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        request.options = ChatOptions(model="mine")
        return await super().__call__(request)


class ChangesExtra(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        request.options.extra["stream"] = True
        return await super().__call__(request)


class ChangesSchema(Perfect):
    async def __call__(self, request: ChatRequest) -> Any:
        for tool in request.tools:
            tool.input_schema["additionalProperties"] = False  # type: ignore[index]
        return await super().__call__(request)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (NoName, "NoName: It answers; what it streams.*its name is ''"),
        (Text, "Text: It answers.*with str, not a ChatResponse"),
        (Silent, "Silent: It answers.*its message says nothing"),
        (StreamsHalf, "the deltas are 'ap', the answer is 'apple'"),
        (StreamsNothing, "the deltas are '', the answer is 'apple'"),
        (NegativeUsage, "its usage has -1 for output_tokens"),
        (WrongTool, "WrongTool: Its tool calls are well formed.*it calls 'other'; offered is 'check_echo'"),
        (SameIds, r"the ids of its calls are \['1', '1'\]"),
        (HalfArguments, "the arguments of its call are no JSON: '{"),
        (RunsTools, "it ran a tool, which is the loop's part"),
        (NoHistory, "NoHistory: It takes a conversation.*It raised ModelError"),
        (Mixes, "Mixes: Calls at the same time do not mix"),
        (Swallows, "Swallows: A cancellation ends a call.*streamed and cancelled it made a response"),
        (OneLoop, "OneLoop: It works in an event loop, in another one.*different loop"),
        (SetsOptions, "SetsOptions: It changes nothing.*it sets options of the request"),
        (ChangesExtra, "ChangesExtra: It changes nothing.*it changes options of the request"),
        (ChangesSchema, "ChangesSchema: It changes nothing.*it changes tools of the request|It raised TypeError"),
    ],
)
async def test_wrong_models_are_found(wrong: Callable[[], Any], text: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){text}"):
        await check_model(wrong)


async def test_one_that_changes_its_options_changes_nobody_elses() -> None:
    with pytest.raises(AssertionError, match="it changes options of the request"):
        await check_model(ChangesExtra)
    assert NO_OPTIONS.extra == {}


async def test_one_that_is_not_exact_is_found() -> None:
    class Counts(Perfect):
        count = 0

        async def __call__(self, request: ChatRequest) -> Any:
            self.count += 1
            await request.emit(TextDelta(str(self.count)))
            return ChatResponse(AssistantMessage(content=str(self.count)))

    with pytest.raises(AssertionError, match="called it answers '1', streamed '2'"):
        await check_model(Counts, exact=True)


async def test_one_that_ends_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.testing.model.SECONDS", 0.1)

    class EndsLate(Perfect):
        async def __call__(self, request: ChatRequest) -> Any:
            try:
                return await super().__call__(request)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.2)
                raise

    with pytest.raises(AssertionError, match=r"EndsLate: A cancellation ends.*it took \d\.\d s to end"):
        await check_model(EndsLate)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_left_behind_is_found(anyio_backend: str) -> None:
    class Leaves(Perfect):
        def __init__(self) -> None:
            self.left: list[asyncio.Task[None]] = []

        async def __call__(self, request: ChatRequest) -> Any:
            if request.streaming:
                self.left.append(asyncio.create_task(asyncio.sleep(0.2)))
            response = await super().__call__(request)
            for task in self.left:
                await task
            return response

    with pytest.raises(AssertionError, match="streamed and cancelled it left tasks behind"):
        await check_model(Leaves)
    await asyncio.sleep(0.3)


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (lambda: ScriptedModel(["fine", "fine"]), "What goes wrong at the provider.*The broken model answers"),
        (lambda: ScriptedModel([OSError("down")]), "It raised OSError.'down'., which is no AdvisorChainError"),
    ],
)
async def test_failures_of_another_kind_are_found(broken: Callable[[], Any], text: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){text}"):
        await check_model(Perfect, broken=broken)
