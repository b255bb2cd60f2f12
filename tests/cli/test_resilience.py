"""``advisorchain demo --resilience``: what it prints was measured, and its files can be checked."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from advisorchain import AssistantMessage, Message, ToolMessage
from advisorchain.audit import records, verify
from advisorchain.cli.resilience import BUDGET, CONTACT, LOOKUP, Resilience, StageRun
from advisorchain.cli.resilience_texts import RESILIENCE_TEXTS, ResilienceTexts
from advisorchain.cli.resilience_view import ResilienceDemo
from advisorchain.memory import SqliteStore
from advisorchain.models import KeywordModel
from advisorchain.testing import ScriptedModel

from .conftest import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
LANGUAGES: Any = pytest.mark.parametrize("language", ["en", "zh"])
GUIDANCE = {"en": "Do not give up the whole task", "zh": "不要放弃整个任务"}
DEGRADED = {"en": '"Budget service" is temporarily unavailable', "zh": "“预算服务”暂时不可用"}
BREAKER = {
    "en": (
        "closed · 0 of 3 failures",
        "closed · 2 of 3 failures",
        "closed → open · next probe in 60 s",
        "open · next probe in 60 s",
        "open → half open → closed · 0 of 3 failures",
    ),
    "zh": (
        "闭合 · 连续失败 0 次",
        "闭合 · 连续失败 2 次",
        "闭合 → 断开 · 60 秒后探测",
        "断开 · 60 秒后探测",
        "断开 → 半开 → 闭合 · 连续失败 0 次",
    ),
}


async def shown(
    directory: Path, language: Any, width: int = 100, terminal: bool = False, model: Any = None
) -> tuple[list[StageRun], str]:
    out = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "no_color": True}
    console = Console(file=out, width=width, force_terminal=terminal, **options)
    desk = Resilience(directory, language, model, timeout=0.5, pause=0.0)
    runs = await ResilienceDemo(desk, model and "mine", console).show()
    return runs, out.getvalue()


def sections(text: str, texts: ResilienceTexts) -> list[str]:
    """What is printed of each turn."""
    names = [f"\n{number}  {stage.name}\n" for number, stage in enumerate(texts.stages, 1)]
    assert all(text.count(name) == 1 for name in names)
    places = [*(text.index(name) for name in names), text.index(f"\n{texts.memory}")]
    return [text[start:end] for start, end in pairwise(places)]


def check_pairs(messages: tuple[Message, ...]) -> None:
    """Every call has its result, in the next messages, and no result is without a call; every turn ends in text."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call_id == open_calls.pop(0)
        else:
            assert not open_calls
            if isinstance(message, AssistantMessage):
                open_calls = [call.id for call in message.tool_calls]
    assert not open_calls and isinstance(messages[-1], AssistantMessage) and messages[-1].text


def attempts(run: StageRun) -> list[str]:
    """How the attempts of the budget tool ended."""
    return [step.error or "ok" for step in run.timeline.steps if step.name == BUDGET]


@LANGUAGES
async def test_every_stage_is_what_the_chain_did(language: Any, tmp_path: Path) -> None:
    texts = RESILIENCE_TEXTS[language]
    runs, text = await shown(tmp_path, language)
    assert [attempts(run) for run in runs] == [
        ["ok"],
        ["ConnectionRefusedError", "ConnectionRefusedError"],
        ["ToolTimeoutError", "CircuitOpenError"],
        [],
        ["ok"],
    ]
    assert [run.reached for run in runs] == [1, 3, 4, 4, 5]
    assert [run.after.state for run in runs] == ["closed", "closed", "open", "open", "closed"]
    offered = [[step.seen.tools.names for step in run.timeline.steps if step.seen is not None] for run in runs]
    both, one = [LOOKUP, BUDGET], [LOOKUP]
    assert offered == [[both, both], [both, both], [both, one], [one, one], [both, both]]

    for number, (run, part) in enumerate(zip(runs, sections(text, texts), strict=True)):
        assert BREAKER[language][number] in part
        assert texts.reached.format(count=run.reached) in part
        for line in [texts.stages[number].question, *run.response.text.split("\n")]:
            assert line in part
        assert (texts.missing in part) == (number in (1, 2, 3))
        assert (texts.please_ask.format(contact=CONTACT) in part) == (number in (1, 2, 3))
        assert (DEGRADED[language] in part) == (number in (1, 2))
        assert (GUIDANCE[language] in part) == (number in (1, 2))
        assert (texts.notice.format(titles=texts.service) in part) == (number in (2, 3))
        for attempt, ended in enumerate(attempts(run), 1):
            what = re.escape(texts.attempt.format(tool=BUDGET, number=attempt))
            assert re.search(rf"ms  {what} +{'✓' if ended == 'ok' else f'✗ {ended}'}\n", part)
        tools_line = re.search(rf"^   {texts.offered} +(.*)\n(?: +→ (.*)\n)?", part, re.M)
        assert tools_line is not None
        assert tools_line[1] == ", ".join(offered[number][0])
        assert tools_line[2] == (LOOKUP if number == 2 else None)
        last = run.response.request
        assert last is not None and texts.system in last.messages[0].text
        assert (last.messages[0].text == texts.system) == (number in (0, 4)), "nothing is added when all is well"
        assert bool(re.search(rf"^   {texts.added} +{texts.nothing}\n", part, re.M)) == (number in (0, 4))
    assert "budget.internal:8443" in sections(text, texts)[1], "the log has what the model never reads"
    assert all("budget.internal" not in message.text for run in runs for message in run.response.new_messages)


async def test_the_docs_show_what_is_printed(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    excerpt = page.partition("<!-- part of the output -->\n```text\n")[2].partition("```")[0]
    assert "ToolTimeoutError" in excerpt
    _, text = await shown(tmp_path, "en")
    turn = re.sub(r"^ +[0-9.]+ ms", "   ...     ", sections(text, RESILIENCE_TEXTS["en"])[2], flags=re.M)
    pattern = re.escape(excerpt).replace(re.escape("..."), "[^\n]*?")
    assert re.search(pattern, turn), turn


@LANGUAGES
async def test_the_files_are_whole(language: Any, tmp_path: Path) -> None:
    texts = RESILIENCE_TEXTS[language]
    runs, text = await shown(tmp_path, language)
    report = verify(tmp_path / "audit.jsonl")
    assert report.ok and report.first == 1
    found = list(records(tmp_path / "audit.jsonl"))
    assert [record["kind"] for record in found].count("turn") == len(runs)
    budget = [
        (each["outcome"], each.get("error"), each.get("attempts")) for each in found if each.get("tool") == BUDGET
    ]
    assert budget == [
        ("ok", None, None),
        ("degraded", "ConnectionRefusedError", 2),
        ("degraded", "CircuitOpenError", 2),
        ("ok", None, None),
    ]
    end = text[text.index(f"\n{texts.audit_file}\n") :]
    assert texts.intact.format(first=1, last=report.count) in end
    for record in found[1:]:
        row = re.search(rf"^ +{record['seq']}  .*ms +{record.get('attempts', '')} +{record['outcome']}", end, re.M)
        assert row is not None, record
    assert f"--expect {report.head}" in end

    store = SqliteStore(tmp_path / "memory.db")
    history = await store.load("travel-desk")
    store.close()
    assert [turn.messages for turn in history.turns] != [] and len(history.turns) == len(runs)
    for turn, run in zip(history.turns, runs, strict=True):
        check_pairs(turn.messages)
        assert turn.messages[1:] == run.response.new_messages
        assert f"turn {turn.id}" in text


@LANGUAGES
async def test_columns_stand_below_each_other(language: Any, tmp_path: Path) -> None:
    """Also where characters are two columns wide."""
    texts = RESILIENCE_TEXTS[language]
    _, text = await shown(tmp_path, language, 80, terminal=True)
    plain = re.sub("\x1b\\[[0-9;]*m", "", text)
    for part in sections(plain, texts):
        ends = [line for line in part.splitlines() if re.match(" +[0-9.]+ ms ", line)]
        columns = {cell_len(line[: max(line.find("✓"), line.find("✗"))]) for line in ends}
        assert len(ends) >= 3 and len(columns) == 1
        assert {cell_len(line.partition(" ms")[0]) for line in ends} == {7}
    table = plain[plain.index(f"\n{texts.audit_file}\n") :]
    rows = [line for line in table.splitlines() if re.match(" +[0-9]+  .* ms ", line)]
    assert len(rows) == 14
    assert len({cell_len(re.split("ok|degraded", line)[0]) for line in rows}) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@LANGUAGES
async def test_it_fits_any_terminal(width: int, language: Any, tmp_path: Path) -> None:
    _, text = await shown(tmp_path, language, width, terminal=True)
    text = text[: text.index(f"{RESILIENCE_TEXTS[language].look}\x1b")]  # commands are not wrapped
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in text.splitlines()]
    too_long = [line for line in lines if cell_len(line) > width]
    assert all(re.search(r"\S{26}", line) for line in too_long), too_long  # one unbreakable name may be longer
    assert width < 60 or not too_long


async def test_another_demo_in_the_same_place_is_another_conversation(tmp_path: Path) -> None:
    first, _ = await shown(tmp_path, "en")
    second, text = await shown(tmp_path, "zh")
    store = SqliteStore(tmp_path / "memory.db")
    assert set(await store.conversations()) == {"travel-desk", "travel-desk-2"}
    store.close()
    assert "memory show travel-desk-2 " in text
    report = verify(tmp_path / "audit.jsonl")
    assert report.ok and report.count == sum(len(run.records) for run in first + second) + 1


async def test_another_model(tmp_path: Path) -> None:
    """What is shown is what it did: this one asks for less than the script."""
    runs, text = await shown(tmp_path, "en", model=KeywordModel())
    assert "model: mine\n" in text and RESILIENCE_TEXTS["en"].script not in text
    assert attempts(runs[1]) == ["ConnectionRefusedError"] * 2 and "✗ ConnectionRefusedError" in text
    runs, text = await shown(tmp_path, "en", model=ScriptedModel(["Hello."] * 5))
    assert [attempts(run) for run in runs] == [[]] * 5
    assert text.count("closed · 0 of 3 failures") == 5 and "✗" not in text


def test_a_narrow_terminal(advisorchain: Any) -> None:
    done = advisorchain("demo", "--resilience", "--dir", "kept", COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    assert "query_travel_request · attempt 1\n" in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []


def test_the_command(advisorchain: Any, work_dir: Path) -> None:
    done = advisorchain("demo", "--resilience", "--dir", "kept/here", OPENAI_API_KEY="unused: the demo is offline")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    assert {path.name for path in (work_dir / "kept" / "here").glob("*")} >= {"memory.db", "audit.jsonl"}
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("   advisorchain ")]
    assert [command[1:3] for command in commands] == [["memory", "show"], ["audit", "verify"], ["audit", "show"]]
    outputs = [advisorchain(*command[1:]) for command in commands]
    assert [(each.returncode, each.stderr) for each in outputs] == [(0, "")] * 3
    for line in outputs[0].stdout.splitlines():
        assert line in done.stdout, "the conversation is printed as the command prints it"
    assert outputs[1].stdout.startswith("OK: records 1 to 15 (without a key)")
    assert "ConnectionRefusedError" in outputs[2].stdout


def test_the_command_in_a_temporary_directory(advisorchain: Any, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    done = advisorchain("demo", "--resilience", "--lang", "zh", TMPDIR=str(place), NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = place.iterdir()
    assert done.stdout.endswith(f"文件保存在 {made}\n")
    assert verify(made / "audit.jsonl").ok


def test_colours_only_where_they_are_wanted(advisorchain: Any) -> None:
    colour = re.compile("\x1b\\[[0-9;]*3[0-9]m")
    wanted = advisorchain("demo", "--resilience", "--dir", "a", FORCE_COLOR="1", TERM="xterm-256color")
    assert colour.search(wanted.stdout)
    unwanted = advisorchain("demo", "--resilience", "--dir", "a", FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1")
    assert unwanted.returncode == 0 and not colour.search(unwanted.stdout)


def test_verbose_leaves_the_log_alone(advisorchain: Any) -> None:
    done = advisorchain("demo", "--resilience", "--dir", "a", "--verbose")
    assert done.returncode == 0
    assert "WARNING Tool 'analyze_travel_budget' failed (transient)" in done.stderr
    assert "model scripted starts" in done.stderr


def test_wrong_directories(advisorchain: Any, work_dir: Path) -> None:
    done = advisorchain("demo", "--dir", "somewhere")
    assert (done.returncode, done.stderr) == (2, "error: --dir goes with --resilience.\n")
    done = advisorchain("demo", "--resilience", "--dir", "my_tools.py")
    assert done.returncode == 2 and re.fullmatch("error: --dir 'my_tools.py': [^\n]+\n", done.stderr)
    (work_dir / "audit.jsonl").write_text("a shopping list\n", encoding="utf-8")
    done = advisorchain("demo", "--resilience", "--dir", ".")
    assert done.returncode == 1 and re.fullmatch("error: [^\n]+audit[^\n]+\n", done.stderr)
    assert (work_dir / "audit.jsonl").read_text(encoding="utf-8") == "a shopping list\n"


def test_an_audit_that_somebody_changed(advisorchain: Any, work_dir: Path) -> None:
    assert advisorchain("demo", "--resilience", "--dir", ".").returncode == 0
    path = work_dir / "audit.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(lines[5])["outcome"] == "degraded"
    path.write_text("".join([*lines[:5], lines[5].replace("degraded", "accepted"), *lines[6:]]), encoding="utf-8")
    done = advisorchain("demo", "--resilience", "--dir", ".")
    assert "✗ NOT intact: " in done.stdout
    assert done.returncode == 1 and re.fullmatch("error: The audit file is not intact: [^\n]+\n", done.stderr)


def test_ctrl_c(tmp_path: Path) -> None:
    """While the service hangs; the temporary directory that nobody was told of is gone."""
    place = tmp_path / "temporary"
    place.mkdir()
    command = [sys.executable, "-m", "advisorchain.cli", "demo", "--resilience"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(TMPDIR=str(place)), text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "And TR003" in line:
            break
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "error: cancelled\n")
    assert "it recovers" not in out
    assert list(place.iterdir()) == []
