"""The models under test: against the running aimock, and against a server that sends recorded answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import openai
import pytest
from recorded_answers import Recorded, pieces, recorded_answers, sse

from advisorchain_openai import OpenAIModel, OpenAIResponsesModel

if TYPE_CHECKING:
    from aimock import Aimock

REASONING_MODEL = "gpt-5-mini"


@pytest.fixture
def api_key() -> str:
    return "sk-very-secret-1234"


@pytest.fixture
async def model(aimock: Aimock, api_key: str) -> AsyncIterator[OpenAIModel]:
    async with OpenAIModel("gpt-4o", base_url=aimock.openai_url, api_key=api_key) as model:
        yield model


class Wire:
    """The bodies of the requests as they go over the wire to aimock, whose journal has them in another form."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def record(self, request: Any) -> None:
        self.bodies.append(json.loads(request.content))
        self.headers.append(dict(request.headers))

    def client(self, base_url: str, api_key: str) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [self.record]})
        return openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def responder(aimock: Aimock, api_key: str, wire: Wire) -> AsyncIterator[OpenAIResponsesModel]:
    """The Responses API of aimock."""
    async with OpenAIResponsesModel("gpt-4o", client=lambda: wire.client(aimock.openai_url, api_key)) as model:
        yield model


def item_events(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    """An item as the provider streams it: empty at first, then in pieces, then whole."""
    kind, start, between = item["type"], dict(item), []
    where = {"item_id": item["id"], "output_index": index}
    if kind == "message":
        start |= {"content": [], "status": "in_progress"}
        for number, part in enumerate(item["content"]):
            at = {**where, "content_index": number}
            name = "output_text" if part["type"] == "output_text" else part["type"]
            text = part.get("text") or part.get("refusal") or ""
            between.append({"type": "response.content_part.added", **at, "part": {"type": part["type"]}})
            between += [{"type": f"response.{name}.delta", **at, "delta": piece} for piece in pieces(text)]
            for order, note in enumerate(part.get("annotations", ())):
                added = {"type": "response.output_text.annotation.added", **at, "annotation_index": order}
                between.append({**added, "annotation": note})
            between.append({"type": f"response.{name}.done", **at, "text": text})
            between.append({"type": "response.content_part.done", **at, "part": part})
    elif kind == "reasoning":
        start |= {"summary": [], "encrypted_content": "incomplete"}
        for number, part in enumerate(item["summary"]):
            at = {**where, "summary_index": number}
            between.append({"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}})
            for piece in pieces(part["text"]):
                between.append({"type": "response.reasoning_summary_text.delta", **at, "delta": piece})
            between.append({"type": "response.reasoning_summary_text.done", **at, "text": part["text"]})
    elif kind in ("function_call", "mcp_call"):
        start |= {"arguments": "", "status": "in_progress"}
        for piece in pieces(item["arguments"]):
            between.append({"type": f"response.{kind}_arguments.delta", **where, "delta": piece})
        between.append({"type": f"response.{kind}_arguments.done", **where, "arguments": item["arguments"]})
    return [
        {"type": "response.output_item.added", "output_index": index, "item": start},
        *between,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def response_events(response: dict[str, Any]) -> list[dict[str, Any]]:
    """A whole response as the provider streams it."""
    started = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
        *[event for index, item in enumerate(response["output"]) for event in item_events(index, item)],
        {"type": f"response.{response['status']}", "response": response},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def recorded_response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """A response as the provider sends it."""
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
    }  # fmt: skip
    envelope = {"id": "resp_1", "object": "response", "created_at": 1_790_000_000, "model": REASONING_MODEL + "-2025"}
    return {**envelope, "status": status, "error": None, "incomplete_details": None, "output": list(output)} | {
        "usage": usage,
        **more,
    }


@pytest.fixture(scope="session")
def recorded_server() -> Iterator[Recorded]:
    with recorded_answers(response_events, field="output", path="/v1") as recorded:
        yield recorded


@pytest.fixture
def recorded(recorded_server: Recorded) -> Recorded:
    """The server, without answers and with nothing asked."""
    recorded_server.load()
    return recorded_server


@pytest.fixture
def gpt(recorded: Recorded) -> Any:
    """``gpt(**settings)``: a model on the server of recorded answers."""

    def make(**settings: Any) -> OpenAIResponsesModel:
        return OpenAIResponsesModel(REASONING_MODEL, **{"base_url": recorded.url, "api_key": "k", **settings})

    return make


@pytest.fixture
def response() -> Any:
    """``response(*items, status=..., **fields)``: a response as the provider sends it."""
    return recorded_response


@pytest.fixture
def events() -> Any:
    """``events(response)``: the events that the provider streams for it."""
    return response_events


@pytest.fixture
def as_bytes() -> Any:
    """``as_bytes(*events)``: server-sent events."""
    return sse
