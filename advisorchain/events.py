"""What a stream yields: slotted event classes, each with the ``path``, ``round`` and ``attempt`` it belongs to.

``path`` is ``()`` for this turn and ``("researcher",)`` inside a sub-agent of that name. Rounds count from 1: a round
is one model answer and the tool calls it makes. Ignore kinds of events that you do not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .messages import Part, ToolCall

if TYPE_CHECKING:
    from .exchange import ChatResponse
    from .invocation import ToolResult


@dataclass(slots=True)
class Event:
    """What every event carries; the terminal model call and the loop fill it in."""

    path: tuple[str, ...] = field(default=(), kw_only=True)
    round: int = field(default=0, kw_only=True)
    attempt: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class RoundStarted(Event):
    """The loop is about to ask the model."""


@dataclass(slots=True)
class TextDelta(Event):
    """A piece of the answer's text."""

    text: str


@dataclass(slots=True)
class ReasoningDelta(Event):
    """A piece of what the model thinks before it answers."""

    text: str


@dataclass(slots=True)
class ToolCallDelta(Event):
    """A piece of a tool call while the model writes it: ``arguments`` is a fragment of raw JSON."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(slots=True)
class PartDelta(Event):
    """A whole content part of an answer (image, provider part), when it is complete."""

    part: Part


@dataclass(slots=True)
class ToolStarted(Event):
    """A tool call starts. ``direct``: its result may be the answer itself."""

    call: ToolCall
    title: str | None = None
    direct: bool = False


@dataclass(slots=True)
class ToolProgress(Event):
    """A running tool reports ``progress`` of ``total`` (None: unknown), with an optional message."""

    call_id: str
    name: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(slots=True)
class ToolFinished(Event):
    """A tool call ended after ``seconds``; exactly one for every `ToolStarted`, on every exit."""

    result: ToolResult
    seconds: float = 0.0


@dataclass(slots=True)
class RoundFinished(Event):
    """The model has answered with ``text`` and the ``calls`` that it made have run."""

    text: str = ""
    calls: int = 0


@dataclass(slots=True)
class Restarted(Event):
    """Discard the text of this path from this round on: another attempt follows."""


@dataclass(slots=True)
class Finished(Event):
    """The turn is over: the last event of a stream, with the same response that ``call`` returns."""

    response: ChatResponse[Any]
