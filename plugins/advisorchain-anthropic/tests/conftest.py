"""The model under test: against the running aimock, and against a server that sends recorded answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from recorded_answers import Recorded, pieces, recorded_answers, sse

from advisorchain_anthropic import AnthropicModel

if TYPE_CHECKING:
    from aimock import Aimock

NAME = "claude-sonnet-5"


@pytest.fixture
def api_key() -> str:
    return "sk-ant-very-secret-1234"


class Wire:
    """The bodies of the requests as they go over the wire to aimock, whose journal has them in another form."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def record(self, request: Any) -> None:
        self.bodies.append(json.loads(request.content))

    def client(self, base_url: str, api_key: str) -> anthropic.AsyncAnthropic:
        http = anthropic.DefaultAsyncHttpxClient(event_hooks={"request": [self.record]})
        return anthropic.AsyncAnthropic(base_url=base_url, api_key=api_key, http_client=http)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def model(aimock: Aimock, api_key: str, wire: Wire) -> AsyncIterator[AnthropicModel]:
    async with AnthropicModel(NAME, client=lambda: wire.client(aimock.anthropic_url, api_key)) as model:
        yield model


def block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    """A block as the provider streams it: empty at first, then in pieces; other kinds come whole with their start."""
    deltas: list[dict[str, Any]] = []
    start = dict(block)
    if block["type"] == "text":
        start["text"] = ""
        cited = start.pop("citations", None) or []
        deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
        deltas += [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    elif block["type"] == "thinking":
        start |= {"thinking": "", "signature": ""}
        deltas += [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        deltas += [{"type": "signature_delta", "signature": block["signature"]}]
    elif block["type"].endswith("tool_use"):
        start["input"] = {}
        written = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(written)]]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


def message_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A whole message as the provider streams it."""
    content: Sequence[dict[str, Any]] = message["content"]
    ending = {
        key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details", "container") if key in message
    }
    usage = dict(message["usage"])
    started = {**usage, "output_tokens": 1} if "output_tokens" in usage else usage
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": started}
    return [
        {"type": "message_start", "message": start},
        {"type": "ping"},
        *[event for index, block in enumerate(content) for event in block_events(index, block)],
        {"type": "message_delta", "delta": ending, "usage": usage},
        {"type": "message_stop"},
    ]


def recorded_message(*content: dict[str, Any], stop_reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    """A message as the provider sends it."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    envelope = {"id": "msg_01", "type": "message", "role": "assistant", "model": NAME}
    return {
        **envelope,
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    } | more


@pytest.fixture(scope="session")
def recorded_server() -> Iterator[Recorded]:
    with recorded_answers(message_events, field="content") as recorded:
        yield recorded


@pytest.fixture
def recorded(recorded_server: Recorded) -> Recorded:
    """The server, without answers and with nothing asked."""
    recorded_server.load()
    return recorded_server


@pytest.fixture
def claude(recorded: Recorded) -> Any:
    """``claude(**settings)``: a model on the server of recorded answers."""

    def make(**settings: Any) -> AnthropicModel:
        return AnthropicModel(NAME, **{"base_url": recorded.url, "api_key": "k", **settings})

    return make


@pytest.fixture
def message() -> Any:
    """``message(*blocks, stop_reason=..., **fields)``: a message as the provider sends it."""
    return recorded_message


@pytest.fixture
def events() -> Any:
    """``events(message)``: the events that the provider streams for it."""
    return message_events


@pytest.fixture
def as_bytes() -> Any:
    """``as_bytes(*events)``: server-sent events."""
    return sse
