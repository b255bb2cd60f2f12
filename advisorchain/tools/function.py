"""Tools made from Python: a function, a method, a pydantic model with a handler, a JSON schema with a handler."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, overload

from pydantic import BaseModel

from ..advisor import derived_name
from ..async_callable import is_async
from ..errors import ConfigurationError
from ..invocation import ToolInvocation
from .definition import Tool, ToolContext
from .model_arguments import ModelArguments
from .schema_arguments import SchemaArguments, check_schema
from .signature import Signature, output_schema, parse_docstring
from .threads import run_in_thread


class FunctionTool(Tool):
    """A tool made from a function or a method; see `Tool.from_function` and `tool`."""

    def __init__(self, fn: Any, settings: Mapping[str, Any]) -> None:
        binds_class = isinstance(fn, classmethod)
        fn = fn.__func__ if isinstance(fn, classmethod | staticmethod) else fn
        if isinstance(fn, Tool):
            raise ConfigurationError(f"{fn!r} is a tool already; change it with tool.replace(...).")
        if inspect.isasyncgenfunction(fn):
            raise ConfigurationError(
                f"Tool function {getattr(fn, '__qualname__', fn)} is an async generator; return one value, and report "
                "progress with ToolContext.progress(...)."
            )
        named = fn.func if isinstance(fn, partial) else fn
        name = str(settings.get("name") or getattr(named, "__name__", type(fn).__name__))
        origin = f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', type(fn).__qualname__)}"
        signature = Signature(fn, origin)
        doc = parse_docstring(inspect.getdoc(named) if inspect.isroutine(named) else getattr(named, "__doc__", None))
        self._set(
            name=name,
            origin=origin,
            description=doc.description,
            output_schema=output_schema(signature.returns),
            input_schema={},
            _fn=fn,
            _self=None,
            takes_self=binds_class or signature.takes_self,
            binds_class=binds_class,
            _is_async=is_async(fn),
            _context=signature.context,
            _arguments=signature.arguments(name, doc.parameters),
        )
        is_plain = inspect.iscoroutinefunction(fn) and not self.takes_self and self._context is None
        self._set(_is_plain=is_plain)  # nothing to inject: it can be called as it is
        self._set(input_schema=self._arguments.schema)
        super().__init__(**settings)

    def __get__(self, obj: Any, owner: type | None = None) -> FunctionTool:
        if self.binds_class:
            return self.bind(owner)
        return self if obj is None or not self.takes_self else self.bind(obj)

    def bind(self, obj: Any) -> FunctionTool:
        """The tool of a method, bound to its object."""
        new = self.__copy__()
        new._set(_self=obj)
        return new  # type: ignore[return-value]

    def start(self, arguments: dict[str, Any], invocation: ToolInvocation) -> Coroutine[Any, Any, Any]:
        """One attempt: the plain async function itself, else `handle`."""
        if self._is_plain:
            return self._fn(**arguments)  # type: ignore[no-any-return]
        return self.handle(arguments, ToolContext(invocation))

    @property
    def target(self) -> Any:
        """The function and the object that it is bound to."""
        return self._fn, self._self

    @property
    def reads_context(self) -> bool:
        """Whether the function has a `ToolContext` parameter."""
        return self._context is not None

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function; a sync one in a thread."""
        if self._context is not None:
            arguments = {**arguments, self._context: context}
        fn = self._fn
        if not self.takes_self:
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
        if self.takes_self and self._self is not None:
            return self._fn(self._self, *args, **kwargs)
        return self._fn(*args, **kwargs)

    # Set through Tool._set; declared for type checkers.
    _fn: Any
    _self: Any
    takes_self: bool
    binds_class: bool
    _is_async: bool
    _is_plain: bool
    _context: str | None
    _arguments: ModelArguments


class _HandlerTool(Tool):
    """A tool with a handler, which gets the arguments as one value."""

    _handler: Callable[[Any], Any]

    @property
    def target(self) -> Any:
        """The handler."""
        return self._handler

    @property
    def reads_context(self) -> bool:
        """False: the handler sees the arguments only."""
        return False

    async def handle(self, arguments: Any, context: ToolContext) -> Any:
        """Call the handler with the arguments; a sync one in a thread."""
        handler = self._handler
        if is_async(handler):
            return await handler(arguments)
        value = await run_in_thread(self.name, lambda: handler(arguments))
        return await value if inspect.isawaitable(value) else value


class ModelTool(_HandlerTool):
    """A tool whose arguments are a pydantic model; see `Tool.from_model`."""

    _arguments: ModelArguments

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


class SchemaTool(_HandlerTool):
    """A tool from a JSON schema; see `Tool.from_schema`."""

    def __init__(
        self,
        name: str,
        handler: Callable[[dict[str, Any]], Any],
        input_schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
    ) -> None:
        schema: Mapping[str, Any] = {"type": "object"} if input_schema is None else input_schema
        check_schema(name, schema)
        self._set(
            name=name,
            origin=f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', name)}",
            input_schema=schema,
            _arguments=SchemaArguments(schema),
            _handler=handler,
        )
        super().__init__(**settings)


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
