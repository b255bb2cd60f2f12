"""``@modelcontextprotocol/server-filesystem``: every tool, called through a client, in a directory of the test."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp_peers import peer_script

from advisorchain import ImagePart
from advisorchain.mcp import McpServer, McpTools

pytestmark = pytest.mark.slow

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files").resolve()


@pytest.fixture(scope="module")
async def tools(folder: Path, anyio_backend: str) -> AsyncIterator[McpTools]:
    server = McpServer.stdio("node", [peer_script("filesystem"), str(folder)], name="files")
    async with McpTools([server]) as tools:
        yield tools


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "b.txt").write_text("Grüße 你好\n", encoding="utf-8")
    (folder / "dot.png").write_bytes(PNG)
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner" / "c.md").write_text("# C\n")


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "read_file": ({"path": "b.txt"}, "Grüße 你好\n"),
    "read_text_file": ({"path": "a.txt", "head": 2}, "one\ntwo"),
    "read_multiple_files": (
        {"paths": ["a.txt", "b.txt"]},
        "{folder}/a.txt:\none\ntwo\nthree\n\n\n---\n{folder}/b.txt:\nGrüße 你好\n\n",
    ),
    "write_file": ({"path": "new.txt", "content": "new"}, "Successfully wrote to {folder}/new.txt"),
    "create_directory": ({"path": "made/deep"}, "Successfully created directory {folder}/made/deep"),
    "move_file": (
        {"source": "b.txt", "destination": "moved.txt"}, "Successfully moved {folder}/b.txt to {folder}/moved.txt"
    ),
    "list_directory": ({"path": "inner"}, "[FILE] c.md"),
    "search_files": ({"path": "", "pattern": "**/*.md"}, "{folder}/inner/c.md"),
    "list_allowed_directories": ({}, "Allowed directories:\n{folder}"),
}  # fmt: skip
OTHERS = {"read_media_file", "edit_file", "list_directory_with_sizes", "directory_tree", "get_file_info"}
"""Tools with a test of their own."""


def absolute(value: Any, folder: Path, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: absolute(each, folder, name) for name, each in value.items()}
    if isinstance(value, list):
        return [absolute(each, folder, key) for each in value]
    return str(folder / value) if key in ("path", "paths", "source", "destination") else value


async def test_every_tool_is_listed_and_called_here(tools: McpTools) -> None:
    listed = {tool.name: tool for tool in await tools.listed()}

    assert listed.keys() == {*CALLS, *OTHERS}
    assert (listed["read_text_file"].read_only, listed["write_file"].read_only) == (True, False)
    assert (listed["write_file"].destructive, listed["write_file"].idempotent) == (True, True)


@pytest.mark.parametrize("name", CALLS)
async def test_tools_that_answer_with_text(ask: Any, tools: McpTools, folder: Path, name: str) -> None:
    arguments, expected = CALLS[name]
    (folder / "moved.txt").unlink(missing_ok=True)
    asked = await ask(tools, name, absolute(arguments, folder))

    assert not asked.message.is_error
    assert asked.text == expected.replace("{folder}", str(folder))  # once, although the structured content repeats it
    assert asked.parts == ()
    assert asked.result.structured == {"content": asked.text}


async def test_files_really_change(ask: Any, tools: McpTools, folder: Path) -> None:
    for name in ("write_file", "create_directory"):
        await ask(tools, name, absolute(CALLS[name][0], folder))
    edit = {"path": str(folder / "a.txt"), "edits": [{"oldText": "two", "newText": "zwei"}]}
    asked = await ask(tools, "edit_file", edit)

    assert (folder / "new.txt").read_text() == "new"
    assert (folder / "made/deep").is_dir()
    assert (folder / "a.txt").read_text() == "one\nzwei\nthree\n"
    assert "-two" in asked.text
    assert "+zwei" in asked.text


async def test_an_image_comes_once(ask: Any, tools: McpTools, folder: Path) -> None:
    asked = await ask(tools, "read_media_file", {"path": str(folder / "dot.png")})

    (image,) = asked.parts
    assert isinstance(image, ImagePart)
    assert (image.media_type, image.data) == ("image/png", PNG)
    assert asked.text == ""
    assert base64.b64encode(PNG).decode() in json.dumps(asked.result.structured)  # kept, but not for the model


async def test_what_is_known_of_files(ask: Any, tools: McpTools, folder: Path) -> None:
    sizes = await ask(tools, "list_directory_with_sizes", {"path": str(folder / "inner")})
    info = await ask(tools, "get_file_info", {"path": str(folder / "dot.png")})
    tree = await ask(tools, "directory_tree", {"path": str(folder), "excludePatterns": ["made", "*.txt"]})

    assert sizes.text.startswith("[FILE] c.md")
    assert f"size: {len(PNG)}\n" in info.text
    assert json.loads(tree.text) == [
        {"name": "dot.png", "type": "file"},
        {"name": "inner", "type": "directory", "children": [{"name": "c.md", "type": "file"}]},
    ]


@pytest.mark.parametrize("path", ["/etc/passwd", "missing.txt"])
async def test_a_refusal_goes_to_the_model(ask: Any, tools: McpTools, folder: Path, path: str) -> None:
    asked = await ask(tools, "read_text_file", {"path": str(folder / path)})

    assert asked.message.is_error
    assert ("Access denied" if path.startswith("/") else "ENOENT") in asked.text
    assert asked.response.text == "That is what I found."
