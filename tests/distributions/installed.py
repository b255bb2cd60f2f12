"""A distribution's own tests against its installed wheel, in an environment that knows nothing of the repository."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from distribution import Distribution
from programs import CheckFailed, Environment

CORE_TESTS = [
    "tests/test_exports.py",
    "tests/test_import.py",
    "tests/test_chain.py",
    "tests/test_plugins.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_scaffold.py",
    "tests/config/test_client.py",
    "tests/config/test_file.py",
]
"""The part of the core's tests that a wrong package would fail: names, commands, data files, plugins, files."""

NOT_HERE = [
    "tests/test_plugins.py::test_the_table_is_what_pyproject_registers",
    "tests/test_plugins.py::test_they_work_from_a_zipapp",
    "tests/test_plugins.py::test_what_a_plugin_asks_for_by_name_must_be_allowed_too",
]
"""Tests among these that look into the sources, or need a plugin: advisorchain-vector."""

MARKERS = "not slow and not smollm2 and not phoenix"

# Every module is imported by itself, and none comes from elsewhere. `python - package except…`
IMPORT_ALL = """
import importlib, pkgutil, sys
package, *left_out = sys.argv[1:]
names = [package]
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.prefix), f"{name} is {module.__file__}, not in {sys.prefix}"
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if not found.name.endswith(".__main__") and not any(found.name == each for each in left_out):
            names.append(found.name)
elsewhere = [
    name for name, module in sys.modules.items()
    if name.partition(".")[0].startswith("advisorchain") and not (module.__file__ or "").startswith(sys.prefix)
]
assert not elsewhere, elsewhere
print(len(names))
"""


def copy_tests(sources: Path, scratch: Path) -> Path:
    """The tests without the packages, and the pages that they read; the same settings of pytest."""
    copy = scratch / "tests-alone"
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("tests", "docs"):
        shutil.copytree(sources / name, copy / name, ignore=ignored)
    for plugin in sources.glob("plugins/*/tests"):
        place = copy / plugin.parent.relative_to(sources)
        shutil.copytree(plugin, place / "tests", ignore=ignored)
        shutil.copy(plugin.parent / "README.md", place)
    for name in ("conftest.py", "README.md"):
        shutil.copy(sources / name, copy)
    (copy / "pyproject.toml").write_text(_pytest_settings(sources), encoding="utf-8")
    return copy


def check_installed(distribution: Distribution, core: Distribution, tests: Path, scratch: Path) -> str:
    """Install the wheel into an empty environment, import all of it, and run its tests; returns pytest's summary.

    Raises:
        CheckFailed: a module needs something that is not required, comes from elsewhere, or a test fails.
    """
    environment = Environment(scratch / f"environment-{distribution.name}")
    wheels = list(dict.fromkeys([core.wheel, distribution.wheel]))
    environment.install(*wheels)
    # First with what the distribution itself requires and nothing else: the tests bring more.
    left_out = ["advisorchain.cli"] if distribution.is_core else []
    environment.run("python", "-c", IMPORT_ALL, distribution.package, *left_out, cwd=tests)
    if distribution.is_core:
        _check_without_extra(environment, tests)
    extras = ",".join(core.project["optional-dependencies"])
    environment.install(*wheels[1:], f"{core.wheel}[{extras}]", "--group", f"{core.directory / 'pyproject.toml'}:dev")
    environment.run("python", "-c", IMPORT_ALL, "advisorchain", cwd=tests)

    chosen = CORE_TESTS if distribution.is_core else [f"plugins/{distribution.name}/tests"]
    deselected = [word for test in NOT_HERE for word in ("--deselect", test)] if distribution.is_core else []
    # By a thread: what hangs ends for certain, and its stack is told.
    command = ["-m", "pytest", "-q", "-m", MARKERS, "-p", "no:cacheprovider", "--timeout-method", "thread"]
    command += [*deselected, *chosen]
    output = environment.run("python", *command, cwd=tests)
    last = next(line for line in reversed(output.splitlines()) if " in " in line)
    if not re.search(r"\b[1-9]\d* passed", last):
        raise CheckFailed(f"no test ran: {last}")
    return last


def _check_without_extra(environment: Environment, cwd: Path) -> None:
    """Without the extra ``cli`` the program says what is missing, in one line."""
    try:
        environment.run("advisorchain", "--version", cwd=cwd)
    except CheckFailed as exc:
        if 'code 2\nThe advisorchain command needs rich and typer: pip install "advisorchain[cli]"\n' not in str(exc):
            raise
    else:
        raise CheckFailed("the program works without the extra cli: then the extra has no use")


def _pytest_settings(sources: Path) -> str:
    """The tables of pytest in our pyproject, as they are written."""
    text = (sources / "pyproject.toml").read_text(encoding="utf-8")
    tables = re.findall(r"^(\[tool\.pytest\..*?\n)(?=\[|\Z)", text, re.DOTALL | re.MULTILINE)
    settings = "\n".join(tables)
    whole = tomllib.loads(text)["tool"]["pytest"]
    if tomllib.loads(settings).get("tool", {}).get("pytest") != whole:
        raise CheckFailed("the settings of pytest in pyproject.toml cannot be read as one piece")
    return settings
