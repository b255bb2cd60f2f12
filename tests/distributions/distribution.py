"""The distributions of this repository, and their built files."""

from __future__ import annotations

import re
import shutil
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from archives import problems
from programs import CheckFailed, run

ROOT = Path(__file__).resolve().parents[2]

_NOT_SOURCES = (
    "__pycache__",
    ".git",
    ".venv",
    "venv",
    "*_cache",
    ".hypothesis",
    "node_modules",
    "site",
    "build",
    "dist",
)


class Distribution:
    """One distribution: its sources here, and its wheel and sdist there.

    Args:
        directory: its sources.
        built: where its files are built to.
    """

    def __init__(self, directory: Path, built: Path) -> None:
        self.directory = directory
        self.project: dict[str, Any] = _table(directory / "pyproject.toml")["project"]
        self.name: str = self.project["name"]
        self.package = re.sub(r"[-_.]+", "_", self.name)
        self.built = built

    @property
    def is_core(self) -> bool:
        return self.name == "advisorchain"

    @cached_property
    def wheel(self) -> Path:
        return self.built / f"{self.package}-{self.project['version']}-py3-none-any.whl"

    @cached_property
    def sdist(self) -> Path:
        return self.built / f"{self.package}-{self.project['version']}.tar.gz"

    def check_contents(self) -> None:
        """Build a wheel from the sdist too, and look into all three files.

        Raises:
            CheckFailed: with everything that is wrong.
        """
        again = self.built / "from-sdist"
        run("uv", "build", "--quiet", "--wheel", "--out-dir", again, self.sdist, cwd=self.built)
        paths = (str(ROOT), str(self.built.parent))
        found = problems(self.directory, self.project, self.wheel, self.sdist, again / self.wheel.name, paths)
        if found:
            raise CheckFailed("\n".join(found))


def copy_sources(scratch: Path) -> Path:
    """A copy of the repository as it is now: all checks are about the same state of it."""
    copy = scratch / "sources"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_NOT_SOURCES))
    return copy


def built_distributions(sources: Path, scratch: Path) -> list[Distribution]:
    """Build wheel and sdist of every distribution from its sources; the core is the first of them."""
    built = scratch / "built"
    run("uv", "build", "--quiet", "--all-packages", "--wheel", "--sdist", "--out-dir", built, sources, cwd=scratch)
    plugins = sorted(path.parent for path in sources.glob("plugins/*/pyproject.toml"))
    return [Distribution(directory, built) for directory in [sources, *plugins]]


def _table(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
