"""Windows take whole turns, as many as fit, and ask the store for no more than they need."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain import (
    AssistantMessage,
    ImagePart,
    Message,
    ProviderPart,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from advisorchain.memory import InMemoryStore, LastMessages, LastTurns, TokenWindow, estimated_tokens


async def store_of(sizes: list[int]) -> InMemoryStore:
    """A conversation with turns of so many messages."""
    store = InMemoryStore()
    for number, size in enumerate(sizes):
        turn: list[Message] = [UserMessage(content=f"{number}.{index}") for index in range(size)]
        await store.append("c", f"t{number}", turn)
    return store


async def turns_of(window: Any, store: InMemoryStore) -> list[str]:
    return [turn.id for turn in (await window.load(store, "c", "")).turns]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (LastTurns(1), ["t3"]),
        (LastTurns(3), ["t1", "t2", "t3"]),
        (LastTurns(9), ["t0", "t1", "t2", "t3"]),
        (LastMessages(1), []),
        (LastMessages(2), ["t3"]),
        (LastMessages(7), ["t3"]),
        (LastMessages(8), ["t2", "t3"]),
        (LastMessages(11), ["t1", "t2", "t3"]),
        (TokenWindow(1, lambda message: 1), []),
        (TokenWindow(8, lambda message: 1), ["t2", "t3"]),
        (TokenWindow(79, lambda message: 10), ["t3"]),
        (TokenWindow(80, lambda message: 10), ["t2", "t3"]),
        (TokenWindow(1000, lambda message: 1), ["t0", "t1", "t2", "t3"]),
    ],
)
async def test_whole_turns(window: Any, expected: list[str]) -> None:
    assert await turns_of(window, await store_of([2, 3, 6, 2])) == expected


async def test_branches_are_windowed_too() -> None:
    store = InMemoryStore()
    await store.append("c", "t", [UserMessage(content="main")])
    await store.append("c", "t", [UserMessage(content="branch")], branch="b")
    for window in (LastTurns(5), LastMessages(5), TokenWindow(50)):
        assert [message.text for message in await window.load(store, "c", "b")] == ["branch"]


@given(st.lists(st.integers(1, 6), max_size=40), st.integers(1, 120))
def test_a_token_window_of_ones_is_a_message_window(sizes: list[int], count: int) -> None:
    async def compare() -> None:
        store = await store_of(sizes)
        by_tokens = await turns_of(TokenWindow(count, lambda message: 1), store)
        assert by_tokens == await turns_of(LastMessages(count), store)

    anyio.run(compare)


async def test_a_token_window_reads_little_of_a_long_conversation() -> None:
    counted: list[str] = []
    asked: list[int] = []

    class Watched(InMemoryStore):
        async def load(self, conversation_id: str, **more: Any) -> Any:
            asked.append(more["last_turns"])
            return await super().load(conversation_id, **more)

    def counter(message: Message) -> int:
        counted.append(message.text)
        return 10

    store = Watched()
    store._conversations = (await store_of([2] * 1000))._conversations
    assert len(await turns_of(TokenWindow(400, counter), store)) == 20
    assert asked == [8, 16, 32]
    assert len(counted) == len(set(counted)) <= 44, "each message is counted once"


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(content=""), 1),
        (UserMessage(content="four"), 1),
        (UserMessage(content="five5"), 2),
        (UserMessage(content=(TextPart(text="x" * 40), ImagePart(url="https://example.org/a.png"))), 1010),
        (AssistantMessage(tool_calls=(ToolCall("look", '{"a": 1}'),)), 3),
        (ToolMessage(content="x" * 36, call_id="c", name="look"), 10),
        (UnknownMessage.model_validate({"role": "observer", "content": "x" * 40}), 10),
    ],
)
def test_estimated_tokens(message: Message, tokens: int) -> None:
    assert estimated_tokens(message) == tokens


def test_what_only_its_provider_understands_is_counted() -> None:
    part = ProviderPart(provider="acme", type="block", data={"text": "x" * 4000})
    assert estimated_tokens(AssistantMessage(content=(part,))) > 1000
