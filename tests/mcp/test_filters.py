"""Filters: allow and deny by server, name, description, tag and hint."""

from __future__ import annotations

import re
from typing import Any

import pytest

from advisorchain import ConfigurationError
from advisorchain.mcp.filters import ToolFilter, ToolMatch, as_filter
from advisorchain.mcp.listed_tool import ListedTool

READ = ListedTool(
    server="files",
    name="read_file",
    description="Reads one file.",
    annotations={"readOnlyHint": True},
    meta={"advisorchain/tags": ["io"]},
    trusted=True,
)
WRITE = ListedTool(
    server="files",
    name="write_file",
    description="Writes a file. May DELETE what was there.",
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
    meta={"_fastmcp": {"tags": ["io", "danger"]}},
    trusted=True,
)
SEARCH = ListedTool(server="web", name="search/all", description="Searches.", annotations={"idempotentHint": True})
SILENT = ListedTool(server="web", name="Read_File")
ALL = [READ, WRITE, SEARCH, SILENT]


def offered(value: Any) -> list[str]:
    permits = as_filter(value)
    return [tool.name for tool in ALL if permits(tool)]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["read_file", "write_file", "search/all", "Read_File"]),
        (ToolFilter(), ["read_file", "write_file", "search/all", "Read_File"]),
        (ToolFilter(default="deny"), []),
        ([], []),
        ("files/*", ["read_file", "write_file"]),
        (["files/read*"], ["read_file"]),
        (["*/read_file"], ["read_file"]),
        (["w?b/*"], ["search/all", "Read_File"]),
        (["web/search/all"], ["search/all"]),
        (["web/[rR]ead_*"], ["Read_File"]),
        (ToolFilter(deny=["files/*"]), ["search/all", "Read_File"]),
        (ToolFilter(allow=["files/*"], deny=["*/write*"]), ["read_file"]),
        (ToolFilter(["*/*"], ["*/*"]), []),
        (ToolFilter(allow=["files/read_file"], default="deny"), ["read_file"]),
        (lambda tool: tool.server == "web", ["search/all", "Read_File"]),
        (ToolMatch(server="files"), ["read_file", "write_file"]),
        ([ToolMatch(server="web", name="search*")], ["search/all"]),
        ([ToolMatch(tag="io")], ["read_file", "write_file"]),
        ([ToolMatch(tag="danger"), "web/*"], ["write_file", "search/all", "Read_File"]),
        ([ToolMatch(description="delete")], ["write_file"]),
        ([ToolMatch(description=re.compile(r"^Reads|^Searches"))], ["read_file", "search/all"]),
        ([ToolMatch(trusted=False)], ["search/all", "Read_File"]),
    ],
)
def test_what_is_offered(value: Any, names: list[str]) -> None:
    assert offered(value) == names


@pytest.mark.parametrize(
    ("hints", "names"),
    [
        ({"read_only": True}, ["read_file"]),
        ({"read_only": False}, ["write_file", "search/all", "Read_File"]),
        ({"destructive": True}, ["write_file", "search/all", "Read_File"]),
        ({"destructive": False}, ["read_file"]),
        ({"idempotent": True}, ["search/all"]),
        ({"open_world": False}, ["write_file"]),
        ({"open_world": True, "trusted": True}, ["read_file"]),
    ],
)
def test_a_silent_server_counts_as_the_protocol_says(hints: dict[str, bool], names: list[str]) -> None:
    assert offered([ToolMatch(**hints)]) == names


def test_hints_that_are_no_booleans_are_not_believed() -> None:
    tool = ListedTool(server="s", name="t", annotations={"readOnlyHint": "true", "destructiveHint": 0})
    assert not ToolMatch(read_only=True).fits(tool)
    assert ToolMatch(destructive=True).fits(tool)


def test_hidden_characters_do_not_hide_a_word() -> None:
    tool = ListedTool(server="s", name="t", description="del\u200bete\u202e everything")
    assert not ToolFilter(deny=[ToolMatch(description="delete")]).permits(tool)


def test_a_name_that_looks_like_a_pattern() -> None:
    tool = ListedTool(server="s", name="get[all]")
    assert ToolFilter(["s/get[all]"]).permits(tool)


@pytest.mark.parametrize("rule", ["read_file", "read*", "*"])
def test_a_name_without_a_server_is_refused(rule: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"'server/{rule}'")) as caught:
        ToolFilter(deny=[rule])
    assert f"'*/{rule}'" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToolFilter(["/x"]), "must have a server's name before the '/'"),
        (lambda: ToolFilter(["x/"]), "must have a server's name before the '/'"),
        (lambda: ToolFilter([""]), "names no server"),
        (lambda: ToolFilter([7]), "A filter rule is a pattern such as"),
        (lambda: ToolFilter(7), "allow must be a list of patterns"),
        (lambda: ToolFilter(deny=7), "deny must be a list of patterns"),
        (lambda: ToolFilter(default="no"), "default must be 'allow' or 'deny', not 'no'"),
        (lambda: ToolFilter(["a/b"], default="allow"), "allow= changes nothing with default='allow'"),
        (lambda: ToolMatch(), "describes no tool"),
        (lambda: ToolMatch(tag=""), "an empty tag fits nothing"),
        (lambda: ToolMatch(read_only="yes"), "read_only must be a bool"),
        (lambda: ToolMatch(name=7), "name must be a str"),
        (lambda: ToolMatch(description=re.compile(b"x")), "description must be a str"),
        (lambda: as_filter(7), "filter must be a ToolFilter"),
        (lambda: as_filter(ToolFilter), "filter must be a ToolFilter"),
    ],
)
def test_errors_say_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        make()


def test_functions_must_answer() -> None:
    async def later(tool: ListedTool) -> bool:
        return True

    with pytest.raises(ConfigurationError, match="plain function, not async"):
        as_filter(later)
    with pytest.raises(ConfigurationError, match=r"for files/read_file it returned coroutine"):
        as_filter(lambda tool: later(tool))(READ)
    with pytest.raises(ConfigurationError, match=r"for files/read_file it returned NoneType"):
        as_filter(lambda tool: None)(READ)


def test_rules_that_fit_nothing_can_be_found() -> None:
    match = ToolMatch(tag="none")
    chosen = ToolFilter(["files/*", "fiels/*"], [match, "web/*"])
    assert chosen.unused(ALL) == ["fiels/*", match]


def test_repr() -> None:
    chosen = ToolFilter(["files/*"], [ToolMatch(tag="danger", read_only=False)])
    assert repr(chosen) == (
        "ToolFilter(allow=['files/*'], deny=[ToolMatch(tag='danger', read_only=False)], default='deny')"
    )
    assert repr(ToolFilter()) == "ToolFilter(default='allow')"
