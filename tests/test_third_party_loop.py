"""A tool loop that is no subclass of ours: it runs rounds of its own, and streams like any other."""

from __future__ import annotations

from typing import Any

from advisorchain import (
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Message,
    Restarted,
    TextDelta,
    ToolCall,
    ToolInvocation,
    ToolResult,
    Usage,
    tool,
)
from advisorchain.testing import ScriptedModel


class PlainLoop:
    """The loop of a textbook; numbers its rounds and hands on each round's results."""

    name = "plain_loop"
    order = 500
    is_tool_loop = True

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        added: list[Message] = []
        results: tuple[ToolResult, ...] = ()
        round = 0
        while True:
            round += 1
            sent = request.replace(messages=(*request.messages, *added), tool_results=results, round=round)
            response = await call_next(sent)
            added.append(response.message)
            if not response.tool_calls:
                return response.replace(new_messages=tuple(added))
            found: list[ToolResult] = []
            for call in response.tool_calls:
                wanted = request.tools.get(call.name)
                assert wanted is not None
                result = await sent.execute(ToolInvocation(call, wanted, sent, round))
                direct = wanted.is_direct(request.context)
                found.append(result.stamped(call.id, call.name, direct, wanted.source, wanted.trusted))
            results = tuple(found)
            added.extend(result.message() for result in results)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(return_direct=True)
async def status(id: str) -> str:
    """The status."""
    return f"{id} is approved"


def texts(events: list[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            found[event.round] = found.get(event.round, "") + event.text
    return found


async def test_it_runs_rounds(run: Any, caplog: Any) -> None:
    steps = [["See. ", ToolCall("add", {"a": 1, "b": 2})], ["And. ", ToolCall("add", {"a": 3, "b": 4})], "7"]
    model = ScriptedModel(steps, usage=Usage(1, 1))
    response = await run(ChatClient(model, tools=[add], advisors=[PlainLoop()]), "?")
    assert (response.text, response.usage) == ("7", Usage(3, 3))
    assert [message.text for message in response.new_messages] == ["See. ", "3", "And. ", "7", "7"]
    if run.mode == "stream":
        assert texts(run.events) == {1: "See. ", 2: "And. ", 3: "7"}
        assert not any(isinstance(event, Restarted) for event in run.events) and not caplog.records


async def test_return_direct_works_inside_it(run: Any, caplog: Any) -> None:
    model = ScriptedModel([["Looking. ", ToolCall("status", {"id": "TR001"})]])
    response = await run(ChatClient(model, tools=[status], advisors=[PlainLoop()]), "?")
    assert (response.text, response.stop_reason) == ("TR001 is approved", "return_direct")
    assert [result.content for result in response.direct_results] == ["TR001 is approved"]
    assert not caplog.records, "nobody has changed an answer"
