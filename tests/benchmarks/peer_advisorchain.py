"""advisorchain in a comparison of frameworks: M no-op advisors inside the tool loop.

A file of the comparison's contract, not of the test suite: its harness provides ``common`` (script, counters, tool
functions), imports this file and calls `make`. The fake model builds the native response on every call.
"""

from __future__ import annotations

import common
from common import CHUNKS, FINAL, SCRIPT, SLEEP, C, see_tools

from advisorchain import (
    Advisor,
    AssistantMessage,
    ChatClient,
    ChatNext,
    ChatRequest,
    ChatResponse,
    Message,
    Order,
    TextDelta,
    ToolCall,
    UserMessage,
)
from advisorchain.advisors import ToolCallingAdvisor

IMPORT = "import advisorchain"
PKG = "advisorchain"
NOTES = "M no-op advisors inside the tool loop; raw JSON arguments; round limit lifted for W7a, everything else default"


async def fake_model(request: ChatRequest) -> ChatResponse:
    """The scripted model: a text, tool calls with raw JSON arguments, or, when streamed, one delta per chunk."""
    script = SCRIPT.get()
    calls = script.next()
    see_tools([(tool.name, tool.description, tool.input_schema) for tool in request.tools])
    if script.delay:
        await SLEEP(script.delay)
    if script.chunks:
        parts = []
        for chunk in CHUNKS[script.chunks]:
            parts.append(chunk)
            await request.emit(TextDelta(chunk))
        return ChatResponse(AssistantMessage(content="".join(parts)))
    if calls is None:
        return ChatResponse(AssistantMessage(content=FINAL))
    return ChatResponse(AssistantMessage(tool_calls=tuple([ToolCall(name, raw, id) for id, name, _, raw in calls])))


class NoOp(Advisor):
    """Counts the model calls that it wraps."""

    order = Order.AUGMENTATION

    def __init__(self, number: int) -> None:
        self.name = f"noop_{number}"

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse:
        C.mw += 1
        return await call_next(request)


class Peer:
    """A client, built once for a workload."""

    def __init__(self, spec: common.Spec) -> None:
        self.client = ChatClient(
            fake_model,
            tools=common.tool_functions(spec.n_tools),
            advisors=[ToolCallingAdvisor(max_rounds=1000), *[NoOp(number) for number in range(spec.mw)]],
        )

    def history(self, n: int) -> list[Message] | None:
        """A conversation of n messages."""
        if not n:
            return None
        pair = (UserMessage, AssistantMessage)
        return [pair[k % 2](content=f"message {k}") for k in range(n)]

    async def run(self, prompt: str, history: list[Message] | None = None, ctx: None = None) -> str:
        """One turn; its text."""
        response = await self.client.call([*history, UserMessage(content=prompt)] if history else prompt)
        return response.text

    async def stream(self, prompt: str) -> tuple[int, str]:
        """One streamed turn: the number of text deltas, and the text."""
        seen = 0
        parts = []
        async with self.client.stream(prompt) as stream:
            async for event in stream:
                if type(event) is TextDelta:
                    seen += 1
                    parts.append(event.text)
        return seen, "".join(parts)


def make(spec: common.Spec) -> Peer:
    """The peer for a workload."""
    return Peer(spec)
