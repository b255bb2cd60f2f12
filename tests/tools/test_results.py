"""Whatever a tool returns: the model reads one result of it, and the raw value is kept."""

from __future__ import annotations

import enum
import json
import math
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from advisorchain import (
    ChatClient,
    FilePart,
    ImagePart,
    TextPart,
    Tool,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResult,
    dump_messages,
    load_messages,
    tool,
)
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.testing import ScriptedModel
from advisorchain.tools import MAX_RESULT_BYTES, MAX_RESULT_CHARS


class Order(BaseModel):
    """A model."""

    number: int
    note: str | None = None


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: int


class Color(enum.Enum):
    """An enum."""

    RED = "red"


class Word(enum.StrEnum):
    """An enum of texts."""

    HELLO = "hello"


class Opaque:
    """No JSON."""

    def __str__(self) -> str:
        return "opaque thing"


class Shown(ToolResult):
    """An application's own kind of result."""


class Unprintable:
    """Not even a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def returning(value: Any, **settings: Any) -> Tool:
    """A tool that returns the value."""

    async def give() -> Any:
        return value() if isinstance(value, type(lambda: 0)) else value

    return Tool.from_function(give, name="give", description="Give.", **settings)


async def read(run: Any, made: Tool, **settings: Any) -> Any:
    """The message that the model reads."""
    model = ScriptedModel([[ToolCall(made.name, {})], "done"])
    response = await run(ChatClient(model, tools=[made], **settings), "go")
    assert response.text == "done"
    (message,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert load_messages(dump_messages(response.new_messages)) == response.new_messages, "lossless through JSON"
    return message


def numbers() -> Any:
    """A generator."""
    yield 1
    yield {"two": 2}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        ("", ""),
        ('{"a": 1.50}', '{"a": 1.50}'),
        ("ä😀\x00", "ä😀\x00"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (-0.5, "-0.5"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        ([1, math.nan], '[1,"NaN"]'),
        (10**30, "1" + "0" * 30),
        (Decimal("1.50"), '"1.50"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Path("a/b"), '"a/b"'),
        ({1}, "[1]"),
        (frozenset(), "[]"),
        ((1, "b"), '[1,"b"]'),
        ([], "[]"),
        ({"a": {"b": [None]}}, '{"a":{"b":[null]}}'),
        ({1: "a"}, '{"1":"a"}'),
        (Order(number=1), '{"number":1,"note":null}'),
        ([Order(number=1, note="x")], '[{"number":1,"note":"x"}]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Color.RED, '"red"'),
        (Word.HELLO, "hello"),
        (b"bytes", "bytes"),
        (bytearray("ä".encode()), "ä"),
        (memoryview(b"view"), "view"),
        (Opaque(), '"opaque thing"'),
        ({"a": Opaque()}, '{"a":"opaque thing"}'),
        (ValueError("returned, not raised"), '"returned, not raised"'),
        (lambda: numbers(), '[1,{"two":2}]'),
        (TextPart(text="a part"), "a part"),
        ([TextPart(text="a"), TextPart(text="b")], "ab"),
        (ToolResult("a result", artifact=3), "a result"),
        (Shown("an own result"), "an own result"),
    ],
    ids=lambda value: str(value).partition(" at 0x")[0][:30],
)
async def test_values(run: Any, value: Any, text: str) -> None:
    message = await read(run, returning(value))
    assert (message.is_error, message.text) == (False, text)


@pytest.mark.parametrize(
    "value",
    [
        Unprintable(),
        lambda: ToolResult({"a": 1}),  # type: ignore[arg-type]
        lambda: ToolResult(None),  # type: ignore[arg-type]
        lambda: ToolResult(b"x"),  # type: ignore[arg-type]
    ],
    ids=["unprintable", "dict", "None", "bytes"],
)
async def test_values_that_cannot_be_read_are_the_tools_failure(run: Any, value: Any) -> None:
    message = await read(run, returning(value))
    assert message.is_error and "give" in message.text


async def test_a_circular_value(run: Any) -> None:
    circle: list[Any] = []
    circle.append(circle)
    message = await read(run, returning(circle))
    assert message.is_error and "failed" in message.text


@pytest.mark.parametrize("direct", [False, True])
async def test_text_that_is_no_unicode(run: Any, direct: bool) -> None:
    made = returning("name \udcff.txt", return_direct=direct)
    if not direct:
        assert (await read(run, made)).text.startswith("name ")
        return
    response = await run(ChatClient(ScriptedModel([[ToolCall("give")]]), tools=[made]), "go")
    assert response.text.startswith("name ") and response.text.encode()
    assert load_messages(dump_messages(response.new_messages)) == response.new_messages


@dataclass(frozen=True)
class Place:
    """A key."""

    row: int


@dataclass
class File:
    """What a listing of files tells of one."""

    name: str
    head: bytes = b""


@pytest.mark.parametrize(
    ("value", "text", "data"),
    [
        (["ok", "bad \udcff"], '["ok","bad ?"]', ["ok", "bad ?"]),
        ({"bad \udcff": {"size": 1}}, '{"bad ?":{"size":1}}', {"bad ?": {"size": 1}}),
        ([Path("bad \udcff")], '["bad ?"]', ["bad ?"]),
        (
            [File("bad \udcff", b"text")],
            '[{"name":"bad ?","head":"dGV4dA=="}]',
            [{"name": "bad ?", "head": "dGV4dA=="}],
        ),
        ({"id": 7, "blob": b"\xff\xfe"}, '{"id":7,"blob":"[binary data, 2 bytes]"}', ...),
        ({Place(1): "bad \udcff"}, '{"Place(row=1)":"bad ?"}', ...),
        ([math.nan, b"text", b"\xff"], '["NaN","text","[binary data, 1 bytes]"]', ...),
    ],
    ids=["list", "key", "path", "dataclass", "row with a blob", "other keys stay", "others stay"],
)
async def test_texts_and_bytes_inside_a_value_that_are_no_unicode(run: Any, value: Any, text: str, data: Any) -> None:
    message = await read(run, returning(value))
    assert (message.is_error, message.text) == (False, text)
    response = await run(
        ChatClient(ScriptedModel([[ToolCall("give")]]), tools=[returning(value, return_direct=True)]), "go"
    )
    (result,) = response.direct_results
    assert response.text == text and result.artifact is value
    assert result.structured == (json.loads(text) if data is ... else data)


async def test_binary_data(run: Any) -> None:
    message = await read(run, returning(b"\xff\xfe\x00"))
    assert message.text == "[binary data, 3 bytes]"
    assert next(part for part in message.content if isinstance(part, FilePart)).data == b"\xff\xfe\x00"


async def test_parts(run: Any) -> None:
    image = ImagePart(data=b"png", media_type="image/png")
    message = await read(run, returning([TextPart(text="see"), image]))
    assert message.content == (TextPart(text="see"), image)
    message = await read(run, returning(image))
    assert message.content == (image,) and message.text == ""
    message = await read(run, returning(ToolResult("text", parts=(image,))))
    assert message.content == (TextPart(text="text"), image)


async def test_a_list_of_parts_and_others_is_json(run: Any) -> None:
    assert (await read(run, returning([TextPart(text="a"), 1]))).text == '[{"kind":"text","text":"a"},1]'


async def test_an_error_result_is_an_error(run: Any) -> None:
    message = await read(run, returning(ToolResult.error("not there", failure={"kind": "denied"})))
    assert message.is_error and message.text == "not there"


LONG = "0123456789" * 1_000_000


async def test_a_long_result_is_cut_for_the_model_and_marked(run: Any) -> None:
    message = await read(run, returning(LONG))
    assert message.text.startswith(LONG[:MAX_RESULT_CHARS])
    assert message.text[MAX_RESULT_CHARS:] == f"\n[cut: {len(LONG)} characters, the first {MAX_RESULT_CHARS} are shown]"
    assert MAX_RESULT_CHARS == 100_000


async def test_where_the_cut_is_set(run: Any) -> None:
    assert (await read(run, returning("abcdef", max_result_chars=3))).text.startswith("abc\n[cut: 6 characters")
    loop = ToolCallingAdvisor(max_result_chars=4)
    assert (await read(run, returning("abcdef"), advisors=[loop])).text.startswith("abcd\n[cut")
    loop = ToolCallingAdvisor(max_result_chars=4)
    assert (await read(run, returning("abcdef", max_result_chars=6), advisors=[loop])).text == "abcdef"
    loop = ToolCallingAdvisor(trim=lambda result: f"{result.name}: {result.content[-2:]}")
    assert (await read(run, returning("abcdef"), advisors=[loop])).text == "give: ef"
    assert (await read(run, returning("abc", max_result_chars=3))).text == "abc"


async def test_a_long_direct_result_stays_whole(run: Any) -> None:
    model = ScriptedModel([[ToolCall("give")]], chunk_size=100_000)
    response = await run(ChatClient(model, tools=[returning(LONG, return_direct=True)]), "go")
    assert response.text == LONG and response.direct_results[0].content == LONG
    assert len(response.new_messages[1].text) < 100_100, "the model's copy is cut all the same"


async def test_the_byte_cap_of_a_direct_result(run: Any) -> None:
    huge = "ä" * (MAX_RESULT_BYTES // 2 + 10)
    model = ScriptedModel([[ToolCall("give")]])
    response = await run(ChatClient(model, tools=[returning(huge, return_direct=True)]), "go")
    text, _, mark = response.text.rpartition("\n")
    assert text == "ä" * (MAX_RESULT_BYTES // 2) and mark.startswith("[cut: ") and str(MAX_RESULT_BYTES) in mark
    assert response.direct_results[0].artifact == huge


async def test_the_byte_cap_holds_for_a_tools_own_result(run: Any) -> None:
    made = returning(ToolResult("x" * (MAX_RESULT_BYTES + 10)), return_direct=True)
    response = await run(ChatClient(ScriptedModel([[ToolCall("give")]], chunk_size=10**6), tools=[made]), "go")
    assert len(response.text) < MAX_RESULT_BYTES + 200 and "[cut: " in response.text[-200:]


@pytest.mark.parametrize("value", [Order(number=3), {"number": 3}, [1, 2], Point(1, 2), "text", b"bytes"])
async def test_the_artifact_is_the_raw_value(run: Any, value: Any) -> None:
    model = ScriptedModel([[ToolCall("give")]])
    response = await run(ChatClient(model, tools=[returning(value, return_direct=True)]), "go")
    (result,) = response.direct_results
    assert result.artifact is value and result.name == "give" and result.call_id
    if isinstance(value, Order | dict):
        assert result.structured["number"] == 3


@pytest.mark.parametrize(
    "value", [ImagePart(data=b"1"), [TextPart(text="a")], [TextPart(text="a"), ImagePart(data=b"1")]]
)
async def test_content_parts_are_no_structured_data(run: Any, value: Any) -> None:
    model = ScriptedModel([[ToolCall("give")]])
    response = await run(ChatClient(model, tools=[returning(value, return_direct=True)]), "go")
    (result,) = response.direct_results
    assert result.structured is None and result.artifact is value


async def test_a_generator_runs_in_the_tools_thread(run: Any) -> None:
    threads: list[int] = []

    @tool
    def give(fail: bool = False) -> Any:
        """Give values one by one."""
        threads.append(threading.get_ident())
        yield 1
        if fail:
            raise ToolError("no more values")

    assert (await read(run, give)).text == "[1]"
    assert threads and threading.get_ident() not in threads, "it must not block the event loop"
    model = ScriptedModel([[ToolCall("give", {"fail": True})], "done"])
    await run(ChatClient(model, tools=[give]), "go")
    assert model.requests[1].messages[-1].text == "no more values"


async def test_generators_that_are_returned(run: Any) -> None:
    @tool(return_direct=True)
    async def names() -> Any:
        """Names."""
        return (name for name in ("a", "b \udcff"))

    response = await run(ChatClient(ScriptedModel([[ToolCall("names")]]), tools=[names]), "go")
    assert response.text == '["a","b ?"]' and response.direct_results[0].artifact == ["a", "b \udcff"]

    async def pieces(arguments: dict[str, Any]) -> Any:
        yield "a piece"

    made = Tool.from_schema("pieces", pieces, description="Pieces.")
    message = await read(run, made, advisors=[ToolCallingAdvisor(error_detail="message")])
    assert message.is_error and "async generator" in message.text


async def test_an_awaitable_from_a_sync_tool(run: Any) -> None:
    async def later() -> str:
        return "later"

    @tool
    def give() -> Any:
        """Give a coroutine."""
        return later()

    assert (await read(run, give)).text == "later"
