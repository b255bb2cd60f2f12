"""``advisorchain plugin new``: what it writes is a distribution that works at once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from advisorchain import __version__
from advisorchain.cli.app import app
from advisorchain.cli.choice import UsageProblem
from advisorchain.cli.scaffold import Kind, write_plugin

GROUPS = {
    "advisor": "advisors", "loop": "advisors", "model": "models", "store": "memory_stores", "index": "tool_indexes",
    "sink": "audit_sinks", "tools": "tools",
}  # fmt: skip
OPTIONS = {
    "model": {}, "advisor": {"text": "Rhyme."}, "loop": {"max_rounds": 3}, "store": {"directory": "there"},
    "index": {"name_weight": 2}, "sink": {"path": "audit.jsonl"}, "tools": {"digits": 1},
}  # fmt: skip


def program(*arguments: str, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    kept = {**os.environ, "PYTHONUTF8": "1", **({"PYTHONPATH": str(site)} if site else {})}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=kept, capture_output=True, text=True, encoding="utf-8", timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
def test_what_is_written_works_at_once(tmp_path: Path, kind: Kind) -> None:
    """Built, installed, its tests run, listed, loaded by name, and used from a file: as a user would."""
    project = write_plugin(f"acme-my-{kind.value}", kind, tmp_path / "projects")
    name = f"{GROUPS[kind.value]}/acme_my_{kind.value}"

    program("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheels"), cwd=project)
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        assert not [member for member in archive.namelist() if member.startswith("tests")]
        archive.extractall(site)  # all that installing a pure wheel is

    ran = program("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, site=site)
    assert re.search(r"[2-9] passed", ran.stdout)

    listed = json.loads(program("-m", "advisorchain.cli", "plugins", "list", "--json", cwd=tmp_path, site=site).stdout)
    (row,) = [row for row in listed if row["distribution"] == f"acme-my-{kind.value}"]
    assert (f"{row['group']}/{row['name']}", row["version"], row["problem"]) == (name, "0.1.0", None)

    readme = (project / "README.md").read_text(encoding="utf-8")
    (code,), (file,) = (re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL) for language in ("python", "toml"))
    (tmp_path / "chain.toml").write_text(file, encoding="utf-8")
    use = f"""{code}
from advisorchain import plugins
print(plugins.load(*{name.split("/")}, **{OPTIONS[kind.value]}))
client = ChatClient.from_config("chain.toml")
print(client.explain(), client.call_sync("Hi", conversation_id="c").text)
"""
    explained = program("-c", use, cwd=tmp_path, site=site)
    if kind in (Kind.advisor, Kind.loop):
        assert re.search(r"^ *\d+ .* acme_my", explained.stdout, re.MULTILINE)

    (checks,) = re.findall(r"^\$ advisorchain (plugins check .*)$", readme, re.MULTILINE)
    arguments = [argument.strip("'") for argument in checks.split()]
    assert "keeps all" in program("-m", "advisorchain.cli", *arguments, cwd=tmp_path, site=site).stdout


@pytest.mark.parametrize("kind", Kind)
def test_what_is_written(tmp_path: Path, kind: Kind) -> None:
    project = write_plugin("advisorchain-Fine.thing", kind, tmp_path)
    files = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    module = "functions" if kind is Kind.tools else kind.value
    package = "advisorchain_fine_thing"
    assert files == sorted([
        ".gitignore", "README.md", "pyproject.toml", f"{package}/__init__.py", f"{package}/{module}.py",
        f"{package}/py.typed", f"tests/test_{module}.py",
    ])  # fmt: skip
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((group, names),) = metadata["entry-points"].items()
    assert group == f"advisorchain.{GROUPS[kind.value]}" and list(names) == ["fine_thing"]
    assert metadata["name"] == "advisorchain-Fine.thing"
    minor = ".".join(__version__.split(".")[:2])
    assert metadata["dependencies"][0].startswith(f"advisorchain>={minor},<0.")
    for path in project.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "$" not in source
        compile(source, str(path), "exec")
        assert max(map(len, source.splitlines())) <= 120
    assert [path.name for path in tmp_path.iterdir()] == ["advisorchain-Fine.thing"]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("", Kind.advisor, "'' is no name of a distribution"),
        ("-acme", Kind.advisor, "is no name of a distribution"),
        ("acme/../up", Kind.advisor, "is no name of a distribution"),
        ("acme greeter", Kind.advisor, "is no name of a distribution"),
        ("grüße", Kind.advisor, "is no name of a distribution"),
        ("acme\n", Kind.advisor, "is no name of a distribution"),
        ("x" * 65, Kind.advisor, "is no name of a distribution"),
        ("7up", Kind.advisor, "'7up' cannot be the name of a Python package"),
        ("class", Kind.advisor, "cannot be the name of a Python package"),
        ("advisorchain-import", Kind.advisor, "'import' cannot be the name of a plugin"),
        ("advisorchain-9", Kind.advisor, "'9' cannot be the name of a plugin"),
        ("json", Kind.advisor, "'json' would hide the module 'json'"),
        ("advisorchain", Kind.advisor, "would hide the module 'advisorchain'"),
        ("Rich", Kind.tools, "'Rich' would hide the module 'rich'"),
        ("advisorchain_OpenAI", Kind.model, "advisorchain has a plugin advisorchain-openai itself"),
        ("tests", Kind.tools, "would hide the module 'tests'"),
        ("advisorchain-retry", Kind.advisor, "advisorchain has a plugin advisors/retry itself"),
        ("advisorchain-sqlite", Kind.store, "advisorchain has a plugin memory_stores/sqlite itself"),
    ],
)
def test_names_that_will_not_do(tmp_path: Path, name: str, kind: Kind, says: str) -> None:
    with pytest.raises(UsageProblem, match=re.escape(says)):
        write_plugin(name, kind, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "kind", "thing"),
    [
        ("advisorchain-retry", Kind.sink, "RetrySink"),
        ("rate-advisor", Kind.advisor, "RateAdvisor"),
        ("advisorchain-model", Kind.model, "Model"),
        ("tools", Kind.tools, "tools"),
        ("acme_tools", Kind.tools, "acme_tools"),
        ("acme", Kind.tools, "acme_tools"),
        ("a--b__c", Kind.index, "ABCIndex"),
    ],
)
def test_the_name_of_what_is_in_it(tmp_path: Path, name: str, kind: Kind, thing: str) -> None:
    project = write_plugin(name, kind, tmp_path)
    (package,) = [path.parent for path in project.rglob("__init__.py")]
    assert f'__all__ = ["{thing}"]' in (package / "__init__.py").read_text(encoding="utf-8")
    assert not (package / f"{thing}.py").exists(), "the package offers the thing by that name"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["plugin", "new", *arguments])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("acme-greeter", "--kind", "advisor")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "wrote acme-greeter",
        "next: cd acme-greeter && pip install -U pip && pip install --editable . --group dev && pytest",
    ]
    again = run("acme-greeter", "--kind", "model")
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr == "error: acme-greeter is there already: choose another name, or another --dir.\n"
    assert run("acme-other", "-k", "tools", "--dir", "deep/er").exit_code == 0
    assert (tmp_path / "deep/er/acme-other/README.md").is_file()
    assert run("acme-x", "--kind", "nonsense").exit_code == 2
    assert run("acme-x").exit_code == 2
    assert run("acme x", "--kind", "advisor").exit_code == 2
    (tmp_path / "file").write_text("")
    blocked = run("acme-x", "--kind", "advisor", "--dir", "file")
    assert blocked.exit_code == 2 and "cannot be written" in blocked.stderr


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Path, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(UsageProblem, match="cannot be written: No space left on device"):
        write_plugin("acme-x", Kind.advisor, tmp_path)
    assert list(tmp_path.iterdir()) == []
