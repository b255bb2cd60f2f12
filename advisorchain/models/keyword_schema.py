"""JSON schemas as `KeywordModel` reads them: lenient about what somebody else wrote into one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

MISSING: Final[Any] = object()
"""What `Filler.value` gives when the text says nothing."""

YES_NO = {"true": True, "yes": True, "false": False, "no": False}
"""The words of a boolean."""


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one: a schema of somebody else may hold anything."""
    return value if isinstance(value, list) else []


def as_mapping(value: object) -> Schema:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def kind_of(schema: Schema) -> str:
    """The type of a schema; a schema that names none is an object if it has properties, else a string."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string"


def converted(text: str, schema: Schema) -> Any:
    """A text as the schema's type, or `MISSING`."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return next((choice for choice in as_list(choices) if str(choice).lower() == text.lower()), MISSING)
    kind = kind_of(schema)
    if kind == "boolean":
        return YES_NO.get(text.lower(), MISSING)
    if kind in ("integer", "number"):
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            return MISSING
        if number != number or number in (float("inf"), float("-inf")):
            return MISSING
        if number.is_integer() and "e" not in text.lower():
            return int(number) if "." in text else int(text.replace(",", ""))
        return MISSING if kind == "integer" else number
    return text


def within(value: Any, schema: Schema) -> bool:
    """Whether a value keeps the schema's simple bounds; the tool's own validation looks at the rest."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        bounds = {name: schema.get(name) for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")}
        low, high, over, under = (bound if isinstance(bound, int | float) else None for bound in bounds.values())
        return not (
            (low is not None and value < low)
            or (high is not None and value > high)
            or (over is not None and value <= over)
            or (under is not None and value >= under)
        )
    if isinstance(value, str):
        shortest, longest = schema.get("minLength"), schema.get("maxLength")
        if isinstance(shortest, int) and len(value) < shortest:
            return False
        if isinstance(longest, int) and len(value) > longest:
            return False
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            try:
                return re.search(pattern, value[:200]) is not None
            except re.error:
                return True
    return True
