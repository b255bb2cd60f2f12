"""The model under test: against the running aimock, and against a server that sends recorded answers."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import anthropic
import pytest

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


class Recorded:
    """A server that sends answers in the form in which the provider was recorded, whole or as server-sent events."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Any] = []
        self.can_stream = True

    def load(self, *answers: dict[str, Any] | bytes | tuple[int, dict[str, str], dict[str, Any]]) -> None:
        """Give these answers, one after another and the last one again and again.

        A message is sent whole or as events, as the request asks for; bytes are an event stream as it is; a tuple is
        an answer with a status of its own and headers.
        """
        self.bodies.clear()
        self.headers.clear()
        self.answers = list(answers)

    def next_answer(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def sse(*events: dict[str, Any]) -> bytes:
    """Server-sent events as bytes."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return "".join(lines).encode()


def pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        recorded: Recorded = self.server.recorded  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        recorded.bodies.append(body)
        recorded.headers.append(dict(self.headers))
        answer = recorded.next_answer()
        status, headers, answer = answer if isinstance(answer, tuple) else (200, {}, answer)
        streams = isinstance(answer, bytes) or (body.get("stream") and recorded.can_stream and "content" in answer)
        kind = "text/event-stream" if streams else "application/json"
        if isinstance(answer, bytes):
            data = answer
        elif streams:
            data = sse(*message_events(answer))
        else:
            data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def recorded_server() -> Iterator[Recorded]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        recorded = Recorded(f"http://127.0.0.1:{server.server_port}")
        server.recorded = recorded  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield recorded
        server.shutdown()
        thread.join()


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
