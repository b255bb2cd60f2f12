"""The public API as users write it, for type checkers only: `test_typing.py` runs mypy and pyright on it.

Lines that must be errors carry an ignore comment of each checker; a checker that no longer finds the error reports the
comment as unused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatModel,
    ChatNext,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    ContextKey,
    Emit,
    Event,
    Finished,
    Message,
    Order,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolInvocation,
    ToolNext,
    ToolProvider,
    ToolResult,
    ToolStarted,
    TurnEnd,
    Usage,
    UserMessage,
    chat_advisor,
    tool,
    tool_advisor,
)
from advisorchain.advisors import LoopState, ReturnDirectAdvisor, ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


class City(BaseModel):
    name: str


@dataclass
class Point:
    x: int


class Row(TypedDict):
    id: str


# Models --------------------------------------------------------------------------------------------------------------


class EchoModel:
    name = "echo"

    async def __call__(self, request: ChatRequest) -> ChatResponse:
        if request.streaming:
            await request.emit(TextDelta(request.user_text))
        return ChatResponse(AssistantMessage(content=request.user_text), usage=Usage(1, 1))


async def function_model(request: ChatRequest) -> ChatResponse[Any]:
    return ChatResponse(AssistantMessage(content="hi"))


echo: ChatModel = EchoModel()
scripted: ChatModel = ScriptedModel(["a", ["b", ToolCall("c")]])
ChatClient(echo)
ChatClient(function_model)
ChatClient(model=EchoModel())
ChatClient("gpt")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ChatClient()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Tools ---------------------------------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool(return_direct=True, timeout=5, tags=["x"], meta={"a": 1}, idempotent=True)
def status(id: str, context: ToolContext) -> str:
    return f"{id} {context.call.id}"


class Desk:
    @tool
    async def book(self, city: str) -> str:
        return city

    @tool(read_only=True)
    def cancel(self, city: str, context: ToolContext | None = None) -> str:
        return city


class Own(Tool):
    name = "own"
    description = "A tool of its own."

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> str:
        await context.progress(1, 2)
        return "done"


class Provider:
    async def tools(self, request: ChatRequest) -> Iterable[Tool]:
        return [add]


provider: ToolProvider = Provider()
assert_type(add, Tool)
assert_type(status, Tool)
assert_type(add.replace(return_direct=True), Tool)
tool(return_direkt=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
Tool.from_schema("a", lambda arguments: arguments["x"], description="d", input_schema={"type": "object"})
Tool.from_model(City, lambda city: city.name)

# Advisors ------------------------------------------------------------------------------------------------------------

COUNT = ContextKey[int]("api.count")


class CountingAdvisor(Advisor):
    order = Order.GUARD_INPUT
    streams = "hold"
    outside = "tool_loop"

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        context = request.context
        context[COUNT] = context.get(COUNT, 0) + 1
        assert_type(context[COUNT], int)
        assert_type(context.get(COUNT), int | None)
        context[COUNT] = "one"  # type: ignore[misc]  # pyright: ignore[reportArgumentType, reportCallIssue]
        context["plain"] = object()

        async def at_end(end: TurnEnd) -> None:
            assert_type(end.response, ChatResponse[Any] | None)

        context.at_turn_end(at_end)
        return await call_next(request.replace(options=request.options.replace(temperature=0)))

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        result = await call_next(invocation)
        return result.replace(content=result.content.strip())


class Duck:
    name = "duck"
    order = 300

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request)


class WrongAdvisor(Advisor):
    order = 1

    async def advise(self, request: ChatRequest) -> ChatResponse[Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return ChatResponse(AssistantMessage())


class NoAsync(Advisor):
    order = 1

    def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return ChatResponse(AssistantMessage())


class Loop(ToolCallingAdvisor):
    async def before_round(self, request: ChatRequest, state: LoopState) -> ChatRequest:
        return request.replace(tools=[each for each in request.tools if "x" in each.tags])

    async def after_round(self, response: ChatResponse[Any], state: LoopState) -> ChatResponse[Any]:
        state.stop("enough")
        return response


@chat_advisor(order=300, name="tapping", streams="pass")
async def tapping(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    async def watch(event: Event, emit: Emit) -> None:
        if isinstance(event, TextDelta):
            assert_type(event.text, str)
        await emit(event)

    return await call_next(request.tap(watch))


@tool_advisor(order=Order.RETRY)
async def again(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
    result = await call_next(invocation)
    return await call_next(invocation) if result.is_error else result


@chat_advisor(order=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def not_a_chat_advisor(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
    return await call_next(invocation)


@tool_advisor(order=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def not_a_tool_advisor(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    return await call_next(request)


@chat_advisor(order=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
def not_async(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    return ChatResponse(AssistantMessage())


chat_advisor(order=1, streams="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
chat_advisor()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
ToolCallingAdvisor(on_limit="explode")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ReturnDirectAdvisor(policy="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Clients -------------------------------------------------------------------------------------------------------------

client = ChatClient(
    echo,
    tools=[add, status, Desk(), Own(), provider, status.replace(name="status_2"), print],
    advisors=[CountingAdvisor(), Duck(), tapping, again, Loop(max_rounds=3), ReturnDirectAdvisor(policy="any")],
    system="You are {who}.",
    options=ChatOptions(temperature=0),
    return_direct={"status": False},
)


async def calls() -> None:
    assert_type(await client.call("hi"), ChatResponse[str])
    assert_type((await client.call("hi")).output, str)
    assert_type((await client.call("hi", output_type=City)).output, City)
    assert_type((await client.call("hi", output_type=Point)).output, Point)
    assert_type((await client.call("hi", output_type=Row)).output, Row)
    assert_type((await client.call("hi", output_type=list[int])).output, list[int])
    assert_type((await client.call("hi", output_type=dict[str, City])).output, dict[str, City])
    response = await client.call("hi", output_type=City)
    assert_type(response, ChatResponse[City])
    assert_type(response.replace(metadata={}), ChatResponse[City])
    assert_type(response.text, str)
    assert_type(response.tool_calls, tuple[ToolCall, ...])
    assert_type(response.new_messages, tuple[Message, ...])
    assert_type(response.direct_results, tuple[ToolResult, ...])
    assert_type(response.usage, Usage)
    assert_type(response.request, ChatRequest | None)
    assert_type(
        response.stop_reason,
        Literal["final", "return_direct", "limit", "length", "filtered", "refused", "suspended"],
    )
    history: list[Message] = [UserMessage(content="hi"), *response.new_messages]
    await client.call(history)
    await client.call(UserMessage(content="hi"))
    await client.call(
        "hi",
        system="x {a}",
        variables={"a": 1},
        tools=[add],
        advisors=[Duck(), tapping],
        options={"temperature": 0},
        conversation_id="c1",
        context={COUNT: 1, "plain": 2},
        return_direct={"add": True},
        tool_loop=False,
    )
    await client.call("hi", conversation=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await client.call("hi", tool_loop="no")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await client.call(5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def sync() -> None:
    assert_type(client.call_sync("hi").output, str)
    assert_type(client.call_sync("hi", output_type=City, tools=[add]).output, City)
    client.call_sync("hi", conversation=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    with client.stream_sync("hi", output_type=City) as stream:
        for event in stream:
            assert_type(event, Event)
        assert_type(stream.response().output, City)
    with client.stream_sync("hi") as plain:
        for text in plain.text(final=True):
            assert_type(text, str)


async def streams() -> None:
    async with client.stream("hi", output_type=City) as stream:
        async for event in stream:
            if isinstance(event, ToolStarted):
                assert_type(event.call, ToolCall)
            elif isinstance(event, ToolFinished):
                assert_type(event.result, ToolResult)
            elif isinstance(event, Finished):
                event.response.text.upper()
            assert_type(event.path, tuple[str, ...])
        assert_type((await stream.response()).output, City)
    async with client.stream("hi") as plain:
        async for piece in plain.text(final=True):
            assert_type(piece, str)
        assert_type(await plain.response(), ChatResponse[str])


async def by_hand() -> None:
    response = await client.call("hi", tool_loop=False)
    done = await client.execute_tools(response, calls=response.tool_calls[:1], results={"c2": "denied"})
    assert_type(done.results, tuple[ToolResult, ...])
    await client.call(done.messages)


def nested() -> None:
    ChatClient(client.as_model("inner"), tools=[client.as_tool("agent", "An agent.", return_direct=True)])
    assert_type(client.explain(), str)
    client.explain(format="yaml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
