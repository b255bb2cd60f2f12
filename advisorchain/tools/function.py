"""Tools made from Python: a function, a method, a pydantic model with a handler, a JSON schema with a handler."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, overload

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from ..advisor import derived_name
from ..errors import ConfigurationError
from .schema import SchemaArguments, argument_error
from .threads import run_in_thread
from .tool import Tool, ToolContext

_MODEL_ATTRIBUTES = frozenset(dir(BaseModel))


class ModelArguments:
    """Checks arguments with a pydantic model, and gives them as the keyword arguments of a function.

    ``renamed`` maps field names to parameter names that a pydantic model cannot have as fields.
    """

    __slots__ = ("schema", "model", "_from_json", "_from_python", "_renamed")

    def __init__(self, model: type[BaseModel], renamed: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.schema = _without_titles(model.model_json_schema())
        self._from_json = model.__pydantic_validator__.validate_json
        self._from_python = model.__pydantic_validator__.validate_python
        self._renamed = renamed or None

    def instance(self, tool: str, arguments: dict[str, Any] | str | None) -> BaseModel:
        """The arguments as an instance of the model.

        Raises:
            ToolArgumentsError: says field by field what is wrong.
        """
        try:
            if type(arguments) is str and not arguments.isspace() and arguments:
                return self._from_json(arguments)  # type: ignore[no-any-return]
            return self._from_python(arguments or {})  # type: ignore[no-any-return]
        except ValidationError as exc:
            raise argument_error(tool, self._problems(exc)) from None

    def validate(self, tool: str, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
        """The arguments as keyword arguments.

        Raises:
            ToolArgumentsError: says field by field what is wrong.
        """
        values: dict[str, Any] = self.instance(tool, arguments).__dict__  # pyright: ignore[reportAssignmentType]
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


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic adds: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(prop) for name, prop in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


class FunctionTool(Tool):
    """A tool made from a function or a method; see `Tool.from_function` and `tool`."""

    def __init__(self, fn: Any, settings: Mapping[str, Any]) -> None:
        bound = isinstance(fn, classmethod)
        fn = fn.__func__ if isinstance(fn, classmethod | staticmethod) else fn
        name = str(settings.get("name") or getattr(fn, "__name__", type(fn).__name__))
        origin = f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
        signature = _Signature(fn, origin)
        doc = _parse_docstring(inspect.getdoc(fn) if inspect.isroutine(fn) else getattr(fn, "__doc__", None))
        self._set(
            name=name,
            origin=origin,
            description=doc.description,
            output_schema=_output_schema(signature.returns),
            input_schema={},
            _fn=fn,
            _self=None,
            _takes_self=bound or signature.takes_self,
            _is_async=_is_async(fn),
            _context=signature.context,
            _arguments=signature.arguments(name, doc.parameters),
        )
        self._set(input_schema=self._arguments.schema)
        super().__init__(**settings)

    def __get__(self, obj: Any, owner: type | None = None) -> FunctionTool:
        if not self._takes_self or obj is None:
            return self
        return self.bind(obj)

    def bind(self, obj: Any) -> FunctionTool:
        """The tool of a method, bound to its object."""
        new = self.__copy__()
        new._set(_self=obj)
        return new  # type: ignore[return-value]

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function; a sync one in a thread."""
        if self._context is not None:
            arguments = {**arguments, self._context: context}
        fn = self._fn
        if not self._takes_self:
            if self._is_async:
                return await fn(**arguments)
            value = await run_in_thread(self.name, lambda: fn(**arguments))
        else:
            obj = self._self
            if obj is None:
                raise ConfigurationError(
                    f"Tool {self.name!r} is a method: pass an instance of {self.origin.rpartition('.')[0]} as the tool."
                )
            if self._is_async:
                return await fn(obj, **arguments)
            value = await run_in_thread(self.name, lambda: fn(obj, **arguments))
        return await value if inspect.isawaitable(value) else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as plain Python: no validation, no advisors."""
        if self._takes_self and self._self is not None:
            return self._fn(self._self, *args, **kwargs)
        return self._fn(*args, **kwargs)

    # Set through Tool._set; declared for type checkers.
    _fn: Any
    _self: Any
    _takes_self: bool
    _is_async: bool
    _context: str | None
    _arguments: ModelArguments


class ModelTool(Tool):
    """A tool whose arguments are a pydantic model; see `Tool.from_model`."""

    _arguments: ModelArguments
    _handler: Callable[..., Any]

    def __init__(self, model: type[BaseModel], handler: Callable[..., Any], settings: Mapping[str, Any]) -> None:
        arguments = ModelArguments(model)
        self._set(
            name=derived_name(model),
            description=inspect.cleandoc(model.__doc__ or ""),
            origin=f"{model.__module__}.{model.__qualname__}",
            input_schema=arguments.schema,
            _arguments=arguments,
            _handler=handler,
        )
        super().__init__(**settings)

    def validate(self, arguments: dict[str, Any] | str | None) -> Any:
        """The arguments as an instance of the model."""
        return self._arguments.instance(self.name, arguments)

    async def handle(self, arguments: Any, context: ToolContext) -> Any:
        """Call the handler with the model instance; a sync one in a thread."""
        return await _call_handler(self.name, self._handler, arguments)


class SchemaTool(Tool):
    """A tool from a JSON schema; see `Tool.from_schema`."""

    _handler: Callable[..., Any]

    def __init__(
        self,
        name: str,
        handler: Callable[[dict[str, Any]], Any],
        input_schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
    ) -> None:
        schema = {"type": "object", "properties": {}} if input_schema is None else input_schema
        self._set(
            name=name,
            origin=f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', name)}",
            input_schema=schema,
            _arguments=SchemaArguments(schema),
            _handler=handler,
        )
        super().__init__(**settings)

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the handler with the arguments; a sync one in a thread."""
        return await _call_handler(self.name, self._handler, arguments)


def _is_async(fn: Any) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004


async def _call_handler(name: str, handler: Callable[..., Any], argument: Any) -> Any:
    if _is_async(handler):
        return await handler(argument)
    value = await run_in_thread(name, lambda: handler(argument))
    return await value if inspect.isawaitable(value) else value


class _Signature:
    """What a function's signature says about a tool."""

    def __init__(self, fn: Any, origin: str) -> None:
        self.origin = origin
        parameters = list(inspect.signature(fn).parameters.values())
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
        for index, (parameter, hint) in enumerate(self.parameters):
            field_name = parameter.name
            if field_name in _MODEL_ATTRIBUTES or field_name.startswith(("_", "model_")):
                field_name = f"parameter_{index}"
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
        optional = type(None) in typing.get_args(hint) and field.is_required()  # X | None needs no value
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


def _output_schema(returns: Any) -> Mapping[str, Any] | None:
    is_object = isinstance(returns, type) and (
        issubclass(returns, BaseModel) or dataclasses.is_dataclass(returns) or typing.is_typeddict(returns)
    )
    if not is_object:
        return None
    try:
        schema: Mapping[str, Any] = _without_titles(TypeAdapter(returns).json_schema(mode="serialization"))
    except Exception:  # a return type without a schema is no fault: the result is still JSON
        return None
    return schema if schema.get("type") == "object" else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Docstring:
    description: str
    parameters: Mapping[str, str]


def _parse_docstring(text: str | None) -> _Docstring:
    if not text or not text.strip():
        return _Docstring("", {})
    if not _SECTION.search(text):
        return _Docstring(inspect.cleandoc(text), {})
    from docstring_parser import parse

    parsed = parse(text)
    description = "\n\n".join(filter(None, (parsed.short_description, parsed.long_description)))
    return _Docstring(description, {p.arg_name: p.description or "" for p in parsed.params})


_SECTION = re.compile(
    r"^\s*(?:(?:Args|Arguments|Parameters|Params|Returns|Raises|Yields)\s*:?\s*$|:param|:return|@param)", re.M
)


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    return_direct: bool = False,
    timeout: float | None = 60.0,
    idempotent: bool | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    open_world: bool | None = None,
    parallel: bool = True,
    repeatable: bool = False,
    meta: Mapping[str, Any] | None = None,
    tags: typing.Iterable[str] = (),
    output_schema: Mapping[str, Any] | None = None,
    result_converter: Callable[[Any], Any] | None = None,
    max_result_chars: int | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(fn: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a tool of a function or of a method: ``@tool`` or ``@tool(return_direct=True, timeout=10)``.

    Type hints and docstring become the schema, see `Tool.from_function`; the settings are the attributes of `Tool`.
    The result is a `Tool` that is still callable as the function. A method becomes a tool of each instance:
    pass the instance in ``tools=[...]``.

    Raises:
        ConfigurationError: a parameter has no JSON schema; names function, parameter and type.
    """
    if fn is not None:
        return FunctionTool(fn, {})
    given = {key: value for key, value in settings.items() if value is not None or key == "timeout"}
    return lambda function: FunctionTool(function, given)
