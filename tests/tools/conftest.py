"""One call of one tool, and what the model reads of it."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ChatClient, Tool, ToolCall, ToolMessage
from advisorchain.testing import ScriptedModel


@pytest.fixture
def result_of(run: Any) -> Any:
    """``await result_of(tool, arguments)``: the message that the model reads after one call of the tool."""

    async def ask(made: Tool, arguments: Any = None) -> ToolMessage:
        model = ScriptedModel([[ToolCall(made.name, arguments)], "done"])
        response = await run(ChatClient(model, tools=[made]), "go")
        assert response.text == "done"
        (message,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        return message

    return ask
