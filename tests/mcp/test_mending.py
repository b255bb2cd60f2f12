"""One broken character costs no message: half of an emoji, bytes that are no UTF-8; whatever the transport."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from mcp_client import raw
from mcp_http import LegacyMcp, serving
from sdk_quirks import UNFINISHED_STREAMS

from advisorchain import Tool, ToolResult
from advisorchain.mcp import McpServer
from advisorchain.mcp.mending import Mender, mended, writable
from advisorchain.mcp.outgoing import wire_result, wire_tool
from advisorchain.messages import FilePart, TextPart

PIECES = [*'\\un"aé😀', "\\\\", "d83d", "\\ud83d", "\\uDe00", "\\u4f60", "\\uD8", "\\n", "\\udc00"]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_same_however_it_comes_and_as_the_reader_of_python_has_it(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(5_000):
        text = "".join(dice.choice(PIECES) for _ in range(dice.randrange(9)))
        data, found, mender = text.encode(), b"", Mender()
        while data:
            size = dice.randrange(1, 6)
            found += mender.fed(data[:size])
            data = data[size:]
        assert found + mender.rest() == mended(text).encode(), text
        try:
            lax = json.loads(f'"{text}"')
        except ValueError:
            continue
        assert json.loads(f'"{mended(text)}"') == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in lax)


@pytest.mark.parametrize("piece", ["\\", "\\u", "\\ud83d", "\\ud83d\\", "\\udc00"])
def test_it_takes_linear_time(piece: str) -> None:
    data = (piece * 1_000_000).encode()
    begun, mender = time.monotonic(), Mender()
    for start in range(0, len(data), 65_536):
        mender.fed(data[start : start + 65_536])
    mender.rest()
    assert time.monotonic() - begun < 10


def test_bytes_that_are_no_utf8() -> None:
    mender = Mender()
    assert mender.fed("é".encode()[:1]) + mender.fed("é".encode()[1:]) + mender.rest() == "é".encode()
    assert mender.fed(b"a\xffb\xc3") + mender.rest() == "a\ufffdb\ufffd".encode()


# What goes out -------------------------------------------------------------------------------------------------------

HALF = "half \ud83d"


class Odd:
    """Is no JSON; its text stands for it."""

    def __str__(self) -> str:
        return HALF


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("é", "é"),
        (HALF, "half ?"),
        ({HALF: [HALF, 1, None, {"x": (HALF,)}]}, {"half ?": ["half ?", 1, None, {"x": ["half ?"]}]}),
        (None, None),
    ],
)
def test_what_cannot_be_written(value: Any, written: Any) -> None:
    assert writable(value) == written


def test_tools_and_results_that_are_served_can_be_written() -> None:
    tool = Tool.from_schema(
        "count", lambda arguments: 1, title=HALF, description=HALF, tags=[HALF], meta={"m": {HALF: HALF}},
        input_schema={"type": "object", "properties": {"x": {"description": HALF}}}, output_schema={"title": HALF},
    )  # fmt: skip
    assert "half ?" in wire_tool(tool, modern=True, published=["m"]).model_dump_json()
    parts = (TextPart(text=HALF), FilePart(url=f"file:///{HALF}"), FilePart(data=b"x", name=HALF))
    odd = tool.replace(meta={"m": {"x": Odd()}})
    assert "half ?" in wire_tool(odd, modern=True, published=["m"]).model_dump_json()
    result = ToolResult(HALF, parts=parts, structured={HALF: HALF}, metadata={"mcp": {"for_user": parts}})
    assert "half ?" in wire_result(result, tool, modern=True).model_dump_json()


# Over every transport ------------------------------------------------------------------------------------------------

BROKEN = "half \ud83d whole \U0001f600"
WHOLE = "half \ufffd whole \U0001f600"
RESULT = {"content": [{"type": "text", "text": BROKEN}]}
TOOL = {"name": "count", "description": f"Counts {BROKEN}.", "inputSchema": {"type": "object"}}


async def test_half_an_emoji_over_stdio(mcp: Any, call: Any) -> None:
    tools = mcp(raw(tools=[TOOL], result=RESULT, settings={"call_timeout": 5, "list_timeout": 5}))
    assert (await call(tools, "count")).content == WHOLE
    assert (await tools.listed())[0].description == f"Counts {WHOLE}."


class Web(LegacyMcp):
    """Answers as JSON, or as a stream of events, with bytes that are no UTF-8 in front of the text."""

    def __init__(self, events: bool) -> None:
        super().__init__([TOOL], RESULT)
        self.events = events

    def __call__(self, *asked: Any) -> Any:
        status, headers, body = super().__call__(*asked)
        if not isinstance(body, dict) or "result" not in body:
            return status, headers, body
        data = json.dumps(body).encode().replace(b"half", b"\xff half")
        if not self.events:
            return status, headers, data
        return status, {**headers, "content-type": "text/event-stream"}, b"event: message\ndata: " + data + b"\n\n"


@UNFINISHED_STREAMS
@pytest.mark.parametrize("events", [False, True])
async def test_half_an_emoji_over_http(mcp: Any, call: Any, events: bool) -> None:
    with serving(Web(events)) as http:
        tools = mcp(McpServer.http(http.url + "/mcp"))
        assert (await call(tools, "count")).content == f"\ufffd {WHOLE}"
        assert (await tools.listed())[0].description == f"Counts \ufffd {WHOLE}."
        await tools.aclose()
