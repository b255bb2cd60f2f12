"""Where tools come from: any mix in ``tools=[...]``, registries, providers; and names that are there twice."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import (
    ChatClient,
    ChatRequest,
    ConfigurationError,
    Tool,
    ToolCall,
    ToolMessage,
    ToolProvider,
    ToolRegistry,
    chat_advisor,
    tool,
)
from advisorchain.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(return_direct=True)
def now() -> str:
    """The time."""
    return "noon"


def plain(x: int) -> int:
    """A plain function."""
    return x


class Box:
    """An object with tools."""

    @tool
    def open_box(self) -> str:
        """Open it."""
        return "open"

    @tool
    def close_box(self) -> str:
        """Close it."""
        return "closed"


class Provider:
    """Gives tools, and counts how often it was asked."""

    def __init__(self, *found: Any) -> None:
        self.found = found
        self.requests: list[ChatRequest] = []

    async def tools(self, request: ChatRequest) -> Any:
        """The tools."""
        self.requests.append(request)
        return self.found


def named(name: str) -> Tool:
    """A tool of that name."""
    return Tool.from_schema(name, lambda arguments: name, description="Says its name.")


async def test_any_mix_in_order(run: Any) -> None:
    provider = Provider(named("provided"))
    assert isinstance(provider, ToolProvider)
    model = ScriptedModel(["hi"])
    mix = [add, plain, Box(), ToolRegistry([now]), [named("nested")], provider, named("last")]
    await run(ChatClient(model, tools=mix), "go", tools=[named("of_the_call")])
    names = ["add", "plain", "open_box", "close_box", "now", "nested", "last", "of_the_call", "provided"]
    assert model.requests[0].tools.names == names
    assert model.requests[0].tools.get("add") is add and model.requests[0].tools.get("none") is None


async def test_a_provider_is_asked_once_per_turn_before_the_first_round(run: Any) -> None:
    provider = Provider(add)

    @chat_advisor(order=300)
    async def twice(request: Any, call_next: Any) -> Any:
        await call_next(request.muted())
        return await call_next(request)

    calls = [[ToolCall("add", {"a": 1, "b": 2})], "first", [ToolCall("add", {"a": 1, "b": 2})], "second"]
    model = ScriptedModel([*calls, "third", "fourth"])
    client = ChatClient(model, tools=[provider], advisors=[twice])
    assert (await run(client, "go")).text == "second"
    assert len(provider.requests) == 1 and provider.requests[0].user_text == "go"
    assert all(request.tools.names == ["add"] for request in model.requests)
    provider.found = (add, now)
    await run(client, "again")
    assert len(provider.requests) == 2 and model.requests[-1].tools.names == ["add", "now"]


async def test_a_provider_may_give_what_a_list_may(run: Any) -> None:
    model = ScriptedModel([[ToolCall("plain", {"x": 7}), ToolCall("open_box", {})], "done"])
    await run(ChatClient(model, tools=[Provider(plain, Box())]), "go")
    assert [m.text for m in model.requests[1].messages if isinstance(m, ToolMessage)] == ["7", "open"]


async def test_tools_that_stay_the_same_are_one_set_for_all_turns(run: Any) -> None:
    class Given:
        def __init__(self, tools: Any) -> None:
            self.given = tools

        async def tools(self, request: ChatRequest) -> Any:
            return self.given

    first, second = Given((add,)), Given((now,))
    model = ScriptedModel(["done"] * 5)
    client = ChatClient(model, tools=[plain, first, second])
    for _ in range(2):
        await run(client, "go")
    assert model.requests[0].tools.names == ["plain", "add", "now"]
    assert model.requests[1].tools is model.requests[0].tools  # so that nobody looks at them again

    second.given = (now.replace(name="later"),)
    await run(client, "go")
    assert model.requests[2].tools.names == ["plain", "add", "later"]

    changing: list[Any] = [now]
    second.given = changing  # the same list may hold other tools the next time
    await run(client, "go")
    changing.append(now.replace(name="later"))
    await run(client, "go")
    assert [request.tools.names[2:] for request in model.requests[3:]] == [["now"], ["now", "later"]]


async def test_a_provider_that_fails(run: Any) -> None:
    class Failing:
        async def tools(self, request: Any) -> Any:
            raise OSError("the server is down")

    model = ScriptedModel(["hi"])
    with pytest.raises(OSError, match="the server is down"):
        await run(ChatClient(model, tools=[Failing()]), "go")
    assert not model.requests


async def test_a_provider_that_is_none(run: Any) -> None:
    class Sync:
        def tools(self, request: Any) -> Any:
            return [add]

    class Nothing:
        async def tools(self, request: Any) -> Any:
            return None

    for source in (Sync, Nothing):
        with pytest.raises(ConfigurationError, match=source.__name__):
            await run(ChatClient(ScriptedModel(["hi"]), tools=[source()]), "go")


def test_duplicates_list_all_of_them_with_both_origins() -> None:
    def add(x: int) -> int:
        """Another add."""
        return x

    with pytest.raises(ConfigurationError) as caught:
        ChatClient(ScriptedModel([]), tools=[globals()["add"], now, add, named("now"), named("fine")])
    text = str(caught.value)
    assert "'add'" in text and "'now'" in text and "fine" not in text
    assert text.count("test_tool_sources.add") == 1 and "<locals>.add" in text and "named" in text


async def test_duplicates_of_a_call_and_of_a_provider(run: Any) -> None:
    client = ChatClient(ScriptedModel(["hi"]), tools=[add, Provider(named("add"))])
    with pytest.raises(ConfigurationError, match="'add'"):
        await run(client, "go")
    with pytest.raises(ConfigurationError, match="'add'"):
        await run(ChatClient(ScriptedModel(["hi"]), tools=[add]), "go", tools=[named("add")])


async def test_a_registry(run: Any) -> None:
    registry = ToolRegistry([add, now])
    assert list(registry) == [add, now] and len(registry) == 2 and "now" in registry
    assert registry.direct == [now] and registry.normal == [add] and registry.get("add") is add
    assert registry.get("missing") is None
    with pytest.raises(ConfigurationError, match="'add'"):
        registry.register(named("new"), named("add"))
    assert "new" not in registry, "all of them or none"
    registry.register(plain, Box())
    assert [t.name for t in registry] == ["add", "now", "plain", "open_box", "close_box"]
    assert registry.unregister("now") is now and registry.direct == []
    with pytest.raises(KeyError):
        registry.unregister("now")
    for found in registry:
        registry.unregister(found.name)
    assert len(registry) == 0


@pytest.mark.parametrize("listed", [True, False])
async def test_changes_of_a_registry_count_from_the_next_turn(run: Any, listed: bool) -> None:
    registry = ToolRegistry([add])

    def change(request: Any) -> Any:
        registry.register(now)
        registry.unregister("add")
        return [ToolCall("add", {"a": 1, "b": 1}), ToolCall("now", {})]

    model = ScriptedModel([change, "done", "next", "last"])
    client = ChatClient(model, tools=[registry] if listed else registry)
    await run(client, "go")
    results = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert results[0].text == "2" and results[1].is_error, "the running turn keeps its tools"
    await run(client, "next")
    assert model.requests[2].tools.names == ["now"]
    registry.unregister("now")
    await run(client, "last")
    assert model.requests[3].tools.names == []


async def test_a_registry_that_clashes_later(run: Any) -> None:
    registry = ToolRegistry()
    client = ChatClient(ScriptedModel(["hi"]), tools=[add, registry])
    registry.register(named("add"))
    with pytest.raises(ConfigurationError, match="'add'"):
        await run(client, "go")
    registry.unregister("add")
    assert (await run(client, "go")).text == "hi"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (plain, r"tools= takes a list.*tools=\["),
        (add, r"tools= takes a list"),
        ("add", r"tools= takes a list"),
        (7, r"tools= takes a list"),
        ([Box], r"Box is a class; pass an instance"),
        ([Tool], r"Tool is a class; pass an instance"),
        (["add"], r"'add' \(str\) is no tool"),
        ([None], r"None \(NoneType\) is no tool"),
        ([object()], r"is no tool: pass"),
    ],
)
async def test_wrong_things_in_tools(run: Any, tools: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ChatClient(ScriptedModel([]), tools=tools)
    with pytest.raises(ConfigurationError, match=message):
        await run(ChatClient(ScriptedModel(["hi"])), "go", tools=tools)


def test_an_object_without_tools() -> None:
    class Empty:
        """Nothing."""

    with pytest.raises(ConfigurationError, match="Empty has no @tool methods"):
        Tool.from_object(Empty())


def test_explain_says_where_return_direct_comes_from() -> None:
    tools = [add, now, named("changed").replace(return_direct=True), named("overridden"), now.replace(name="off")]
    client = ChatClient(ScriptedModel([]), tools=tools, return_direct={"overridden": True, "off": False})
    text = client.explain()
    lines = {line.split()[0]: line for line in text.partition("tools\n")[2].splitlines()}
    assert "return direct" not in lines["add"] and "return direct" not in lines["off"]
    assert "return direct (tool)" in lines["now"]
    assert "return direct (tool.replace())" in lines["changed"]
    assert "return direct (client)" in lines["overridden"]
    assert "test_tool_sources.add" in lines["add"]
