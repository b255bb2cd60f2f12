"""`ToolSearchAdvisor` under any turn: what the model sees only grows, and what is filtered never runs."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from advisorchain import ChatClient, ChatRequest, Tool, ToolCall, ToolMessage
from advisorchain.advisors import MemoryAdvisor, ToolCallingAdvisor, ToolFilterAdvisor, ToolSearchAdvisor
from advisorchain.memory import InMemoryStore
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel

WORDS = ["apple", "brick", "cloud", "drum", "eagle", "fern"]
RAN: list[str] = []


def made(name: str, *tags: str) -> Tool:
    async def handler(arguments: dict[str, Any]) -> str:
        await anyio.lowlevel.checkpoint()
        RAN.append(name)
        return f"{name} ran"

    return Tool.from_schema(name, handler, description=f"Work with {name.replace('_', ' ')}.", tags=tags)


TOOLS = [made(f"{verb}_{word}", *(["secret"] if word == "fern" else [])) for verb in ("get", "set") for word in WORDS]
NAMES = [tool.name for tool in TOOLS]

searches = st.builds(
    lambda query, limit, category: ToolCall("tool_search", {"query": query, "limit": limit, "category": category}),
    st.sampled_from([*WORDS, "get", "set apple brick", "nothing", "", "secret"]),
    st.sampled_from([1, 2, 8, 99, -1, "x", None]),
    st.sampled_from([None, "secret", "zoo", 7]),
)
garbage = st.sampled_from(["{", "[]", "null", '{"query": 7}']).map(lambda text: ToolCall("tool_search", text))
calls = st.sampled_from([*NAMES, "invented"]).map(lambda name: ToolCall(name, {}))
rounds = st.lists(st.lists(st.one_of(searches, garbage, calls), min_size=1, max_size=4), max_size=6)


def sent(request: ChatRequest) -> tuple[str, str]:
    tools = [[tool.name, tool.description, dict(tool.input_schema)] for tool in request.tools]
    messages = [[message.role, message.text] for message in request.messages]
    return json.dumps(tools)[:-1], json.dumps(messages)[:-1]


@settings(max_examples=150, deadline=None)
@given(
    turns=st.lists(rounds, min_size=1, max_size=3),
    auto_load=st.booleans(),
    scope=st.sampled_from(["turn", "conversation"]),
    always=st.lists(st.sampled_from(NAMES), max_size=2),
    prefetch=st.sampled_from([0, 2]),
    streamed=st.booleans(),
    backend=st.sampled_from(["asyncio", "trio"]),
)
def test_any_turns(
    turns: list[list[list[ToolCall]]], auto_load: bool, scope: Any, always: list[str], prefetch: int, streamed: bool,
    backend: str,
) -> None:  # fmt: skip
    """Whatever the model calls in up to three turns of a conversation."""
    search = ToolSearchAdvisor(threshold=0, auto_load=auto_load, scope=scope, always=always, prefetch=prefetch)
    filters = ToolFilterAdvisor(deny=["secret"])
    memory = MemoryAdvisor(InMemoryStore(), order=550)
    loop = ToolCallingAdvisor(max_repeats=None)
    RAN.clear()

    async def converse() -> None:
        known: list[str] = []
        for steps in turns:
            model = ScriptedModel([*([ToolCall(c.name, c.arguments) for c in step] for step in steps), "Done."])
            client = ChatClient(model, tools=TOOLS, advisors=[search, filters, memory, loop], system="S")
            if streamed:
                async with client.stream("apple fern", conversation_id="c") as stream:
                    response = await stream.response()
            else:
                response = await client.call("apple fern", conversation_id="c")
            check_pairing(response.new_messages)
            names = [request.tools.names for request in model.requests]
            assert all(seen[0] == "tool_search" and len(seen) == len(set(seen)) for seen in names)
            assert all(set(seen[1:]) <= {tool.name for tool in TOOLS if not tool.tags} for seen in names)
            for (tools, messages), (next_tools, next_messages) in pairwise(map(sent, model.requests)):
                assert next_tools.startswith(tools)
                assert next_messages.startswith(messages)
            if scope == "conversation" and not prefetch:
                assert names[0][: len(known)] == known
                known = names[-1]
            results = [message for message in response.new_messages if isinstance(message, ToolMessage)]
            for message in results:
                assert message.text.endswith(" ran") == (message.name in NAMES and not message.is_error)
                if message.is_error and not auto_load and message.name in NAMES and "fern" not in message.name:
                    assert "was not shown" in message.text
                if auto_load and message.name in NAMES and "fern" not in message.name:
                    assert not message.is_error
        assert search._turns == {}

    anyio.run(converse, backend=backend)
    assert not any("fern" in name for name in RAN)
