"""What ``import advisorchain`` loads, and what it must not."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

HEAVY = ["mcp", "opentelemetry.sdk", "rich", "typer", "openai", "tenacity", "jsonschema", "docstring_parser", "trio"]
"""Optional, or slow to import and needed only by those who use them."""


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the code."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return modules_after("import advisorchain")


@pytest.mark.parametrize("name", HEAVY)
def test_nothing_heavy_is_loaded(loaded: set[str], name: str) -> None:
    assert [module for module in loaded if module == name or module.startswith(name + ".")] == []


def test_no_plugin_is_loaded(loaded: set[str]) -> None:
    assert [module for module in loaded if module.startswith("advisorchain_")] == []
    found = entry_points()
    named = {
        entry.module
        for group in found.groups
        if group.startswith("advisorchain.")
        for entry in found.select(group=group)
        if entry.module.split(".")[0] != "advisorchain"
    }
    assert not named & loaded


def test_a_turn_loads_nothing_heavy_either() -> None:
    """A call with a tool, on asyncio, with a model of one's own."""
    loaded = modules_after("""
import asyncio
from advisorchain import AssistantMessage, ChatClient, ChatResponse, ToolCall, tool

@tool
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

async def model(request):
    calls = () if request.messages[-1].role == "tool" else (ToolCall("add", {"a": 1, "b": 2}),)
    return ChatResponse(AssistantMessage(content="3", tool_calls=calls))

async def main():
    client = ChatClient(model, tools=[add])
    assert (await client.call("?")).text == "3"
    async with client.stream("?") as stream:
        assert (await stream.response()).text == "3"

asyncio.run(main())
""")
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.parametrize(
    "module",
    ["advisorchain", "advisorchain.advisors", "advisorchain.models", "advisorchain.testing", "advisorchain.client",
     "advisorchain.messages", "advisorchain.tools", "advisorchain.stream", "advisorchain.exchange",
     "advisorchain.context", "advisorchain.advisor", "advisorchain.chain"],
)  # fmt: skip
def test_every_module_may_be_imported_first(module: str) -> None:
    """No import circle that only works in one order."""
    assert module in modules_after(f"import {module}")
