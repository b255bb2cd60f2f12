"""Public names of MCP tools: valid, unique, stable, and nothing that a hostile server could steer."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisorchain import ConfigurationError
from advisorchain.mcp.listed_tool import ListedTool
from advisorchain.mcp.naming import public_names

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def listed(*places: str, trusted: bool = False) -> list[ListedTool]:
    """``"server/tool"`` as tools."""
    return [
        ListedTool(server=server, name=name, trusted=trusted)
        for server, _, name in (place.partition("/") for place in places)
    ]


def named(tools: list[ListedTool], **settings: Any) -> dict[str, str]:
    return {f"{server}/{name}": public for (server, name), public in public_names(tools, **settings).items()}


def test_without_a_collision_a_tool_keeps_its_name() -> None:
    assert named(listed("files/read-file", "web/search")) == {"files/read-file": "read-file", "web/search": "search"}


def test_equals_are_both_prefixed_whoever_comes_first() -> None:
    tools = listed("a/search", "b/search", "b/other")
    expected = {"a/search": "a_search", "b/search": "b_search", "b/other": "other"}
    assert named(tools) == expected
    assert named(tools[::-1]) == expected


def test_local_names_never_change() -> None:
    assert named(listed("a/add", trusted=True), taken={"add"}) == {"a/add": "a_add"}
    hashed = named(listed("a/add"), taken={"add", "a_add"})["a/add"]
    assert re.fullmatch(r"a_add_[0-9a-f]{8}", hashed)
    assert re.fullmatch(r"a_add_[0-9a-f]{16}", named(listed("a/add"), taken={"add", "a_add", hashed})["a/add"])


def test_a_trusted_server_keeps_its_names_against_the_others() -> None:
    ours = listed("github/search", "github/push", trusted=True)
    theirs = listed("aaa/search", "aaa/github_push", "aaa/x")
    assert named(theirs + ours) == {
        "github/search": "search",
        "github/push": "push",
        "aaa/search": "aaa_search",
        "aaa/github_push": "aaa_github_push",
        "aaa/x": "x",
    }


def test_trusted_equals_are_both_prefixed() -> None:
    assert named(listed("a/search", "b/search", trusted=True)) == {"a/search": "a_search", "b/search": "b_search"}


@pytest.mark.parametrize("posing", ["github_search", "GitHub_search", "github_"])
def test_a_tool_cannot_pass_for_one_of_another_server(posing: str) -> None:
    """Also while that server is down, as long as it is said to exist."""
    assert named(listed(f"evil/{posing}"), servers=["github", "evil"]) == {f"evil/{posing}": f"evil_{posing}"}
    assert named(listed("github/github_search"), servers=["github"]) == {"github/github_search": "github_search"}


def test_a_hostile_server_cannot_take_the_prefixed_name_of_another() -> None:
    tools = listed("a/search", "b/search")
    assert named(tools + listed("evil/a_search")) == {**named(tools), "evil/a_search": "evil_a_search"}


def test_characters_that_providers_refuse() -> None:
    assert named(listed("s/a/b c:é", "s/x.y")) == {"s/a/b c:é": "a_b_c__", "s/x.y": "x_y"}


def test_names_that_differ_only_in_such_characters() -> None:
    names = named(listed("s/a.b", "s/a_b", "s/a b"))
    assert len(set(names.values())) == 3
    assert all(re.fullmatch(r"s_a_b_[0-9a-f]{8}", name) for name in names.values())


@pytest.mark.parametrize("name", ["", "查询", "...", "\ud800", "é"])
def test_names_without_anything_readable(name: str) -> None:
    """They would all be underscores: a hash keeps them apart and stable."""
    alone = named(listed(f"s/{name}"))[f"s/{name}"]
    assert re.fullmatch(r"s_tool_[0-9a-f]{8}", alone)
    assert named(listed(f"s/{name}", "s/更新"))[f"s/{name}"] == alone


def test_long_names_end_in_a_hash() -> None:
    names = named(listed("s/" + "q" * 80, "s/" + "q" * 81, "s/" + "r" * 64))
    assert names["s/" + "r" * 64] == "r" * 64
    assert all(len(name) == 64 for name in names.values())
    assert len(set(names.values())) == 3


def test_server_names_that_run_into_tool_names() -> None:
    names = named(listed("a/b_c", "a_b/c", "x/b_c", "x/c"))
    assert len(set(names.values())) == 4
    assert names == named(listed("x/c", "x/b_c", "a_b/c", "a/b_c"))


def test_two_servers_whose_names_come_out_the_same() -> None:
    tools = listed("a.b/get", "a b/get", "a.b/a_b_x", "a b/y")
    names = named(tools)
    assert len(set(names.values())) == 4
    assert names == named(tools[::-1])


def test_always() -> None:
    names = named(listed("a/x", "b/y", "b/ü") + listed("t/x", trusted=True), prefix="always", taken={"b_y"})
    assert names["a/x"] == "a_x"
    assert names["t/x"] == "t_x"
    assert re.fullmatch(r"b_y_[0-9a-f]{8}", names["b/y"])
    assert re.fullmatch(r"b_tool_[0-9a-f]{8}", names["b/ü"])


def test_no_prefix_lists_all_clashes() -> None:
    with pytest.raises(ConfigurationError) as caught:
        public_names(listed("a/x", "b/x", "b/y", "c/z", "c/free"), taken=["y", "q"], prefix=None)
    text = str(caught.value)
    assert "'x' (a/x, b/x); 'y' (a local tool, b/y)." in text
    assert "prefix='auto'" in text
    assert "free" not in text
    assert named(listed("a/x.1", "a/" + "y" * 70), prefix=None)["a/x.1"] == "x_1"


def test_a_function_decides() -> None:
    def short(tool: ListedTool) -> str:
        return f"{tool.server[:1]}-{tool.name}"

    assert named(listed("alpha/x", "beta/x"), prefix=short) == {"alpha/x": "a-x", "beta/x": "b-x"}
    with pytest.raises(ConfigurationError, match=r"'a-x' \(alpha/x, axis/x\)"):
        public_names(listed("alpha/x", "axis/x"), prefix=short)
    with pytest.raises(ConfigurationError, match=r"a local tool, alpha/x"):
        public_names(listed("alpha/x"), prefix=short, taken={"a-x"})


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 65, None, 7, "a\n"])
def test_a_function_that_gives_no_name(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"alpha/x: "):
        public_names(listed("alpha/x"), prefix=lambda _: wrong)


def test_an_unknown_prefix() -> None:
    wrong: Any = "never"
    with pytest.raises(ConfigurationError, match="'auto', 'always', None or a function, not 'never'"):
        public_names(listed("a/x"), prefix=wrong)


# Few letters, so that names collide often.
words = st.text("ab_.é", max_size=4) | st.sampled_from(["search", "a_search", "b_search", "q" * 70, "q" * 71])
places = st.tuples(st.sampled_from(["a", "b", "a_b", "a.b", "é", "q" * 60]), words)


def tools_of(keys: list[tuple[str, str]], trusted: set[str]) -> list[ListedTool]:
    return [ListedTool(server=server, name=name, trusted=server in trusted) for server, name in keys]


@given(
    keys=st.lists(places, max_size=12, unique=True),
    trusted=st.sets(st.sampled_from(["a", "b", "a_b"])),
    taken=st.sets(words, max_size=5),
    prefix=st.sampled_from(["auto", "always"]),
    seed=st.integers(0, 1000),
)
def test_valid_unique_and_stable(
    keys: list[tuple[str, str]], trusted: set[str], taken: set[str], prefix: Any, seed: int
) -> None:
    tools = tools_of(keys, trusted)
    names = public_names(tools, taken=taken, prefix=prefix)
    assert set(names) == set(keys)
    assert len(set(names.values())) == len(names)
    assert not taken & set(names.values())
    assert all(VALID.fullmatch(name) for name in names.values())
    random.Random(seed).shuffle(tools)
    assert public_names(tools, taken=frozenset(taken), prefix=prefix) == names


@given(
    keys=st.lists(places, max_size=8, unique=True),
    trusted=st.sets(st.sampled_from(["a", "b", "a_b"])),
    hostile=st.lists(words | st.sampled_from(["a_a", "b_search", "a_b_search"]), max_size=8, unique=True),
    server=st.sampled_from(["evil", "a_", "0"]),
    prefix=st.sampled_from(["auto", "always"]),
)
def test_an_untrusted_server_never_changes_names_of_trusted_ones(
    keys: list[tuple[str, str]], trusted: set[str], hostile: list[str], server: str, prefix: Any
) -> None:
    ours = tools_of(keys, trusted)
    theirs = [ListedTool(server=server, name=name) for name in hostile]
    before, after = public_names(ours, prefix=prefix), public_names(theirs + ours, prefix=prefix)
    for tool in ours:
        key = (tool.server, tool.name)
        if tool.trusted:
            assert after[key] == before[key]
    public = {after[tool.server, tool.name] for tool in theirs}
    assert not public & {before[tool.server, tool.name] for tool in ours if tool.trusted}


def test_a_hostile_tool_that_knows_the_hash() -> None:
    """A name that ends in a hash is guessable, and a hostile server can list it: the tools stay apart."""
    tools = listed("a/x.y", "a/x_y")
    hashed = public_names(tools)["a", "x.y"]
    both = public_names(tools + listed(f"evil/{hashed}"))
    assert both["evil", hashed] == f"evil_{hashed}"
    assert both["a", "x.y"] == hashed
