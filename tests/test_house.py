"""Rules of the house that no linter knows: names, docstrings, and what must not be committed."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Split, so that this file does not contain what it forbids.
REGISTRY_HOSTS = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "registry.npm" + "js.org",
    "registry.yarn" + "pkg.com",
    "deb.deb" + "ian.org",
    "proxy.gol" + "ang.org",
]
MACHINE_PATH = re.compile(r"(?<![\w.}/-])/(?:" + "|".join(["root", "work", "home", "Users"]) + ")/")

LOCK_FILES = {"uv.lock", "package-lock.json"}

# A name says what a thing is; these say only that somebody did not know.
EMPTY_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "impl"}


@cache
def files() -> tuple[Path, ...]:
    """What is in the repository, or would be with the next commit."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def lines() -> Iterator[tuple[str, str]]:
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path.relative_to(ROOT).as_posix()}:{number}", line


def sources(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if ".venv" not in path.parts]


def words(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def is_empty_name(name: str) -> bool:
    parts = words(name)
    return bool(EMPTY_WORDS & set(parts)) or parts[:1] == ["base"]


def test_no_lock_files() -> None:
    assert not [path.name for path in files() if path.name in LOCK_FILES]


def test_no_registry_hosts() -> None:
    wrong = [f"{place}: {host}" for place, line in lines() for host in REGISTRY_HOSTS if host in line.lower()]
    assert not wrong, "\n".join(wrong)


def test_no_paths_of_a_machine() -> None:
    wrong = [f"{place}: {line.strip()[:120]}" for place, line in lines() if MACHINE_PATH.search(line)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "empty"),
    [
        ("ToolManager", True),
        ("BaseAdvisor", True),
        ("HTTPHelper", True),
        ("ChatModelImpl", True),
        ("string_utils", True),
        ("base", True),
        ("BaselineIndex", False),
        ("KnowledgeBase", False),
        ("ImplicitCall", False),
        ("managed", False),
    ],
)
def test_the_name_rule(name: str, empty: bool) -> None:
    assert is_empty_name(name) is empty


def test_names_say_something() -> None:
    wrong = []
    for path in sources("advisorchain/**/*.py", "plugins/**/*.py"):
        where = path.relative_to(ROOT).as_posix()
        wrong += [f"{where}: module name" for part in {path.stem, path.parent.name} if is_empty_name(part)]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        wrong += [f"{where}:{node.lineno}: class {node.name}" for node in classes if is_empty_name(node.name)]
    assert not wrong, "\n".join(wrong)


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any("overload" in (getattr(d, "id", None), getattr(d, "attr", None)) for d in node.decorator_list)


def public(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from public([*node.body, *node.orelse])


def test_public_names_are_documented() -> None:
    """Functions and classes of modules; ruff (D1) looks at methods and at the modules themselves."""
    wrong = []
    for path in sources("advisorchain/**/*.py"):
        if any(part.startswith("_") and part != "__init__" for part in path.relative_to(ROOT).with_suffix("").parts):
            continue
        for node in public(ast.parse(path.read_text(encoding="utf-8")).body):
            if not is_overload(node) and not (ast.get_docstring(node) or "").strip():
                wrong.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {node.name} has no docstring")
    assert not wrong, "\n".join(wrong)


CLOCKS = {"monotonic", "perf_counter", "current_time", "time"}
LIMITED = {"fail_after", "within"}


def number(node: ast.expr) -> float | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def tight_limit(node: ast.AST) -> float | None:
    """The seconds of wall time within which this wants something done, if they are few.

    Less than a second is no such limit: it is there to be reached.
    """
    seconds = None
    match node:
        case ast.Compare(ast.BinOp(ast.Call(func=ast.Attribute(attr=clock)), ast.Sub()), [ast.Lt()], [limit]):
            seconds = number(limit) if clock in CLOCKS else None
        case ast.Call(ast.Attribute(attr=name) | ast.Name(id=name), [limit]) if name in LIMITED:
            seconds = number(limit)
            seconds = None if seconds is not None and seconds < 1 else seconds
    return seconds if seconds is not None and seconds < 10 else None


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("assert time.monotonic() - start < 2", 2),
        ("assert anyio.current_time() - start < 0.5", 0.5),
        ("anyio.fail_after(5)", 5),
        ("within(1)", 1),
        ("assert time.monotonic() - start < 10", None),
        ("assert time.process_time() - start < 2", None),
        ("anyio.fail_after(0.05)", None),
        ("anyio.fail_after(20)", None),
    ],
)
def test_the_rule_of_limits(source: str, limit: float | None) -> None:
    assert [found for node in ast.walk(ast.parse(source)) if (found := tight_limit(node)) is not None] == (
        [limit] if limit is not None else []
    )


def test_limits_on_wall_time_leave_room_for_a_slow_machine() -> None:
    """A shared machine stops a process for seconds: what a test guards against takes more than 10, or for ever."""
    wrong = []
    for path in sources("tests/**/*.py", "plugins/*/tests/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (limit := tight_limit(node)) is not None:
                wrong.append(f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', '?')}: {limit} s")
    assert not wrong, "\n".join(wrong)
