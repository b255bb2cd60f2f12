"""What one bad server costs the others and us: its own tools, and nothing that it makes us fetch."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_client import lines, raw
from mcp_http import LegacyMcp, serving
from sdk_quirks import UNFINISHED_STREAMS

from advisorchain import (
    ChatClient,
    ToolCall,
    ToolMessage,
    tool,
)
from advisorchain.mcp import ListedTool, McpServer, McpTools, Pinning
from advisorchain.testing import ScriptedModel

ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""What takes long and does not depend on the event loop, whose part is tested with the connection."""

# Isolation -----------------------------------------------------------------------------------------------------------

LISTS_NOTHING: dict[str, tuple[dict[str, Any], str]] = {
    "mute": ({"mute": ["server/discover", "initialize"]}, "could not be connected within 0.5 s"),
    "mute list": ({"mute": ["tools/list"]}, "did not list its tools within 0.5 s"),
    "slow": ({"slow": {"tools/list": 20}}, "did not list its tools within 0.5 s"),
    "garbage": ({"garbage": ["tools/list"]}, "could not list its tools. It says: the answer is no valid message"),
    "wrong id": ({"wrong_id": ["tools/list"]}, "did not list its tools within 0.5 s"),
    "exits": ({"exit_on": ["server/discover", "initialize"]}, "does not know initialize"),
    "exits at the list": ({"exit_on": ["tools/list"]}, "does not know tools/list"),
    "closes stdout": ({"close_stdout": ["tools/list"]}, "could not list its tools"),
    "invalid": ({"tools": "invalid"}, "its list of tools is invalid: tools.1.inputSchema: Field required"),
    "loop": ({"tools": "loop"}, "never ends: a page leads back to an earlier one"),
    "no mapping": ({"tools": {"tools": 1}}, "its list of tools is invalid"),
}


@ONE_LOOP
@pytest.mark.parametrize("case", LISTS_NOTHING)
async def test_a_server_that_cannot_be_listed_costs_only_its_own_tools(
    case: str, mcp: Any, run: Any, caplog: Any, quick_kill: None
) -> None:
    """Kind: one bad server loses the tools of all."""
    habits, why = LISTS_NOTHING[case]
    reached = "connect_timeout" if "connected within" in why else "list_timeout"
    settings = {reached: 0.5} if "within 0.5 s" in why else {}  # what is not to be reached is left as it is
    tools = mcp(raw("good"), raw("bad", settings=settings, **habits), raw("fine", tools=[_plain("hello")]))
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2}), ToolCall("hello", {})], "done"])
    with caplog.at_level(logging.WARNING, "advisorchain.mcp"):
        start = anyio.current_time()
        response = await run(ChatClient(model, tools=[tools, local]), "go")
        assert anyio.current_time() - start < 10
    assert [m.content for m in response.new_messages if isinstance(m, ToolMessage)] == ["3", "fine hello done"]
    good, bad, fine = tools.status()
    assert (good.state, bad.state, fine.state) == ("connected", "failed", "connected")
    assert why in str(bad.error) and bad.tools == {}
    assert len([r for r in caplog.records if r.name == "advisorchain.mcp" and "'bad'" in r.getMessage()]) == 1


FAILS_CALLS: dict[str, dict[str, Any]] = {
    "mute": {"mute": ["tools/call"]},
    "garbage": {"garbage": ["tools/call"]},
    "wrong id": {"wrong_id": ["tools/call"]},
    "exits": {"exit_on": ["tools/call"]},
    "closes stdout": {"close_stdout": ["tools/call"]},
    "error": {"fail": -32603},
    "odd result": {"result": {"content": 7}},
    "odd block": {"result": {"content": [{"type": "nonsense"}]}},
}


@ONE_LOOP
@pytest.mark.parametrize("case", FAILS_CALLS)
async def test_a_call_that_fails_costs_only_itself(case: str, mcp: Any, run: Any, quick_kill: None) -> None:
    """Kinds: a call that hangs on an answer that is none; an error that ends the agent."""
    tools = mcp(raw("good", tools=[_plain("hello")]), raw("bad", settings={"call_timeout": 0.5}, **FAILS_CALLS[case]))
    model = ScriptedModel([[ToolCall("add", {"a": 1, "b": 2}), ToolCall("hello", {})], "done"])
    start = anyio.current_time()
    response = await run(ChatClient(model, tools=[tools]), "go")
    assert anyio.current_time() - start < 10
    bad, good = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    assert bad.is_error and good.content == "good hello done"
    assert "Traceback" not in bad.content and "so it is" not in bad.content


NO_HARM: dict[str, dict[str, Any]] = {
    "talks to stderr": {"stderr": 8_000_000},
    "prints to stdout": {"noise": 20},
    "logs to stdout": {
        "logs": [
            '{"level": "info", "id": ID, "error": null}',
            '{"level": "debug", "sent": {"jsonrpc": "2.0", "id": ID, "result": 7}}',
            'Sending {"jsonrpc": "2.0", "id": ID, "result": 7}',
            '{level: info, "id": ID}',
        ]
    },
    "pages": {"page": 1},
    "slow": {"slow": {"initialize": 0.3, "tools/list": 0.3, "tools/call": 0.3}},
}


@pytest.mark.parametrize("case", NO_HARM)
async def test_a_server_that_is_only_odd_works(case: str, mcp: Any, call: Any) -> None:
    assert (await call(mcp(raw(**NO_HARM[case])), "add", {"a": 1, "b": 2})).content == "3"


async def test_bytes_that_are_no_text_end_no_connection(mcp: Any, call: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts), settings={"call_timeout": 2}))
    assert (await call(tools, "bytes")).content == "a��b"
    assert (await call(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 1


NO_MESSAGE: dict[str, dict[str, Any]] = {
    "a result that is a text": {"result": "nonsense"},
    "a result that is nested too deeply": {"result": {"content": [], "x": json.loads("[" * 300 + "]" * 300)}},
    "half a message": {"garbage": ["tools/call"]},
}


@pytest.mark.parametrize("case", NO_MESSAGE)
async def test_an_answer_that_is_no_message_fails_at_once(case: str, mcp: Any, call: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw(**NO_MESSAGE[case], starts=str(starts)))
    await tools.listed()
    begun = anyio.current_time()
    message = await call(tools, "count")
    assert message.is_error and "McpError" in message.content
    assert anyio.current_time() - begun < 10
    assert tools.status()[0].state == "connected" and len(lines(starts)) == 1


async def test_a_server_without_tools_is_no_failure(mcp: Any) -> None:
    tools = mcp(raw(no_tools=True))
    assert not await tools.listed()
    assert tools.status()[0].state == "connected"


@ONE_LOOP
async def test_five_thousand_tools(mcp: Any) -> None:
    tools = mcp(raw("good"), raw("many", tools="many", page=1000))
    start = anyio.current_time()
    assert len(await tools.listed()) == 5012
    assert anyio.current_time() - start < 20
    start = time.thread_time()
    for _ in range(20):
        await tools.listed()
    assert time.thread_time() - start < 0.1


async def test_more_tools_than_are_allowed(mcp: Any) -> None:
    tools = mcp(raw("good"), raw("many", tools="many", page=1000, settings={"max_tools": 2000}))
    assert len(await tools.listed()) == 12
    assert "lists more than 2000 tools" in str(tools.status()[1].error)


async def test_of_two_tools_of_one_name_the_first_counts(mcp: Any) -> None:
    """Kind: duplicates that overwrite each other silently, or end the start."""
    tools = mcp(raw(tools="duplicate"))
    assert {tool.name: tool.description for tool in await tools.listed()} == {
        "twin": "The first.",
        "other": "Does other.",
    }
    assert tools.status()[0].notes == {"twin": ("it is listed 2 times; the first counts",)}


async def test_a_large_result_is_cut_and_the_connection_stays(mcp: Any, call: Any, tmp_path: Path) -> None:
    """Kind: a result that is too large ends the session."""
    starts = tmp_path / "starts"
    tools = mcp(raw(starts=str(starts), settings={"max_result_bytes": 100_000}))
    message = await call(tools, "big", {"size": 1_000_000})
    assert len(message.content) < 101_000 and "cut" in message.content
    assert (await call(tools, "add", {"a": 1, "b": 2})).content == "3"
    assert len(lines(starts)) == 1


HOSTILE: dict[str, dict[str, Any]] = {
    "pattern": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}},
    "branching references": {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/d0"}},
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {}},
    },
    "endless reference": {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/a"}},
    },
    "dangling reference": {"type": "object", "properties": {"text": {"$ref": "#/$defs/missing"}}},
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_schema_takes_no_time(case: str, mcp: Any, call: Any) -> None:
    tools = mcp(raw(tools=[{"name": "read", "description": "Read.", "inputSchema": HOSTILE[case]}]))
    start = anyio.current_time()
    message = await call(tools, "read", {"text": "a" * 40 + "!"})
    assert anyio.current_time() - start < 10
    assert message.content == "raw read done"


async def test_a_hostile_output_schema_takes_no_time(mcp: Any, call: Any) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
    listed = {"name": "read", "description": "Read.", "inputSchema": {"type": "object"}, "outputSchema": schema}
    result = {"content": [{"type": "text", "text": "x"}], "structuredContent": {"text": "a" * 40 + "!"}}
    start = anyio.current_time()
    assert (await call(mcp(raw(tools=[listed], result=result)), "read")).content == "x"
    assert anyio.current_time() - start < 10


async def test_a_broken_schema_costs_one_tool_and_is_told(mcp: Any, caplog: Any) -> None:
    broken = {
        "name": "broken",
        "description": "B.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "int"}}},
    }
    tools = mcp(raw(tools=[broken, _plain("fine")]))
    with caplog.at_level(logging.WARNING, "advisorchain.mcp"):
        assert [tool.name for tool in await tools.listed()] == ["fine"]
    assert "its definition is broken" in tools.status()[0].left_out["broken"]
    assert "raw/broken is left out" in caplog.text


async def test_names_and_texts_from_outside_cannot_forge_lines_of_the_log(mcp: Any, caplog: Any) -> None:
    listed = {
        **_plain("evil\nERROR all is lost\x1b[2J"),
        "description": "Hidden\u200b text",
        "_meta": {"returnDirect": True},
    }
    tools = mcp(raw(tools=[listed]))
    with caplog.at_level(logging.DEBUG, "advisorchain.mcp"):
        await tools.listed()
    told = [record.getMessage() for record in caplog.records if record.name == "advisorchain.mcp"]
    assert told and not any("\n" in line or "\x1b" in line for line in told)


async def test_an_error_of_the_callers_own_filter_is_raised_as_it_is(mcp: Any) -> None:
    def filter(listed: ListedTool) -> bool:
        raise ZeroDivisionError("a bug of the program")

    with pytest.raises(ZeroDivisionError):
        await mcp(raw("one"), raw("two"), filter=filter).listed()


async def test_pins_that_cannot_be_read_cost_the_tools_not_the_turn(mcp: Any, call: Any) -> None:
    class Broken:
        async def load(self, server: str) -> Any:
            raise OSError("disk is gone")

        async def save(self, server: str, pins: Any, *, replace: bool = False) -> Any: ...

        async def forget(self, server: str, names: Any = None) -> None: ...

    tools = mcp(raw(), pinning=Pinning(Broken()))
    model = ScriptedModel(["done"])
    assert (await ChatClient(model, tools=[tools, local]).call("go")).text == "done"
    assert model.requests[0].tools.names == ["local"]
    assert "could not be compared with their pins" in str(tools.status()[0].error)


# Nothing is fetched --------------------------------------------------------------------------------------------------


async def test_a_redirect_to_another_place_is_not_followed(run: Any) -> None:
    with serving(lambda *_: (200, {}, {})) as trap:
        for status in (301, 302, 307, 308):

            def redirect(method: str, path: str, headers: Any, message: Any, status: int = status) -> Any:
                return status, {"location": trap.url + "/secret"}, ""

            with serving(redirect) as http:
                for server in (
                    McpServer.http(http.url + "/mcp", connect_timeout=3),
                    McpServer.sse(http.url + "/sse", connect_timeout=3),
                ):
                    tools = McpTools([server])
                    assert not await tools.listed()
                    assert tools.status()[0].state == "failed"
                    await tools.aclose()
        assert trap.seen == []


@UNFINISHED_STREAMS
async def test_an_sse_server_cannot_send_us_elsewhere() -> None:
    with serving(lambda *_: (200, {}, {})) as trap:

        def stream(method: str, path: str, headers: Any, message: Any) -> Any:
            return 200, {"content-type": "text/event-stream"}, f"event: endpoint\ndata: {trap.url}/secret\n\n"

        with serving(stream) as http:
            tools = McpTools([McpServer.sse(http.url + "/sse", connect_timeout=2)])
            assert not await tools.listed()
            await tools.aclose()
        assert trap.seen == []


async def test_links_icons_and_references_are_not_fetched(run: Any) -> None:
    with serving(lambda *_: (200, {}, {})) as trap:
        schema = {"type": "object", "properties": {"a": {"$ref": trap.url + "/schema"}}}
        icons = [{"src": trap.url + "/icon.png", "mimeType": "image/png"}]
        listed = [{**_plain("look"), "icons": icons}, {**_plain("refer"), "inputSchema": schema}]
        result = {
            "content": [
                {"type": "resource_link", "uri": trap.url + "/link", "name": "link", "icons": icons},
                {"type": "resource", "resource": {"uri": trap.url + "/resource", "text": "inside"}},
            ],
            "structuredContent": {"$ref": trap.url + "/structured"},
        }
        listed[0]["outputSchema"] = {"type": "object", "$ref": trap.url + "/output"}
        for trusted in (False, True):
            with serving(LegacyMcp(listed, result)) as http:
                tools = McpTools([McpServer.http(http.url + "/mcp", name="shop", trusted=trusted)])
                model = ScriptedModel([[ToolCall("look", {}), ToolCall("refer", {"a": 1})], "done"])
                response = await run(ChatClient(model, tools=[tools]), "go")
                assert response.text == "done"
                assert "nothing is fetched" in tools.status()[0].left_out["refer"]
                await tools.aclose()
        assert trap.seen == []


@tool
def local() -> str:
    """A tool of this program."""
    return "local"


def _plain(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": {"type": "object"}}
