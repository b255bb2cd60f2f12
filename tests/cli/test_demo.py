"""The demo: its counts are those of the runs, in both languages and at any width."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from advisorchain import ModelError, Usage
from advisorchain.cli.choice import ChosenModel
from advisorchain.cli.demo import Demo, milliseconds
from advisorchain.cli.demo_texts import TEXTS, Language
from advisorchain.cli.travel_desk import REQUESTS, TravelDesk, TravelDeskInChinese
from advisorchain.models import KeywordModel
from advisorchain.testing import ScriptedModel

CHINESE = re.compile("[\u4e00-\u9fff]")


def show(width: int = 100, terminal: bool = False) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "no_color": True}
    return Console(file=out, width=width, force_terminal=terminal, **options), out


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_what_is_printed_was_measured(language: Language) -> None:
    console, out = show()
    runs = await Demo(ChosenModel(KeywordModel(), "keyword"), TEXTS[language], console).show()
    direct, summarised, streamed = runs
    assert [run.timeline.count("model") for run in runs] == [1, 2, 2]
    assert [run.timeline.count("tool") for run in runs] == [1, 1, 2]
    assert [run.response.stop_reason for run in runs] == ["return_direct", "final", "final"]
    assert direct.response.text == direct.response.direct_results[0].content
    assert direct.response.text in summarised.response.text
    assert len(direct.response.text) < len(summarised.response.text)

    text = out.getvalue()
    for run in runs:
        for line in run.response.text.split("\n"):
            assert line in text, "every answer is printed"
        assert milliseconds(run.timeline.seconds) in text
        steps = [step for step in run.timeline.steps if step.usage is not None]
        total = sum((step.usage.total_tokens or 0) for step in steps if step.usage)
        assert run.response.usage.total_tokens == total
        assert re.search(rf"^   \d  {run.texts.name} .* {total} ", text, re.M)
        for step in run.timeline.steps:
            assert step.start >= 0 and step.start + step.seconds <= run.timeline.seconds
            assert milliseconds(step.start) in text
    assert streamed.timeline.text_events > 5 and streamed.timeline.first_text is not None
    assert direct.timeline.first_text is None
    assert re.search(r"500  ↻ tool_calling", text) and 'query_travel_request(request_id="TR001")' in text


async def test_the_chinese_demo_is_chinese() -> None:
    console, out = show()
    await Demo(ChosenModel(KeywordModel(), "keyword"), TEXTS["zh"], console).show()
    after_the_chain = out.getvalue().split("1  直接返回")[1]
    technical = re.compile(r"query_travel_request|analyze_travel_budget|request_id|TR\d+|ms|keyword")
    assert not re.search("[A-Za-z]", technical.sub("", after_the_chain))
    for field in TEXTS["zh"].__slots__:
        value = getattr(TEXTS["zh"], field)
        if isinstance(value, str):
            assert CHINESE.search(value), field


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_it_fits_any_terminal(width: int, language: Language) -> None:
    console, out = show(width, terminal=True)
    await Demo(ChosenModel(KeywordModel(), "keyword"), TEXTS[language], console).show()
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in out.getvalue().splitlines()]
    too_long = [line for line in lines if cell_len(line) > width]
    assert all(re.search(r"\S{36}", line) for line in too_long), too_long  # one unbreakable name may be longer


async def test_another_model_makes_other_counts() -> None:
    model = ScriptedModel(["One.", "Two.", "Three."], usage=Usage(7, 2))
    console, out = show()
    runs = await Demo(ChosenModel(model, "mine"), TEXTS["en"], console).show()
    assert [run.timeline.count("model") for run in runs] == [1, 1, 1]
    assert [run.timeline.count("tool") for run in runs] == [0, 0, 0]
    assert "7 + 2" in out.getvalue() and "model: mine\n" in out.getvalue() and "estimates" not in out.getvalue()


async def test_unknown_tokens_stay_unknown() -> None:
    console, out = show()
    await Demo(ChosenModel(ScriptedModel(["a", "b", "c"]), "mine"), TEXTS["en"], console).show()
    assert re.search(r"1  direct +1 +0 +- +[\d.]+ ms", out.getvalue())


async def test_a_model_error_ends_it() -> None:
    console, _ = show()
    with pytest.raises(ModelError, match="down"):
        await Demo(ChosenModel(ScriptedModel([ModelError("down")]), "mine"), TEXTS["en"], console).show()


def test_the_command(advisorchain: Any) -> None:
    done = advisorchain("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    assert re.search(r"1  direct +1 +1 +\d+ +[\d.]+ ms\n +2  summarised +2 +1 +\d+ +[\d.]+ ms\n", done.stdout)
    narrow = advisorchain("demo", COLUMNS="50")
    assert narrow.stdout and [line for line in narrow.stdout.splitlines() if line != line.rstrip()] == []
    chinese = advisorchain("demo", "--lang", "zh", OPENAI_API_KEY="unused: the demo is offline")
    assert (chinese.returncode, chinese.stderr) == (0, "")
    assert re.search(r"1  直接返回 +1 +1 +\d+ +[\d.]+ ms\n +2  模型总结 +2 +1 +\d+ +[\d.]+ ms\n", chinese.stdout)


async def test_the_travel_desk_answers_in_words() -> None:
    english, chinese = TravelDesk(), TravelDeskInChinese()
    assert set(REQUESTS) == {"TR001", "TR002", "TR003"}
    assert await english.query_travel_request("tr001") == "TR001 is approved. Amount: 5000. Department: engineering."
    assert await english.query_travel_request("TR002") == "TR002 is pending. Amount: 3000. Department: sales."
    assert await english.query_travel_request("TR003") == "TR003 is rejected: over budget. Department: marketing."
    assert (await english.query_travel_request("TR9")).startswith("There is no travel request TR9.")
    assert (await english.query_travel_request(" ")).startswith("Which travel request?")
    assert await chinese.query_travel_request("TR001") == "TR001 已批准。金额：5000。部门：工程部。"
    assert "没有找到" in await chinese.query_travel_request("TR9")
    assert "请提供" in await chinese.query_travel_request("")
    total = await english.analyze_travel_budget()
    assert total == "All departments: 5000 approved, 3000 pending, rejected as over budget: TR003."
    assert await english.analyze_travel_budget("sales") == (
        "Sales: 0 approved, 3000 pending, rejected as over budget: none."
    )
    assert await chinese.analyze_travel_budget("市场部") == ("市场部：已批准 0，待审批 0，超出预算被驳回：TR003。")
