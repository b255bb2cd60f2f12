"""``advisorchain plugins``: lists, shows and checks what is installed, broken plugins too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from installed_plugins import install
from typer.testing import CliRunner, Result

from advisorchain import plugins
from advisorchain.cli.app import app

GOOD = '''
from advisorchain import Advisor

print("imported")

class Good(Advisor):
    """Does good. And more.

    Args:
        level: how much, from 0
            to 9.
        nothing: is described.
    """

    order = 300

    def __init__(self, level: int, *, kind: "list[str] | None" = None, key=len, order: int = 300) -> None:
        self.level = level

    async def advise(self, request, call_next):
        return await call_next(request)


class Bad(Good):
    async def advise(self, request, call_next):
        request.options = request.options.replace(seed=1)
        return await call_next(request)


class Shared:
    streams = "hold"
    order = 300
    last = "nothing"

    async def advise(self, request, call_next):
        return await call_next(request)


def raises(text="x"):
    raise RuntimeError("no luck")


def nothing():
    return None


def anything(**options):
    return Shared()
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(plugins.ALLOW_VARIABLE, raising=False)
    points = {"good": "acme_cli:Good", "bad": "acme_cli:Bad", "anything": "acme_cli:anything", "gone": "acme_cli:Gone"}
    points |= {"raises": "acme_cli:raises", "nothing": "acme_cli:nothing"}
    install(directory, "acme", {"advisors": points}, modules={"acme_cli": GOOD}, version="1.2")
    install(
        directory, "broken", {"models": {"broken": "acme_broken:X"}}, modules={"acme_broken": "raise ValueError(1)"}
    )
    install(directory, "odd\x1b[2J", "[advisorchain.tools]\nno good = a:b\n", version="1.0\x1b[m")
    yield directory
    for module in ("acme_cli", "acme_broken"):
        sys.modules.pop(module, None)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plugins", *arguments])


def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    done = run("list", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return {f"{row['group']}/{row['name']}": row for row in json.loads(done.stdout)}


def test_list(site: Path) -> None:
    done = run("list", "--no-load")
    assert done.exit_code == 0 and done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "advisors/good acme 1.2" in lines
    assert "advisors/retry advisorchain 0.1.0" in lines
    odd = lines.index("tools/no good odd[2J 1.0[m")
    assert lines[odd + 1].startswith("problem: the name 'no good' cannot be used: letters, digits")
    assert "acme_cli" not in sys.modules and "acme_broken" not in sys.modules


def test_list_of_a_group_as_json(site: Path) -> None:
    found = rows("--group", "models", "--no-load")
    assert found["models/keyword"]["distribution"] == "advisorchain"
    assert found["models/broken"] == {
        "group": "models",
        "name": "broken",
        "distribution": "broken",
        "version": "1.0",
        "value": "acme_broken:X",
        "problem": None,
    }
    assert not [name for name in found if not name.startswith("models/")]


def test_list_tells_what_cannot_be_imported_or_made(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.ALLOW_VARIABLE, "acme, broken, tools/no good")  # those of this repository take seconds
    found = rows()
    assert found["models/broken"]["problem"] == "cannot import acme_broken:X: ValueError: 1"
    assert "AttributeError" in found["advisors/gone"]["problem"]
    assert "cannot be used" in found["tools/no good"]["problem"]
    assert found["advisors/raises"]["problem"] == "RuntimeError: no luck"
    assert (
        found["advisors/nothing"]["problem"]
        == "it made a NoneType without advise or advise_tool and order, which is no advisor"
    )
    assert found["advisors/good"]["problem"] is None, "it needs an option, so it is only imported"
    assert found["advisors/retry"]["problem"] is None


def test_show(site: Path) -> None:
    done = run("show", "good")
    assert done.exit_code == 0
    assert [line.strip() for line in done.stdout.splitlines()] == [
        "advisors/good: acme_cli:Good, acme 1.2",
        "Does good. And more.",
        "level: int",
        "how much, from 0 to 9.",
        "kind: list[str] | None = None",
        "key: anything = len",
        "order: int = 300",
    ]
    shown = json.loads(run("show", "advisors/good", "--json").stdout)
    assert shown["summary"] == "Does good. And more."
    assert shown["options"][0] == {
        "name": "level",
        "type": "int",
        "required": True,
        "default": None,
        "description": "how much, from 0\nto 9.",
    }
    assert "it takes any options" in run("show", "anything").stdout
    assert "order: int = 850" in run("show", "retry").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "broken"), 1, "Plugin models/broken of broken 1.0: cannot import acme_broken:X: ValueError: 1."),
        (("show", "tools/no good"), 1, "the name 'no good' cannot be used"),
        (("show", "sqlite"), 2, "Several groups have a 'sqlite': write memory_stores/sqlite or audit_sinks/sqlite."),
        (("show", "goood"), 2, "There is no plugin 'goood'; did you mean 'good'?"),
        (("show", "advisor/good"), 1, "There is no group of plugins 'advisor'; did you mean 'advisors'?"),
        (("show", "advisors/good", "--group", "models"), 2, "names the group already"),
        (("show", "good", "--group", "models"), 1, "There is no model 'good'"),
        (("list", "--group", "x"), 1, "There is no group of plugins 'x'"),
        (("check", "good"), 1, "needs the option level"),
        (("check", "good", "-o", "level"), 2, "--option 'level': write key=value"),
        (("check", "good", "-o", "level=1", "-o", "level=2"), 2, "--option level is given twice"),
        (("check", "good", "-o", "levle=1"), 1, "did you mean 'level'?"),
        (("check", "gone"), 1, "cannot import acme_cli:Gone"),
        (("check", "logging"), 2, "give --read module:function"),
    ],
)
def test_what_is_wrong_is_one_line(site: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code, done.output
    errors = [line for line in done.stderr.splitlines() if line != "imported"]
    assert says in errors[0] and errors[0].startswith("error: ")
    assert done.stdout == ""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        (("advisors/good", "-o", "level=3"), 5),
        (("advisors/memory", "-o", "store=in_memory"), 5),
        (("keyword",), 7),
        (("memory_stores/sqlite", "-o", "path=check-{new}.db"), 8),
        (("regex",), 10),
        (("json_lines", "-o", "path=check.jsonl"), 6),
    ],
)
def test_check_of_what_keeps_its_contract(site: Path, arguments: tuple[str, ...], rules: int, backend: str) -> None:
    done = run("check", *arguments, "--backend", backend)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) == rules + 1 and all(line.startswith("ok  ") for line in lines[:-1])
    assert lines[-1].endswith(f"keeps all {rules} rules")


def test_check_of_what_breaks_it_tells_all_rules(site: Path) -> None:
    done = run("check", "bad", "-o", "level=1")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    broken = next(n for n, line in enumerate(lines) if line.startswith("BROKEN"))
    assert "It must change copies (`replace`), never what it was given." in lines[broken]
    assert "Changed in place: ChatRequest.options" in lines[broken + 1]
    assert len([line for line in lines if line.startswith("ok  ")]) == 4
    assert lines[-1] == "advisors/bad of acme 1.2 breaks 1 of 5 rules"


def test_a_store_that_is_not_new_for_every_rule_is_found(site: Path) -> None:
    done = run("check", "memory_stores/sqlite", "-o", "path=one.db")
    assert done.exit_code == 1 and "BROKEN" in done.stdout


def test_check_reads_a_sink_as_it_is_told(site: Path) -> None:
    Path("reads.py").write_text(
        "from advisorchain.audit import records\ndef all(): return list(records('kept.jsonl'))\n"
    )
    done = run("check", "json_lines", "-o", "path=kept.jsonl", "--read", "reads:all")
    assert done.exit_code == 0, done.output


def test_check_of_tools(site: Path) -> None:
    tools = "from advisorchain import tool\n@tool\ndef add(a: int) -> int:\n    'Add.'\n    return a\n"
    tools += "def some(): return [add]\ndef wrong(): return [1]\ndef none(): return []\n"
    install(
        site,
        "tooling",
        {"tools": {"some": "acme_tools:some", "wrong": "acme_tools:wrong", "none": "acme_tools:none"}},
        modules={"acme_tools": tools},
    )
    assert run("check", "some").stdout.splitlines() == [
        "ok      It gives tools that a client takes.",
        "tools/some of tooling 1.0 keeps all 1 rules",
    ]
    assert run("check", "wrong").exit_code == 1
    assert "It gives none." in run("check", "none").stdout
    sys.modules.pop("acme_tools", None)


def test_a_check_that_does_not_end(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import anyio\nclass Waits:\n    name = 'waits'\n"
    source += "    async def __call__(self, request):\n        await anyio.sleep(60)\n"
    install(site, "waits", {"models": {"waits": "acme_waits:Waits"}}, modules={"acme_waits": source})
    monkeypatch.setattr("advisorchain.cli.plugin_check.SECONDS", 0.2)
    done = run("check", "waits")
    assert done.exit_code == 1 and "the check did not end within 0.2 seconds" in done.stderr
    sys.modules.pop("acme_waits", None)


def test_the_allow_list_is_shown(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.ALLOW_VARIABLE, "none")
    assert rows()["advisors/good"]["problem"] == "it is not allowed by ADVISORCHAIN_PLUGINS"
    done = run("show", "good")
    assert done.exit_code == 1 and "it is not allowed by ADVISORCHAIN_PLUGINS" in done.stderr


@pytest.mark.parametrize("command", [(), ("list",), ("show",), ("check",)])
def test_help(command: tuple[str, ...]) -> None:
    assert "Usage" in run(*command, "--help").stdout


Runs = Callable[..., Any]


def test_the_program_lists_plugins(advisorchain: Runs, site: Path) -> None:
    done = advisorchain("plugins", "list", PYTHONPATH=str(site))
    assert done.returncode == 0 and "advisors/good" in done.stdout and "imported" not in done.stdout
    loaded = advisorchain("plugins", "list", "--json", "-g", "advisors", PYTHONPATH=str(site))
    assert "imported" in loaded.stderr and json.loads(loaded.stdout)
