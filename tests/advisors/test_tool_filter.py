"""`ToolFilterAdvisor`: what is left out is not shown, and does not run however it comes to be called."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest

from advisorchain import (
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ContextKey,
    Order,
    Tool,
    ToolCall,
    ToolInvocation,
    ToolMessage,
    ToolNext,
    ToolResult,
    ToolSet,
    chat_advisor,
    tool_advisor,
)
from advisorchain.advisors import ToolFilterAdvisor, ToolSearchAdvisor
from advisorchain.testing import ScriptedModel

ROLE = ContextKey[str]("test.role")
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def made(name: str, cls: type[Tool] | None = None, **settings: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> str:
        RAN.append(name)
        return f"{name} ran"

    return Tool.from_schema(name, handler, description=f"Do {name}.", **settings)


READ, WRITE, DROP = made("read"), made("write", tags=["admin"]), made("drop_table", tags=["admin", "sql"])
TOOLS = [READ, WRITE, DROP]


def client_of(steps: Iterable[Any], *advisors: Any, tools: Any = TOOLS) -> ChatClient:
    return ChatClient(ScriptedModel(steps), tools=tools, advisors=advisors)


def requests(client: ChatClient) -> list[ChatRequest]:
    return client.model.requests  # type: ignore[attr-defined, no-any-return]


def results(response: ChatResponse[Any]) -> list[str]:
    return [message.text for message in response.new_messages if isinstance(message, ToolMessage)]


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"allow": ["read"]}, ["read"]),
    ({"allow": ["admin"]}, ["write", "drop_table"]),
    ({"deny": ["admin"]}, ["read"]),
    ({"deny": ["sql", "read"]}, ["write"]),
    ({"allow": ["admin"], "deny": ["sql"]}, ["write"]),
    ({"allow": ["drop_*", "re*d"]}, ["read", "drop_table"]),
    ({"deny": ["*_table"]}, ["read", "write"]),
    ({"deny": ["*"]}, []),
    ({"allow": []}, []),
    ({"deny": []}, ["read", "write", "drop_table"]),
    ({"deny": ["[rw]*", "rea?"]}, ["read", "write", "drop_table"]),
    ({"allow": lambda tool, request: tool.read_only is None, "deny": ["sql"]}, ["read", "write"]),
    ({"deny": lambda tool, request: "admin" in tool.tags}, ["read"]),
]


@pytest.mark.parametrize(("settings", "left"), CASES)
async def test_what_is_left(run: Any, settings: dict[str, Any], left: list[str]) -> None:
    calls = [[ToolCall(tool.name, {}) for tool in TOOLS], "Done."]
    client = client_of(calls, ToolFilterAdvisor(**settings))
    response = await run(client, "Go")
    assert [request.tools.names for request in requests(client)] == [left, left]
    assert sorted(RAN) == sorted(left)
    assert requests(client)[0].tools is requests(client)[1].tools
    available = f"Available tools: {', '.join(left)}." if left else "No tools are available."
    for tool, text in zip(TOOLS, results(response), strict=True):
        known = tool.name in left
        assert text == (f"{tool.name} ran" if known else f"There is no tool '{tool.name}'. {available}")


async def test_who_asks(run: Any) -> None:
    def allow(tool: Tool, request: ChatRequest) -> bool:
        return "admin" not in tool.tags or request.context.get(ROLE) == "admin"

    advisor = ToolFilterAdvisor(allow=allow)
    for role, left in (("admin", ["read", "write", "drop_table"]), ("guest", ["read"]), (None, ["read"])):
        RAN.clear()
        client = client_of([[ToolCall("write", {})], "Done."], advisor)
        await run(client, "Go", context={} if role is None else {ROLE: role})
        assert requests(client)[0].tools.names == left
        ran = ["write"] if role == "admin" else []
        assert ran == RAN


async def test_the_role_is_asked_again_when_the_call_runs(run: Any) -> None:
    @chat_advisor(order=Order.GUARD_ROUND)
    async def revokes(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        response = await call_next(request)
        request.context[ROLE] = "guest"
        return response

    allow = lambda tool, request: "admin" not in tool.tags or request.context.get(ROLE) == "admin"  # noqa: E731
    client = client_of([[ToolCall("write", {})], "Done."], ToolFilterAdvisor(allow=allow), revokes)
    response = await run(client, "Go", context={ROLE: "admin"})
    assert "write" in requests(client)[0].tools
    assert results(response) == ["There is no tool 'write'. Available tools: read."]
    assert requests(client)[1].tools.names == ["read"]
    assert RAN == []


async def test_nobody_brings_a_tool_back(run: Any) -> None:
    """Not an advisor further inside that offers it again, nor one that puts it into the invocation."""

    @chat_advisor(order=Order.AUGMENTATION)
    async def offers(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(tools=TOOLS))

    @tool_advisor(order=Order.AUDIT)
    async def swaps(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        return await call_next(invocation.replace(tool=WRITE))

    for other in (offers, swaps):
        client = client_of([[ToolCall("write", {})], "Done."], ToolFilterAdvisor(deny=["admin"]), other)
        await run(client, "Go")
        assert RAN == []


async def test_tools_that_advisors_further_inside_add_are_not_its_affair(run: Any) -> None:
    fillers = [made(f"filler_{number}") for number in range(40)]
    steps = [[ToolCall("tool_search", {"query": "read write drop table"})], [ToolCall("write", {})], "Done."]
    client = client_of(
        steps, ToolFilterAdvisor(allow=["read", "filler_*"]), ToolSearchAdvisor(), tools=[*fillers, *TOOLS]
    )
    response = await run(client, "Go")
    assert results(response)[0] == "Found 1 tool, which you can call now:\n- read: Do read."
    assert "There is no tool 'write'" in results(response)[1]
    assert RAN == []
    client = client_of(
        steps, ToolFilterAdvisor(allow=["read", "filler_*"]), ToolSearchAdvisor(), tools=[*fillers, *TOOLS]
    )
    execution = await client.execute_tools(await client.call("Go", tool_loop=False))
    assert execution.results[0].content.startswith("Found 1 tool")


async def test_a_forced_tool_that_is_left_out_is_not_forced(run: Any) -> None:
    for settings, choice, sent in (
        ({"deny": ["admin"]}, "write", "auto"), ({"deny": ["admin"]}, "read", "read"),
        ({"deny": ["admin"]}, "required", "required"), ({"deny": ["*"]}, "required", "auto"),
        ({"deny": ["*"]}, "none", "none"), ({"deny": ["*"]}, None, None),
    ):  # fmt: skip
        client = client_of(["Done."], ToolFilterAdvisor(**settings))  # type: ignore[arg-type]
        await run(client, "Go", options={"tool_choice": choice})
        assert requests(client)[0].options.tool_choice == sent


async def test_by_the_name_that_says_the_server(run: Any) -> None:
    class Far(Tool):
        policy_name = "far/look"

        async def handle(self, arguments: Any, context: Any) -> str:
            return "looked"

    client = client_of(
        ["Done."], ToolFilterAdvisor(deny=["far/*"]), tools=[READ, Far(name="look", description="Look.")]
    )
    await run(client, "Go")
    assert requests(client)[0].tools.names == ["read"]


async def test_a_bare_name_is_not_that_of_a_tool_from_elsewhere(run: Any) -> None:
    class Far(Tool):
        policy_name = "far/write"

        async def handle(self, arguments: Any, context: Any) -> str:
            return "written"

    client = client_of(["Done."], ToolFilterAdvisor(allow=["read", "write"]), tools=[READ, Far(name="write")])
    await run(client, "Go")
    assert requests(client)[0].tools.names == ["read"]


async def test_tools_in_the_callers_hands() -> None:
    client = client_of([[ToolCall("write", {}), ToolCall("read", {})]], ToolFilterAdvisor(deny=["admin"]))
    response = await client.call("Go", tool_loop=False)
    execution = await client.execute_tools(response)
    assert [result.is_error for result in execution.results] == [True, False]
    assert RAN == ["read"]


async def test_a_sub_agent_is_filtered_by_its_own_filter_only(run: Any) -> None:
    inner = client_of([[ToolCall("write", {})], "Inner."])
    outer = client_of(
        [[ToolCall("agent", {"prompt": "Go"}), ToolCall("write", {})], "Done."], ToolFilterAdvisor(deny=["admin"]),
        tools=[*TOOLS, inner.as_tool("agent", "An agent.")],
    )  # fmt: skip
    response = await run(outer, "Go")
    assert results(response)[0] == "Inner."
    assert results(response)[1].startswith("There is no tool 'write'")
    assert RAN == ["write"]


@pytest.mark.parametrize("left_out", ["write", "nothing"])
def test_another_thread_never_sees_more(left_out: str) -> None:
    deciding, decided = threading.Event(), threading.Event()

    class Late(Tool):
        async def handle(self, arguments: Any, context: Any) -> str:
            return ""

        @property
        def policy_name(self) -> str:
            deciding.set()
            decided.wait(10)
            return self.name

    tools = [WRITE, Late(name="late", description="Late.")]
    advisor = ToolFilterAdvisor(deny=[left_out])
    shared = ToolSet(tools)

    @chat_advisor(order=Order.TOOL_FILTER - 1)
    async def same_tools(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(tools=shared))

    clients = [client_of(["Done."], advisor, same_tools, tools=[]) for _ in range(2)]

    def turn(client: ChatClient) -> None:
        anyio.run(partial(client.call, "Go"))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(turn, clients[0])
        assert deciding.wait(10)
        second = pool.submit(turn, clients[1])
        time.sleep(0.2)  # the first has not decided yet
        decided.set()
        for done in (first, second):
            done.result(10)
    expected = [tool.name for tool in tools if tool.name != left_out]
    assert [requests(client)[0].tools.names for client in clients] == [expected, expected]


async def test_a_function_that_fails_shows_nothing(run: Any) -> None:
    def allow(tool: Tool, request: ChatRequest) -> bool:
        raise LookupError("no such user")

    client = client_of(["Done."], ToolFilterAdvisor(allow=allow))
    with pytest.raises(LookupError):
        await run(client, "Go")
    assert requests(client) == []


async def test_a_function_that_does_not_say_true_or_false(run: Any) -> None:
    async def allow(tool: Tool, request: ChatRequest) -> bool:
        return True

    for function, kind in ((allow, "coroutine"), (lambda tool, request: "yes", "str"), (lambda *_: None, "NoneType")):
        client = client_of(["Done."], ToolFilterAdvisor(allow=function))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=f"must say True or False of the tool 'read', not {kind}"):
            await run(client, "Go")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "A tool filter needs allow= or deny="),
        ({"allow": "read"}, "allow must be a list of names and tags"),
        ({"deny": [READ]}, "deny must be a list of names and tags"),
        ({"deny": [""]}, "deny must be a list of names and tags"),
        ({"deny": 7}, "deny must be a list of names and tags"),
    ],
)
def test_settings_that_are_wrong(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ToolFilterAdvisor(**settings)
