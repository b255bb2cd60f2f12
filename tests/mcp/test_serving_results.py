"""What a served tool gives arrives as MCP wants it, and nothing of our inside leaks out of an error."""

from __future__ import annotations

import base64
import json
import logging
import time
from typing import Any

import anyio
import pytest
from mcp import Client
from served_tools import add, text_of

from advisorchain import (
    AudioPart,
    ConfigurationError,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    Tool,
    ToolError,
    ToolResult,
    TurnAbortedError,
    tool,
    tool_advisor,
)
from advisorchain.mcp import mcp_server
from advisorchain.mcp.outgoing import wire_result

PNG = b"\x89PNG\r\n\x1a\nrest"


# Results -------------------------------------------------------------------------------------------------------------


async def test_structured_output_is_there_as_text_too(mode: str) -> None:
    async with Client(mcp_server([add]), mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("add", {"a": 2, "b": 3})

    assert result.structured_content == {"sum": 5}
    assert json.loads(text_of(result)) == {"sum": 5}
    assert not result.is_error


async def test_parts_become_content_blocks(mode: str) -> None:
    @tool
    async def show() -> list[Any]:
        """Show everything."""
        return [
            TextPart(text="Look: "),
            ImagePart(data=PNG),
            ImagePart(url="data:image/gif;base64,R0lGODlh"),
            ImagePart(url="https://example.org/a/cat.png", media_type="image/png"),
            AudioPart(data=b"RIFF", media_type="audio/wav"),
            FilePart(data=b'{"a": 1}', media_type="application/json", name="a b.json"),
            FilePart(data=b"\x00\xff", name="x.bin"),
            FilePart(url="https://example.org/report.pdf", name="report"),
            ReasoningPart(text="inner thought"),
            ProviderPart(provider="acme", type="t", data="inner data"),
        ]

    async with Client(mcp_server([show]), mode=mode) as client:
        result = await client.call_tool("show", {})

    text, png, gif, cat, wav, data, binary, report = result.content
    assert text.text == "Look: "
    assert (png.type, png.mime_type, base64.b64decode(png.data)) == ("image", "image/png", PNG)
    assert (gif.type, gif.mime_type, base64.b64decode(gif.data)) == ("image", "image/gif", b"GIF89a")
    assert (cat.type, cat.uri, cat.name) == ("resource_link", "https://example.org/a/cat.png", "cat.png")
    assert (wav.type, wav.mime_type) == ("audio", "audio/wav")
    assert (data.resource.text, data.resource.mime_type) == ('{"a": 1}', "application/json")
    assert data.resource.uri == "advisorchain://result/a%20b.json"
    assert base64.b64decode(binary.resource.blob) == b"\x00\xff"
    assert (report.type, report.uri, report.name) == ("resource_link", "https://example.org/report.pdf", "report")
    assert "inner" not in result.model_dump_json()


async def test_a_tool_that_returns_one_part_gives_content_only(mode: str) -> None:
    @tool
    async def picture() -> ImagePart:
        """Give a picture."""
        return ImagePart(data=PNG)

    async with Client(mcp_server([picture]), mode=mode) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("picture", {})

    assert listed.output_schema is None
    assert [block.type for block in result.content] == ["image"]
    assert result.structured_content is None
    assert not result.is_error


async def test_a_result_that_breaks_its_output_schema_is_an_error(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    broken = Tool.from_schema(
        "broken", lambda arguments: {"sum": "hidden-value"}, description="Break.",
        output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}},
    )  # fmt: skip
    async with Client(mcp_server([broken]), mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("broken", {})

    assert result.is_error
    assert text_of(result) == "The tool 'broken' gave a result that does not fit its output schema."
    assert "sum fails 'type'" in caplog.text
    assert "hidden-value" not in caplog.text


def test_the_output_schema_of_a_stranger_cannot_hold_us_up() -> None:
    slow = Tool.from_schema(
        "slow", lambda arguments: "", description="Slow to check.", trusted=False,
        output_schema={"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}},
    )  # fmt: skip
    start = time.monotonic()
    result = wire_result(ToolResult("text", structured={"text": "a" * 40 + "!"}), slow, modern=True)

    assert time.monotonic() - start < 10
    assert not result.is_error


async def test_a_redacted_text_is_what_the_structured_output_says(mode: str) -> None:
    person = Tool.from_schema(
        "person", lambda arguments: {"name": "Ann"}, description="Who.", output_schema={"type": "object"}
    )

    @tool_advisor(order=560)
    async def redact(invocation: Any, call_next: Any) -> ToolResult:
        result = await call_next(invocation)
        return result.replace(content=result.content.replace("Ann", "[name]"))

    async with Client(mcp_server([person], advisors=[redact]), mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("person", {})

    assert result.structured_content == {"name": "[name]"}
    assert "Ann" not in result.model_dump_json()


async def test_a_tools_own_limit_of_its_text_holds_unless_it_is_direct(mode: str) -> None:
    async def long() -> str:
        """Be long."""
        return "x" * 1000

    short = Tool.from_function(long, max_result_chars=10)
    direct = short.replace(name="direct", return_direct=True)
    async with Client(mcp_server([short, direct]), mode=mode) as client:
        cut = await client.call_tool("long", {})
        whole = await client.call_tool("direct", {})

    assert text_of(cut).startswith("xxxxxxxxxx\n[cut: 1000 characters")
    assert text_of(whole) == "x" * 1000


async def test_parts_for_people_only_keep_that_mark(mode: str) -> None:
    async def give() -> ToolResult:
        """Give."""
        return ToolResult("[for the user only]", metadata={"mcp": {"for_user": (TextPart(text="hello"),)}})

    async with Client(mcp_server([give]), mode=mode) as client:
        result = await client.call_tool("give", {})

    assert result.content[1].text == "hello"
    assert result.content[1].annotations.audience == ["user"]


# Errors --------------------------------------------------------------------------------------------------------------


async def test_an_unknown_tool_is_an_error_result(mode: str) -> None:
    async with Client(mcp_server([add]), mode=mode) as client:
        result = await client.call_tool("sub", {})

    assert result.is_error
    assert text_of(result) == "There is no tool 'sub'. Available tools: add."


async def test_bad_arguments_are_an_error_result_that_says_what_is_wrong(mode: str) -> None:
    async with Client(mcp_server([add]), mode=mode) as client:
        result = await client.call_tool("add", {"a": "one", "c": 1})

    assert result.is_error
    for part in ("a:", "b: Field required", "c:"):
        assert part in text_of(result)


class SecretError(Exception):
    def __str__(self) -> str:
        return "password=hunter2"


class Aborted(TurnAbortedError):
    pass


FAILURES: list[Any] = [
    SecretError(),
    Aborted("password=hunter2"),
    ConfigurationError("password=hunter2"),
    ExceptionGroup("password=hunter2", [SecretError()]),
    SystemExit("password=hunter2"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["tool", "advisor"])
async def test_an_exception_never_leaks(mode: str, error: BaseException, where: str) -> None:
    async def fail() -> str:
        """Fail."""
        if where == "tool":
            raise error
        return ""

    @tool_advisor(order=300)
    async def guard(invocation: Any, call_next: Any) -> Any:
        if where == "advisor":
            raise error
        return await call_next(invocation)

    async with Client(mcp_server([fail, add], advisors=[guard]), mode=mode) as client:
        result = await client.call_tool("fail", {})
        again = await client.call_tool("fail", {})

    assert result.is_error
    assert again.is_error
    assert "hunter2" not in result.model_dump_json()
    assert "Traceback" not in result.model_dump_json()
    assert "'fail'" in text_of(result)


async def test_a_tool_errors_own_text_arrives(mode: str) -> None:
    async def fail() -> str:
        """Fail."""
        raise ToolError("Order 7 is closed.")

    async with Client(mcp_server([fail]), mode=mode) as client:
        result = await client.call_tool("fail", {})

    assert result.is_error
    assert text_of(result) == "Order 7 is closed."


async def test_a_value_that_cannot_be_shown_does_not_leak_either(mode: str) -> None:
    @tool_advisor(order=300)
    async def spoil(invocation: Any, call_next: Any) -> Any:
        result = await call_next(invocation)
        return result.replace(structured=object())

    async with Client(mcp_server([add], advisors=[spoil]), mode=mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 1})

    assert result.is_error
    assert "object at 0x" not in result.model_dump_json()


async def test_a_slow_tool_ends_by_its_own_timeout(mode: str) -> None:
    async def sleep() -> str:
        """Sleep."""
        await anyio.sleep(60)
        return ""

    async with Client(mcp_server([Tool.from_function(sleep, timeout=0.05)]), mode=mode) as client:
        with anyio.fail_after(10):
            result = await client.call_tool("sleep", {})

    assert result.is_error


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "advisorchain")
