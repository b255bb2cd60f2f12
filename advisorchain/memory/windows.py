"""How much of a conversation a turn reads: whole turns only, so that no call is parted from its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigurationError
from ..messages import AssistantMessage, Message, ReasoningPart, TextPart, ToolMessage
from ..setting_checks import check_number
from .store import History, MemoryStore

MEDIA_TOKENS = 1000
"""What an image, a sound or a file is estimated at."""
FIRST_TURNS = 8
"""How many turns `TokenWindow` looks at first."""


class Window(Protocol):
    """Loads the part of a conversation that a turn may read. The turn in progress is never part of it."""

    async def load(self, store: MemoryStore, conversation_id: str, branch: str) -> History:
        """The latest turns that fit; none when not even the last one does."""
        ...


class TokenCounter(Protocol):
    """Counts the tokens of one message."""

    def __call__(self, message: Message, /) -> int:
        """How many tokens the message has."""
        ...


@dataclass(frozen=True, slots=True)
class LastTurns:
    """The last ``turns`` turns, however long they are."""

    turns: int

    def __post_init__(self) -> None:
        check_number("LastTurns: turns", self.turns, least=1, whole=True)

    async def load(self, store: MemoryStore, conversation_id: str, branch: str) -> History:
        """See `Window.load`."""
        return await store.load(conversation_id, branch=branch, last_turns=self.turns)


@dataclass(frozen=True, slots=True)
class LastMessages:
    """As many of the last turns as fit whole into ``messages`` messages."""

    messages: int

    def __post_init__(self) -> None:
        check_number("LastMessages: messages", self.messages, least=1, whole=True)

    async def load(self, store: MemoryStore, conversation_id: str, branch: str) -> History:
        """See `Window.load`."""
        return await store.load(conversation_id, branch=branch, last_messages=self.messages)


def estimated_tokens(message: Message) -> int:
    """A quarter of the characters of text, names and arguments, and at least 1; media count 1,000 each."""
    characters, tokens = 0, 0
    content: Any = getattr(message, "content", message.text)
    if isinstance(content, str):
        characters += len(content)
    else:
        for part in content:
            if isinstance(part, TextPart | ReasoningPart):
                characters += len(part.text)
            elif part.kind in ("image", "audio", "file"):
                tokens += MEDIA_TOKENS
            else:
                characters += len(str(part))
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            characters += len(call.name) + len(str(call.arguments))
    elif isinstance(message, ToolMessage):
        characters += len(message.name)
    return max(1, tokens + (characters + 3) // 4)


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """As many of the last turns as fit whole into ``tokens`` tokens.

    Args:
        tokens: how many.
        counter: counts the tokens of a message; default: `estimated_tokens`, about four characters each.
    """

    tokens: int
    counter: TokenCounter = estimated_tokens

    def __post_init__(self) -> None:
        check_number("TokenWindow: tokens", self.tokens, least=1, whole=True)
        if not callable(self.counter):
            raise ConfigurationError(f"TokenWindow(counter=...) takes a function of a message, not {self.counter!r}.")

    async def load(self, store: MemoryStore, conversation_id: str, branch: str) -> History:
        """See `Window.load`."""
        looked_at, costs = FIRST_TURNS, dict[str, int]()
        while True:
            # Twice as many turns each time, so that all loads together cost at most twice the last one.
            found = await store.load(conversation_id, branch=branch, last_turns=looked_at)
            left, start = self.tokens, len(found.turns)
            for turn in reversed(found.turns):
                cost = costs.get(turn.id)
                if cost is None:
                    cost = costs[turn.id] = sum(map(self.counter, turn.messages))
                left -= cost
                if left < 0:
                    break
                start -= 1
            if start or len(found.turns) < looked_at:
                return History(found.turns[start:]) if start else found
            looked_at *= 2
