"""The reference has every public name, once, and everything in it has a docstring."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import advisorchain

DOCS = Path(__file__).resolve().parents[2] / "docs"
PACKAGES = [
    "advisorchain",
    "advisorchain.advisors",
    "advisorchain.audit",
    "advisorchain.config",
    "advisorchain.mcp",
    "advisorchain.memory",
    "advisorchain.models",
    "advisorchain.plugins",
    "advisorchain.telemetry",
    "advisorchain.testing",
    "advisorchain.tool_index",
    "advisorchain.tools",
]
LISTED = Counter(
    name
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
)


def of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    there = {id(of(name)) for name in LISTED}  # under whichever package it is listed
    public = set(import_module(package).__all__) - {"__version__"}
    missing = {name for name in public if id(of(f"{package}.{name}")) not in there}
    assert not missing, f"not in docs/reference: {sorted(missing)}; put '::: {package}.NAME' into a page"


@pytest.mark.parametrize("name", sorted(LISTED))
def test_what_is_listed_exists_and_has_a_docstring(name: str) -> None:
    assert LISTED[name] == 1, f"{name} is listed {LISTED[name]} times"
    value = of(name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_the_index_lists_the_pages() -> None:
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (DOCS / "reference").glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\((\S+\.md)\)", text)) == pages


def test_all_is_what_a_program_can_import() -> None:
    assert set(advisorchain.__all__) <= set(dir(advisorchain))
