"""What `McpTools.status` says of a server, without secrets and before, during and after its life."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp_client import lines, raw, result_of, until

from advisorchain.mcp import McpServer, McpTools


def test_outside_of_an_event_loop() -> None:
    (status,) = McpTools([raw("shop")]).status()
    assert (status.name, status.state, status.error, status.protocol) == ("shop", "idle", None, None)
    assert (status.tools, status.left_out, status.notes) == ({}, {}, {})


async def test_the_states_of_a_server(mcp: Any, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    tools = mcp(raw("shop", starts=str(starts)))
    assert tools.status()[0].state == "idle"
    await tools.listed()
    assert tools.status()[0].state == "connected"
    os.kill(int(lines(starts)[0]), signal.SIGKILL)
    assert await until(lambda: tools.status()[0].state == "lost")
    await tools.listed()
    assert tools.status()[0].state == "connected"
    await tools.aclose()
    assert tools.status()[0].state == "idle"


async def test_what_is_said_of_a_server_that_works(mcp: Any) -> None:
    tools = mcp(raw("shop", settings={"trusted": True}), raw("other"), filter=["*/add", "*/pid"])
    await tools.listed()
    shop, other = tools.status()
    assert (shop.transport, shop.place, shop.trusted) == ("stdio", Path(os.sys.executable).name, True)  # type: ignore[attr-defined]
    assert shop.protocol is not None and shop.protocol.startswith("20")
    assert shop.tools == {"add": "add", "pid": "pid"}
    assert other.tools == {"add": "other_add", "pid": "other_pid"}
    assert other.left_out["count"] == "a filter leaves it out"


async def test_why_a_server_cannot_be_started(mcp: Any, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_text("no program")
    tools = mcp(McpServer.stdio("nonesuch-program"), McpServer.stdio(str(file), name="file"))
    await tools.listed()
    missing, forbidden = tools.status()
    assert "the command 'nonesuch-program' was not found" in str(missing.error)
    assert "the command 'program' may not be run" in str(forbidden.error)


async def test_the_last_words_of_a_child_are_told(mcp: Any) -> None:
    tools = mcp(raw("shop", exit_on=["server/discover", "initialize"]))
    await tools.listed()
    assert "It says: shop does not know initialize" in str(tools.status()[0].error)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://user:secret@example.com/mcp?key=secret#secret", "https://example.com/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
    ],
)
def test_the_place_shows_no_secret(url: str, place: str) -> None:
    server = McpServer.http(url, headers={"Authorization": "Bearer secret"})
    (status,) = McpTools([server]).status()
    assert status.place == place
    assert "secret" not in repr(server) + repr(status) + repr(McpTools([server]))


async def test_what_was_found_wrong_with_a_text(mcp: Any) -> None:
    listed = {
        "name": "show", "title": "Sh\u200bow", "description": "x" * 9_000, "inputSchema": {"type": "object"},
    }  # fmt: skip
    tools = mcp(raw("shop", tools=[listed]))
    (show,) = await tools.listed()
    assert show.title == "Show" and len(show.description) <= 4_100
    notes = tools.status()[0].notes["show"]
    assert any(note.startswith("title:") for note in notes)
    assert any(note.startswith("description:") for note in notes)


async def test_instructions_are_there_only_when_they_are_asked_for(mcp: Any) -> None:
    tools = mcp(raw("quiet"), raw("heard", settings={"instructions": True}))
    await tools.listed()
    assert tools.instructions == {"heard": "Do as I say."}


async def test_what_a_caller_does_to_a_status_changes_nothing(mcp: Any) -> None:
    tools = mcp(raw("shop"))
    await tools.listed()
    tools.status()[0].tools.clear()
    tools.status()[0].left_out["add"] = "no"
    assert "add" in tools.status()[0].tools and tools.status()[0].left_out == {}
    assert (await result_of(tools, "add", {"a": 1, "b": 1})).content == "2"
