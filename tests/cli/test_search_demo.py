"""``advisorchain demo --tools N``: what it prints was measured, in both languages and at any width."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from advisorchain import ToolCall, Usage
from advisorchain.cli.choice import ChosenModel
from advisorchain.cli.crowd import MOST, office_tools
from advisorchain.cli.demo_texts import Language
from advisorchain.cli.search_demo import FEWEST, SearchDemo, SearchRun
from advisorchain.cli.search_texts import SEARCH_TEXTS
from advisorchain.testing import ScriptedModel

from .conftest import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])
DESK = {"query_travel_request", "analyze_travel_budget"}


async def shown(
    language: Language, count: int = 300, width: int = 100, terminal: bool = False, chosen: ChosenModel | None = None
) -> tuple[SearchRun, SearchRun, str]:
    out = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "no_color": True}
    console = Console(file=out, width=width, force_terminal=terminal, **options)
    plain, searched = await SearchDemo(chosen, language, count, console).show()
    return plain, searched, out.getvalue()


@LANGUAGES
@pytest.mark.parametrize("count", [FEWEST, 300])
async def test_the_desk_is_found_and_answers_the_same(language: Language, count: int) -> None:
    plain, searched, text = await shown(language, count)
    assert [len(step.seen.tools) for step in plain.rounds if step.seen] == [count, count]
    sets = [set(step.seen.tools.names) for step in searched.rounds if step.seen]
    assert sets[0] == {"tool_search"}
    assert sets[1] == sets[2] >= DESK
    assert len(sets[1]) <= 9
    assert [step.calls for step in searched.rounds] == [("tool_search",), plain.rounds[0].calls, ()]
    assert set(plain.rounds[0].calls) == DESK
    assert plain.response.text == searched.response.text
    assert "TR002" in plain.response.text and "5000" in plain.response.text
    assert plain.response.usage.input_tokens == plain.tokens
    assert searched.response.usage.input_tokens == searched.tokens
    for run in (plain, searched):
        assert f"{run.tokens:,}" in text
        for step in run.rounds:
            assert step.usage is not None and f"{step.usage.input_tokens:,}" in text
    saved = 100 * (1 - searched.tokens / plain.tokens)
    assert f"{saved:.1f} %" in text
    assert saved > {FEWEST: 5, 300: 95}[count]


@LANGUAGES
async def test_the_table_has_a_row_for_every_model_call(language: Language) -> None:
    plain, searched, text = await shown(language)
    texts = SEARCH_TEXTS[language]
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.split(f"\n{texts.side_by_side}\n")[1].split("\n")[:5]]
    first, second = ([f"{step.usage.input_tokens:,}" for step in run.rounds if step.usage] for run in (plain, searched))
    calls = f"→ {texts.calls.format(count=2)}"
    assert rows == [
        [texts.call, texts.shown, texts.tokens, texts.plain, texts.shown, texts.tokens, texts.searched],
        ["1", "300", first[0], calls, "1", second[0], f"→ {texts.search}"],
        ["2", "300", first[1], f"→ {texts.answer}", "3", second[1], calls],
        ["3", "3", second[2], f"→ {texts.answer}"],
        [texts.total, f"{plain.tokens:,}", f"{searched.tokens:,}"],
    ]


async def test_the_page_shows_what_is_printed() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Hundreds of tools")[2]
    excerpt = section.partition("```text\n")[2].partition("```")[0]
    _, _, text = await shown("en")
    assert excerpt.count("\n") == 7
    assert excerpt in text


@LANGUAGES
@pytest.mark.parametrize("width", [40, 50, 72, 80, 120])
async def test_no_line_is_too_long(language: Language, width: int) -> None:
    _, _, text = await shown(language, width=width, terminal=True)
    longest = max(re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n"), key=cell_len)
    assert cell_len(longest) <= width, longest


async def test_another_model_and_what_it_reports() -> None:
    usages = iter([1000, 1000, 1000, 1000])

    def step(request: Any) -> Any:
        from advisorchain import AssistantMessage, ChatResponse

        return ChatResponse(AssistantMessage(content="I do not know."), usage=Usage(next(usages), 1))

    plain, searched, text = await shown("en", chosen=ChosenModel(ScriptedModel([step, step]), "mine"))
    assert (plain.tokens, searched.tokens) == (1000, 1000)
    assert "Tool search has saved no input tokens here: 0.0 %." in text
    assert "model: mine" in text and "characters / 4" not in text and "stand-in" not in text


async def test_a_model_that_reports_nothing() -> None:
    model = ScriptedModel(["A", [ToolCall("query_travel_request", {"request_id": "TR002"})]])
    plain, _, text = await shown("en", chosen=ChosenModel(model, "mine"))
    assert plain.tokens == 0
    assert "0.0 %" in text


@LANGUAGES
def test_the_crowd_is_always_the_same_and_all_are_different(language: Language) -> None:
    tools = office_tools(MOST, language)
    assert len({tool.name for tool in tools}) == len({tool.description for tool in tools}) == MOST
    assert [tool.name for tool in tools] == [tool.name for tool in office_tools(MOST, language)]
    assert not any("travel" in tool.name or "budget" in tool.name for tool in tools)
    if language == "zh":
        assert all(re.search("[\u4e00-\u9fff]", tool.description) for tool in tools)


async def test_a_tool_of_the_crowd_works() -> None:
    (tool,) = office_tools(1, "en")
    assert tool.validate({"number": "7"}) == {"number": "7"}


def advisorchain(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisorchain.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment(), timeout=60)


def test_the_command() -> None:
    done = advisorchain("demo", "--tools", "40")
    assert done.returncode == 0, done.stderr
    assert "the travel desk hidden among 40 tools" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tools", "9"), "--tools takes a number from 10 to 2000, not 9."),
        (("--tools", "2001"), "--tools takes a number from 10 to 2000, not 2001."),
        (("--tools", "300", "--resilience"), "--resilience and --tools are demos of their own: give one of them."),
        (("--tools", "300", "--dir", "x"), "--dir goes with --resilience."),
    ],
)
def test_what_the_command_refuses(arguments: tuple[str, ...], text: str) -> None:
    done = advisorchain("demo", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
