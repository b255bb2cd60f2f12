"""JSON schemas without references, for servers that refuse ``$ref`` and ``$defs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

MAX_NODES = 5_000
MAX_DEPTH = 30
"""How large a schema may grow, and how deep its references may nest; what is beyond is cut like recursive ones."""

_TABLES = frozenset({"$defs", "definitions"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})  # their keys are names, not keywords
_DATA = frozenset({"const", "default", "enum", "examples", "example"})  # what is in them is no schema
_MISSING: Any = object()


class Inlined(NamedTuple):
    """A schema without references, and whether it still says everything: nothing recursive was cut."""

    schema: dict[str, Any]
    whole: bool


def inlined(schema: Mapping[str, Any]) -> Inlined:
    """The schema with what each local ``$ref`` means in its place, and without its tables of definitions.

    What stands beside a reference (a description, a default) goes over what it refers to. A definition inside itself
    is cut: there, only its type and a note are left, so the schema allows more than it did. The same happens to a
    reference that leads nowhere, and to what would make the schema larger or deeper than the limits above. Arguments
    and answers are checked against the whole schema all the same.
    """
    inliner = _Inliner(schema)
    result = inliner.schema(schema, ("#",))
    return Inlined(cast("dict[str, Any]", result), inliner.whole)


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.whole = True
        self.nodes = 0

    def schema(self, node: Any, inside: tuple[str, ...]) -> Any:
        """A schema; ``inside`` are the references that have led here."""
        if isinstance(node, list | tuple):
            return [self.schema(item, inside) for item in cast("list[Any]", node)]
        if not isinstance(node, Mapping):
            return node
        self.nodes += 1
        mapping = cast("Mapping[str, Any]", node)
        reference = mapping.get("$ref")
        if isinstance(reference, str):
            beside = {key: value for key, value in mapping.items() if key != "$ref"}
            target = self.target(reference)
            too_much = self.nodes > MAX_NODES or len(inside) > MAX_DEPTH
            if not isinstance(target, Mapping) or reference in inside or too_much:
                self.whole = False
                mapping = {**_cut(reference, target), **beside}
            else:
                mapping = {**cast("Mapping[str, Any]", target), **beside}
                inside = (*inside, reference)
                if "$ref" in mapping:  # a reference to a reference
                    return self.schema(mapping, inside)
        return {key: self.value(key, value, inside) for key, value in mapping.items() if key not in _TABLES}

    def value(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in _DATA:
            return value
        if key in _NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value)
            return {name: self.schema(inner, inside) for name, inner in named.items()}
        return self.schema(value, inside)

    def target(self, reference: str) -> Any:
        """What a reference into this document points to."""
        if not reference.startswith("#"):
            return _MISSING
        node: Any = self.root
        for step in unquote(reference[1:]).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and step in node:
                node = cast("Mapping[str, Any]", node)[step]
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return _MISSING
        return node


def _cut(reference: str, target: Any) -> dict[str, Any]:
    """What is left of a definition inside itself."""
    name = reference.rpartition("/")[2] or "value"
    if not isinstance(target, Mapping):
        return {"description": name}
    kind = cast("Mapping[str, Any]", target).get("type")
    left: dict[str, Any] = {} if kind is None else {"type": kind}
    return {**left, "description": f"Another {name}, built like the one around it."}
