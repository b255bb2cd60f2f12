"""What of a tool an index reads: its name, texts, arguments, tags and enum values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tools import Tool
from .words import split_words

MAX_DEPTH = 12
"""How deep arguments may be nested; deeper ones are not read."""


MAX_ARGUMENTS = 1_000
"""Arguments of one tool that are read, nested ones included."""

MAX_TEXT = 20_000
"""Characters of each field that are read."""


def fields_of(tool: Tool) -> dict[str, str]:
    """A tool's texts by where they stand; a schema of any shape is taken.

    The title is left out where it only repeats the name.
    """
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    _read(tool.input_schema, names, texts, values, MAX_DEPTH)
    fields = {
        "name": tool.name,
        "title": "" if split_words(tool.title) == split_words(tool.name) else tool.title,
        "description": tool.description,
        "argument_names": " ".join(names),
        "argument_texts": "\n".join(texts),
        "tags": " ".join(sorted(tool.tags)),
        "values": " ".join(values),
    }
    return {field: text[:MAX_TEXT] for field, text in fields.items() if text}


def _read(schema: Any, names: list[str], texts: list[str], values: list[str], depth: int) -> None:
    """Collect what a schema says about its arguments, whatever it is built of (``items``, ``anyOf``, ``$defs``)."""
    if depth == 0 or len(names) > MAX_ARGUMENTS:
        return
    if isinstance(schema, Mapping):
        for key, part in schema.items():
            if key in ("properties", "$defs", "definitions") and isinstance(part, Mapping):
                for name, inner in part.items():
                    if key == "properties":
                        names.append(str(name))
                    if isinstance(inner, Mapping):
                        text = inner.get("description")
                        if isinstance(text, str):
                            texts.append(text)
                        _read(inner, names, texts, values, depth - 1)
            elif key in ("enum", "const"):
                values += [value for value in (part if isinstance(part, list) else [part]) if isinstance(value, str)]
            elif key not in ("default", "examples") and isinstance(part, Mapping | list):
                _read(part, names, texts, values, depth - 1)
    elif isinstance(schema, list):
        for part in schema:
            _read(part, names, texts, values, depth - 1)
