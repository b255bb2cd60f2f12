"""Distributions in a directory, as an installer leaves them: modules, and metadata beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path


def install(
    directory: Path,
    name: str,
    entry_points: Mapping[str, Mapping[str, str]] | str = "",
    *,
    version: str = "1.0",
    requires: Iterable[str] = (),
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Install a distribution; the directory must be on ``sys.path`` to have it found.

    Args:
        directory: where to.
        name: the distribution's.
        entry_points: group (without ``advisorchain.``) -> name -> value; or the file's text.
        version: the distribution's.
        requires: its ``Requires-Dist`` lines.
        modules: name of a module -> its source.
    """
    metadata = directory / f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
    metadata.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    (metadata / "METADATA").write_text("\n".join(lines) + "\n\nA description.\nRequires-Dist: nonsense\n")
    if not isinstance(entry_points, str):
        entry_points = "".join(
            f"[advisorchain.{group}]\n" + "".join(f"{key} = {value}\n" for key, value in names.items())
            for group, names in entry_points.items()
        )
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, source in (modules or {}).items():
        (directory / f"{module}.py").write_text(source)
    return metadata
