"""Many turns on one client at the same time: right answers, nothing shared, nothing kept."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any

import anyio
import pytest

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ContextKey,
    TextDelta,
    ToolCall,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel

TURN = ContextKey[str]("test.turn")
SEEN = ContextKey[list[str]]("test.seen")


@tool
async def double(number: int) -> int:
    """Double a number."""
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def doubling(request: ChatRequest) -> ChatResponse[Any]:
    """Doubles the user's number with the tool, twice, then answers; gives way before every answer."""
    await anyio.lowlevel.checkpoint()
    last = request.messages[-1]
    rounds = sum(message.role == "tool" for message in request.messages)
    if rounds < 2:
        call = ToolCall("double", {"number": int(last.text)}, id=f"call_{rounds}")
        text = f"{last.text}... "
        if request.streaming:
            await request.emit(TextDelta(text))
        return ChatResponse(AssistantMessage(content=text, tool_calls=(call,)), usage=Usage(1, 1))
    if request.streaming:
        await request.emit(TextDelta(last.text))
    return ChatResponse(AssistantMessage(content=last.text), usage=Usage(1, 1))


@chat_advisor(order=600)
async def inner(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    context = request.context
    seen = context.setdefault(SEEN, [])
    seen.append(context[TURN])
    await anyio.lowlevel.checkpoint()
    response = await call_next(request)
    assert context[SEEN] is seen and set(seen) == {request.user_text}
    return response


@chat_advisor(order=300)
async def outer(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    assert TURN not in request.context, "another turn's context"
    request.context[TURN] = request.user_text
    response = await call_next(request)
    assert request.context[SEEN] == [request.user_text] * 3
    return response


def doubling_client() -> ChatClient:
    return ChatClient(doubling, tools=[double], advisors=[inner, outer])


async def ask(client: ChatClient, number: int, mode: str) -> ChatResponse[Any]:
    if mode == "call":
        return await client.call(str(number))
    async with client.stream(str(number)) as stream:
        texts = [piece async for piece in stream.text()]
        response = await stream.response()
    assert "".join(texts) == f"{number}... {2 * number}... {4 * number}"
    return response


async def ask_many(client: ChatClient, count: int, mode: str) -> None:
    answers: dict[int, ChatResponse[Any]] = {}

    async def one(number: int) -> None:
        answers[number] = await ask(client, number, mode)

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)
    assert len(answers) == count
    for number, response in answers.items():
        assert response.text == str(4 * number)
        assert response.usage == Usage(3, 3)
        calls = [call.arguments for message in response.new_messages for call in getattr(message, "tool_calls", ())]
        assert calls == [{"number": number}, {"number": 2 * number}]


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_a_thousand_at_once(mode: str) -> None:
    await ask_many(doubling_client(), 1_000, mode)


@pytest.mark.parametrize("mode", ["call", "stream"])
async def test_a_thousand_at_once_leave_no_memory_behind(mode: str) -> None:
    client = doubling_client()
    await ask_many(client, 100, mode)  # caches, interned strings, the event loop's own lists
    gc.collect()
    tracemalloc.start()
    try:
        await ask_many(client, 100, mode)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await ask_many(client, 1_000, mode)
        gc.collect()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 1_000_000, "the turns were really there"
    # 5 % of what they took at their peak is 0.5 kB a turn: less than any turn that were kept.
    assert after - before <= 0.05 * (peak - before)


async def test_two_hundred_calls_with_advisors_of_their_own(run: Any) -> None:
    ran: list[int] = []

    def own(number: int) -> Any:
        @chat_advisor(order=300, name="own")
        async def advisor(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            ran.append(number)
            response = await call_next(request)
            return response.replace(metadata={**response.metadata, "number": number})

        return advisor

    client = ChatClient(ScriptedModel(["ok"] * 201))
    for number in range(200):
        response = await run(client, "?", advisors=[own(number)])
        assert response.metadata["number"] == number
    assert ran == list(range(200))
    assert "number" not in (await run(client, "?")).metadata
    assert "own" not in client.explain()


async def test_per_call_advisors_at_the_same_time() -> None:
    client = ChatClient(doubling, tools=[double])
    found: dict[int, Any] = {}

    def own(number: int) -> Any:
        @chat_advisor(order=600, name="own")
        async def advisor(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
            assert request.user_text == str(number)
            await anyio.lowlevel.checkpoint()
            return await call_next(request)

        return advisor

    async def one(number: int) -> None:
        if number % 2:
            found[number] = (await client.call(str(number), advisors=[own(number)])).text
        else:
            async with client.stream(str(number), advisors=[own(number)]) as stream:
                found[number] = (await stream.response()).text

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(one, number)
    assert found == {number: str(4 * number) for number in range(200)}


async def test_per_call_tools_and_settings_do_not_stay(run: Any) -> None:
    @tool
    async def triple(number: int) -> int:
        """Triple a number."""
        return 3 * number

    model = ScriptedModel(["a", "b"])
    client = ChatClient(model, tools=[double], options={"temperature": 0.5}, system="Be {mood}.")
    await run(
        client, "?", tools=[triple], options={"max_tokens": 7}, variables={"mood": "brief"}, conversation_id="c",
        return_direct={"double": True},
    )  # fmt: skip
    await run(client, "?", variables={"mood": "kind"})
    first, second = model.requests
    assert (first.tools.names, second.tools.names) == (["double", "triple"], ["double"])
    assert (first.options.max_tokens, second.options.max_tokens) == (7, None)
    assert first.options.temperature == second.options.temperature == 0.5
    assert (first.messages[0].text, second.messages[0].text) == ("Be brief.", "Be kind.")
    assert (first.conversation_id, second.conversation_id) == ("c", None)
    assert not list(second.context)


async def test_a_failing_turn_does_not_disturb_its_neighbours() -> None:
    async def model(request: ChatRequest) -> ChatResponse[Any]:
        if int(request.user_text) % 3 == 0:
            await anyio.lowlevel.checkpoint()
            raise ValueError(request.user_text)
        return await doubling(request)

    client = ChatClient(model, tools=[double], advisors=[inner, outer])
    failed: list[int] = []
    answered: list[int] = []

    async def one(number: int) -> None:
        try:
            await ask(client, number, "stream" if number % 2 else "call")
            answered.append(number)
        except ValueError as error:
            assert str(error) == str(number)
            failed.append(number)

    async with anyio.create_task_group() as group:
        for number in range(90):
            group.start_soon(one, number)
    assert sorted(failed) == [number for number in range(90) if number % 3 == 0]
    assert sorted(failed + answered) == list(range(90))


async def test_cancelled_turns_do_not_disturb_their_neighbours() -> None:
    async def model(request: ChatRequest) -> ChatResponse[Any]:
        if request.user_text == "hang":
            await anyio.sleep_forever()
        return await doubling(request)

    client = ChatClient(model, tools=[double])
    answered: list[str] = []

    async def hang() -> None:
        with anyio.move_on_after(0.05):
            async with client.stream("hang") as stream:
                await stream.response()

    async def one(number: int) -> None:
        answered.append((await ask(client, number, "stream")).text)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(hang)
            group.start_soon(one, number)
    assert sorted(map(int, answered)) == [4 * number for number in range(50)]


def test_one_client_in_many_threads_with_loops_of_their_own() -> None:
    """The limiter of sync tools belongs to a loop; nothing else of a client does."""

    @tool
    def triple(number: int) -> int:
        """Triple a number."""
        return 3 * number

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        last = request.messages[-1]
        if last.role == "tool":
            return ChatResponse(AssistantMessage(content=last.text))
        call = ToolCall("triple", {"number": int(last.text)})
        return ChatResponse(AssistantMessage(tool_calls=(call, ToolCall("triple", {"number": 1}), call)))

    client = ChatClient(model, tools=[triple])
    found: dict[int, list[str]] = {}

    async def turns(base: int) -> list[str]:
        async with client.stream(str(base)) as stream:
            first = (await stream.response()).text
        return [first, (await client.call(str(base + 1))).text]

    def thread(number: int) -> None:
        found[number] = anyio.run(turns, number, backend="trio" if number % 2 else "asyncio")

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert found == {number: [str(3 * number), str(3 * number + 3)] for number in range(12)}
