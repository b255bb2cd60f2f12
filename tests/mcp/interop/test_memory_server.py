"""``@modelcontextprotocol/server-memory``: a graph that is built, read and taken apart, every tool through a client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_peers import peer_script

from advisorchain import ChatClient, ToolCall, ToolMessage
from advisorchain.mcp import McpServer, McpTools
from advisorchain.testing import ScriptedModel

pytestmark = pytest.mark.slow

ADA = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
LAB = {"name": "Lab", "entityType": "place", "observations": []}
WORKS = {"from": "Ada", "to": "Lab", "relationType": "works at"}

STEPS: list[tuple[str, dict[str, Any], Any]] = [
    ("create_entities", {"entities": [ADA, LAB]}, {"entities": [ADA, LAB]}),
    ("create_relations", {"relations": [WORKS]}, {"relations": [WORKS]}),
    (
        "add_observations",
        {"observations": [{"entityName": "Ada", "contents": ["schreibt Noten 🎼"]}]},
        {"results": [{"entityName": "Ada", "addedObservations": ["schreibt Noten 🎼"]}]},
    ),
    ("search_nodes", {"query": "noten"}, None),
    ("open_nodes", {"names": ["Lab"]}, None),
    ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["counts"]}]}, None),
    (
        "read_graph",
        {},
        {"entities": [{**ADA, "observations": ["schreibt Noten 🎼"]}, LAB], "relations": [WORKS]},
    ),
    ("delete_relations", {"relations": [WORKS]}, None),
    ("delete_entities", {"entityNames": ["Lab"]}, None),
    ("read_graph", {}, {"entities": [{**ADA, "observations": ["schreibt Noten 🎼"]}], "relations": []}),
]


def server(folder: Path) -> McpServer:
    file = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return McpServer.stdio("node", [peer_script("memory")], env=file, name="graph")


async def test_one_turn_uses_every_tool(run: Any, tmp_path: Path) -> None:
    model = ScriptedModel([*[[ToolCall(name, arguments)] for name, arguments, _ in STEPS], "Done."])
    async with McpTools([server(tmp_path)]) as tools:
        assert {tool.name for tool in await tools.listed()} == {name for name, _, _ in STEPS}
        response = await run(ChatClient(model, tools=[tools]), "Remember Ada.")

    messages = [message for message in response.new_messages if isinstance(message, ToolMessage)]
    assert response.text == "Done."
    assert [message.name for message in messages] == [name for name, _, _ in STEPS]
    for message, (name, _, expected) in zip(messages, STEPS, strict=True):
        assert not message.is_error, message
        assert message.source == "graph"
        if expected is not None:
            found = json.loads(message.text)
            assert found == (next(iter(expected.values())) if isinstance(found, list) else expected), name
    found = {message.name: message.text for message in messages}
    assert [node["name"] for node in json.loads(found["search_nodes"])["entities"]] == ["Ada"]
    assert [node["name"] for node in json.loads(found["open_nodes"])["entities"]] == ["Lab"]


async def test_what_one_process_stored_the_next_one_reads(ask: Any, tmp_path: Path) -> None:
    async with McpTools([server(tmp_path)]) as tools:
        made = await ask(tools, "create_entities", {"entities": [ADA]})
    async with McpTools([server(tmp_path)]) as tools:
        read = await ask(tools, "read_graph")

    assert made.result.structured == {"entities": [ADA]}
    assert read.result.structured == {"entities": [ADA], "relations": []}
    assert json.loads(read.text) == read.result.structured
