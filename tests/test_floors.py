"""The floors of the house: a module imports from its own floor or lower.

Read with ``ast``: nothing is imported. Imports for type checkers only (``if TYPE_CHECKING:``) are exempt, imports
inside functions are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "advisorchain"

FLOORS = {
    # 0: plain data
    "errors": 0,
    "runtime": 0,
    "shield": 0,
    "async_callable": 0,
    "context": 0,
    "database_file": 0,
    "messages": 0,
    "observation": 0,
    "options": 0,
    "plain_json": 0,
    "events": 0,
    "turn_end": 0,
    "version": 0,
    # 1: what travels through a chain
    "exchange": 1,
    "tool_set": 1,
    "failures": 1,
    "disguise": 1,
    "setting_checks": 1,
    # plugins by name: everything may ask for one, and they are imported by name only
    "plugins": 1,
    "waiting_room": 1,
    "circuit": 1,
    "shared_state": 1,
    "state_access": 1,
    "invocation": 1,
    "prompt": 1,
    "order": 1,
    "output": 1,
    # 2: the mechanism
    "advisor": 2,
    "chain": 2,
    "model_call": 2,
    "function_advisor": 2,
    "stream": 2,
    "text_pieces": 2,
    "explain": 2,
    "explain_mermaid": 2,
    "explain_names": 2,
    "explain_svg": 2,
    # 3: what advisors use
    "audit": 3,
    "memory": 3,
    "observers": 3,
    "models": 3,
    "telemetry": 3,
    "tool_index": 3,
    "tools": 3,
    # 4: what could be a plugin
    "advisors": 4,
    "mcp": 4,
    # 5: what puts it together
    "call_settings": 5,
    "cli": 5,
    "client": 5,
    "default_advisors": 5,
    "tool_execution": 5,
    "config": 5,
    "prepared_turn": 5,
    "sub_agent": 5,
    "sync": 5,
    "testing": 5,
}
PACKAGE_FLOOR = 5  # advisorchain/__init__.py offers the names of all floors

MECHANISM = ("advisor.py", "chain.py", "stream.py")
MECHANISM_LINES = 600
MODULE_LINES = 400


class Import(NamedTuple):
    module: str
    names: tuple[str, ...]  # what is taken from it; empty for a module as a whole
    line: int


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
PLUGIN_SOURCES = sorted(path for path in ROOT.glob("plugins/*/**/*.py") if ".venv" not in path.parts)


def is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def import_nodes(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and is_type_checking(child.test):
            for statement in child.orelse:
                yield from import_nodes(ast.Module([statement], []))
        else:
            yield from import_nodes(child)


def imports(path: Path, package: str | None = None) -> Iterator[Import]:
    """What a file takes from advisorchain, as absolute names; `package` resolves relative imports."""
    for node in import_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [Import(alias.name, (), node.lineno) for alias in node.names]
        else:
            source = node.module or ""
            if node.level:
                if package is None:
                    continue
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*above, source]) if source else ".".join(above)
            found = []
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                found.append(
                    Import(whole, (), node.lineno) if whole in SOURCES else Import(source, (alias.name,), node.lineno)
                )
        yield from (each for each in found if each.module.split(".")[0] == "advisorchain")


def own_imports(module: str) -> Iterator[Import]:
    path = SOURCES[module]
    return imports(path, module if path.name == "__init__.py" else module.rpartition(".")[0])


def floor(module: str) -> int | None:
    parts = module.split(".")
    return PACKAGE_FLOOR if len(parts) == 1 else FLOORS.get(parts[1])


def private_names(found: Import) -> list[str]:
    names = [*found.module.split("."), *found.names]
    return [name for name in names if name.startswith("_") and not (name.startswith("__") and name.endswith("__"))]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def test_there_is_something_to_check() -> None:
    assert "advisorchain" in SOURCES


@pytest.mark.parametrize("module", SOURCES)
def test_imports_go_down(module: str) -> None:
    own = floor(module)
    assert own is not None, f"{module} has no floor yet: add it to FLOORS in {Path(__file__).name}"
    wrong = []
    for found in own_imports(module):
        other = floor(found.module)
        if other is None:
            wrong.append(f"{place(SOURCES[module], found.line)} imports {found.module}, which is not in FLOORS: add it")
        elif other > own:
            wrong.append(f"{place(SOURCES[module], found.line)} (floor {own}) imports {found.module} (floor {other})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", [name for name in SOURCES if name.startswith("advisorchain.advisors.")])
def test_advisors_stand_alone(module: str) -> None:
    """A built-in advisor knows no other advisor and uses public names only: it could be a plugin."""
    own = ".".join(module.split(".")[:3])  # an advisor may be a package of several files
    wrong = []
    for found in own_imports(module):
        where = place(SOURCES[module], found.line)
        inside = found.module == own or found.module.startswith(own + ".")
        if (found.module + ".").startswith("advisorchain.advisors.") and not inside:
            wrong.append(f"{where} imports {found.module}: advisors never import each other")
        if not inside and (private := private_names(found)):
            wrong.append(f"{where} imports private names: {', '.join(private)}")
    assert not wrong, "\n".join(wrong)


def test_plugins_use_public_names() -> None:
    wrong = [
        f"{place(path, found.line)} imports private names of advisorchain: {', '.join(private)}"
        for path in PLUGIN_SOURCES
        for found in imports(path)
        if (private := private_names(found))
    ]
    assert not wrong, "\n".join(wrong)


def test_core_knows_no_plugin() -> None:
    wrong = []
    for path in SOURCES.values():
        for node in import_nodes(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            plugins = [name for name in names if name.startswith("advisorchain_")]
            wrong += [f"{place(path, node.lineno)} imports {name}" for name in plugins]
    assert not wrong, "\n".join(wrong)


def test_one_file_of_the_library_imports_opentelemetry() -> None:
    """The command line sets up the SDK, as an application does; nothing else knows OpenTelemetry."""
    found = set()
    for module, path in SOURCES.items():
        for node in import_nodes(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.split(".")[0] == "opentelemetry" for name in names):
                found.add(module)
    assert {module for module in found if not module.startswith("advisorchain.cli.")} == {"advisorchain.telemetry.otel"}


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_mechanism_stays_small() -> None:
    lines = {name: line_count(PACKAGE / name) for name in MECHANISM if (PACKAGE / name).exists()}
    assert sum(lines.values()) < MECHANISM_LINES, lines


def test_modules_stay_small() -> None:
    long = {module: lines for module, path in SOURCES.items() if (lines := line_count(path)) > MODULE_LINES}
    assert not long, f"over {MODULE_LINES} lines: {long}"
