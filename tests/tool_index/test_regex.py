"""`RegexIndex`: with google-re2 and without it; no pattern keeps it busy."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisorchain import ToolError
from advisorchain.tool_index import RegexIndex
from advisorchain.tool_index import regex as regex_module

SECONDS = 0.1
"""What one pattern may take over 2,000 tools, in CPU time of its thread."""


@pytest.fixture(params=["re2", "own"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], RegexIndex]:
    if request.param == "own":
        monkeypatch.setattr(regex_module, "_load_re2", lambda: None)
    return RegexIndex


@pytest.fixture
async def index(make: Callable[[], RegexIndex], make_tool: Any) -> RegexIndex:
    index = make()
    await index.add([
        make_tool("get_weather", "Give the weather"),
        make_tool("forecast", "Tell how the weather of tomorrow will be"),
        make_tool("getUserName", "Give the name"),
        make_tool("delete_user", "Delete somebody"),
        make_tool("查询天气", "查询天气"),
    ])  # fmt: skip
    return index


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("weather", ["get_weather", "forecast"]),
        ("WEATHER", ["get_weather", "forecast"]),
        ("(?i)weather", ["get_weather", "forecast"]),
        ("weather|user", ["delete_user", "getUserName", "get_weather", "forecast"]),
        ("(set|delete)_user", ["delete_user"]),
        ("(?:get|delete).*user", ["delete_user", "getUserName"]),
        ("get.*name", ["getUserName"]),
        ("users?", ["delete_user", "getUserName"]),
        ("weath", ["get_weather", "forecast"]),
        (r"\buser\b", ["delete_user", "getUserName"]),
        ("天气", ["查询天气"]),
        ("nothing", []),
        ("", []),
        ("   ", []),
    ],
)
async def test_patterns(index: RegexIndex, pattern: str, names: list[str]) -> None:
    assert sorted(hit.name for hit in await index.search(pattern)) == sorted(names)


async def test_names_and_rare_words_come_first(index: RegexIndex) -> None:
    assert [hit.name for hit in await index.search("weather")] == ["get_weather", "forecast"]
    hits = await index.search("give|tomorrow")
    assert hits[0].name == "forecast"


@pytest.mark.parametrize("pattern", ["(", "a)", "*a", r"\\"[0], "(?=a)", r"(a)\1", "a" * 300, "[a", "(((((((((((((a"])
async def test_what_is_not_understood_is_said(index: RegexIndex, pattern: str) -> None:
    with pytest.raises(ToolError, match="pattern") as caught:
        await index.search(pattern)
    assert "weather|forecast" in str(caught.value) or "Shorten" in str(caught.value)


@pytest.mark.parametrize("pattern", ["[sS]how", "a{2,3}", "ab+", r"\d+a\pL", "(?P<x>a)", "(a*)*b"])
async def test_without_re2_the_small_language_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, make_tool: Any, pattern: str
) -> None:
    monkeypatch.setattr(regex_module, "_load_re2", lambda: None)
    index = RegexIndex()
    await index.add([make_tool("a")])
    with pytest.raises(ToolError, match=r"character .*google-re2"):
        await index.search(pattern)


async def test_too_many_alternatives(monkeypatch: pytest.MonkeyPatch, make_tool: Any) -> None:
    monkeypatch.setattr(regex_module, "_load_re2", lambda: None)
    index = RegexIndex()
    await index.add([make_tool("a")])
    with pytest.raises(ToolError, match="over 64 alternatives"):
        await index.search("(a|b)(c|d)(e|f)(g|h)(i|j)(k|l)(m|n)")
    with pytest.raises(ToolError, match="at most 100"):
        await index.search("".join(chr(0x4E00 + number) for number in range(150)))


def many_tools(make_tool: Any) -> list[Any]:
    random.seed(3)
    words = "get set user weather city order a aa aaa aaaa list of the report send mail 天气 x0 "
    return [
        make_tool(f"tool_{number}_{random.choice(words.split())}", " ".join(random.choices(words.split(), k=90)))
        for number in range(2_000)
    ]


HOSTILE = [
    "(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){20}z", ".*.*.*.*.*.*z", "(x+x+)+y", r"(.|\n){500}z", r"\pL{200}",
    "((a{0,30}){0,30}){0,30}", "[^q]{200}q", "a?" * 60 + "a" * 60, "(?:(?:(?:a*)*)*)*b", r"(\w+\s?)+$#", "e", ".", "a?",
    "(" * 100 + ")" * 100, "|" * 200, "(|a|b)*", r"(?i)(.{0,50}a.{0,50}){3}z", r"(.|\s){90}(.|\s){90}z", r"\w{1000}",
]  # fmt: skip


async def seconds(index: RegexIndex, pattern: str) -> float:
    """CPU time of the match, whatever comes of it."""
    match = index._match_re2 if index._re2 is not None else regex_module._match_words
    start = time.thread_time()
    try:
        match(pattern, index._entries)
    except ToolError as exc:
        assert str(exc)
    return time.thread_time() - start


async def test_hostile_patterns(make: Callable[[], RegexIndex], make_tool: Any) -> None:
    index = make()
    await index.add(many_tools(make_tool))
    for pattern in HOSTILE:
        assert min([await seconds(index, pattern) for _ in range(2)]) < SECONDS, pattern
        try:
            await index.search(pattern)
        except ToolError as exc:
            assert str(exc)


atoms = st.sampled_from(
    [
        "a",
        "b",
        "get",
        "user",
        ".",
        r"\w",
        r"\d",
        r"\s",
        "[a-z]",
        "[^a]",
        "(?i)",
        "天",
        "^",
        "$",
        r"\b",
        " ",
        "_",
        "x0",
        "|",
    ]
)
quantified = st.builds(
    "{}{}".format, atoms, st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2,5}", "{0,50}", "{200}"])
)
patterns = st.recursive(
    st.lists(quantified, min_size=1, max_size=5).map("".join),
    lambda inner: st.builds(
        "({}|{}){}".format, inner, inner, st.sampled_from(["", "*", "+", "?", "{3}", "{0,20}"])
    ),
    max_leaves=6,
) | st.text(max_size=60)  # fmt: skip


def check_any_pattern(make: Callable[[], RegexIndex], make_tool: Any, examples: int, ranked: bool) -> None:
    index = make()
    anyio.run(index.add, many_tools(make_tool))

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(pattern=patterns)
    def check(pattern: str) -> None:
        async def once() -> None:
            if len(pattern) <= regex_module.MAX_PATTERN:
                taken = await seconds(index, pattern)
                if taken >= SECONDS:  # other programs on the machine: look again
                    taken = min([await seconds(index, pattern) for _ in range(3)])
                assert taken < SECONDS, f"{taken:.3f} s"
            if not ranked:
                return
            try:
                assert len(await index.search(pattern, 5)) <= 5
            except ToolError as exc:
                assert str(exc)

        anyio.run(once)

    check()


def test_any_pattern(make: Callable[[], RegexIndex], make_tool: Any) -> None:
    check_any_pattern(make, make_tool, 60, ranked=True)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_ten_thousand_patterns(make: Callable[[], RegexIndex], make_tool: Any) -> None:
    check_any_pattern(make, make_tool, int(os.environ.get("PATTERNS", "10000")), ranked=False)
