"""Every command in a process of its own: what it prints, where, and with which code it leaves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import advisorchain as package
from advisorchain.cli.app import app
from advisorchain.cli.choice import UsageProblem, choose_model
from advisorchain.models import KeywordModel
from advisorchain.plugins import metadata

DESK = "advisorchain.cli.travel_desk:TravelDesk"


def test_version_and_help(advisorchain: Any) -> None:
    done = advisorchain("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"advisorchain {package.__version__}\n", "")
    help_text = advisorchain("--help")
    assert help_text.returncode == 0
    for command in ("demo", "run", "chat", "explain"):
        assert re.search(rf"^  {command} ", help_text.stdout, re.M)
        assert advisorchain(command, "--help").returncode == 0


def test_the_script_is_the_program() -> None:
    (script,) = entry_points(group="console_scripts", name="advisorchain")
    assert script.value == "advisorchain.cli:main"


def test_run_prints_the_answer_and_says_which_model_it_took(advisorchain: Any) -> None:
    done = advisorchain("run", "Status of TR001?", "--tools", DESK)
    assert done.returncode == 0
    assert done.stdout == "TR001 is approved. Amount: 5000. Department: engineering.\n"
    assert done.stderr == "model: keyword (offline and rule-based; OPENAI_API_KEY is not set)\n"
    asked = advisorchain("run", "TR003的状态", "--tools", DESK + "InChinese", "--model", "keyword")
    assert (asked.stdout, asked.stderr) == ("TR003 已驳回：超出预算。部门：市场部。\n", "")


def test_run_takes_tools_of_the_current_directory(advisorchain: Any) -> None:
    done = advisorchain(
        "run", 'echo "hi there"', "--tools", "my_tools:everything", "-t", "my_tools:nested", "-m", "keyword"
    )
    assert (done.returncode, done.stdout) == (0, "According to echo: hi there.\n")
    direct = advisorchain("run", 'echo "hi"', "-t", "my_tools:everything", "-m", "keyword", "--return-direct", "echo")
    assert direct.stdout == "hi\n"


def test_run_reads_the_prompt_from_the_input(advisorchain: Any) -> None:
    done = advisorchain("run", "-", "-t", DESK, "-m", "keyword", input="Status of TR002?\n")
    assert done.stdout == "TR002 is pending. Amount: 3000. Department: sales.\n"


def test_verbose_logs_every_call(advisorchain: Any) -> None:
    done = advisorchain("run", "Status of TR001?", "-t", DESK, "-m", "keyword", "--verbose")
    assert done.stdout == "TR001 is approved. Amount: 5000. Department: engineering.\n"
    assert "model keyword starts" in done.stderr
    assert "tool query_travel_request [direct] starts" in done.stderr
    assert "return_direct, 1 model calls, 1 tool calls" in done.stderr
    assert "TR001" not in done.stderr, "no content unless asked"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--model", "keywrd"], 2, "did you mean 'keyword'?"),
        (["--model", "opnai:gpt-4o"], 2, "did you mean 'openai:gpt-4o'?"),
        (["--model", "gpt-4o"], 2, "did you mean 'openai:gpt-4o'?"),
        (["--model", "openai:"], 2, "name one, for example 'openai:gpt-4o-mini'"),
        (["--model", ""], 2, "There is no model ''"),
        (["--model", "scripted"], 2, "advisorchain.testing.ScriptedModel"),
        (["--tools", "my_tools"], 2, "write module:object"),
        (["--tools", "my_tols:echo"], 1, "cannot import my_tols: ModuleNotFoundError: No module named 'my_tols'"),
        (["--tools", "my_tools:eco"], 1, "my_tools has no 'eco'; did you mean 'echo'?"),
        (["--tools", "fails:x"], 1, "cannot import fails: RuntimeError: first line second line"),
        (["--tools", "leaves:x"], 1, "cannot import leaves: SystemExit: 3"),
        (["--tools", "my_tools:NeedsArguments"], 1, "cannot make a NeedsArguments: TypeError"),
        (["--tools", "my_tools:not_a_tool"], 1, "42 (int) is no tool"),
        (["--tools", "my_tools:echo", "--tools", "my_tools:everything"], 1, "Tools of the same name: 'echo'"),
        (["--tools", "my_tools:echo", "--return-direct", "eco"], 2, "did you mean 'echo'?"),
    ],
)
def test_an_error_is_one_clear_line(advisorchain: Any, arguments: list[str], code: int, says: str) -> None:
    done = advisorchain("run", "hello", *arguments)
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("model: ")]
    assert line.startswith("error: ") and says in line


def test_wrong_usage_leaves_with_2(advisorchain: Any) -> None:
    for arguments in (["run"], ["run", "x", "--nonsense"], ["dmeo"], ["demo", "--lang", "fr"]):
        done = advisorchain(*arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr


def test_a_failing_tool_is_a_line_on_stderr_and_an_answer(advisorchain: Any) -> None:
    done = advisorchain("run", "do something broken", "-t", "my_tools:everything", "-m", "keyword")
    assert done.returncode == 0
    assert done.stderr == "warning: Tool 'broken' failed: ValueError: secret[2J detail\n"
    assert done.stdout.startswith("Broken could not do it:") and "secret" not in done.stdout


def test_hostile_text_is_only_text(advisorchain: Any) -> None:
    done = advisorchain("run", "print something hostile", "-t", "my_tools:hostile", "-m", "keyword")
    assert done.stdout == "According to hostile: [bold red]A[/] [31mB]0;title C D :smile: E\ttab.\n"
    chat = advisorchain("chat", "-t", "my_tools:hostile", "-m", "keyword", input="print something hostile\n")
    assert "[bold red]A[/] [31mB]0;title C D :smile: E\ttab." in chat.stdout
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]", chat.stdout + done.stdout)


def test_explain_prints_the_onion(advisorchain: Any) -> None:
    done = advisorchain("explain", "--tools", DESK, "--tools", "my_tools:echo", "--return-direct", "echo")
    assert done.returncode == 0
    assert re.search(r"500  ↻ tool_calling +loop", done.stdout)
    assert re.search(r"650  │ return_direct +inside", done.stdout)
    assert re.search(r"echo +my_tools\.echo +return direct \(client\)", done.stdout)
    explained = json.loads(advisorchain("explain", "--json", "--tools", DESK).stdout)
    assert [row["name"] for row in explained["rows"]] == ["tool_calling", "return_direct"]
    assert [row["name"] for row in explained["tools"]] == ["query_travel_request", "analyze_travel_budget"]


def test_explain_prints_pictures(advisorchain: Any) -> None:
    drawn = advisorchain("explain", "--tools", DESK, "--format", "svg", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert drawn.returncode == 0 and drawn.stdout.startswith("<svg ") and drawn.stdout.endswith("</svg>\n")
    assert "tool_calling" in drawn.stdout and "query_travel_request &#8617;" in drawn.stdout
    chart = advisorchain("explain", "--tools", DESK, "-f", "mermaid").stdout
    assert chart.startswith("flowchart TB\n") and chart.endswith(" end_\n")
    assert json.loads(advisorchain("explain", "-f", "json").stdout)["model"] == "keyword"
    both = advisorchain("explain", "--json", "--format", "svg")
    assert (both.returncode, both.stderr) == (2, "error: --json and --format svg are two formats: give one of them.\n")


def test_output_that_the_terminal_cannot_show_is_replaced(advisorchain: Any) -> None:
    done = advisorchain("explain", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "? tool_calling" in done.stdout


def test_a_closed_pipe_leaves_no_traceback(work_dir: Path) -> None:
    command = [sys.executable, "-m", "advisorchain.cli", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work_dir) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("missing", [["rich"], ["typer"], ["rich", "typer"]])
def test_without_the_extra_it_says_how_to_install_it(missing: list[str]) -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({missing})); from advisorchain.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    names = " and ".join(missing)
    assert done.stderr == f'The advisorchain command needs {names}: pip install "advisorchain[cli]"\n'


# Which model ----------------------------------------------------------------------------------------------------------


def test_without_a_name_the_key_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_MODEL", raising=False)
    chosen = choose_model(None)
    assert isinstance(chosen.model, KeywordModel) and chosen.why == "offline and rule-based; OPENAI_API_KEY is not set"
    assert choose_model("keyword").why is None

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    pytest.importorskip("advisorchain_openai")
    chosen = choose_model(None)
    assert (chosen.name, chosen.why) == ("openai:gpt-4o-mini", "OPENAI_API_KEY is set")
    assert type(chosen.model).__name__ == "OpenAIModel"
    monkeypatch.setenv("OPENAI_MODEL", "gpt-5")
    assert choose_model(None).name == "openai:gpt-5"
    assert choose_model("openai:o3").why is None


def test_without_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda: [])
    monkeypatch.setattr(metadata, "_known", None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    chosen = choose_model(None)
    assert chosen.name == "keyword" and "pip install advisorchain-openai" in (chosen.why or "")
    with pytest.raises(package.ConfigurationError, match="needs the plugin advisorchain-openai: pip install"):
        choose_model("openai:gpt-4o")
    with pytest.raises(UsageProblem):
        choose_model("openia:gpt-4o")
    done = CliRunner().invoke(app, ["run", "hello", "--model", "openai:gpt-4o"])
    assert done.exit_code == 1 and done.stderr.startswith("error: The model 'openai:gpt-4o' needs the plugin")


def test_a_model_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(KeywordModel):
        async def __call__(self, request: Any) -> Any:
            raise package.ModelError("The provider\x1b[2J is down.\nTry later.", transient=True)

    monkeypatch.setattr("advisorchain.models.keyword.KeywordModel", Failing)
    for command in (["run", "hello"], ["demo"]):
        done = CliRunner().invoke(app, [*command, "--model", "keyword"])
        assert (done.exit_code, done.stderr) == (1, "error: The provider[2J is down. Try later.\n")
    done = CliRunner().invoke(app, ["chat", "--model", "keyword"], input="hello\n\nagain\n/exit\nnever\n")
    assert done.exit_code == 0
    assert done.stderr == "error: The provider[2J is down. Try later.\n" * 2
