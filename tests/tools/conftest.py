"""Every turn of these tests is also checked for the pairing invariant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from advisorchain import AssistantMessage, ChatClient, ChatResponse, Message, Tool, ToolCall, ToolMessage, UserMessage
from advisorchain.messages import check_pairing
from advisorchain.testing import ScriptedModel


def assert_paired(messages: Sequence[Message]) -> None:
    """Every call has exactly one result, right after it, in call order; no id is used twice."""
    check_pairing(messages)
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    ids = Counter(call.id for call in calls if call.executed_by == "client")
    assert all(count == 1 for count in ids.values()), f"ids used twice: {ids}"
    pending: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            pending = [call.id for call in message.tool_calls if call.executed_by == "client"]
        elif isinstance(message, ToolMessage):
            assert message.call_id == pending.pop(0), "results are not in call order"


class PairedRun:
    """The fixture ``run``, with the invariant checked on all that the model saw and on all that came back."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self.mode: str = run.mode

    @property
    def events(self) -> list[Any]:
        """The events of the last stream."""
        return self._run.events  # type: ignore[no-any-return]

    async def __call__(self, client: ChatClient, prompt: Any, **kwargs: Any) -> ChatResponse[Any]:
        try:
            response = await self._run(client, prompt, **kwargs)
        finally:
            for request in getattr(client.model, "requests", ()):
                assert_paired(request.messages)
        if not response.tool_calls:
            sent = [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt)
            assert_paired([*sent, *response.new_messages])
            assert response.new_messages[-1] is response.message
        return response  # type: ignore[no-any-return]


@pytest.fixture
def run(run: Any) -> PairedRun:
    """``await run(client, prompt, **kwargs)`` under call and under stream, with the pairing checked."""
    return PairedRun(run)


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
