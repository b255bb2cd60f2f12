"""Reading a configuration file: bounded in size and depth, nothing imported, nothing looked for."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .lines import MAX_DEPTH, KeyPath, TooDeepError, key_lines

MAX_BYTES = 1_000_000
"""A larger file is refused before it is parsed."""

PYPROJECT = "pyproject.toml"
PYPROJECT_TABLE: KeyPath = ("tool", "advisorchain")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read.

    Attributes:
        path: where it is.
        table: its content; of a ``pyproject.toml``, the table ``[tool.advisorchain]``.
        lines: in which line a key stands, by its path from the top of the file.
        above: the path of ``table`` in the file.
    """

    path: Path
    table: dict[str, Any]
    lines: Mapping[KeyPath, int]
    above: KeyPath


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Read and parse a TOML file.

    Raises:
        ConfigurationError: it cannot be read, is over 1 MB, nests too deep, is no TOML, or is a ``pyproject.toml``
            without the table.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigurationError(f"A configuration is a file: from_config('advisorchain.toml'), not {path!r}.")
    found = Path(path)
    text = read_text(found, "configuration file")
    try:
        lines = key_lines(text)
        data = tomllib.loads(text)
    except TooDeepError as exc:
        raise ConfigurationError(f"{found}:{exc.line}: this nests deeper than {MAX_DEPTH} levels.") from None
    except RecursionError:
        raise ConfigurationError(f"{found}: this nests too deep.") from None
    except ValueError as exc:  # TOMLDecodeError, and a number of too many digits
        raise ConfigurationError(f"{found}: this is no TOML: {' '.join(str(exc).split())[:300]}.") from None
    if found.name != PYPROJECT:
        return SourceFile(found, data, lines, ())
    table: Any = data
    for key in PYPROJECT_TABLE:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{found}: there is no table [tool.advisorchain].")
    return SourceFile(found, table, lines, PYPROJECT_TABLE)


def read_text(path: Path, what: str) -> str:
    """The text of a file of at most `MAX_BYTES`.

    Raises:
        ConfigurationError: it cannot be read, is no file, is larger, or is not UTF-8.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe or a device might never end
            raise ConfigurationError(f"{path}: the {what} is not a plain file.")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:  # a ValueError: a name with a null character
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise ConfigurationError(f"{str(path)!r}: the {what} cannot be read: {reason}.") from None
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"{path}: the {what} is larger than {MAX_BYTES:,} bytes.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigurationError(f"{path}: the {what} is not UTF-8 (byte {exc.start}).") from None
