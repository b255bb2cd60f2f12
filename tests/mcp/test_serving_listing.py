"""What a client sees of our tools: names, schemas, hints, return-direct, tags, pages, changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from advisorchain import ChatClient, ChatRequest, ConfigurationError, Tool, ToolRegistry, chat_advisor, tool
from advisorchain.mcp import McpServer, McpTools
from advisorchain.mcp.exposure import ExposedTools
from advisorchain.mcp.list_changes import ListChanges
from advisorchain.mcp.serving import mcp_server
from advisorchain.testing import ScriptedModel


@dataclass
class Weather:
    city: str
    degrees: float


@tool(read_only=True, open_world=False, title="The weather", tags=["sky", "air"], meta={"owner": "met", "key": "k"})
async def weather(city: str) -> Weather:
    """Tell the weather.

    Args:
        city: where.
    """
    return Weather(city, 21.5)


@tool(return_direct=True, destructive=True, idempotent=False)
async def print_order(order: int) -> str:
    """Print an order."""
    return f"order {order}"


async def all_tools(client: Client) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


async def names(client: Client) -> list[str]:
    return [each.name for each in await all_tools(client)]


async def test_a_tool_is_listed_with_all_that_it_says(mode: str) -> None:
    async with Client(mcp_server([weather, print_order]), mode=mode) as client:
        first, second = await all_tools(client)

    assert (first.name, first.title, first.description) == ("weather", "The weather", "Tell the weather.")
    assert first.input_schema["properties"]["city"] == {"type": "string", "description": "where."}
    assert first.input_schema["required"] == ["city"]
    assert set(first.output_schema["properties"]) == {"city", "degrees"}
    assert first.annotations.read_only_hint is True
    assert first.annotations.open_world_hint is False
    assert first.annotations.destructive_hint is None
    assert first.meta == {"advisorchain/tags": ["air", "sky"]}
    assert second.annotations.destructive_hint is True
    assert second.annotations.idempotent_hint is False
    assert second.meta == {"advisorchain/returnDirect": True, "returnDirect": True}
    assert second.output_schema is None


async def test_a_tools_meta_goes_out_by_list_only(mode: str) -> None:
    async with Client(mcp_server([weather], tool_meta=["owner"]), mode=mode) as client:
        (listed,) = await all_tools(client)

    assert listed.meta == {"advisorchain/tags": ["air", "sky"], "owner": "met"}


async def test_the_server_says_who_it_is(mode: str) -> None:
    server = mcp_server([weather], name="desk", version="7", title="The desk", instructions="Ask politely.")
    async with Client(server, mode=mode) as client:
        assert client.instructions == "Ask politely."
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("desk", "7")
        assert client.server_capabilities.tools is not None
        assert not client.server_capabilities.tools.list_changed  # nothing here can change


async def test_a_tool_without_a_description_has_one(mode: str) -> None:
    async def look_up_order(order: int) -> str:
        return ""

    async with Client(mcp_server([look_up_order]), mode=mode) as client:
        (listed,) = await all_tools(client)

    assert listed.description == "look up order"


async def test_an_output_schema_that_is_no_object_is_for_the_modern_protocol_only(mode: str) -> None:
    numbers = Tool.from_schema(
        "numbers", lambda arguments: [1, 2], description="Count.", output_schema={"type": "array"}
    )
    async with Client(mcp_server([numbers]), mode=mode) as client:
        (listed,) = await all_tools(client)
        result = await client.call_tool("numbers", {})

    assert listed.output_schema == ({"type": "array"} if mode == "auto" else None)
    assert result.structured_content == ([1, 2] if mode == "auto" else None)
    assert result.content[0].text == "[1,2]"


async def test_an_input_schema_that_names_no_type_gets_one(mode: str) -> None:
    loose = Tool.from_schema("loose", lambda arguments: "", description="Loose.", input_schema={"properties": {}})
    async with Client(mcp_server([loose]), mode=mode) as client:
        (listed,) = await all_tools(client)

    assert listed.input_schema["type"] == "object"


async def test_five_thousand_tools_are_listed_in_pages(mode: str) -> None:
    tools = [Tool.from_schema(f"tool_{i}", lambda arguments: "", description=f"Number {i}.") for i in range(5000)]
    async with Client(mcp_server(tools), mode=mode) as client:
        page = await client.list_tools()
        listed = await names(client)

    assert len(page.tools) == 1000
    assert listed == [f"tool_{i}" for i in range(5000)]


@pytest.mark.parametrize("cursor", ["x", "-1", "²", "9" * 30, ""])
async def test_a_cursor_that_we_did_not_give_is_refused(mode: str, cursor: str) -> None:
    async with Client(mcp_server([weather]), mode=mode) as client:
        with pytest.raises(MCPError, match="no such cursor"):
            await client.list_tools(cursor=cursor)


# Providers -----------------------------------------------------------------------------------------------------------


class Provider:
    def __init__(self, *tools: Any, error: Exception | None = None) -> None:
        self.found = list(tools)
        self.error = error
        self.asked = 0

    async def tools(self, request: ChatRequest) -> Iterable[Any]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.found


async def test_a_provider_is_asked_for_every_listing_and_for_a_call_of_its_tools(mode: str) -> None:
    provider = Provider(print_order)
    async with Client(mcp_server([weather, provider]), mode=mode) as client:
        assert await names(client) == ["weather", "print_order"]
        asked = provider.asked
        provider.found = []
        assert await names(client) == ["weather"]
        assert provider.asked > asked
        gone = await client.call_tool("print_order", {"order": 1})
        provider.found = [print_order]
        there = await client.call_tool("print_order", {"order": 1})

    assert gone.is_error
    assert "no tool 'print_order'" in gone.content[0].text
    assert there.content[0].text == "order 1"


async def test_a_provider_that_fails_costs_its_own_tools_only(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(error=ConnectionError("secret address"))
    async with Client(mcp_server([weather, provider]), mode=mode) as client:
        assert await names(client) == ["weather"]
        result = await client.call_tool("weather", {"city": "Rome"})
        unknown = await client.call_tool("other", {})

    assert not result.is_error
    assert unknown.is_error
    assert "secret" not in unknown.content[0].text
    assert "Provider gives no tools to serve: ConnectionError" in caplog.text


async def test_tools_of_a_provider_that_cannot_be_served_are_left_out_and_told(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    spaced = Tool.from_schema("a/b", lambda arguments: "", description="Slash.")
    clash = Tool.from_schema("weather", lambda arguments: "stolen", description="Mine.")
    async with Client(mcp_server([weather, Provider(spaced, clash, print_order)]), mode=mode) as client:
        assert await names(client) == ["weather", "print_order"]
        assert await names(client) == ["weather", "print_order"]
        result = await client.call_tool("weather", {"city": "Rome"})

    assert result.structured_content["city"] == "Rome"
    assert caplog.text.count("'a/b'") == 1
    assert caplog.text.count("the name is taken") == 1


# Changes -------------------------------------------------------------------------------------------------------------


async def test_a_client_is_told_when_a_registry_changes(mode: str) -> None:
    registry = ToolRegistry([weather])
    told = anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with Client(mcp_server(registry), mode=mode, message_handler=on_message) as client:
        assert client.server_capabilities.tools.list_changed
        assert await names(client) == ["weather"]
        with anyio.fail_after(10):
            if mode == "auto":
                async with client.listen(tools_list_changed=True) as events:
                    registry.register(print_order)
                    async for _ in events:
                        break
            else:
                registry.register(print_order)
                await told.wait()
        assert await names(client) == ["weather", "print_order"]
        assert (await client.call_tool("print_order", {"order": 2})).content[0].text == "order 2"
        registry.unregister("weather")
        assert await names(client) == ["print_order"]


def test_clients_on_two_event_loops_are_told_each_on_its_own(mode: str) -> None:
    """Kind: what belongs to one event loop is touched from another; trio refuses that, and asyncio wakes nobody."""
    registry = ToolRegistry([weather])
    server = mcp_server(registry)
    sound: list[str] = []
    ready = threading.Barrier(2, timeout=20)

    async def main(backend: str) -> None:
        async with McpTools([McpServer.in_process(server, era=mode, list_ttl=None)]) as tools:
            for each in (weather, print_order):
                await anyio.to_thread.run_sync(ready.wait)
                if backend == "trio" and each is print_order:
                    registry.register(print_order)
                with anyio.fail_after(10):
                    while each.name not in [tool.name for tool in await tools.listed()]:  # noqa: ASYNC110
                        await anyio.sleep(0.05)
            sound.append(backend)
            await anyio.to_thread.run_sync(ready.wait)  # no watch ends before both are told

    others = threading.Thread(target=anyio.run, args=(main, "asyncio"))
    others.start()
    anyio.run(main, "trio", backend="trio")
    others.join()
    assert sorted(sound) == ["asyncio", "trio"]


async def test_a_client_that_does_not_read_keeps_no_other_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisorchain.mcp.list_changes.TELL_SECONDS", 60.0)

    class Client:
        def __init__(self, reads: bool) -> None:
            self.reads = reads
            self.exit_stack = AsyncExitStack()

        async def notify(self, method: str, params: None) -> None:
            if self.reads:
                told.set()
            await told.wait()  # who does not read hangs until then

    registry = ToolRegistry([weather])
    changes = ListChanges(ExposedTools(registry))
    told = anyio.Event()
    clients = [Client(reads=number == 9) for number in range(10)]
    for client in clients:
        changes.add(client)
    async with anyio.create_task_group() as group:
        group.start_soon(changes.watch)
        await anyio.wait_all_tasks_blocked()
        registry.register(print_order)
        with anyio.fail_after(20):
            await told.wait()
        group.cancel_scope.cancel()


async def test_a_registry_that_comes_to_clash_does_not_end_the_serving(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = ToolRegistry([weather])
    async with Client(mcp_server([registry, print_order]), mode=mode) as client:
        registry.register(Tool.from_schema("a/b", lambda arguments: "", description="Slash."))
        assert await names(client) == ["weather", "print_order"]
        registry.register(print_order)
        assert await names(client) == ["weather", "print_order"]
        assert (await client.call_tool("print_order", {"order": 2})).content[0].text == "order 2"
        registry.unregister("print_order")
        registry.unregister("weather")
        assert await names(client) == ["print_order"]

    assert caplog.text.count("'a/b'") == 1
    assert caplog.text.count("as they were before: Tools of the same name: 'print_order'") == 1


# What is refused at the start ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b", "größe", "a:b", "工具"])
def test_names_that_mcp_does_not_allow_are_refused(name: str) -> None:
    bad = Tool.from_schema(name, lambda arguments: "", description="Bad.")
    with pytest.raises(ConfigurationError, match="does not allow these names") as caught:
        mcp_server([weather, bad])
    assert name in str(caught.value)


def test_an_advisor_that_wraps_model_calls_only_is_refused() -> None:
    @chat_advisor(order=300)
    async def polite(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    with pytest.raises(ConfigurationError, match=r"'polite'.*as_tool"):
        mcp_server([weather], advisors=[polite])


def test_a_client_is_served_through_as_tool() -> None:
    with pytest.raises(ConfigurationError, match="as_tool"):
        mcp_server([ChatClient(ScriptedModel([]))])


@pytest.mark.parametrize("tools", [weather, "weather", 3])
def test_tools_that_are_no_list_are_refused(tools: Any) -> None:
    with pytest.raises(ConfigurationError, match="takes a list"):
        mcp_server(tools)


@pytest.mark.parametrize("option", ["request_meta", "tool_meta"])
def test_a_text_where_keys_are_listed_is_refused(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        mcp_server([weather], **{option: "owner"})


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        mcp_server([weather, weather])


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "advisorchain")
