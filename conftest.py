"""Fixtures for every test, the plugins' too: two event loops, two ways of asking a client, and real servers."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from advisorchain import ChatClient, ChatResponse, Message

# In tests/servers: the fixtures `aimock` and `smollm2`.
pytest_plugins = ["aimock", "smollm2"]

# A shell lets a job in the background ignore Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on both loops."""
    return request.param


class Run:
    """Ask a client by ``call`` or by ``stream`` and get the same ``ChatResponse``.

    ``events`` holds the events of the last stream, also when it failed half-way; it is empty under ``call``. Every
    request that a scripted model saw, and the conversation that comes back, must pair calls and results.
    """

    def __init__(self, mode: Literal["call", "stream"]) -> None:
        self.mode = mode
        self.events: list[Any] = []

    async def __call__(self, client: ChatClient, prompt: Any, **kwargs: Any) -> ChatResponse[Any]:
        from advisorchain import UserMessage

        try:
            response = await self._ask(client, prompt, **kwargs)
        finally:
            for request in getattr(client.model, "requests", ()):
                assert_paired(request.messages)
        if not response.tool_calls:
            sent = list(prompt) if isinstance(prompt, Sequence) and not isinstance(prompt, str) else [prompt]
            sent = [UserMessage(content=item) if isinstance(item, str) else item for item in sent]
            assert_paired([*sent, *response.new_messages])
            assert response.new_messages[-1] is response.message
        return response

    async def _ask(self, client: ChatClient, prompt: Any, **kwargs: Any) -> ChatResponse[Any]:
        from advisorchain import Finished

        self.events = []
        if self.mode == "call":
            return await client.call(prompt, **kwargs)

        async with client.stream(prompt, **kwargs) as stream:
            async for event in stream:
                self.events.append(event)
            response = await stream.response()
        assert streamed_text(self.events) == response.text
        finished = [event for event in self.events if isinstance(event, Finished) and event.path == ()]
        assert len(finished) == 1, "a turn finishes exactly once"
        assert finished[0].response is response
        return response


def assert_paired(messages: Sequence[Message]) -> None:
    """Every call has exactly one result, right after it, in call order; no id is used twice."""
    from advisorchain import AssistantMessage, ToolMessage
    from advisorchain.messages import check_pairing

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


def streamed_text(events: Iterable[Any]) -> str:
    """What a reader of the turn's own events holds at the end: the last attempt of the last round."""
    from advisorchain import Restarted, RoundStarted, TextDelta

    text, current = "", None
    for event in events:
        if event.path != ():
            continue
        if isinstance(event, RoundStarted | Restarted):
            text, current = "", None
        elif isinstance(event, TextDelta):
            if current is not None and current != (event.round, event.attempt):
                text = ""
            text += event.text
            current = (event.round, event.attempt)
    return text


@pytest.fixture(params=["call", "stream"])
def run(request: pytest.FixtureRequest) -> Run:
    """``await run(client, prompt, **kwargs)``: every behaviour holds under call and under stream."""
    return Run(request.param)
