"""What README and docs repeat from the source (orders, events, errors, numbers) is what the source says."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import pytest

import advisorchain.advisors
import advisorchain.audit
import advisorchain.config
import advisorchain.mcp
import advisorchain.memory
import advisorchain.models
import advisorchain.plugins
import advisorchain.testing
import advisorchain.tool_index
from advisorchain import ChatClient, Order, errors, events
from advisorchain.advisors import ToolCallingAdvisor
from advisorchain.models.calls_allowed import FORBID_VARIABLE
from advisorchain.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_the_ladder_is_the_enum(page: Path) -> None:
    rows = re.findall(r"^\| \**(\d+)\** \| \**`(\w+)`\** \|", page.read_text(encoding="utf-8"), re.M)
    assert [(name, int(order)) for order, name in rows] == [(place.name, place.value) for place in Order]


def test_the_places_in_bold_are_taken() -> None:
    rows = re.findall(r"^\| \*\*(\d+)\*\* \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    chain = ChatClient(ScriptedModel([])).chain
    assert [int(order) for order in rows] == [entry.order for entry in chain.entries]


def test_the_table_of_events_is_complete() -> None:
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ?([^|]*?) ?\|$", page, re.M))
    kinds = {
        kind.__name__: {field.name for field in dataclasses.fields(kind)} - {"path", "round", "attempt"}
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
    }
    assert {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows.items()} == kinds


def test_the_tree_of_errors_is_the_one_of_the_source() -> None:
    def names(text: str) -> list[str]:
        return re.findall(r"^\s*[│├└─ ]*(\w+(?:Error))\b", text, re.M)

    assert errors.__doc__ is not None
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = page.split("```text\n")[1].split("```")[0]
    assert names(tree) == names(errors.__doc__)
    defined = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type)]
    assert sorted(names(tree)) == sorted(set(defined) & set(dir(advisorchain)))


@pytest.mark.parametrize(
    ("page", "name", "shown"),
    [
        ("tools.md", "result.MAX_RESULT_CHARS", "100,000 characters"),
        ("tools.md", "result.MAX_RESULT_BYTES", "16 MiB"),
        ("tools.md", "threads.TOOL_THREADS", "at most **40** at once"),
        ("tools.md", "threads.MAX_ABANDONED_THREADS", "When **32** threads"),
        ("tools.md", "batch.CONCURRENCY", "at most 8 at once"),
        ("streaming.md", "stream.QUEUED_EVENTS", "Above 256 unread events"),
        ("mcp.md", "mcp.server.CONNECT_SECONDS", "| `connect_timeout` | 10 s |"),
        ("mcp.md", "mcp.server.LIST_SECONDS", "| `list_timeout` | 10 s |"),
        ("mcp.md", "mcp.server.CALL_SECONDS", "| `call_timeout` | 60 s |"),
        ("mcp.md", "mcp.server.LIST_TTL_SECONDS", "after 300\nseconds (`list_ttl`)"),
        ("mcp.md", "mcp.server.MAX_TOOLS", "`max_tools` (10,000)"),
        ("mcp.md", "mcp.server.MAX_DESCRIPTION_CHARS", "`max_description_chars` (4,000)"),
        ("mcp.md", "mcp.server.MAX_RESULT_BYTES", "`max_result_bytes` (8 MiB)"),
        ("mcp.md", "mcp.conversion.MAX_PARTS", "more than 200 parts"),
        ("mcp.md", "mcp.naming.MAX_NAME", "longer than 64 characters"),
        ("mcp-serving.md", "mcp.tool_server.PAGE_SIZE", "pages of 1,000"),
        ("mcp-serving.md", "cli.mcp_serve.ENDS_WITHIN", "after 5 seconds whatever still"),
        ("sub-agents.md", "sub_agent.SUB_AGENT_TIMEOUT", "600 seconds"),
        ("writing-an-advisor.md", "turn_end.TURN_END_SECONDS", "have 5\nseconds"),
    ],
)
def test_the_numbers_are_those_of_the_source(page: str, name: str, shown: str) -> None:
    module, _, constant = name.rpartition(".")
    package = "advisorchain.tools" if page == "tools.md" else "advisorchain"
    value = getattr(importlib.import_module(f"{package}.{module}"), constant)
    assert shown in (ROOT / "docs" / page).read_text(encoding="utf-8")
    (number,) = re.findall(r"[\d,]+", shown)
    assert float(number.replace(",", "")) * (2**20 if "MiB" in shown else 1) == value


def test_the_limits_are_those_of_the_source() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(max_\w+)` \| ([^|]+) \|", page, re.M))
    parameters = inspect.signature(ToolCallingAdvisor).parameters
    actual = {name: parameters[name].default for name in parameters if name.startswith("max_") and "chars" not in name}
    assert {name: None if text == "no limit" else int(text) for name, text in shown.items()} == actual


def test_the_changelog_names_what_there_is() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`@?([A-Z]\w+|chat_advisor|tool_advisor|tool|dump_messages|load_messages)`", text))
    lazy = {*advisorchain.models.__all__, *advisorchain.advisors.__all__, *advisorchain.testing.__all__}
    lazy |= {*advisorchain.mcp.__all__, *advisorchain.tool_index.__all__}
    public = {*dir(advisorchain), *lazy, *advisorchain.audit.__all__, *advisorchain.memory.__all__}
    public |= {*advisorchain.config.__all__, advisorchain.plugins.ALLOW_VARIABLE, FORBID_VARIABLE}
    plugins = {
        "AnthropicModel",
        "LocalModel",
        "OpenAIModel",
        "OpenAIResponsesModel",
        "PostgresStore",
        "RedisState",
        "RedisStore",
        "VectorIndex",
    }
    assert named - public == plugins


def test_the_files_to_read_are_there() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8").split("## Where to read it")[1]
    files = re.findall(r"`([\w/]+(?:\.py|/))`", page)
    assert len(files) > 15
    assert [file for file in files if not (ROOT / file).exists() and not (ROOT / "advisorchain" / file).exists()] == []
