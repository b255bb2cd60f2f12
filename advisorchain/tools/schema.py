"""Arguments described by a JSON schema: parsed, then validated with ``jsonschema`` or the faster ``jsonschema_rs``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ConfigurationError, ToolArgumentsError

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
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "schema"
        raise ConfigurationError(f"Tool {tool!r}: input_schema is no JSON schema: {where}: {error.message}") from None


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
    try:
        import jsonschema_rs  # type: ignore[import-not-found, unused-ignore]

        fast: Any = jsonschema_rs.validator_for(dict(schema))
    except Exception:  # not installed, or stricter about the schema than jsonschema is
        fast = None
    from jsonschema.validators import Draft202012Validator, validator_for

    validator = validator_for(schema, default=Draft202012Validator)(schema)

    def problems(arguments: dict[str, Any]) -> list[str]:
        if fast is not None and fast.is_valid(arguments):
            return []
        return [
            f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message}"
            for error in sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.path)))
        ]

    return problems
