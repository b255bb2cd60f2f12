"""Results of MCP tools as `ToolResult`: what `server-everything` and `server-filesystem` send; and the rest."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain import (
    AudioPart,
    ChatClient,
    FilePart,
    ImagePart,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    ToolResult,
    dump_messages,
    load_messages,
)
from advisorchain.advisors import MemoryAdvisor
from advisorchain.mcp.conversion import MAX_PARTS, tool_result
from advisorchain.memory import InMemoryStore
from advisorchain.testing import ScriptedModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG_BYTES = base64.b64decode(PNG)
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()


def received(*content: dict[str, Any], **more: Any) -> Any:
    """A result as it comes over the wire."""
    from mcp.types import CallToolResult

    return CallToolResult.model_validate({"content": list(content), "isError": False, **more})


def converted(*content: dict[str, Any], max_bytes: int | None = None, direct: bool = False, **more: Any) -> ToolResult:
    settings = {} if max_bytes is None else {"max_bytes": max_bytes}
    return tool_result(received(*content, **more), tool="t", direct=direct, **settings)


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def image(data: str = PNG, media_type: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": media_type, **more}


def blob(data: str, uri: str = "demo://resource/dynamic/blob/1", media_type: str | None = None) -> dict[str, Any]:
    resource = {"uri": uri, "blob": data, **({"mimeType": media_type} if media_type else {})}
    return {"type": "resource", "resource": resource}


def link(uri: str, name: str = "A link", **more: Any) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name, **more}


# What server-everything sends


def test_echo() -> None:
    result = converted(text("Echo: hi"))
    assert (result.content, result.parts, result.structured, result.artifact) == ("Echo: hi", (), None, None)
    assert (result.is_error, result.failure, result.metadata) == (False, None, None)


def test_get_tiny_image() -> None:
    result = converted(text("Here's the image you requested:"), image(), text("The image above is the MCP logo."))
    assert result.content == "Here's the image you requested:\nThe image above is the MCP logo."
    assert result.parts == (ImagePart(data=PNG_BYTES, media_type="image/png"),)


def test_get_annotated_message() -> None:
    """The image there is for the user alone."""
    result = converted(
        text("Error: Operation failed", annotations={"audience": ["user", "assistant"], "priority": 1.0}),
        image(annotations={"audience": ["user"], "priority": 0.5}),
    )
    assert result.content == "Error: Operation failed\n[for the user only, not shown here: 1 block]"
    assert result.parts == ()
    assert result.metadata == {"mcp": {"for_user": (ImagePart(data=PNG_BYTES, media_type="image/png"),)}}
    debug = converted(text("Debug: Cache hit ratio 0.95", annotations={"audience": ["assistant"], "priority": 0.3}))
    assert (debug.content, debug.metadata) == ("Debug: Cache hit ratio 0.95", None)


def test_get_resource_links() -> None:
    result = converted(
        text("Here are 2 resource links to resources available in this server:"),
        {
            "name": "Blob Resource 1",
            "uri": "demo://resource/dynamic/blob/1",
            "description": "Resource 1: plaintext resource",
            "mimeType": "text/plain",
            "type": "resource_link",
        },
        link("demo://resource/dynamic/text/2", "Text Resource 2", size=27),
    )
    assert result.content.splitlines() == [
        "Here are 2 resource links to resources available in this server:",
        "[link to Blob Resource 1: demo://resource/dynamic/blob/1, text/plain] Resource 1: plaintext resource",
        "[link to Text Resource 2: demo://resource/dynamic/text/2, 27 bytes]",
    ]
    assert result.parts == (
        FilePart(url="demo://resource/dynamic/blob/1", name="Blob Resource 1", media_type="text/plain"),
        FilePart(url="demo://resource/dynamic/text/2", name="Text Resource 2"),
    )


def test_get_resource_reference() -> None:
    before, after = text("Returning resource reference for Resource 1:"), text("You can access this resource")
    resource = {
        "uri": "demo://resource/dynamic/text/1",
        "mimeType": "text/plain",
        "text": "Resource 1: This is a plaintext resource created at 4:59:15 AM",
    }
    result = converted(before, {"type": "resource", "resource": resource}, after)
    assert result.content.splitlines() == [
        before["text"],
        "[resource demo://resource/dynamic/text/1]",
        resource["text"],
        after["text"],
    ]
    assert result.parts == ()

    data = "UmVzb3VyY2UgMTogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQgNDo1OToxNSBBTQ=="
    result = converted(before, blob(data, media_type="text/plain"), after)
    assert result.content.splitlines() == [
        before["text"],
        "[file demo://resource/dynamic/blob/1 (text/plain, 55 bytes)]",
        after["text"],
    ]
    whole = b"Resource 1: This is a base64 blob created at 4:59:15 AM"
    assert result.parts == (FilePart(data=whole, media_type="text/plain", name="1"),)


def test_gzip_file_as_resource() -> None:
    data = b"\x1f\x8b\x08\x00\x01\x02"
    packed = base64.b64encode(data).decode()
    uri = "demo://resource/session/README.md.gz?x=1#y"
    result = converted(blob(packed, uri, "application/gzip"))
    assert result.content == f"[file {uri} (application/gzip, 6 bytes)]"
    assert result.parts == (FilePart(data=data, media_type="application/gzip", name="README.md.gz"),)


def test_get_structured_content() -> None:
    structured = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    said = '{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}'
    result = converted(text(said), structuredContent=structured)
    assert result.content == said
    assert result.structured == result.artifact == structured


def test_bad_arguments() -> None:
    message = "MCP error -32602: Input validation error: Invalid arguments for tool echo"
    result = converted(text(message), isError=True)
    assert (result.content, result.is_error, result.failure) == (message, True, None)


def test_filesystem_sends_an_image_twice() -> None:
    structured = {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
    result = converted(image(), structuredContent=structured)
    assert result.content == ""
    assert len(result.parts) == 1
    assert result.structured == structured


# Structured content, errors, _meta


@pytest.mark.parametrize("value", [{"a": "é"}, {}, [1, 2], 0, False, "x"])
def test_structured_content_is_the_text_only_when_there_is_nothing_else(value: Any) -> None:
    import json

    alone = tool_result(_raw(structured_content=value), tool="t")
    assert json.loads(alone.content) == value
    assert alone.structured == value
    beside = tool_result(_raw(SimpleNamespace(type="text", text="said"), structured_content=value), tool="t")
    assert (beside.content, beside.structured) == ("said", value)


def test_structured_content_beside_blocks_without_anything_for_the_model() -> None:
    user = text("For you.", annotations={"audience": ["user"]})
    assert converted(user, structuredContent={"a": 1}).content == (
        '{"a":1}\n[for the user only, not shown here: 1 block]'
    )
    assert converted(text(""), structuredContent={"a": 1}).content == '{"a":1}'


def test_errors_keep_their_structured_content() -> None:
    result = converted(text("no such order"), structuredContent={"code": 404}, isError=True)
    assert (result.content, result.is_error, result.structured) == ("no such order", True, {"code": 404})
    assert converted(isError=True).content == "The tool failed without saying why."
    assert converted(structuredContent={"code": 404}, isError=True).content == '{"code":404}'
    assert converted().content == ""


def test_meta_of_the_result() -> None:
    result = converted(text("x"), _meta={"advisorchain/cost": 3})
    assert result.metadata == {"mcp": {"_meta": {"advisorchain/cost": 3}}}
    own = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    assert converted(text("x"), _meta=own).metadata is None  # of the protocol itself, and no news
    both = converted(text("x"), _meta={**own, "advisorchain/cost": 3})
    assert both.metadata == {"mcp": {"_meta": {"advisorchain/cost": 3}}}
    large = converted(text("x"), _meta={"a": "x" * 70_000})
    assert large.metadata == {"mcp": {"_meta_left_out": "70008 bytes, at most 65536 are kept"}}


# Audience


def test_blocks_for_the_user_are_kept_for_the_user() -> None:
    only = {"annotations": {"audience": ["user"]}}
    result = converted(
        text("secret for people", **only),
        text("for all", annotations={"audience": []}),
        {**link("https://example.org/bill", **only)},
        {"type": "resource", "resource": {"uri": "demo://x", "text": "a page"}, **only},
        image(media_type="image/svg+xml", **only),
    )
    assert result.content == "for all\n[for the user only, not shown here: 4 blocks]"
    assert result.parts == ()
    assert result.metadata is not None
    assert result.metadata["mcp"]["for_user"] == (
        TextPart(text="secret for people"),
        FilePart(url="https://example.org/bill", name="A link"),
        TextPart(text="[resource demo://x]\na page"),
        ImagePart(data=PNG_BYTES, media_type="image/svg+xml"),
    )
    assert "secret" not in result.message().text


def test_a_direct_result_is_the_tools_own() -> None:
    """It may go to the user: nothing is kept from them, and nothing is added to the text."""
    result = converted(
        text("one", annotations={"audience": ["user"]}),
        image(annotations={"audience": ["user"]}),
        {"type": "resource", "resource": {"uri": "demo://x", "text": "two"}},
        blob(base64.b64encode(b"%PDF").decode(), "file:///r/report.pdf", "application/pdf"),
        link("https://example.org/bill"),
        text("three", annotations={"audience": ["assistant"]}),
        direct=True,
    )
    assert result.content == "one\ntwo\nthree"
    assert result.parts == (
        ImagePart(data=PNG_BYTES, media_type="image/png"),
        FilePart(data=b"%PDF", media_type="application/pdf", name="report.pdf"),
        FilePart(url="https://example.org/bill", name="A link"),
    )
    assert result.metadata is None
    exact = " \n{'a': 1}\t\n"
    assert converted(text(exact), direct=True).content == exact


# What no server should send


@pytest.mark.parametrize(
    ("block", "mark"),
    [
        (image("not base64!"), "[image (image/png) left out: its data is not base64]"),
        (image("a"), "[image (image/png) left out: its data is not base64]"),
        (image("ü"), "[image (image/png) left out: its data is not base64]"),
        (image(""), "[image (image/png) left out: it is empty]"),
        (blob("***", "a:b"), "[file a:b (application/octet-stream) left out: its data is not base64]"),
        (link("file-abc123"), "[link to A link left out: 'file-abc123' is no address]"),
        (link(""), "[link to A link left out: '' is no address]"),
        (link("a:" + "x" * 9000, ""), "[link to a resource left out: its address is over 8000 characters]"),
    ],
)  # fmt: skip
def test_a_block_that_cannot_be_kept_leaves_a_mark(block: dict[str, Any], mark: str) -> None:
    result = converted(text("before"), block, text("after"))
    assert result.content == f"before\nafter\n{mark}"
    assert result.parts == ()


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (image(PNG[:40] + "\r\n " + PNG[40:]), ImagePart(data=PNG_BYTES, media_type="image/png")),
        (image("data:image/png;base64," + PNG), ImagePart(data=PNG_BYTES, media_type="image/png")),
        (image(media_type="IMAGE/PNG "), ImagePart(data=PNG_BYTES, media_type="image/png")),
        (image(media_type="application/pdf"), FilePart(data=PNG_BYTES, media_type="application/pdf")),
        (image(media_type=""), FilePart(data=PNG_BYTES, media_type="application/octet-stream")),
        (image(media_type="image/png\r\nX: y"), FilePart(data=PNG_BYTES, media_type="application/octet-stream")),
        (
            {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
            AudioPart(data=base64.b64decode(WAV), media_type="audio/wav"),
        ),
        (
            {"type": "audio", "data": WAV, "mimeType": "video/mp4"},
            FilePart(data=base64.b64decode(WAV), media_type="video/mp4"),
        ),
        (link("http://169.254.169.254/latest\x00\n"), FilePart(url="http://169.254.169.254/latest", name="A link")),
        (blob(PNG, "demo://a/..", "image/png"), FilePart(data=PNG_BYTES, media_type="image/png")),
        (blob(PNG, "a:/b\\c:d.png/", "image/png"), FilePart(data=PNG_BYTES, media_type="image/png", name="b_c_d.png")),
    ],
)  # fmt: skip
def test_what_is_kept_all_the_same(block: dict[str, Any], part: Any) -> None:
    result = converted(block)
    assert result.parts == (part,)
    assert "left out" not in result.content


def _raw(*content: Any, **more: Any) -> Any:
    """A result that passed no check."""
    fields = {"content": list(content), "is_error": False, "structured_content": None, "meta": None}
    return SimpleNamespace(**{**fields, **more})


@pytest.mark.parametrize(
    ("block", "mark"),
    [
        (SimpleNamespace(type="hologram", data=1), "the unknown type 'hologram' left out"),
        (SimpleNamespace(type="x\n" * 100), f"the unknown type '{'x ' * 20}...' left out"),
        (SimpleNamespace(), "the unknown type '' left out"),
        (None, "the unknown type '' left out"),
        (SimpleNamespace(type="text"), "the type 'text' left out: it cannot be read"),
        (SimpleNamespace(type="image", data=7, mime_type="a/b"), "the type 'image' left out: it cannot be read"),
        (SimpleNamespace(type="resource", resource=None), "the type 'resource' left out: it cannot be read"),
    ],
)  # fmt: skip
def test_unknown_and_broken_blocks(block: Any, mark: str) -> None:
    result = tool_result(_raw(block, SimpleNamespace(type="text", text="ok")), tool="t")
    assert result.content == f"ok\n[a block of {mark}]"
    empty = SimpleNamespace(type="resource", resource=SimpleNamespace(uri="a:b"))
    assert tool_result(_raw(empty), tool="t").content == "[resource a:b left out: it has neither text nor data]"


def test_a_result_that_is_none() -> None:
    assert tool_result(_raw(content=None), tool="t").content == ""
    empty: Any = object()
    assert tool_result(empty, tool="t").content == ""


def test_lone_surrogates_do_not_break_messages() -> None:
    blocks = [
        SimpleNamespace(type="resource_link", uri="a:\ud800", name="n\ud800", description="", mime_type=None, size=0),
        SimpleNamespace(type="text", text="for you \ud800", annotations=SimpleNamespace(audience=["user"])),
    ]
    result = tool_result(_raw(*blocks), tool="t")
    dump_messages([result.stamped("c", "t", False, "s", False).message()])
    assert result.parts == (FilePart(url="a:?", name="n?"),)
    assert result.metadata == {"mcp": {"for_user": (TextPart(text="for you ?"),)}}


# Results too large


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_long_text_is_cut_and_marked(letter: str) -> None:
    result = converted(text(letter * 3000), max_bytes=1000)
    size = len(letter.encode()) * 3000
    assert len(result.content.encode()) <= 1000
    kept, _, mark = result.content.rpartition("\n")
    assert mark.startswith(f"[cut: {size} bytes, the first ")
    assert set(kept) == {letter}
    assert len(kept.encode()) > 900
    exact = converted(text("x" * 1000), max_bytes=1000)
    assert exact.content == "x" * 1000


def test_fifty_megabytes() -> None:
    started = time.perf_counter()
    result = converted(text("x" * 50_000_000), text("y" * 10))
    assert time.perf_counter() - started < 10
    assert len(result.content) <= 16 * 1024 * 1024
    assert result.content.endswith("\n[cut: 50000011 bytes, the first 16777165 are kept]")
    tool = Tool.from_schema("t", lambda arguments: None)
    assert tool.convert(result) is result  # not cut a second time


def test_data_over_the_limit_is_left_out() -> None:
    small, large = base64.b64encode(b"x" * 600).decode(), base64.b64encode(b"y" * 6000).decode()
    result = converted(text("ok"), image(large), image(small), image(small), text("end"), max_bytes=1000)
    assert result.content.splitlines() == [
        "ok",
        "end",
        "[image (image/png) left out: 6000 bytes; a result may have 1000 in all, 1000 are left]",
        "[image (image/png) left out: 600 bytes; a result may have 1000 in all, 400 are left]",
    ]
    assert len(result.parts) == 1


def test_marks_survive_the_cut() -> None:
    result = converted(text("x" * 5000), image("?"), max_bytes=1000)
    assert len(result.content.encode()) <= 1000
    assert result.content.endswith(" are kept]\n[image (image/png) left out: its data is not base64]")


def test_large_structured_content_is_left_out() -> None:
    result = converted(text("ok"), structuredContent={"a": "é" * 5000}, max_bytes=1000)
    assert result.content == "ok\n[structured content left out: 5008 characters, at most 1000 bytes are kept]"
    assert result.structured is None
    assert result.artifact is None
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    broken = tool_result(_raw(SimpleNamespace(type="text", text="ok"), structured_content=deep), tool="t")
    assert broken.content == "ok\n[structured content left out: it cannot be read]"


@pytest.mark.parametrize(
    ("said", "max_bytes", "kept"),
    [("3", 1000, True), ("x" * 600, 650, True), ("x" * 640, 650, False), ("\x01" * 150, 650, False), ("é", 1000, True)],
    ids=["small", "just fits", "too large", "longer in JSON", "not ASCII"],
)
def test_a_text_that_the_structured_content_repeats(said: str, max_bytes: int, kept: bool) -> None:
    result = converted(text(said), structuredContent={"result": said}, max_bytes=max_bytes)
    assert result.structured == ({"result": said} if kept else None)
    assert result.artifact == result.structured
    assert (result.content == said) is kept
    assert ("structured content left out" in result.content) is not kept


def test_a_broken_text_that_the_structured_content_repeats() -> None:
    block = SimpleNamespace(type="text", text="half \ud800", annotations=None)
    result = tool_result(_raw(block, structured_content={"result": "half \ud800"}), tool="t")
    assert result.structured is None
    assert "[structured content left out: it cannot be read]" in result.content


def test_meta_of_the_protocol_is_not_kept_and_other_meta_is() -> None:
    known = {"io.modelcontextprotocol/serverInfo": {"name": "s"}}
    assert converted(text("ok"), _meta=known).metadata is None
    assert converted(text("ok"), _meta={**known, "io.modelcontextprotocol/other": 1}).metadata is None
    assert converted(text("ok"), _meta={**known, "org/trace": 1}).metadata == {"mcp": {"_meta": {"org/trace": 1}}}


def test_many_blocks() -> None:
    result = converted(*[image()] * (MAX_PARTS + 5), *[link("no address")] * 500)
    assert len(result.parts) == MAX_PARTS
    lines = result.content.splitlines()
    assert len(lines) == 51
    assert lines[-1] == f"[455 blocks more left out: a result has at most {MAX_PARTS} parts]"


def test_many_small_texts_for_the_user_are_bounded() -> None:
    blocks = [text("x" * 100, annotations={"audience": ["user"]})] * (MAX_PARTS + 5)
    result = converted(*blocks, max_bytes=5000)
    assert result.metadata is not None
    parts = result.metadata["mcp"]["for_user"]
    assert sum(len(part.text) for part in parts) < 20_000
    assert "5 blocks more left out" in result.content


values = st.none() | st.integers() | st.text(max_size=8) | st.binary(max_size=4) | st.lists(st.integers(), max_size=2)
raw_blocks = st.builds(
    lambda kind, fields: SimpleNamespace(type=kind, **fields),
    st.sampled_from(["text", "image", "audio", "resource", "resource_link", "other"]),
    st.dictionaries(
        st.sampled_from(["text", "data", "mime_type", "uri", "name", "description", "size", "blob"]), values
    ),
)  # fmt: skip
holders = raw_blocks.map(lambda inner: SimpleNamespace(type="resource", resource=inner))


@given(
    content=st.lists(raw_blocks | holders, max_size=5) | values,
    structured=values,
    is_error=st.booleans() | values,
    meta=values | st.dictionaries(st.text(max_size=2), values, max_size=2),
    max_bytes=st.integers(0, 200),
    direct=st.booleans(),
)
def test_nothing_raises(content: Any, structured: Any, is_error: Any, meta: Any, max_bytes: int, direct: bool) -> None:
    raw: Any = SimpleNamespace(content=content, structured_content=structured, is_error=is_error, meta=meta)
    result = tool_result(raw, tool="t", max_bytes=max_bytes, direct=direct)
    assert len(result.content.encode(errors="replace")) <= max(max_bytes, 100) * 2
    message = ToolMessage(content=result.parts, call_id="c", name="t")
    assert load_messages(dump_messages([message])) == (message,)


# Through a client


async def test_a_direct_result_with_several_blocks(run: Any) -> None:
    def show(arguments: dict[str, Any]) -> ToolResult:
        return converted(text("The ticket:"), image(), link("https://example.org/t"), text("Have fun."), direct=True)

    store = InMemoryStore()
    tool = Tool.from_schema("show", show, description="Shows.", return_direct=True)
    client = ChatClient(ScriptedModel([[ToolCall("show", {})]]), tools=[tool], advisors=[MemoryAdvisor(store)])
    response = await run(client, "Show it.", conversation_id="c")
    assert response.text == "The ticket:\nHave fun."
    parts = (ImagePart(data=PNG_BYTES, media_type="image/png"), FilePart(url="https://example.org/t", name="A link"))
    assert response.message.content == (TextPart(text=response.text), *parts)
    assert response.direct_results[0].parts == parts
    assert (await store.load("c"))[-1].content == response.message.content  # type: ignore[union-attr]


def test_importing_it_does_not_import_mcp() -> None:
    code = (
        "import sys; import advisorchain.mcp.conversion, advisorchain.mcp.naming, advisorchain.mcp.filters; "
        "import advisorchain.mcp.cleaning, advisorchain.mcp.pinning, advisorchain.mcp.pin_file; "
        "import advisorchain.mcp.pin_difference; "
        "sys.exit(any(name in sys.modules for name in ('mcp', 'mcp_types')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
