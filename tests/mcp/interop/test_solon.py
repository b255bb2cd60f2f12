"""Return-direct across frameworks: a server in Solon AI's wire form makes our client return directly, when trusted."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import solon_wire
from sdk_quirks import UNFINISHED_STREAMS

from advisorchain import ChatClient, ImagePart, TextPart, ToolCall
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

pytestmark = UNFINISHED_STREAMS

ORDER = {"orderId": "TR001"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with solon_wire.solon_over_http() as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def reached(request: pytest.FixtureRequest) -> Callable[..., McpServer]:
    """Makes the server, reached by stdio or by HTTP."""
    if request.param == "stdio":
        script = str(Path(solon_wire.__file__))
        return lambda **settings: McpServer.stdio(sys.executable, [script], name="solon", **settings)
    url = request.getfixturevalue("url")
    return lambda **settings: McpServer.http(url, name="solon", **settings)


async def test_a_trusted_server_s_flag_counts(ask: Any, reached: Callable[..., McpServer]) -> None:
    async with McpTools([reached(trusted=True)]) as tools:
        flags = {tool.name: tool.return_direct for tool in await tools.listed()}
        direct = await ask(tools, "queryOrder", ORDER)
        standard = await ask(tools, "queryRefund", ORDER)
        (status,) = tools.status()

    assert flags == {
        "queryOrder": True, "queryRefund": False, "drawOrder": True, "failOrder": True, "oddOrder": False,
        "plainOrder": False,
    }  # fmt: skip
    assert (direct.response.stop_reason, direct.response.text) == ("return_direct", "queryOrder TR001: 已发货")
    assert [result.content for result in direct.response.direct_results] == ["queryOrder TR001: 已发货"]
    assert (standard.response.stop_reason, standard.response.text) == ("final", "That is what I found.")
    assert status.protocol == solon_wire.PROTOCOL
    assert status.notes == {"oddOrder": ("annotations.returnDirect is 1, neither true nor false",)}


async def test_a_direct_result_of_several_blocks_is_whole(ask: Any, reached: Callable[..., McpServer]) -> None:
    async with McpTools([reached(trusted=True)]) as tools:
        asked = await ask(tools, "drawOrder", ORDER)

    assert asked.response.stop_reason == "return_direct"
    assert asked.response.text == "drawOrder TR001: 已发货\nThat was it."
    kinds = [type(part) for part in asked.response.message.content]
    assert sorted(kinds, key=str) == sorted([TextPart, ImagePart], key=str)
    assert [part.media_type for part in asked.response.direct_results[0].parts] == ["image/png"]


async def test_an_error_is_never_direct(ask: Any, reached: Callable[..., McpServer]) -> None:
    async with McpTools([reached(trusted=True)]) as tools:
        asked = await ask(tools, "failOrder", ORDER)

    assert (asked.response.stop_reason, asked.response.text) == ("final", "That is what I found.")
    assert asked.message.is_error
    assert asked.text == "failOrder TR001: 已发货"


async def test_one_standard_call_beside_a_direct_one_makes_the_round_standard(
    run: Any, reached: Callable[..., McpServer]
) -> None:
    model = ScriptedModel([[ToolCall("queryOrder", ORDER), ToolCall("queryRefund", ORDER)], "Both."])
    async with McpTools([reached(trusted=True)]) as tools:
        response = await run(ChatClient(model, tools=[tools]), "Both?")

    assert (response.stop_reason, response.text) == ("final", "Both.")


async def test_an_untrusted_server_s_flag_is_told_once_and_does_not_count(
    ask: Any, reached: Callable[..., McpServer], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "advisorchain.mcp"):
        async with McpTools([reached()]) as tools:
            first = await ask(tools, "queryOrder", ORDER)
            await ask(tools, "queryOrder", ORDER)
            (status,) = tools.status()

    assert (first.response.stop_reason, first.response.text) == ("final", "That is what I found.")
    told = [record.getMessage() for record in caplog.records if "queryOrder" in record.getMessage()]
    assert len(told) == 1
    assert "annotations.returnDirect says true, but the server is not trusted" in told[0]
    assert "trusted=True" in told[0]
    assert "overrides=" in told[0]
    assert set(status.notes) >= {"queryOrder", "queryRefund", "drawOrder", "failOrder", "oddOrder"}
    assert "plainOrder" not in status.notes


@pytest.mark.parametrize(
    "settings",
    [
        {"overrides": {"queryOrder": {"return_direct": True}}},
        {"return_direct": True},
        {"trusted": True, "return_direct": False},
    ],
    ids=["override", "default of the server", "remote flag over the default"],
)
async def test_what_else_makes_it_direct(ask: Any, reached: Callable[..., McpServer], settings: dict[str, Any]) -> None:
    async with McpTools([reached(**settings)]) as tools:
        asked = await ask(tools, "queryOrder", ORDER)

    assert (asked.response.stop_reason, asked.response.text) == ("return_direct", "queryOrder TR001: 已发货")


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_local_no_holds_against_a_trusted_yes(
    ask: Any, reached: Callable[..., McpServer], trusted: bool
) -> None:
    server = reached(trusted=trusted, overrides={"queryOrder": {"return_direct": False}})
    async with McpTools([server], return_direct=True) as tools:
        asked = await ask(tools, "queryOrder", ORDER)
        called = await ask(tools, "queryOrder", ORDER, return_direct={"solon/queryOrder": True})

    assert asked.response.stop_reason == "final"
    assert called.response.stop_reason == "return_direct"  # the call's word is the last
