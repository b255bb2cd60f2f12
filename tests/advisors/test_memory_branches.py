"""Sub-agents remember under a branch of the conversation, each its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from advisorchain import ChatClient, Message, Order, ToolCall
from advisorchain.advisors import MemoryAdvisor
from advisorchain.memory import InMemoryStore
from advisorchain.testing import ScriptedModel


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def ask(prompt: str, call_id: str = "c0") -> ToolCall:
    return ToolCall("researcher", {"prompt": prompt}, call_id)


def clients(store: InMemoryStore, outer: Sequence[Any], inner: Sequence[Any], **memory: Any) -> tuple[Any, Any, Any]:
    """A client with a sub-agent; their models."""
    inner_model, outer_model = ScriptedModel(inner), ScriptedModel(outer)
    researcher = ChatClient(inner_model, advisors=[MemoryAdvisor(store, **{"branch": True, **memory})])
    client = ChatClient(
        outer_model,
        tools=[researcher.as_tool("researcher", "Finds things out.")],
        advisors=[MemoryAdvisor(store, order=Order.MEMORY_INSIDE)],
    )
    return client, outer_model, inner_model


async def test_a_sub_agent_remembers_under_its_branch(run: Any) -> None:
    store = InMemoryStore()
    client, outer, inner = clients(store, [[ask("a?")], "A", [ask("b?")], "B"], ["found a", "found b"])
    await run(client, "1", conversation_id="c")
    await run(client, "2", conversation_id="c")
    assert texts(await store.load("c", branch="researcher")) == ["a?", "found a", "b?", "found b"]
    assert texts(inner.requests[1].messages) == ["a?", "found a", "b?"]
    assert texts(await store.load("c")) == ["1", "", "found a", "A", "2", "", "found b", "B"], "only its results"
    assert texts(outer.requests[2].messages) == ["1", "", "found a", "A", "2"]


async def test_parallel_sub_agents_never_see_each_other(run: Any) -> None:
    store = InMemoryStore()
    both = [ask("a?", "c0"), ask("b?", "c1")]

    def answer(request: Any) -> str:
        return f"found {request.messages[-1].text[0]}"

    client, _, inner = clients(store, [both, "done", both, "done"], [answer] * 4)
    await run(client, "1", conversation_id="c")
    await run(client, "2", conversation_id="c")
    branches = [texts(await store.load("c", branch=branch)) for branch in ("researcher", "researcher#2")]
    assert branches == [["a?", "found a"] * 2, ["b?", "found b"] * 2]
    for request in inner.requests:
        assert len({text[-2:] if text.endswith("?") else text[-1] for text in texts(request.messages)}) <= 2
        letters = {text.replace("?", "")[-1] for text in texts(request.messages)}
        assert len(letters) == 1, "one of them saw the other's messages"


async def test_a_sub_agent_of_a_sub_agent(run: Any) -> None:
    store = InMemoryStore()
    deepest = ChatClient(ScriptedModel(["deep"]), advisors=[MemoryAdvisor(store, branch=True)])
    middle = ChatClient(
        ScriptedModel([[ToolCall("deepest", {"prompt": "d?"})], "middle"]),
        tools=[deepest.as_tool("deepest", "Deep.")],
        advisors=[MemoryAdvisor(store, branch=True)],
    )
    model = ScriptedModel([[ToolCall("middle", {"prompt": "m?"})], "top"])
    client = ChatClient(model, tools=[middle.as_tool("middle", "Middle.")])
    await run(client, "1", conversation_id="c")
    assert texts(await store.load("c", branch="middle")) == ["m?", "middle"]
    assert texts(await store.load("c", branch="middle/deepest")) == ["d?", "deep"]
    assert await store.load("c") == (), "the outer client has no memory"


async def test_without_branch_a_sub_agent_has_no_memory(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryStore()
    client, _, inner = clients(store, [[ask("a?")], "A", [ask("b?")], "B"], ["one", "two"], branch=False)
    await run(client, "1", conversation_id="c")
    await run(client, "2", conversation_id="c")
    assert texts(inner.requests[1].messages) == ["b?"]
    assert await store.load("c", branch="researcher") == ()
    assert sum("branch=True" in record.getMessage() for record in caplog.records) == 1


async def test_without_a_conversation_there_is_no_branch(run: Any) -> None:
    store = InMemoryStore()
    client, _, _ = clients(store, [[ask("a?")], "A"], ["one"])
    await run(client, "1")
    assert await store.conversations() == ()


async def test_a_failed_sub_agent_stores_nothing(run: Any) -> None:
    store = InMemoryStore()
    client, _, _ = clients(store, [[ask("a?")], "sorry"], [ConnectionError("down")])
    await run(client, "1", conversation_id="c")
    assert await store.load("c", branch="researcher") == ()
    assert texts(await store.load("c"))[-1] == "sorry"


async def test_deleting_the_conversation_takes_its_branches(run: Any) -> None:
    store = InMemoryStore()
    client, _, _ = clients(store, [[ask("a?")], "A"], ["one"])
    await run(client, "1", conversation_id="c")
    await store.delete("c")
    assert await store.load("c", branch="researcher") == ()
