"""What a server wants the model to be told: only when it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ChatClient, SystemMessage, tool
from advisorchain.mcp import McpServer, McpTools, mcp_server
from advisorchain.testing import ScriptedModel


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return name


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("system", [None, "Be brief."])
async def test_they_are_in_the_system_message_only_when_asked_for(run: Any, wanted: bool, system: str | None) -> None:
    polite = mcp_server([lookup], name="desk", instructions="Ask for the\u200b name first.")
    model = ScriptedModel(["done"])
    async with McpTools([McpServer.in_process(polite, instructions=wanted)]) as tools:
        await run(ChatClient(model, tools=[tools], system=system), "hello")
    told = "About the tools of desk: Ask for the name first."
    said = [message.text for message in model.requests[0].messages if isinstance(message, SystemMessage)]
    expected = "\n\n".join(text for text in (system, told if wanted else None) if text)
    assert said == ([expected] if expected else [])
