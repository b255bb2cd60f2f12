"""An output type's JSON schema in the form that ``output_config.format`` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from anthropic import transform_schema

from advisorchain.output import OutputType

VALUE = "value"
"""The field of the object around an output that is no object itself: the provider enforces objects."""

_LITERAL_TYPES = (str, int, float, bool, type(None))
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


class OutputFormat(NamedTuple):
    """The request's ``output_config.format``, and whether the answer comes inside an object around it."""

    value: dict[str, Any]
    wrapped: bool


def output_format(output: OutputType[Any]) -> OutputFormat | None:
    """The ``format`` of an output type, or None when the provider cannot enforce it.

    It enforces objects with a fixed set of fields, no recursion, and no bounds of numbers and lengths: those become
    part of the descriptions, and the answer is validated in the end. A type with free keys (``dict[str, int]``), with
    itself inside, a tuple or ``Any`` is nothing that it could enforce without changing what the type means.
    """
    schema = dict(output.schema)
    wrapped = not output.is_object
    if wrapped:
        schema = _around(schema)
    definitions = cast("Mapping[str, Any]", schema.get("$defs", {}))
    if not _is_enforceable(schema, definitions, ()):
        return None
    return OutputFormat({"type": "json_schema", "schema": transform_schema(schema)}, wrapped)


def read_wrapped(text: str) -> str:
    """The JSON text of the value inside the object around it; any other text as it is."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {VALUE}:
        return json.dumps(value[VALUE], ensure_ascii=False)
    return text


def _around(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", None)
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {VALUE: schema},
        "required": [VALUE],
        "additionalProperties": False,
    }
    if definitions:
        outer["$defs"] = definitions
    return outer


def _is_enforceable(schema: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> bool:
    if not isinstance(schema, Mapping):
        return False
    node = cast("Mapping[str, Any]", schema)

    def all_are(schemas: Any) -> bool:
        return all(_is_enforceable(one, definitions, inside) for one in schemas)

    reference = node.get("$ref")
    if reference is not None:
        name = str(reference).removeprefix("#/$defs/")
        if name in inside or name not in definitions:
            return False
        return _is_enforceable(definitions[name], definitions, (*inside, name))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in node:
            return all_are(node[several])
    if "enum" in node:
        return bool(node["enum"]) and all(isinstance(value, _LITERAL_TYPES) for value in node["enum"])
    if "const" in node:
        return isinstance(node["const"], _LITERAL_TYPES)
    kind = node.get("type")
    if kind == "object":
        fixed = node.get("additionalProperties", False) is False and "patternProperties" not in node
        return fixed and "properties" in node and all_are(node["properties"].values())
    if kind == "array":
        return "prefixItems" not in node and _is_enforceable(node.get("items"), definitions, inside)
    return isinstance(kind, str) and kind in _TYPES
