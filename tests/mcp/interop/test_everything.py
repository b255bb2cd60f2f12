"""``@modelcontextprotocol/server-everything``, over stdio and over HTTP: every tool, called through a client."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_peers import everything_over_http, peer_script
from sdk_quirks import UNFINISHED_STREAMS

from advisorchain import ChatClient, FilePart, ImagePart, ToolArgumentsError
from advisorchain.mcp import McpServer, McpTools, Question, Sampling
from advisorchain.testing import ScriptedModel

pytestmark = [pytest.mark.slow, UNFINISHED_STREAMS]

PNG = b"\x89PNG\r\n\x1a\n"
ANSWERS = {"name": "Ada", "check": True, "email": "ada@example.org", "integer": 7}


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with everything_over_http() as url:
        yield url


@pytest.fixture(scope="module", params=["stdio", "http"])
def reached(request: pytest.FixtureRequest) -> Callable[..., McpServer]:
    """Makes a server that is reached by stdio or by HTTP."""
    if request.param == "stdio":
        script = peer_script("everything")
        return lambda **settings: McpServer.stdio("node", [script], name="everything", **settings)
    url = request.getfixturevalue("http_url")
    return lambda **settings: McpServer.http(url, name="everything", **settings)


@pytest.fixture(scope="module")
async def tools(reached: Callable[..., McpServer], anyio_backend: str) -> AsyncIterator[McpTools]:
    async with McpTools([reached()]) as tools:
        yield tools


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    """The questions that the server has asked the user."""
    return []


@pytest.fixture(scope="module")
async def answering(
    reached: Callable[..., McpServer],
    asked: list[Question],
    tmp_path_factory: pytest.TempPathFactory,
    anyio_backend: str,
) -> AsyncIterator[McpTools]:
    """The tools, for a client that answers the server's questions."""

    async def elicit(question: Question) -> dict[str, Any]:
        asked.append(question)
        return {} if question.url else ANSWERS

    sampling = Sampling(ChatClient(ScriptedModel([f"Answer {number}." for number in range(9)])))
    root = tmp_path_factory.mktemp("root")
    async with McpTools([reached(elicitation=elicit, sampling=sampling, roots=[root])]) as tools:
        yield tools


def same(text: str) -> Callable[[Any], None]:
    def check(asked: Any) -> None:
        assert (asked.text, asked.parts) == (text, ())

    return check


def starts(text: str) -> Callable[[Any], None]:
    def check(asked: Any) -> None:
        assert asked.text.startswith(text)
        assert asked.parts == ()

    return check


def for_the_user(asked: Any) -> None:
    assert asked.text == "[for the user only, not shown here: 1 block]"
    assert [part.text for part in asked.result.metadata["mcp"]["for_user"]] == ["Operation completed successfully"]


def with_an_image_for_the_user(asked: Any) -> None:
    assert asked.text == "Error: Operation failed\n[for the user only, not shown here: 1 block]"
    assert asked.parts == ()
    (image,) = asked.result.metadata["mcp"]["for_user"]
    assert isinstance(image, ImagePart)
    assert image.data is not None and image.data.startswith(PNG)


def tiny_image(asked: Any) -> None:
    assert asked.text == "Here's the image you requested:\nThe image above is the MCP logo."
    (image,) = asked.parts
    assert isinstance(image, ImagePart)
    assert (image.media_type, image.data[:8]) == ("image/png", PNG)


def environment(asked: Any) -> None:
    assert json.loads(asked.text)["PATH"]


def links(asked: Any) -> None:
    first, *lines = asked.text.split("\n")
    assert first == "Here are 2 resource links to resources available in this server:"
    assert lines == [
        "[link to Blob Resource 1: demo://resource/dynamic/blob/1, text/plain] Resource 1: plaintext resource",
        "[link to Text Resource 2: demo://resource/dynamic/text/2, text/plain] Resource 2: plaintext resource",
    ]
    assert [(part.url, part.name, part.data) for part in asked.parts] == [
        ("demo://resource/dynamic/blob/1", "Blob Resource 1", None),
        ("demo://resource/dynamic/text/2", "Text Resource 2", None),
    ]


def embedded_text(asked: Any) -> None:
    first, mark, body, last = asked.text.split("\n")
    assert first == "Returning resource reference for Resource 3:"
    assert mark == "[resource demo://resource/dynamic/text/3]"
    assert body.startswith("Resource 3: This is a plaintext resource created at ")
    assert last == "You can access this resource using the URI: demo://resource/dynamic/text/3"
    assert asked.parts == ()


def embedded_blob(asked: Any) -> None:
    (file,) = asked.parts
    assert isinstance(file, FilePart)
    assert file.data is not None and file.data.startswith(b"Resource 4: This is a base64 blob created at ")
    assert (file.media_type, file.name) == ("text/plain", "4")
    assert f"[file demo://resource/dynamic/blob/4 (text/plain, {len(file.data)} bytes)]" in asked.text


def structured(asked: Any) -> None:
    weather = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    assert json.loads(asked.text) == weather  # once, not the text and the structured content
    assert asked.result.structured == weather
    assert asked.result.artifact == weather


def zipped(asked: Any) -> None:
    (file,) = asked.parts
    assert (file.media_type, file.name, gzip.decompress(file.data)) == ("application/gzip", "a.gz", b"hello")
    assert asked.text == f"[file demo://resource/session/a.gz (application/gzip, {len(file.data)} bytes)]"


def link_to_zipped(asked: Any) -> None:
    (file,) = asked.parts
    assert (file.url, file.data) == ("demo://resource/session/b.gz", None)


def progress(asked: Any) -> None:
    assert asked.text == "Long running operation completed. Duration: 0.3 seconds, Steps: 3."


ZIP = {"data": "data:text/plain,hello"}

CALLS: list[tuple[str, dict[str, Any], Callable[[Any], None]]] = [
    ("echo", {"message": "Grüße 你好 🚀"}, same("Echo: Grüße 你好 🚀")),
    ("get-annotated-message", {"messageType": "debug"}, same("Debug: Cache hit ratio 0.95, latency 150ms")),
    ("get-annotated-message", {"messageType": "success"}, for_the_user),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}, with_an_image_for_the_user),
    ("get-env", {}, environment),
    ("get-resource-links", {"count": 2}, links),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 3}, embedded_text),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 4}, embedded_blob),
    ("get-structured-content", {"location": "Chicago"}, structured),
    ("get-sum", {"a": 1.5, "b": 2}, same("The sum of 1.5 and 2 is 3.5.")),
    ("get-tiny-image", {}, tiny_image),
    ("gzip-file-as-resource", {"name": "a.gz", "outputType": "resource", **ZIP}, zipped),
    ("gzip-file-as-resource", {"name": "b.gz", "outputType": "resourceLink", **ZIP}, link_to_zipped),
    ("toggle-simulated-logging", {}, lambda asked: None),
    ("toggle-subscriber-updates", {}, lambda asked: None),
    ("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress),
]


@pytest.mark.parametrize(("name", "arguments", "check"), CALLS, ids=[f"{call[0]}-{i}" for i, call in enumerate(CALLS)])
async def test_every_tool(
    ask: Any, tools: McpTools, name: str, arguments: dict[str, Any], check: Callable[[Any], None]
) -> None:
    asked = await ask(tools, name, arguments)

    assert not asked.message.is_error
    assert (asked.message.source, asked.message.trusted) == ("everything", False)
    assert asked.response.text == "That is what I found."
    check(asked)
    if name.startswith("toggle"):
        assert asked.text.startswith(("Started simulated", "Stopped simulated"))
    if name == "trigger-long-running-operation" and ask.streamed:
        assert asked.progress == [(1, 3), (2, 3), (3, 3)]
    else:
        assert asked.progress == []


async def test_every_tool_is_listed_and_called_here(tools: McpTools) -> None:
    listed = {tool.name: tool for tool in await tools.listed()}

    assert listed.keys() == {name for name, _, _ in CALLS}
    assert listed["echo"].title == "Echo Tool"
    assert listed["echo"].description
    assert (listed["echo"].read_only, listed["toggle-simulated-logging"].read_only) == (True, False)
    assert listed["get-structured-content"].output_schema is not None
    assert all("$schema" not in tool.input_schema for tool in listed.values())
    (status,) = tools.status()
    assert (status.state, status.protocol, status.error) == ("connected", "2025-11-25", None)
    assert status.left_out == {"simulate-research-query": "it can only be run as a task, which is not supported"}


async def test_an_error_of_the_server_goes_to_the_model(ask: Any, tools: McpTools) -> None:
    asked = await ask(tools, "get-structured-content", {"location": "Paris"})

    assert asked.message.is_error
    assert "Invalid arguments for tool get-structured-content" in asked.text
    assert asked.response.text == "That is what I found."


async def test_missing_arguments_do_not_reach_the_server(ask: Any, tools: McpTools) -> None:
    asked = await ask(tools, "get-sum", {"a": 1})

    assert asked.message.is_error
    assert "b: is required" in asked.text


async def test_a_trusted_server_has_its_arguments_checked_here(ask: Any, reached: Callable[..., McpServer]) -> None:
    async with McpTools([reached(trusted=True)]) as tools:
        (listed,) = [tool for tool in await tools.listed() if tool.name == "get-structured-content"]
        with pytest.raises(ToolArgumentsError, match="location"):
            listed.validate({"location": "Paris"})
        asked = await ask(tools, "get-structured-content", {"location": "Paris"})
        good = await ask(tools, "get-structured-content", {"location": "Chicago"})

    assert asked.message.is_error
    assert "location" in asked.text
    assert good.message.trusted
    structured(good)


async def test_a_local_word_makes_a_tool_direct(ask: Any, reached: Callable[..., McpServer]) -> None:
    server = reached(overrides={"echo": {"return_direct": True}, "get-tiny-image": {"return_direct": True}})
    async with McpTools([server]) as tools:
        asked = await ask(tools, "echo", {"message": "as it is"})
        image = await ask(tools, "get-tiny-image")

    assert (asked.response.stop_reason, asked.response.text) == ("return_direct", "Echo: as it is")
    assert image.response.text == "Here's the image you requested:\nThe image above is the MCP logo."
    assert [part.data[:8] for part in image.response.message.content if isinstance(part, ImagePart)] == [PNG]


# What the server asks the client -------------------------------------------------------------------------------------


async def test_who_answers_gets_more_tools(tools: McpTools, answering: McpTools) -> None:
    more = {tool.name for tool in await answering.listed()} - {tool.name for tool in await tools.listed()}

    assert more == {
        "get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"
    }  # fmt: skip


async def test_the_server_asks_the_user(ask: Any, answering: McpTools, asked: list[Question]) -> None:
    asked.clear()
    found = await ask(answering, "trigger-elicitation-request")

    (question,) = asked
    assert (question.server, question.url) == ("everything", None)
    assert question.message == "Please provide inputs for the following fields:"
    assert question.schema["properties"]["integer"]["default"] == 42
    assert json.loads(found.text.partition("Raw result: ")[2]) == {"action": "accept", "content": ANSWERS}
    assert "- Name: Ada" in found.text


async def test_the_server_sends_the_user_to_a_page(ask: Any, answering: McpTools, asked: list[Question]) -> None:
    asked.clear()
    page = {"url": "https://example.org/agree", "elicitationId": "e1", "message": "Agree there."}
    found = await ask(answering, "trigger-url-elicitation", page)

    (question,) = asked
    assert (question.url, question.message) == ("https://example.org/agree", "Agree there.")
    assert "User completed the URL elicitation flow" in found.text


async def test_the_server_asks_our_model(ask: Any, answering: McpTools) -> None:
    found = await ask(answering, "trigger-sampling-request", {"prompt": "What?", "maxTokens": 20})

    answer = json.loads(found.text.partition("LLM sampling result: ")[2])
    assert answer["content"]["text"].startswith("Answer ")
    assert (answer["role"], answer["stopReason"]) == ("assistant", "endTurn")


async def test_the_server_asks_for_the_roots(ask: Any, answering: McpTools) -> None:
    found = await ask(answering, "get-roots-list")

    (root,) = answering.servers[0].roots
    assert "Current MCP Roots (1 total)" in found.text
    assert Path(root).as_uri() in found.text
