"""`AugmentationAdvisor`: extra arguments for all tools of a request."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from advisorchain import (
    AugmentedCall,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    Order,
    Tool,
    ToolCall,
    ToolError,
    ToolInvocation,
    ToolMessage,
    ToolNext,
    ToolResult,
    chat_advisor,
    tool_advisor,
)
from advisorchain.advisors import AugmentationAdvisor, RetryAdvisor, ToolCacheAdvisor, ToolSearchAdvisor
from advisorchain.testing import ScriptedModel


class Thought(BaseModel):
    thought: str


GOT: list[AugmentedCall[Thought]] = []
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    GOT.clear()
    RAN.clear()


def made(name: str, **settings: Any) -> Tool:
    async def handler(arguments: dict[str, Any]) -> str:
        RAN.append(name)
        return f"{name} {json.dumps(arguments)}"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
    return Tool.from_schema(name, handler, input_schema=schema, description=f"Do {name}.", **settings)


ECHO, DIRECT, CACHED = made("echo"), made("direct", return_direct=True), made("cached", read_only=True, tags=["c"])
TOOLS = [ECHO, DIRECT, CACHED]


def client_of(steps: Iterable[Any], *advisors: Any, tools: Any = TOOLS) -> ChatClient:
    return ChatClient(ScriptedModel(steps), tools=tools, advisors=advisors)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def results(response: ChatResponse[Any]) -> list[str]:
    return [message.text for message in response.new_messages if isinstance(message, ToolMessage)]


def adding(tool: Tool) -> Any:
    """An advisor inside the augmentation that adds a tool."""

    @chat_advisor(order=Order.RETURN_DIRECT)
    async def add(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        return await call_next(request.replace(tools=[*request.tools, tool]))

    return add


async def test_every_tool_of_the_request(run: Any) -> None:
    client = client_of(
        [[call("echo", thought="why", city="Rome"), ToolCall("cached", '{"thought": "because"}')], "Done."],
        AugmentationAdvisor(Thought, GOT.append),
    )
    response = await run(client, "Go")
    assert results(response) == ['echo {"city": "Rome"}', "cached {}"]
    assert {(got.tool.name, got.arguments.thought) for got in GOT} == {("echo", "why"), ("cached", "because")}
    assert {got.tool for got in GOT} == {ECHO, CACHED}
    requests: list[ChatRequest] = client.model.requests  # type: ignore[attr-defined]
    for tool in requests[0].tools:
        assert list(tool.input_schema["properties"]) == ["thought", "city"]
        assert tool.input_schema["required"] == ["thought"]
    assert requests[0].tools is requests[1].tools


async def test_only_chosen_tools(run: Any) -> None:
    for chosen in (["c"], ["cached"], lambda tool: tool is CACHED):
        client = client_of(
            [[call("echo", thought="t")], [call("cached", thought="t")], "Done."],
            AugmentationAdvisor(Thought, GOT.append, tools=chosen),
        )
        response = await run(client, "Go")
        assert "Additional properties are not allowed ('thought' was unexpected)" in results(response)[0]
        assert results(response)[1] == "cached {}"
        assert [got.tool.name for got in GOT] == ["cached"]
        GOT.clear()


async def test_a_direct_tool_stays_direct(run: Any) -> None:
    client = client_of([[call("direct", thought="t")]], AugmentationAdvisor(Thought, GOT.append))
    response = await run(client, "Go")
    assert (response.text, response.stop_reason) == ("direct {}", "return_direct")
    assert len(GOT) == 1


async def test_invalid_and_required(run: Any) -> None:
    for required, text in ((False, "echo {}"), (True, "Invalid arguments for tool 'echo':\n- thought: Field required")):
        client = client_of([[call("echo")], "Done."], AugmentationAdvisor(Thought, GOT.append, required=required))
        assert results(await run(client, "Go")) == [text]
    assert (GOT, RAN) == ([], ["echo"])


async def test_a_consumer_is_asked_before_the_tool_runs_and_may_refuse(run: Any) -> None:
    async def consumer(got: AugmentedCall[Thought]) -> None:
        assert RAN == []
        raise ToolError(f"Not for {got.arguments.thought!r}.")

    client = client_of([[call("echo", thought="fun")], "Done."], AugmentationAdvisor(Thought, consumer))
    assert results(await run(client, "Go")) == ["Not for 'fun'."]
    assert RAN == []


async def test_the_cache_works_and_the_consumer_sees_every_call_once(run: Any) -> None:
    steps = [[call("cached", thought="one")], [call("cached", thought="two")], "Done."]
    client = client_of(steps, AugmentationAdvisor(Thought, GOT.append), ToolCacheAdvisor())
    assert results(await run(client, "Go")) == ["cached {}"] * 2
    assert RAN == ["cached"]
    assert [got.arguments.thought for got in GOT] == ["one", "two"]


async def test_a_retry_does_not_ask_again(run: Any) -> None:
    fails = [ConnectionError("x")]

    async def flaky(arguments: dict[str, Any]) -> str:
        if fails:
            raise fails.pop()
        return "fine"

    tool = Tool.from_schema("flaky", flaky, description="Flaky.", idempotent=True)
    retry = RetryAdvisor(tool={"attempts": 2, "wait": 0.0})
    client = client_of([[call("flaky", thought="t")], "Done."], AugmentationAdvisor(Thought, GOT.append), retry,
                       tools=[tool])  # fmt: skip
    assert results(await run(client, "Go")) == ["fine"]
    assert len(GOT) == 1


async def test_what_stands_outside_and_inside_sees(run: Any) -> None:
    seen: dict[str, Any] = {}

    def watch(name: str, order: int) -> Any:
        @tool_advisor(order=order, name=name)
        async def watching(invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
            seen[name] = invocation.call.arguments
            return await call_next(invocation)

        return watching

    client = client_of(
        [[call("echo", thought="t", city="Rome")], "Done."], AugmentationAdvisor(Thought, GOT.append),
        watch("outside", Order.AUDIT), watch("inside", Order.APPROVAL),
    )  # fmt: skip
    await run(client, "Go")
    assert seen == {"outside": {"thought": "t", "city": "Rome"}, "inside": {"city": "Rome"}}


async def test_with_tool_search_also_tools_that_were_never_shown(run: Any) -> None:
    fillers = [made(f"filler_{number}") for number in range(40)]
    steps = [
        [ToolCall("tool_search", {"thought": "I need echo", "query": "do echo", "limit": 1})],
        [call("echo", thought="found")], [call("cached", thought="guessed")], [call("nothing", thought="t")], "Done.",
    ]  # fmt: skip
    client = client_of(steps, AugmentationAdvisor(Thought, GOT.append), ToolSearchAdvisor(), tools=[*fillers, *TOOLS])
    response = await run(client, "Go")
    assert results(response)[1:3] == ["echo {}", "cached {}"]
    assert results(response)[3].startswith("There is no tool 'nothing'")
    assert [got.arguments.thought for got in GOT] == ["I need echo", "found", "guessed"]
    sent: list[ChatRequest] = client.model.requests  # type: ignore[attr-defined]
    assert [next(iter(tool.input_schema["properties"])) for tool in sent[-1].tools] == ["thought"] * 3
    assert sent[1].tools.get("echo") is sent[3].tools.get("echo")  # the same object, though others have come


async def test_arguments_that_are_a_tools_own_reach_it(run: Any) -> None:
    ran: list[dict[str, Any]] = []

    async def handler(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "thought"

    schema = {"type": "object", "properties": {"thought": {"type": "string"}}, "required": ["thought"]}
    own = Tool.from_schema("think", handler, input_schema=schema, description="Think.")
    client = client_of([[call("think", thought="own")], "Done."], AugmentationAdvisor(Thought, GOT.append), adding(own))
    assert results(await run(client, "Go")) == ["thought"]
    assert ran == [{"thought": "own"}]
    assert not GOT


async def test_required_is_not_required_of_a_tool_that_is_added_further_inside(run: Any) -> None:
    inner = made("inner")
    steps = [[call("inner"), call("echo")], [call("inner", thought="t", city="Rome")], "Done."]
    client = client_of(steps, AugmentationAdvisor(Thought, GOT.append, required=True), adding(inner))
    texts = results(await run(client, "Go"))
    assert texts[0] == "inner {}"
    assert "thought: Field required" in texts[1]
    assert texts[2] == 'inner {"city": "Rome"}'
    assert [got.arguments.thought for got in GOT] == ["t"]


async def test_tools_in_the_callers_hands() -> None:
    client = client_of([[call("echo", thought="t", city="Rome")]], AugmentationAdvisor(Thought, GOT.append))
    execution = await client.execute_tools(await client.call("Go", tool_loop=False))
    assert [result.content for result in execution.results] == ['echo {"city": "Rome"}']
    assert len(GOT) == 1


async def test_names_that_are_taken(run: Any) -> None:
    class City(BaseModel):
        city: str

    with pytest.raises(ConfigurationError, match="Tool 'echo' has 'city' already, which City would add"):
        await run(client_of(["Done."], AugmentationAdvisor(City)), "Go")


async def test_a_bare_name_is_not_that_of_a_tool_from_elsewhere(run: Any) -> None:
    class Far(Tool):
        async def handle(self, arguments: Any, context: Any) -> str:
            return "looked"

        @property
        def policy_name(self) -> str:
            return f"far/{self.name}"

    tools = [ECHO, Far(name="look", description="Look."), Far(name="direct", description="Another one.")]
    client = client_of(["Done."], AugmentationAdvisor(Thought, tools=["echo", "direct", "far/look"]), tools=tools)
    await run(client, "Go")
    (request,) = client.model.requests  # type: ignore[attr-defined]
    assert [tool.name for tool in request.tools if "thought" in tool.input_schema["properties"]] == ["echo", "look"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"model": dict}, "augment takes a pydantic model"),
        ({"model": Thought, "consumer": 7}, "consumer= takes a function"),
        ({"model": Thought, "tools": "echo"}, "tools must be a list of names and tags"),
        ({"model": Thought, "tools": [ECHO]}, "tools must be a list of names and tags"),
    ],
)
def test_settings_that_are_wrong(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        AugmentationAdvisor(**settings)
