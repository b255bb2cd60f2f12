"""Arguments described by a JSON schema: parsed, then validated with ``jsonschema``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ConfigurationError, ToolArgumentsError
from .plain_schema import is_plain_schema

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The input schema of a tool that takes none."""
MAX_PROBLEMS = 10
"""How many problems with its arguments a model is told at once."""


def parse_arguments(tool: str, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    """The arguments as a dict; nothing or blank text means no arguments.

    Raises:
        ToolArgumentsError: the text is no JSON object.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return copy.deepcopy(arguments)  # what a tool does to its arguments must not change the transcript
    if not isinstance(arguments, str):
        raise ToolArgumentsError(f"The arguments of tool {tool!r} must be one JSON object.")
    if not arguments.strip():
        return {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError) as exc:
        raise ToolArgumentsError(
            f"The arguments of tool {tool!r} are not valid JSON ({str(exc)[:200]}). Send one JSON object."
        ) from None
    if not isinstance(parsed, dict):
        raise ToolArgumentsError(f"The arguments of tool {tool!r} must be one JSON object, not {_json_type(parsed)}.")
    return parsed


def _json_type(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def argument_error(tool: str, problems: Iterable[str]) -> ToolArgumentsError:
    """One error that names every problem, one a line."""
    lines = list(problems)
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"and {len(lines) - MAX_PROBLEMS} more"]
    listed = "\n".join(f"- {line[:500]}" for line in lines)
    return ToolArgumentsError(f"Invalid arguments for tool {tool!r}:\n{listed}")


def check_schema(tool: str, schema: Mapping[str, Any]) -> None:
    """Check that a schema is a JSON schema.

    Raises:
        ConfigurationError: says where it is not.
    """
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"Tool {tool!r}: input_schema must be a JSON schema of an object, not {schema!r}.")
    if not is_plain_schema(schema):
        _check_by_its_dialect(tool, schema)
    remote = sorted(_remote_references(schema))
    if remote:
        raise ConfigurationError(
            f"Tool {tool!r}: input_schema refers to {remote[0]!r}; nothing is fetched, so put it under $defs."
        )


def _check_by_its_dialect(tool: str, schema: Mapping[str, Any]) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "schema"
        raise ConfigurationError(f"Tool {tool!r}: input_schema is no JSON schema: {where}: {error.message}") from None


def _remote_references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {found for item in schema for found in _remote_references(item)}
    if not isinstance(schema, Mapping):
        return set()
    own = {
        ref for key in ("$ref", "$dynamicRef") if isinstance(ref := schema.get(key), str) and not ref.startswith("#")
    }
    return own.union(*[_remote_references(value) for value in schema.values()])


class SchemaArguments:
    """Checks arguments against a JSON schema, whose validator is compiled at the first call."""

    __slots__ = ("schema", "_problems")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
            raise ConfigurationError(f"An input schema must be a JSON schema of an object, not {schema!r}.")
        self.schema = schema
        self._problems: Callable[[dict[str, Any]], list[str]] | None = None

    def validate(self, tool: str, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
        """The parsed arguments.

        Raises:
            ToolArgumentsError: malformed, or not what the schema says.
        """
        parsed = parse_arguments(tool, arguments)
        if self._problems is None:
            self._problems = _compile(self.schema)
        problems = self._problems(parsed)
        if problems:
            raise argument_error(tool, problems)
        return parsed


def _compile(schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], list[str]]:
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    # An empty registry: a schema may come from a stranger, and jsonschema's own would fetch what its $ref names.
    validator = validator_for(schema, default=Draft202012Validator)(dict(schema), registry=Registry())

    def problems(arguments: dict[str, Any]) -> list[str]:
        return [
            f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message}"
            for error in sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.path)))
        ]

    return problems
