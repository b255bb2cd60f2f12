"""Which word counts when it is asked whether a remote tool returns directly, and what a direct result carries."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
from mcp_client import raw

from advisorchain import AssistantMessage, AudioPart, ChatClient, ConfigurationError, FilePart, ImagePart, ToolCall
from advisorchain.advisors import MemoryAdvisor
from advisorchain.mcp import ListedTool, McpServer, McpTools
from advisorchain.mcp.return_direct import return_direct_of
from advisorchain.memory import InMemoryStore
from advisorchain.testing import ScriptedModel

BOTH = (True, False)
LEVELS = ("call", "client", "override", "remote", "server", "provider")
"""Who may say it, the first counts; when nobody does, it is False."""


def _listed(**extra: Any) -> dict[str, Any]:
    return {"name": "show", "description": "Show.", "inputSchema": {"type": "object"}, **extra}


async def _directness(said: dict[str, bool], *, trusted: bool = True) -> bool:
    """Whether a turn ends with the tool's result, when these levels say this."""
    settings: dict[str, Any] = {"trusted": trusted}
    if "override" in said:
        settings["overrides"] = {"show": {"return_direct": said["override"]}}
    if "server" in said:
        settings["return_direct"] = said["server"]
    listed = _listed(_meta={"returnDirect": said["remote"]}) if "remote" in said else _listed()
    model = ScriptedModel([[ToolCall("show", {})], "the model's words"])
    async with McpTools([raw("shop", tools=[listed], settings=settings)], return_direct=said.get("provider")) as tools:
        client = ChatClient(
            model, tools=[tools], return_direct={"shop/show": said["client"]} if "client" in said else None
        )
        call = {"return_direct": {"shop/show": said["call"]}} if "call" in said else {}
        response = await client.call("go", **call)
    assert (response.text == "shop show done") is (response.stop_reason == "return_direct")
    return response.stop_reason == "return_direct"


@pytest.mark.parametrize(("higher", "lower"), list(itertools.combinations(LEVELS, 2)))
async def test_the_higher_level_counts(higher: str, lower: str, anyio_backend: str) -> None:
    for value in BOTH:
        assert await _directness({higher: value, lower: not value}) is value


@pytest.mark.parametrize("level", LEVELS)
async def test_every_level_counts_alone_and_over_the_default(level: str, anyio_backend: str) -> None:
    assert await _directness({level: True})
    assert not await _directness({level: False})


async def test_when_nobody_says_it_it_is_not_direct(anyio_backend: str) -> None:
    assert not await _directness({})


async def test_the_flag_of_a_server_that_is_not_trusted_does_not_count(anyio_backend: str) -> None:
    assert not await _directness({"remote": True}, trusted=False)
    assert await _directness({"remote": False, "server": True}, trusted=False)
    assert await _directness({"remote": False, "provider": True}, trusted=False)
    assert await _directness({"remote": True, "override": True}, trusted=False)


async def test_a_provider_may_decide_by_tool(anyio_backend: str) -> None:
    tools = McpTools([raw(tools=[_listed(), {**_listed(), "name": "hide"}])], return_direct=lambda t: t.name == "show")
    assert {each.name: each.return_direct for each in await tools.listed()} == {"show": True, "hide": False}
    await tools.aclose()


# The flag ------------------------------------------------------------------------------------------------------------

OURS, OTHERS, SOLON = "_meta['advisorchain/returnDirect']", "_meta['returnDirect']", "annotations.returnDirect"


def _flag(ours: Any = None, others: Any = None, solon: Any = None, **settings: Any) -> Any:
    meta = {"advisorchain/returnDirect": ours, "returnDirect": others}
    listed = ListedTool(
        server="shop", name="show", meta={key: value for key, value in meta.items() if value is not None},
        annotations={} if solon is None else {"returnDirect": solon},
    )  # fmt: skip
    settings = {"trusted": True, **settings}
    return return_direct_of(listed, McpServer.stdio("x", name="shop", **settings))


@pytest.mark.parametrize("value", BOTH)
def test_the_first_carrier_counts(value: bool) -> None:
    assert _flag(value, not value, not value)[:2] == (value, OURS)
    assert _flag(None, value, not value)[:2] == (value, OTHERS)
    assert _flag(None, None, value)[:2] == (value, SOLON)


@pytest.mark.parametrize("value", ["true", "TRUE", "True"])
@pytest.mark.parametrize("carrier", ["ours", "others", "solon"])
def test_true_counts_as_a_text_too(value: str, carrier: str) -> None:
    assert _flag(**{carrier: value}).value is True


@pytest.mark.parametrize("value", ["false", "yes", "1", 1, 0, [], [True], {"value": True}, "", " true"])
@pytest.mark.parametrize("carrier", ["ours", "others", "solon"])
def test_other_values_are_ignored_and_reported(value: Any, carrier: str) -> None:
    found = _flag(**{carrier: value})
    assert (found.value, found.source) == (False, "default")
    assert repr(value) in found.ignored and "neither true nor false" in found.ignored


def test_what_is_no_flag_does_not_hide_the_next_carrier() -> None:
    found = _flag("maybe", True)
    assert found[:2] == (True, OTHERS) and "'maybe'" in found.ignored


def test_a_predicate_that_answers_with_something_else_is_refused() -> None:
    listed = ListedTool(server="shop", name="show")
    with pytest.raises(ConfigurationError, match="must give True, False or None"):
        return_direct_of(listed, McpServer.stdio("x", name="shop"), lambda listed: "no")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "carrier",
    [
        {"_meta": {"advisorchain/returnDirect": True}},
        {"_meta": {"returnDirect": "true"}},
        {"annotations": {"returnDirect": True}},
    ],
)
async def test_a_flag_that_is_not_honoured_is_told_once_and_shown(
    carrier: dict[str, Any], anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kind: the flag of a remote tool is lost on the way."""
    with caplog.at_level(logging.WARNING, "advisorchain.mcp"):
        async with McpTools([raw("shop", tools=[_listed(**carrier)], settings={"list_ttl": 0.001})]) as tools:
            for _ in range(3):
                (show,) = await tools.listed()
            assert not show.return_direct
            (note,) = tools.status()[0].notes["show"]
        async with McpTools([raw("shop", tools=[_listed(**carrier)], settings={"trusted": True})]) as tools:
            (show,) = await tools.listed()
            assert show.return_direct
            assert tools.status()[0].notes == {}
    assert "trusted=True" in note and "return_direct" in note
    assert [record.getMessage() for record in caplog.records] == [f"MCP tool shop/show: {note}"]


async def test_a_bare_name_is_that_of_a_local_tool(anyio_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    async with McpTools([raw("shop", tools=[_listed()])]) as tools:
        model = ScriptedModel([[ToolCall("show", {})], "words", [ToolCall("show", {})], "words"])
        client = ChatClient(model, tools=[tools], return_direct={"show": True})
        assert (await client.call("go")).text == "words"
        await client.call("go")
    assert len([r for r in caplog.records if "write 'shop/show'" in r.getMessage()]) == 1


# Results -------------------------------------------------------------------------------------------------------------


async def test_a_direct_result_of_several_blocks(run: Any) -> None:
    async with McpTools([raw("shop", settings={"overrides": {"blocks": {"return_direct": True}}})]) as tools:
        store = InMemoryStore()
        model = ScriptedModel([[ToolCall("blocks", {})], "and then?"])
        client = ChatClient(model, tools=[tools], advisors=[MemoryAdvisor(store)])
        response = await run(client, "go", conversation_id="c")
        assert response.stop_reason == "return_direct"
        text = response.text
        assert text.index("first") < text.index("second") < text.index("inside")
        parts = _beside_text(response.message.content)
        assert [type(part) for part in parts] == [ImagePart, AudioPart, FilePart]
        assert parts[2].url == "https://example.com/report.pdf"  # type: ignore[union-attr]
        (direct,) = response.direct_results
        assert [type(part) for part in _beside_text(direct.parts)] == [ImagePart, AudioPart, FilePart]
        kept = [m for m in await store.load("c") if isinstance(m, AssistantMessage)][-1]
        assert [type(part) for part in _beside_text(kept.content)] == [ImagePart, AudioPart, FilePart]
        assert (await run(client, "more", conversation_id="c")).text == "and then?"


def _beside_text(content: Any) -> list[Any]:
    return [part for part in content if part.kind != "text"]


async def test_an_error_is_never_direct(run: Any) -> None:
    result = {"content": [{"type": "text", "text": "no"}], "isError": True}
    settings = {"return_direct": True}
    async with McpTools([raw("shop", tools=[_listed()], result=result, settings=settings)]) as tools:
        model = ScriptedModel([[ToolCall("show", {})], "sorry"])
        assert (await run(ChatClient(model, tools=[tools]), "go")).text == "sorry"


async def test_one_that_is_not_direct_keeps_the_round_with_the_model(run: Any) -> None:
    listed = [_listed(_meta={"returnDirect": True}), {**_listed(), "name": "hide"}]
    async with McpTools([raw("shop", tools=listed, settings={"trusted": True})]) as tools:
        model = ScriptedModel([[ToolCall("show", {}), ToolCall("hide", {})], "both"])
        assert (await run(ChatClient(model, tools=[tools]), "go")).text == "both"
