"""A server that sends answers in the form in which a provider was recorded, whole or as server-sent events."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from advisorchain import AssistantMessage, ChatClient, ChatResponse, Message, ModelError, ToolMessage, UserMessage

Json = dict[str, Any]

_OTHER_FORMS: tuple[Any, ...] = (None, -7, "x", [7], {"x": [7]})


class Recorded:
    """The running server: load what it shall answer, and read what it was asked.

    Args:
        url: where it is.
        events_of: the events that the provider streams for a whole answer.
        field: what a whole answer has, and an error has not.
    """

    def __init__(self, url: str, events_of: Callable[[Json], list[Json]], field: str) -> None:
        self.url = url
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Any] = []
        self.can_stream = True
        self._events_of = events_of
        self._field = field

    def load(self, *answers: Json | bytes | tuple[int, dict[str, str], Json]) -> None:
        """Forget what was asked; give these answers, one after another and the last one again and again.

        An answer is sent whole or as events, as the request asks for; bytes are an event stream as it is; a tuple is
        an answer with a status of its own and headers.
        """
        self.bodies.clear()
        self.headers.clear()
        self.answers = list(answers)
        self.can_stream = True

    def answer(self, body: Json, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of the answer to a request."""
        self.bodies.append(body)
        self.headers.append(headers)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        status, more, answer = answer if isinstance(answer, tuple) else (200, {}, answer)
        if not isinstance(answer, bytes) and body.get("stream") and self.can_stream and self._field in answer:
            answer = sse(*self._events_of(answer))
        if isinstance(answer, bytes):
            return status, {"content-type": "text/event-stream", **more}, answer
        return status, {"content-type": "application/json", **more}, json.dumps(answer).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and content in one write: two would wait for each other for 40 ms

    def do_POST(self) -> None:
        recorded: Recorded = self.server.recorded  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, headers, data = recorded.answer(body, dict(self.headers))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def recorded_answers(events_of: Callable[[Json], list[Json]], *, field: str, path: str = "") -> Iterator[Recorded]:
    """A running server, see `Recorded`; ``path`` is what its address ends in."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        recorded = Recorded(f"http://127.0.0.1:{server.server_port}{path}", events_of, field)
        server.recorded = recorded  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield recorded
        server.shutdown()
        thread.join()


def sse(*events: Json) -> bytes:
    """Server-sent events as bytes; with a name, if the provider gives them one."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    lines = [json.dumps(event, ensure_ascii=False) for event in events]
    return "".join(f"{name}data: {line}\n\n" for name, line in zip(names, lines, strict=True)).encode()


def pieces(text: str) -> list[str]:
    """A text as it is streamed."""
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def other_forms(value: Any) -> Iterator[Any]:
    """A JSON value again and again: each time, something in it is of another kind."""
    for path in _paths(value):
        for form in _OTHER_FORMS:
            changed = copy.deepcopy(value)
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = form
            yield changed


def _paths(value: Any, path: Sequence[Any] = ()) -> Iterator[list[Any]]:
    steps = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield [*path, step]
        yield from _paths(value[step], [*path, step])


async def asked(client: ChatClient, provider: str, *, streaming: bool) -> ChatResponse[Any] | None:
    """The answer, whose usage has nothing but counts; None: it could not be read, and that was said."""
    try:
        if not streaming:
            response = await client.call("hello", tool_loop=False)
        else:
            async with client.stream("hello", tool_loop=False) as stream:
                response = await stream.response()
    except ModelError as error:
        assert str(error).startswith(f"{provider}: ")
        return None
    usage = response.usage
    for count in (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens):
        assert count is None or (type(count) is int and count >= 0)
    return response


def after(message: AssistantMessage) -> list[Message]:
    """A conversation that goes on after that answer."""
    calls = [call for call in message.tool_calls if call.executed_by == "client"]
    results = [ToolMessage(content="18 degrees", call_id=call.id, name=call.name) for call in calls]
    return [UserMessage(content="hello"), message, *results, UserMessage(content="and then?")]
