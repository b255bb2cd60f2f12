"""An output type's JSON schema in the form that ``response_format`` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from advisorchain.models.prompted_tools import Reading
from advisorchain.output import OutputType

VALUE = "value"
"""The field of the object around an output that is no object itself: providers enforce objects only."""

_STRICT_FORMATS = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_STRICT_KEYWORDS = frozenset({
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maximum", "maxItems", "minimum", "minItems", "multipleOf", "pattern",
    "properties", "required", "type",
})  # fmt: skip
_ANNOTATIONS = frozenset({"title", "default", "examples", "deprecated", "readOnly", "writeOnly"})


class ResponseFormat(NamedTuple):
    """The request's ``response_format``, and whether the answer comes inside an object around it."""

    value: dict[str, Any]
    wrapped: bool


def response_format(output: OutputType[Any]) -> ResponseFormat:
    """The ``response_format`` of an output type.

    ``strict`` is set when every value of the strict schema is a value of the type: providers want each object's
    fields to be all required and no others, so a field that may be absent must also take null.
    """
    schema = dict(output.schema)
    wrapped = not output.is_object
    if wrapped:
        schema = _around(schema)
    strict = strict_schema(schema)
    form: dict[str, Any] = {"name": output.name, "schema": schema if strict is None else strict}
    form["strict"] = strict is not None
    return ResponseFormat({"type": "json_schema", "json_schema": form}, wrapped)


def read_wrapped(text: str) -> Reading:
    """The JSON text of the value inside the object around it; any other text as it is."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return Reading(text)
    if isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {VALUE}:
        return Reading(json.dumps(value[VALUE], ensure_ascii=False))
    return Reading(text)


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


class _NotStrict(Exception):
    """The schema says something that strict mode cannot."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in strict form, or None when strict mode would refuse it or change what it means."""
    definitions = cast("Mapping[str, Any]", schema.get("$defs", {}))
    try:
        return _strict(schema, definitions, ())
    except _NotStrict:
        return None


def _strict(schema: Any, definitions: Mapping[str, Any], inlined: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _NotStrict
    node = {key: value for key, value in cast("Mapping[str, Any]", schema).items() if key not in _ANNOTATIONS}
    if not node:
        raise _NotStrict  # anything at all
    reference = node.get("$ref")
    if reference is not None and len(node) > 1 + ("$defs" in node):
        # A reference may have nothing beside it, for example no description: put what it means in its place.
        name = str(reference).removeprefix("#/$defs/")
        if reference in inlined or name not in definitions:
            raise _NotStrict
        del node["$ref"]
        return _strict({**definitions[name], **node}, definitions, (*inlined, str(reference)))
    unknown = node.keys() - _STRICT_KEYWORDS
    if unknown or node.get("format", "date") not in _STRICT_FORMATS:
        raise _NotStrict
    if node.get("type") == "object":
        node.update(_strict_object(node, definitions, inlined))
    elif node.get("type") == "array":
        node["items"] = _strict(node.get("items"), definitions, inlined)
    elif not node.keys() & {"type", "$ref", "anyOf", "enum", "const"}:
        raise _NotStrict
    if "anyOf" in node:
        node["anyOf"] = [_strict(option, definitions, inlined) for option in node["anyOf"]]
    if "$defs" in node:
        node["$defs"] = {name: _strict(value, definitions, inlined) for name, value in node["$defs"].items()}
    return node


def _strict_object(node: Mapping[str, Any], definitions: Mapping[str, Any], inlined: tuple[str, ...]) -> dict[str, Any]:
    properties = cast("Mapping[str, Any] | None", node.get("properties"))
    if properties is None or node.get("additionalProperties", False) is not False:
        raise _NotStrict  # a map with free keys
    required = cast("list[str]", node.get("required", []))
    for name, value in properties.items():
        if name not in required and not (value.get("default", ...) is None and _takes_null(value)):
            raise _NotStrict  # the model would have to invent what may be left out
    return {
        "properties": {name: _strict(value, definitions, inlined) for name, value in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _takes_null(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") == "null":
        return True
    return any(_takes_null(option) for option in cast("list[Mapping[str, Any]]", schema.get("anyOf", [])))
