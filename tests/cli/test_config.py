"""``--config`` and ``advisorchain config`` in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

FILE = """
model = "keyword"
tools = ["my_tools:echo", "advisorchain.cli.travel_desk:TravelDesk"]

[memory]
use = "sqlite"
path = "memory.db"
inside = true

[[advisors]]
use = "retry"

[mcp.off]
command = "x"
enabled = false

[chains.short]
model = "keyword"
tool_loop = false
"""


@pytest.fixture
def file(work_dir: Path) -> Path:
    (work_dir / "advisorchain.toml").write_text(FILE)
    return work_dir / "advisorchain.toml"


def test_run_with_a_file(file: Path, advisorchain: Any) -> None:
    done = advisorchain("run", "--config", "advisorchain.toml", "--conversation", "c1", "Status of TR001?")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "TR001 is approved. Amount: 5000. Department: engineering.\n"
    shown = advisorchain("memory", "list", "--store", "sqlite:///memory.db")
    assert shown.stdout == "c1\n"
    other = advisorchain("run", "-c", "advisorchain.toml", "--chain", "short", "Status of TR001?")
    assert other.returncode == 0 and "TR001 is" not in other.stdout


def test_chat_with_a_file_remembers_by_its_memory(file: Path, advisorchain: Any) -> None:
    done = advisorchain("chat", "-c", "advisorchain.toml", "--conversation", "c2", input='echo "one"\necho "two"\n')
    assert done.returncode == 0 and "one" in done.stdout and "two" in done.stdout
    shown = advisorchain("memory", "show", "c2", "--store", "sqlite:///memory.db")
    assert shown.stdout.count("user: ") == 2
    plain = advisorchain("chat", "-c", "advisorchain.toml", "--chain", "short", input="hello\n")
    assert plain.returncode == 0 and plain.stderr == ""


def test_explain_with_a_file(file: Path, advisorchain: Any) -> None:
    done = advisorchain("explain", "-c", "advisorchain.toml")
    assert done.returncode == 0
    assert "550  │ memory" in done.stdout and "850  │ retry" in done.stdout and "  echo" in done.stdout
    as_json = advisorchain("explain", "-c", "advisorchain.toml", "--chain", "short", "--json")
    assert json.loads(as_json.stdout)["rows"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "-c", "a.toml", "-m", "keyword", "x"], "--model and --config cannot go together"),
        (["run", "-c", "a.toml", "-t", "a:b", "x"], "--tools and --config cannot go together"),
        (["run", "-c", "a.toml", "-s", "x", "x"], "--system and --config cannot go together"),
        (["chat", "-c", "a.toml", "--return-direct", "x"], "--return-direct and --config cannot go together"),
        (["explain", "-c", "a.toml", "-m", "keyword"], "--model and --config cannot go together"),
        (["run", "--chain", "x", "x"], "--chain names a chain of a file: give --config FILE too."),
        (["run", "--conversation", "x", "x"], "--conversation is for the memory of a file's chain"),
    ],
)
def test_options_that_contradict_each_other(arguments: list[str], told: str, advisorchain: Any) -> None:
    done = advisorchain(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and told in done.stderr and done.stderr.count("\n") == 1


def test_a_wrong_file_is_one_line(file: Path, advisorchain: Any) -> None:
    file.write_text(FILE + "modell = 1\nmodelll = 2\n")
    done = advisorchain("run", "-c", "advisorchain.toml", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1 and "chains.short.modell: unknown key; did you mean 'model'?" in done.stderr
    missing = advisorchain("run", "-c", "none.toml", "x")
    assert missing.returncode == 1 and "cannot be read: No such file or directory" in missing.stderr
    chain = advisorchain("run", "-c", "none.toml", "--chain", "y", "x")
    assert chain.returncode == 1


def test_check(file: Path, advisorchain: Any) -> None:
    done = advisorchain("config", "check", "advisorchain.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "ok: the top level: model keyword, 4 advisors, 3 tools\nok: chain short: model keyword, 0 advisors, 0 tools\n"
    )
    assert not (file.parent / "memory.db").exists()  # nothing was opened
    file.write_text(FILE + '[[chains.short.advisors]]\nuse = "retri"\n[[chains.short.advisors]]\nuse = "retr"\n')
    wrong = advisorchain("config", "check", "advisorchain.toml")
    assert wrong.returncode == 1 and wrong.stdout.startswith("ok: the top level")
    assert wrong.stderr.splitlines() == [
        "error: 2 problems in advisorchain.toml:",
        "  advisorchain.toml:21: chains.short.advisors[0].use: There is no advisor 'retri'; did you mean 'retry'?",
        "  advisorchain.toml:23: chains.short.advisors[1].use: There is no advisor 'retr'; did you mean 'retry'?",
    ]
    file.write_text("x = 1\ny = 2")
    assert advisorchain("config", "check", "advisorchain.toml").stderr.count("\n") == 3


def test_what_is_printed_while_a_file_is_loaded_is_no_part_of_the_output(file: Path, advisorchain: Any) -> None:
    (file.parent / "noisy.py").write_text("print('noise')\ndef tool() -> str:\n    'Does.'\n    return 'x'\n")
    file.write_text('model = "keyword"\ntools = ["noisy:tool"]\n')
    for command in (
        ("run", "--config", file.name, "Hi"),
        ("config", "check", file.name),
        ("config", "show", file.name),
    ):
        done = advisorchain(*command)
        assert done.returncode == 0, done.stderr
        assert "noise\n" in done.stderr and "noise\n" not in done.stdout and done.stdout


def test_show_masks_secrets(file: Path, advisorchain: Any) -> None:
    text = FILE.replace(
        "[mcp.off]",
        '[mcp.web]\nurl = "https://me:hunter2@example.org/mcp?key=hunter2"\n'
        'headers = {X-Code = "hunter2", Y = "${FROM_ENV}"}\n[mcp.off]\nargs = ["--password", "hunter2"]',
    )
    audit = '[chains.short.audit]\nuse = "json_lines"\npath = "a.jsonl"\nkey = "AUDIT_KEY"\n'
    login = 'connection = "db://me:hunter2@example.org"'
    text = text.replace("[mcp.web]", f'[[advisors]]\nuse = "acme"\nenabled = false\n{login}\n[mcp.web]')
    file.write_text(text + audit)
    done = advisorchain("config", "show", "advisorchain.toml", FROM_ENV="from-env-9", AUDIT_KEY="0123456789abcdef" * 2)
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout and "from-env-9" not in done.stdout
    assert ".connection = ***" in done.stdout
    assert 'mcp.web.headers.Y = "${FROM_ENV}"' in done.stdout and "mcp.web.headers.X-Code = ***" in done.stdout
    assert "MCP server web: http, https://example.org/mcp" in done.stdout
    assert "chain short" in done.stdout and "audit.key = ***" in done.stdout and "  550  │ memory" in done.stdout
    key = {"AUDIT_KEY": "0123456789abcdef" * 2}
    one = advisorchain("config", "show", "advisorchain.toml", "--chain", "short", **key)
    assert one.returncode == 0 and "the top level" not in one.stdout
    none = advisorchain("config", "show", "advisorchain.toml", "--chain", "shrt")
    assert none.returncode == 1 and "did you mean 'short'?" in none.stderr


def test_schema(advisorchain: Any) -> None:
    done = advisorchain("config", "schema")
    assert done.returncode == 0
    Draft202012Validator.check_schema(json.loads(done.stdout))
