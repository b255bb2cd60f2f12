"""Arguments described by a pydantic model."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from .schema_arguments import argument_error


class ModelArguments:
    """Checks arguments with a pydantic model, and gives them as the keyword arguments of a function.

    ``renamed`` maps field names to parameter names that a pydantic model cannot have as fields.
    """

    __slots__ = ("schema", "model", "_from_json", "_from_python", "_renamed")

    def __init__(self, model: type[BaseModel], renamed: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.schema = without_titles(model.model_json_schema())
        self._from_json = model.__pydantic_validator__.validate_json
        self._from_python = model.__pydantic_validator__.validate_python
        self._renamed = renamed or None

    def instance(self, tool: str, arguments: dict[str, Any] | str | None) -> BaseModel:
        """The arguments as an instance of the model.

        Raises:
            ToolArgumentsError: says field by field what is wrong.
        """
        try:
            if isinstance(arguments, str) and arguments and not arguments.isspace():
                return self._from_json(arguments)  # type: ignore[no-any-return]
            # A blank text means no arguments: models send it for tools without parameters.
            values = copy.deepcopy(arguments) if arguments and not isinstance(arguments, str) else {}
            return self._from_python(values)  # type: ignore[no-any-return]
        except ValidationError as exc:
            raise argument_error(tool, self._problems(exc)) from None

    def validate(self, tool: str, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
        """The arguments as keyword arguments.

        Raises:
            ToolArgumentsError: says field by field what is wrong.
        """
        values: dict[str, Any]
        try:
            # The plain case without a call in between: a model's text.
            values = self._from_json(arguments).__dict__  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except (ValidationError, TypeError):
            values = self.instance(tool, arguments).__dict__  # pyright: ignore[reportAssignmentType]
        if self._renamed is not None:
            return {self._renamed.get(name, name): value for name, value in values.items()}
        return values

    def _problems(self, error: ValidationError) -> list[str]:
        problems = []
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            where = ".".join(map(str, detail["loc"]))
            if detail["type"] == "extra_forbidden":
                known = ", ".join(self.schema.get("properties", {})) or "none"
                problems.append(f"{where}: unexpected argument; known arguments: {known}")
            elif detail["type"] == "json_invalid":
                problems.append(f"malformed JSON: {detail['msg']}. Send one JSON object")
            elif detail["type"] == "model_type" and not where:
                problems.append("the arguments must be one JSON object")
            else:
                problems.append(f"{where}: {detail['msg']}")
        return problems


_SCHEMA_MAPS = frozenset({"properties", "$defs", "patternProperties"})
_SCHEMAS = frozenset({"items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems", "not"})


def without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic adds: they cost tokens and say nothing. Values stay as they are.

    Defaults and bounds that are no finite number are left out, too: JSON has no such numbers, no provider takes them.
    """
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAPS:
            value = {name: without_titles(inner) for name, inner in value.items()}
        elif key in _SCHEMAS:
            value = without_titles(value)
        elif key == "title" or (isinstance(value, float) and not math.isfinite(value)):
            continue
        kept[key] = value
    return kept
