"""What a tool is: name, description, schema, flags, and ``async handle(arguments, context)``."""

from __future__ import annotations

import builtins
import copy
import inspect
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from ..context import Context
from ..errors import ConfigurationError
from ..exchange import RETURN_DIRECT, ChatRequest
from ..invocation import ToolInvocation, ToolResult
from ..messages import ToolCall
from .result import bounded, convert_result
from .schema_arguments import NO_ARGUMENTS, SchemaArguments, check_schema

if TYPE_CHECKING:
    from .registry import ToolRegistry

logger = logging.getLogger("advisorchain.tools")

DEFAULT_TIMEOUT = 60.0
"""Seconds one tool call may take, unless the tool says otherwise."""

M = TypeVar("M", bound=BaseModel)

ResultConverter = Callable[[Any], Any]

_NAME = re.compile(r"[^\s<>\x00-\x1f]{1,128}")
_NAME_WORDS = re.compile(r"[_\-.]+|(?<=[a-z0-9])(?=[A-Z])")


class ToolContext:
    """What a tool may know about its call: declare a parameter of this type to receive it; the model never sees it."""

    __slots__ = ("invocation",)

    def __init__(self, invocation: ToolInvocation) -> None:
        self.invocation = invocation

    @property
    def call(self) -> ToolCall:
        """The model's call."""
        return self.invocation.call

    @property
    def request(self) -> ChatRequest:
        """The request whose answer made the call."""
        return self.invocation.request

    @property
    def context(self) -> Context:
        """What the turn shares."""
        return self.invocation.request.context

    @property
    def conversation_id(self) -> str | None:
        """The conversation's id, or None."""
        return self.invocation.request.conversation_id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call and for no other call: turn id and call id."""
        return f"{self.context.turn.id}:{self.call.id}"

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the stream; does nothing under ``call``."""
        await self.invocation.progress(progress, total, message)


class Tool:
    """Something the model may call. Immutable: `replace` gives a changed copy.

    Made by `from_function` (or ``@tool``), `from_object`, `from_model`, `from_schema`, or by subclassing with class
    attributes, ``input_schema`` (or a pydantic model ``Arguments``) and ``async def handle(arguments, context)``.

    Attributes:
        name: what the model calls.
        title: for people; default: the name.
        description: for the model.
        input_schema: JSON schema of the arguments.
        output_schema: JSON schema of the structured result, or None.
        meta: anything; shown to the model only with ``description_with_meta``.
        tags: for filters and search.
        return_direct: the result may be the answer itself; see `ReturnDirectAdvisor`.
        read_only, destructive, idempotent, open_world: hints, None when unknown.
        timeout: seconds per attempt; None for no limit.
        parallel: False: never runs beside another call of its round.
        repeatable: exempt from the limit of identical calls (polling).
        result_converter: turns the returned value into text (or anything that a tool may return).
        max_result_chars: how much of the text the model reads; None: the loop's limit.
        source, trusted: where the tool lives, and whether its text is trusted.
        origin: where it was made, for error texts and ``explain()``.
        type: ``"function"``.
    """

    name: str = ""
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] = NO_ARGUMENTS
    output_schema: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] = {}
    tags: frozenset[str] = frozenset()
    return_direct: bool = False
    return_direct_from: str = "tool"
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    parallel: bool = True
    repeatable: bool = False
    result_converter: ResultConverter | None = None
    max_result_chars: int | None = None
    source: str = "local"
    trusted: bool = True
    origin: str = ""
    Arguments: builtins.type[BaseModel] | None = None
    type: str = "function"

    _SETTINGS = frozenset({
        "name", "title", "description", "type", "output_schema", "meta", "tags", "return_direct", "read_only",
        "destructive", "idempotent", "open_world", "timeout", "parallel", "repeatable", "result_converter",
        "max_result_chars", "source", "trusted", "origin",
    })  # fmt: skip

    def __init__(self, **settings: Any) -> None:
        arguments = type(self).Arguments
        if arguments is not None:
            from .model_arguments import ModelArguments

            checked: Any = ModelArguments(arguments)
            self._set(input_schema=checked.schema, _arguments=checked)
        elif "_arguments" not in self.__dict__:
            check_schema(self.name, self.input_schema)
            self._set(_arguments=SchemaArguments(self.input_schema))
        self._apply(settings)
        if not self.name:
            raise ConfigurationError(f"{type(self).__name__} has no name; set name.")
        _check_name(self.name)
        if not inspect.iscoroutinefunction(self.handle):
            raise ConfigurationError(
                f"{type(self).__name__}.handle must be async def handle(self, arguments, context)."
            )
        if not self.origin:
            self._set(origin=f"{type(self).__module__}.{type(self).__qualname__}")
        self._complete()

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def _apply(self, settings: Mapping[str, Any]) -> None:
        unknown = settings.keys() - self._SETTINGS
        if unknown:
            raise ConfigurationError(
                f"Tool {settings.get('name') or self.name!r}: unknown setting {', '.join(sorted(unknown))}; "
                f"known are {', '.join(sorted(self._SETTINGS))}."
            )
        values = dict(settings)
        if "tags" in values:
            values["tags"] = frozenset(values["tags"] or ())
        if values.get("meta", {}) is None:
            values["meta"] = {}
        if "name" in values:
            _check_name(values["name"])
        if not isinstance(values.get("return_direct", False), bool):
            raise ConfigurationError(f"Tool {self.name!r}: return_direct must be True or False.")
        timeout = values.get("timeout")
        if timeout is not None and (not isinstance(timeout, int | float) or timeout <= 0):
            raise ConfigurationError(f"Tool {self.name!r}: timeout must be over 0 seconds, or None (is {timeout!r}).")
        limit = values.get("max_result_chars")
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise ConfigurationError(
                f"Tool {self.name!r}: max_result_chars must be at least 0, or None (is {limit!r})."
            )
        self._set(**values)

    def _complete(self) -> None:
        words = " ".join(_NAME_WORDS.sub(" ", self.name).split())
        if not self.description:
            logger.warning("Tool %r (%s) has no description; the model sees %r.", self.name, self.origin, words)
            self._set(description=words)
        if not self.title:
            self._set(title=words)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Tool {self.name!r} is immutable; use tool.replace({name}=...).")

    def replace(self, **changes: Any) -> Tool:
        """A changed copy: ``tool.replace(name=..., meta=..., return_direct=...)``.

        Raises:
            ConfigurationError: a setting is unknown.
        """
        new = copy.copy(self)
        new._apply(changes)
        if "return_direct" in changes and "return_direct_from" not in changes:
            new._set(return_direct_from="tool.replace()")
        return new

    def __copy__(self) -> Tool:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    @property
    def label(self) -> str:
        """What a system message may call the tool: the title, unless a stranger has written it."""
        return self.title

    @property
    def description_with_meta(self) -> str:
        """The description with the tool's ``meta`` behind it, for models that should read it."""
        if not self.meta:
            return self.description
        from pydantic_core import to_json

        return f"{self.description} (meta: {to_json(dict(self.meta), fallback=str).decode()})"

    def validate(self, arguments: dict[str, Any] | str | None) -> dict[str, Any]:
        """The arguments, checked against the schema and converted.

        Raises:
            ToolArgumentsError: says field by field what is wrong.
        """
        return self._arguments.validate(self.name, arguments)  # type: ignore[attr-defined, no-any-return]

    async def handle(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Run the tool; the returned value is converted by `convert`."""
        raise ConfigurationError(f"{type(self).__name__} does not define async handle(arguments, context).")

    def start(self, arguments: Any, invocation: ToolInvocation) -> Coroutine[Any, Any, Any]:
        """One attempt, as a coroutine: `handle` with its context."""
        return self.handle(arguments, ToolContext(invocation))

    def convert(self, value: Any) -> ToolResult:
        """The value as a `ToolResult`, through ``result_converter`` if there is one."""
        if isinstance(value, ToolResult):
            content = bounded(value.content)
            return value if content is value.content else value.with_text(content)
        converter = self.result_converter
        if converter is None:
            return convert_result(value)
        converted = converter(value)
        if inspect.isawaitable(converted):
            raise ConfigurationError(f"Tool {self.name!r}: result_converter must be a plain function, not async.")
        return convert_result(converted).replace(artifact=value)

    @property
    def target(self) -> Any:
        """What runs behind the tool: the same for copies that `replace` made, another one for another object."""
        return self

    @property
    def reads_context(self) -> bool:
        """Whether ``handle`` may look at its `ToolContext`, so that the arguments alone do not make the result."""
        return True

    @property
    def policy_name(self) -> str:
        """What policies call the tool: its name; a tool of an MCP server is ``server/name``, as the server names it.

        So a policy for a tool of this program never holds for one from elsewhere that takes its name.
        """
        return self.name

    def is_direct(self, context: Context) -> bool:
        """Whether the result may be the answer: the call's or client's override over the tool's own flag."""
        overrides = context.get(RETURN_DIRECT)
        if overrides:
            flag = overrides.get(self.policy_name)
            if flag is not None:
                return flag
        return self.return_direct

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function behind the tool as plain Python."""
        raise TypeError(f"Tool {self.name!r} is not made from a function; use client.call(...).")

    def __repr__(self) -> str:
        return f"<Tool {self.name!r} from {self.origin}>"

    @staticmethod
    def from_function(fn: Callable[..., Any], **settings: Any) -> Tool:
        """A tool from a function: type hints and docstring become the schema.

        Sync functions run in a thread with their context variables. A parameter of type `ToolContext` is injected.

        Raises:
            ConfigurationError: a parameter has no JSON schema; names function, parameter and type.
        """
        from .function import FunctionTool

        return FunctionTool(fn, settings)

    @staticmethod
    def from_object(obj: Any) -> ToolRegistry:
        """All ``@tool`` methods of an object, in order of definition, as a `ToolRegistry`.

        Raises:
            ConfigurationError: the object has no ``@tool`` method.
        """
        from .registry import ToolRegistry, tools_of

        return ToolRegistry(tools_of(obj))

    @staticmethod
    def from_model(model: builtins.type[M], handler: Callable[[M], Any], **settings: Any) -> Tool:
        """A tool whose arguments are a pydantic model: ``handler(model_instance)``, sync or async.

        The name defaults to the model's in snake_case, the description to its docstring.
        """
        from .function import ModelTool

        return ModelTool(model, handler, settings)

    @staticmethod
    def from_schema(
        name: str,
        handler: Callable[[dict[str, Any]], Any],
        *,
        input_schema: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Tool:
        """A tool from a JSON schema and ``handler(arguments: dict) -> value``, sync or async.

        Raises:
            ConfigurationError: the schema is no JSON schema of an object.
        """
        from .function import SchemaTool

        return SchemaTool(name, handler, input_schema, settings)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"A tool cannot be named {name!r}: give it name= of letters, digits, '_' and '-'.")


@runtime_checkable
class ToolProvider(Protocol):
    """A source of tools that is asked once per turn, before the first round.

    It may have ``instructions``, a mapping of sources to texts that the system message says beside the tools.
    """

    async def tools(self, request: ChatRequest) -> Iterable[Tool]:
        """The tools that are available now, for this request."""
        ...
