"""The output type of a call: its JSON schema for the model, and the one validation of the answer."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import ConfigurationError, OutputError

T = TypeVar("T")


class OutputType(Generic[T]):
    """What an answer must be: any type that pydantic can validate.

    Attributes:
        name: a name for the schema, made of letters, digits, ``_`` and ``-``.
        schema: the JSON schema of the type.
    """

    __slots__ = ("type", "name", "schema", "_adapter", "_instruction")

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self._instruction: str | None = None
        self._adapter: TypeAdapter[T] = TypeAdapter(type_)
        self.schema = self._adapter.json_schema()
        self.name = re.sub(r"[^a-zA-Z0-9_-]+", "_", getattr(type_, "__name__", str(type_))).strip("_")[:64] or "output"

    @property
    def is_object(self) -> bool:
        """Whether the schema describes a JSON object, which is all that some providers enforce natively."""
        return self.schema.get("type") == "object"

    def instruction(self) -> str:
        """The sentence for a model that cannot take a schema natively."""
        if self._instruction is None:
            from pydantic_core import to_json

            self._instruction = (
                "Answer with one JSON value and nothing else, no code fence. It must fit this JSON schema:\n"
                + to_json(self.schema).decode()
            )
        return self._instruction

    def validate(self, text: str) -> T:
        """The answer's text as the type; a code fence around it is taken off.

        Raises:
            OutputError: says field by field what does not fit; has the text.
        """
        if self.type is str:
            return text  # type: ignore[return-value]
        try:
            return self._adapter.validate_json(_without_fence(text))
        except ValidationError as exc:
            problems = [
                f"{'.'.join(map(str, error['loc'])) or 'answer'}: {error['msg']}"
                for error in exc.errors(include_url=False, include_input=False, include_context=False)
            ]
            raise OutputError(f"The answer is no valid {self.name}: {'; '.join(problems[:10])}", text=text) from None


def _without_fence(text: str) -> str:
    """What a code fence holds, when it is the whole text.

    No regex: models that are asked for JSON may write white space without end, which one would look through again and
    again.
    """
    fenced = text.strip()
    if fenced.startswith("```") and fenced.endswith("```"):
        language, line_end, inside = fenced[3:-3].partition("\n")
        if line_end and (not language.strip() or language.strip().isalpha()):
            return inside
    return text


@lru_cache(maxsize=256)
def _cached(type_: Any) -> OutputType[Any]:
    try:
        return OutputType(type_)
    except Exception as exc:
        raise ConfigurationError(
            f"output_type={type_!r} has no JSON schema ({type(exc).__name__}: {exc}); use a type that pydantic can "
            "validate, for example a BaseModel, a dataclass, a TypedDict, list[int] or Literal[...]."
        ) from exc


def output_type_of(type_: Any) -> OutputType[Any]:
    """The `OutputType` of a type; built once per type.

    Raises:
        ConfigurationError: the type has no JSON schema.
    """
    try:
        hash(type_)
    except TypeError:  # an unhashable annotation, for example Annotated[int, []]
        return _cached.__wrapped__(type_)
    return _cached(type_)
