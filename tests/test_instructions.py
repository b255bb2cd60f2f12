"""What advisors add to the system message stands beside what it has."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ChatClient, ProviderPart, SystemMessage, TextPart, Tool, UserMessage, tool
from advisorchain.advisors import ToolSearchAdvisor
from advisorchain.testing import ScriptedModel

MARK = ProviderPart(provider="example", type="cache_control", data={"type": "ephemeral"})


@tool
async def clock() -> str:
    """The time."""
    return "10:15"


@pytest.mark.parametrize("how", ["output", "search"])
async def test_an_instruction_leaves_the_parts_of_the_system_message(run: Any, how: str) -> None:
    model = ScriptedModel(["3"])
    system = SystemMessage(content=(TextPart(text="Be brief."), MARK))
    advisors = [ToolSearchAdvisor(threshold=0)] if how == "search" else []
    tools: list[Tool] = [clock] if how == "search" else []
    settings: dict[str, Any] = {"output_type": int} if how == "output" else {}
    client = ChatClient(model, tools=tools, advisors=advisors)
    await run(client, [system, UserMessage(content="1 + 2?")], **settings)
    first = model.requests[0].messages[0]
    assert isinstance(first, SystemMessage) and first.id == system.id
    assert tuple(first.content[:2]) == system.content
    assert first.text.startswith("Be brief.\n\n") and len(first.text) > 20
