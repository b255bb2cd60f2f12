"""What a function's signature and docstring say about a tool."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict  # knows its own TypedDict too, which pydantic wants before Python 3.12

from ..errors import ConfigurationError
from ..invocation import PART_TYPES
from .definition import ToolContext
from .model_arguments import ModelArguments, without_titles

_MODEL_ATTRIBUTES = frozenset(dir(BaseModel))


class Signature:
    """What a function's signature says about a tool."""

    def __init__(self, fn: Any, origin: str) -> None:
        self.origin = origin
        try:
            parameters = list(inspect.signature(fn).parameters.values())
        except ValueError:
            raise ConfigurationError(
                f"Tool function {origin} has no signature; wrap it in a function of yours."
            ) from None
        first = parameters[0].name if parameters else ""
        self.takes_self = first in ("self", "cls") and parameters[0].annotation is inspect.Parameter.empty
        if self.takes_self:
            del parameters[0]
        hints = _type_hints(fn, origin)
        self.returns = hints.pop("return", None)
        self.context: str | None = None
        self.parameters: list[tuple[inspect.Parameter, Any]] = []
        for parameter in parameters:
            hint = hints.get(parameter.name, Any)
            if hint is ToolContext or ToolContext in typing.get_args(hint):
                if self.context is not None:
                    raise ConfigurationError(
                        f"Tool function {origin}: {self.context!r} and {parameter.name!r} are both a ToolContext; "
                        "one is enough."
                    )
                self.context = parameter.name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ConfigurationError(
                    f"Tool function {origin}: parameter {str(parameter)!r} cannot be described by a JSON schema; "
                    "give every parameter a name that can be passed by keyword."
                )
            self.parameters.append((parameter, hint))

    def arguments(self, name: str, descriptions: Mapping[str, str]) -> ModelArguments:
        """A validator of the parameters.

        Raises:
            ConfigurationError: a parameter has no JSON schema.
        """
        fields: dict[str, Any] = {}
        renamed: dict[str, str] = {}
        taken = {parameter.name for parameter, _ in self.parameters}
        for index, (parameter, hint) in enumerate(self.parameters):
            field_name = parameter.name
            if field_name in _MODEL_ATTRIBUTES or field_name.startswith(("_", "model_")):
                while field_name in _MODEL_ATTRIBUTES or field_name.startswith(("_", "model_")) or field_name in taken:
                    field_name = f"parameter_{index}_{len(field_name)}"
                renamed[field_name] = parameter.name
            fields[field_name] = self._field(parameter, hint, descriptions.get(parameter.name))
        config = ConfigDict(extra="forbid", protected_namespaces=(), arbitrary_types_allowed=False)
        try:
            return ModelArguments(create_model(name, __config__=config, **fields), renamed)
        except Exception:
            for parameter, hint in self.parameters:
                self._check(parameter, hint)
            raise

    def _field(self, parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
        field = FieldInfo.from_annotation(hint) if hint is not Any else Field()
        told = description if not field.description else None
        annotation: Any = Annotated[hint, Field(description=told)] if told else hint
        annotation = Annotated[annotation, Field(alias=parameter.name)]
        if parameter.default is not parameter.empty:
            return annotation, parameter.default
        union = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
        optional = type(None) in typing.get_args(union) and field.is_required()  # X | None needs no value
        return annotation, None if optional else ...

    def _check(self, parameter: inspect.Parameter, hint: Any) -> None:
        try:
            TypeAdapter(hint).json_schema()
        except Exception as exc:
            kind = getattr(hint, "__qualname__", None) or str(hint)
            raise ConfigurationError(
                f"Tool function {self.origin}: parameter {parameter.name!r} of type {kind} has no JSON schema, so no "
                f"model can fill it ({str(exc).splitlines()[0]}). Keep such an object outside the parameters: in self, "
                "in a closure, or in the context (a ToolContext parameter)."
            ) from None


def _type_hints(fn: Any, origin: str) -> dict[str, Any]:
    target = fn if inspect.isroutine(fn) else getattr(fn, "func", None) or type(fn).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        # Types defined inside the function that defines the tool: look where the decorator was called.
        names: dict[str, Any] = {}
        frame = sys._getframe(1)
        while frame is not None:
            if not frame.f_globals.get("__name__", "").startswith("advisorchain."):
                names = {**frame.f_locals, **names}
            frame = frame.f_back  # type: ignore[assignment]
        try:
            return typing.get_type_hints(target, localns=names, include_extras=True)
        except NameError as exc:
            raise ConfigurationError(
                f"Tool function {origin}: the type {exc.name!r} in its hints is not defined; import it at run time "
                "(not only under TYPE_CHECKING)."
            ) from None


def output_schema(returns: Any) -> Mapping[str, Any] | None:
    """The JSON schema of a return type that is an object (model, dataclass, TypedDict), or None."""
    if isinstance(returns, type) and issubclass(returns, PART_TYPES):
        return None  # content, not data
    is_object = isinstance(returns, type) and (
        issubclass(returns, BaseModel) or dataclasses.is_dataclass(returns) or is_typeddict(returns)
    )
    if not is_object:
        return None
    try:
        schema: Mapping[str, Any] = without_titles(TypeAdapter(returns).json_schema(mode="serialization"))
    except Exception:  # a return type without a schema is no fault: the result is still JSON
        return None
    return schema if schema.get("type") == "object" else None


@dataclasses.dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says: the description, and the parameters by name."""

    description: str
    parameters: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a Google, numpy or Sphinx docstring; a plain one costs no parser."""
    if not text or not text.strip():
        return Docstring("", {})
    if not _SECTION.search(text):
        return Docstring(inspect.cleandoc(text), {})
    from docstring_parser import parse

    parameters = {param.arg_name: param.description or "" for param in parse(text).params}
    return Docstring(_without_sections(inspect.cleandoc(text)), parameters)


_TOLD = "Args|Arguments|Parameters|Params|Attributes|Returns|Raises|Yields|Exceptions"
_SECTION = re.compile(rf"^[ \t]*(?:(?:{_TOLD})[ \t]*:?[ \t]*$|:\w+[^:\n]*:|@param)", re.M)
_SECTIONS = (
    re.compile(rf"^(?:{_TOLD})[ \t]*:[ \t]*\n(?:[ \t]+.*\n|\n)*", re.M),  # Google: the indented lines below a heading
    re.compile(rf"^(?:{_TOLD})[ \t]*\n-{{3,}}[ \t]*\n(?:(?!.*\n-{{3,}}).*\n)*", re.M),  # numpy: up to the next heading
    re.compile(r"^(?:@param|:\w+[^:\n]*:).*\n(?:[ \t]+.*\n)*", re.M),  # Sphinx: a field and its indented lines
)


def _without_sections(text: str) -> str:
    """The docstring without its sections of parameters, returns and raises.

    The schema tells the first, and the rest is no help to a model. Notes and examples stay.
    """
    text += "\n"
    for section in _SECTIONS:
        text = section.sub("", text)
    return text.strip()
