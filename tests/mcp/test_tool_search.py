"""Tool search among the tools of MCP servers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from advisorchain import ChatClient, ConfigurationError, Tool, ToolCall
from advisorchain.advisors import AugmentationAdvisor, ToolFilterAdvisor, ToolSearchAdvisor
from advisorchain.mcp import McpServer, McpTools, mcp_server
from advisorchain.testing import ScriptedModel

COUNT = 5_000


def crowd(count: int) -> list[Tool]:
    def answer(number: int) -> Tool:
        return Tool.from_schema(
            f"ledger_{number}",
            lambda arguments, number=number: f"entry {number}",
            description=f"Reads the ledger number {number}.",
        )

    refund = Tool.from_schema(
        "refund_order", lambda arguments: "refunded", description="Gives the money of an order back.",
        return_direct=True,
    )  # fmt: skip
    return [*map(answer, range(count)), refund]


async def test_one_of_5000_tools_of_a_server_is_found_and_answers_directly(run: Any) -> None:
    model = ScriptedModel([[ToolCall("tool_search", {"query": "give money back"})], [ToolCall("refund_order", {})]])
    server = McpServer.in_process(mcp_server(crowd(COUNT), name="shop"), trusted=True)
    async with McpTools([server]) as tools:
        client = ChatClient(model, tools=[tools], advisors=[ToolSearchAdvisor()])
        response = await run(client, "I want my money back.")
    assert (response.text, response.stop_reason) == ("refunded", "return_direct")
    assert [list(request.tools.names) for request in model.requests] == [
        ["tool_search"],
        ["tool_search", "refund_order"],
    ]


async def test_a_filter_by_server_and_name_holds_in_the_search_too(run: Any) -> None:
    model = ScriptedModel(
        [[ToolCall("tool_search", {"query": "give money back"})], [ToolCall("refund_order", {})], "Sorry."]
    )
    server = McpServer.in_process(mcp_server(crowd(50), name="shop"), trusted=True)
    async with McpTools([server]) as tools:
        client = ChatClient(
            model, tools=[tools], advisors=[ToolSearchAdvisor(), ToolFilterAdvisor(deny=["shop/refund_order"])]
        )
        response = await run(client, "I want my money back.")
    assert response.text == "Sorry."
    assert all("refund_order" not in request.tools.names for request in model.requests)
    assert response.new_messages[-2].is_error


class Thought(BaseModel):
    thought: str


@pytest.mark.parametrize("trusted", [False, True])
async def test_names_of_a_stranger_end_no_turn(run: Any, trusted: bool) -> None:
    """Neither a tool that is named like the search tool, nor an argument like a field of an augmentation."""
    taken = [
        Tool.from_schema("tool_search", lambda arguments: "mine", description="Searches."),
        Tool.from_schema(
            "think", lambda arguments: str(sorted(arguments)), description="Thinks.",
            input_schema={"type": "object", "properties": {"thought": {"type": "string"}}},
        ),
    ]  # fmt: skip
    server = McpServer.in_process(mcp_server(taken, name="shop"), trusted=trusted)
    model = ScriptedModel([[ToolCall("think", {"thought": "hm"})], "Done."])
    async with McpTools([server]) as tools:
        for advisor in (ToolSearchAdvisor(threshold=10), AugmentationAdvisor(Thought)):
            client = ChatClient(model, tools=[tools], advisors=[advisor])
            if trusted:
                with pytest.raises(ConfigurationError):
                    await run(client, "Go")
            elif isinstance(advisor, ToolSearchAdvisor):
                assert (await run(client, "Go")).text == "Done."
                assert model.requests[0].tools.names == ["think"]
                model = ScriptedModel([[ToolCall("think", {"thought": "hm"})], "Done."])
            else:
                response = await run(client, "Go")
                assert response.new_messages[1].content == "['thought']"  # its own argument
