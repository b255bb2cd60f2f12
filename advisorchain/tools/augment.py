"""Augmented tools: extra arguments that the model fills in for the application, not for the tool."""

from __future__ import annotations

import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast, overload

from pydantic import BaseModel, ValidationError

from ..errors import ConfigurationError, ToolArgumentsError
from ..exchange import ChatRequest
from ..invocation import ToolInvocation
from ..messages import ToolCall
from .definition import Tool, ToolProvider
from .model_arguments import without_titles
from .registry import ToolRegistry, ToolSources, provided_tools
from .schema_arguments import argument_error

logger = logging.getLogger("advisorchain.tools")

M = TypeVar("M", bound=BaseModel)

MAX_AUGMENTED = 10_000
"""How many tools of a provider are remembered with what became of them."""


class AugmentedCall(NamedTuple, Generic[M]):
    """What a consumer gets of one call, before the tool runs.

    Attributes:
        tool: the tool as it was before it was augmented.
        call: the model's call, extra arguments included.
        request: the request whose answer made the call.
        arguments: the extra arguments.
    """

    tool: Tool
    call: ToolCall
    request: ChatRequest
    arguments: M


Consumer: TypeAlias = Callable[[AugmentedCall[M]], Awaitable[None] | None]
"""Gets the extra arguments, sync or async. What it raises becomes the result of the call, and the tool does not run."""


class Augmentation(Generic[M]):
    """Extra arguments, and who gets them.

    Args:
        model: the fields that are added to the schema.
        consumer: gets them; None: nobody.
        keep: they reach the tool, too, which must take arguments that its schema does not name.
        required: calls without valid extra arguments do not run; else they run, and the consumer is not asked.

    Raises:
        ConfigurationError: one of these is something else.
    """

    def __init__(
        self, model: type[M], consumer: Consumer[M] | None = None, *, keep: bool = False, required: bool = False
    ) -> None:
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or not model.model_fields:
            raise ConfigurationError(f"augment takes a pydantic model with fields, not {model!r}.")
        if consumer is not None and not callable(consumer):
            raise ConfigurationError(f"consumer= takes a function of the augmented call, not {consumer!r}.")
        self.model = model
        self.consumer = consumer
        self.keep = keep
        self.required = required
        self.schema: Mapping[str, Any] = without_titles(model.model_json_schema())
        self.names = frozenset(self.schema["properties"])

    def added_to(self, tool: Tool) -> dict[str, Any]:
        """The tool's schema with the extra arguments, which come first: the model fills them in first.

        Raises:
            ConfigurationError: a name is taken; or the tool cannot keep extra arguments.
        """
        own = dict(tool.input_schema)
        taken = sorted(self.names & set(own.get("properties", {})))
        if taken:
            raise ConfigurationError(
                f"Tool {tool.name!r} has {', '.join(map(repr, taken))} already, which {self.model.__name__} would add: "
                f"rename the fields of {self.model.__name__}."
            )
        if self.keep and own.get("additionalProperties") is False:
            raise ConfigurationError(
                f"keep=True: the tool {tool.name!r} takes no arguments beside those of its schema; leave keep out, and "
                "use the extra arguments in the consumer."
            )
        extra = self.schema
        if "$defs" in extra:
            extra, definitions = _with_own_definitions(extra, own.get("$defs", {}), self.model.__name__)
            own["$defs"] = {**own.get("$defs", {}), **definitions}
        own["properties"] = {**extra["properties"], **own.get("properties", {})}
        needed = [*extra.get("required", ()), *own.get("required", ())]
        if needed:
            own["required"] = needed
        own.setdefault("type", "object")
        return own

    def split(self, arguments: Any) -> tuple[Any, dict[str, Any] | None]:
        """The arguments for the tool, in the form in which they came, and the extra ones.

        None: the arguments are no JSON object; the tool says so.
        """
        parsed = arguments
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments) if arguments.strip() else {}
            except (ValueError, RecursionError):
                return arguments, None
        if parsed is None:
            parsed = {}
        if not isinstance(parsed, dict):
            return arguments, None
        extra = {name: value for name, value in parsed.items() if name in self.names}
        if self.keep or not extra:
            return arguments, extra
        rest = {name: value for name, value in parsed.items() if name not in self.names}
        return json.dumps(rest) if isinstance(arguments, str) else rest, extra

    def typed(self, tool: str, arguments: Any) -> M | None:
        """The extra arguments; None: they are invalid, and not required.

        Raises:
            ToolArgumentsError: they are invalid, and required; says field by field what is wrong.
        """
        extra = self.split(arguments)[1]
        if extra is None:
            return None
        try:
            if isinstance(arguments, str):
                return self.model.model_validate_json(json.dumps(extra))
            return self.model.model_validate(extra)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False, include_context=False)
            problems = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in details]
            failure: ToolArgumentsError = argument_error(tool, problems)
        if self.required:
            raise failure
        logger.info("Tool %r: the extra arguments are not valid, and were left out: %s", tool, ", ".join(problems))
        return None

    async def deliver(self, tool: Tool, invocation: ToolInvocation, arguments: M) -> None:
        """Hand the extra arguments of a call to the consumer."""
        if self.consumer is not None:
            waiting = self.consumer(AugmentedCall(tool, invocation.call, invocation.request, arguments))
            if inspect.isawaitable(waiting):
                await waiting


def _with_own_definitions(
    schema: Mapping[str, Any], taken: Mapping[str, Any], prefix: str
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The schema and its ``$defs``, renamed where the tool means something else by a name."""
    definitions = schema["$defs"]
    names = {
        name: name if taken.get(name, value) == value else f"{prefix}_{name}" for name, value in definitions.items()
    }

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if not isinstance(value, dict):
            return value
        new = {key: renamed(inner) for key, inner in value.items()}
        reference = new.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            new["$ref"] = f"#/$defs/{names[reference.removeprefix('#/$defs/')]}"
        return new

    return renamed(dict(schema)), {names[name]: renamed(value) for name, value in definitions.items()}


class AugmentedTool(Tool):
    """What an augmented tool does otherwise than the tool; made by `augment`, on top of the tool's own class."""

    plain: Tool
    augmentation: Augmentation[Any]
    _schema: Mapping[str, Any]

    @property
    def input_schema(self) -> Mapping[str, Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tool's own schema with the extra arguments."""
        return self._schema

    def replace(self, **changes: Any) -> Tool:
        """A changed copy; the tool inside is changed alike."""
        new = super().replace(**changes)
        new.__dict__["plain"] = self.plain.replace(**changes)
        return new

    def bind(self, obj: Any) -> Tool:
        """The tool of a method, bound to its object."""
        new: Tool = super().bind(obj)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]  # of `FunctionTool`
        plain: Any = self.plain
        new.__dict__["plain"] = plain.bind(obj)
        return new

    def validate(self, arguments: dict[str, Any] | str | None) -> Any:
        """The tool's own arguments.

        Raises:
            ToolArgumentsError: they are invalid, or the extra ones are and are required.
        """
        augmentation = self.augmentation
        if augmentation.required:
            augmentation.typed(self.name, arguments)
        return self.plain.validate(augmentation.split(arguments)[0])

    async def start(self, arguments: Any, invocation: ToolInvocation) -> Any:
        """One attempt: hand over the extra arguments, then run the tool without them."""
        augmentation = self.augmentation
        call = invocation.call
        extra = augmentation.typed(self.name, call.arguments)
        plain = self.plain
        if extra is not None:
            await augmentation.deliver(plain, invocation, extra)
        stripped = call.replace(arguments=augmentation.split(call.arguments)[0])
        running: Coroutine[Any, Any, Any] = plain.start(arguments, invocation.replace(call=stripped, tool=plain))
        return await running

    @property
    def reads_context(self) -> bool:
        """True: the consumer sees every call, so none is answered from a cache."""
        return True


_CLASSES: dict[type[Tool], type[Tool]] = {}


def _augmented_class(cls: type[Tool]) -> type[Tool]:
    """The class of a tool, augmented: whatever else a tool of that class is and can, it stays."""
    if issubclass(cls, AugmentedTool):
        return cls
    found = _CLASSES.get(cls)
    if found is None:
        found = _CLASSES[cls] = type(cls.__name__, (AugmentedTool, cls), {"__module__": cls.__module__})
    return found


def augmented(tool: Tool, augmentation: Augmentation[Any]) -> AugmentedTool:
    """The tool with extra arguments.

    Raises:
        ConfigurationError: a name is taken; or the tool cannot keep extra arguments.
    """
    schema = augmentation.added_to(tool)
    cls = type(tool)
    new = cast("AugmentedTool", object.__new__(_augmented_class(cls)))
    new.__dict__.update(tool.__dict__)
    new.__dict__.pop("input_schema", None)
    new.__dict__.update(_schema=schema, plain=tool, augmentation=augmentation)
    return new


class AugmentedTools:
    """Augments tools with one augmentation, each of them once; remembers the latest `MAX_AUGMENTED`."""

    def __init__(self, augmentation: Augmentation[Any]) -> None:
        self.augmentation = augmentation
        self._known: OrderedDict[int, Tool] = OrderedDict()  # by id of the tool, which it holds

    def of(self, tool: Tool) -> Tool:
        """The tool, augmented; one of a stranger that cannot be, as it is: its choice of names must not end the turn.

        Raises:
            ConfigurationError: a name is taken; or the tool cannot keep extra arguments.
        """
        found = self._known.get(id(tool))
        if found is None:
            try:
                found = augmented(tool, self.augmentation)
            except ConfigurationError as error:
                if tool.trusted:
                    raise
                logger.warning("%s It is offered without them, for its source is not trusted.", error)
                found = tool
            self._known[id(tool)] = found
            while len(self._known) > MAX_AUGMENTED:
                self._known.popitem(last=False)
        return found


class AugmentedProvider:
    """The tools of a provider or of a registry, augmented; made by `augment`."""

    def __init__(self, source: ToolProvider | ToolRegistry, augmentation: Augmentation[Any]) -> None:
        self._source = source
        self._augmented = AugmentedTools(augmentation)

    @property
    def instructions(self) -> Mapping[str, str] | None:
        """What the source wants the system message to say."""
        return getattr(self._source, "instructions", None)

    async def tools(self, request: ChatRequest) -> Iterable[Tool]:
        """What the source offers now, with the extra arguments."""
        source = self._source
        found = list(source) if isinstance(source, ToolRegistry) else await provided_tools(source, request)
        return [self._augmented.of(tool) for tool in found]


@overload
def augment(
    tools: Tool | Callable[..., Any], model: type[M], consumer: Consumer[M] | None = ..., *, keep: bool = ...,
    required: bool = ...,
) -> Tool: ...  # fmt: skip
@overload
def augment(
    tools: ToolProvider | ToolRegistry, model: type[M], consumer: Consumer[M] | None = ..., *, keep: bool = ...,
    required: bool = ...,
) -> ToolProvider: ...  # fmt: skip
@overload
def augment(
    tools: object, model: type[M], consumer: Consumer[M] | None = ..., *, keep: bool = ..., required: bool = ...
) -> Any: ...
def augment(
    tools: Any, model: type[M], consumer: Consumer[M] | None = None, *, keep: bool = False, required: bool = False
) -> Any:
    """Add a model's fields to what tools ask of the chat model, and hand them to ``consumer`` before the tool runs.

    Every property of a tool stays: ``return_direct``, hints, tags, source, timeout, converter.

    Args:
        tools: a tool or a function; an object with ``@tool`` methods; a provider or a registry; or a list of these.
        model: a pydantic model: the extra arguments, for example a reason or a confidence.
        consumer: ``consumer(call)``, sync or async, gets an `AugmentedCall`: ``tool``, ``call``, ``request``, and
            ``arguments``, an instance of the model. It is awaited before the tool runs; an error that it raises becomes
            the result of the call, and the tool does not run. A retry of the call asks it again.
        keep: the extra arguments reach the tool, too; it must take arguments that its schema does not name.
        required: a call without valid extra arguments gets an error result. Default: it runs, and the consumer is not
            asked.

    Returns:
        A `Tool` for a tool or a function, a provider for a provider or a registry, a list for the others.

    Raises:
        ConfigurationError: a tool has an argument of that name already (for a provider: in the call), or an argument
            is wrong.
    """
    return _augment(tools, Augmentation(model, consumer, keep=keep, required=required))


def _augment(tools: Any, augmentation: Augmentation[Any]) -> Any:
    if isinstance(tools, list | tuple):
        found: list[Any] = []
        for item in tools:
            more = _augment(item, augmentation)
            found.extend(more) if isinstance(more, list) else found.append(more)
        return found
    if isinstance(tools, ToolRegistry):
        return AugmentedProvider(tools, augmentation)
    sources = ToolSources([tools])
    if sources.providers:
        return AugmentedProvider(sources.providers[0], augmentation)
    made = [augmented(tool, augmentation) for tool in sources.tools]
    return made[0] if isinstance(tools, Tool) or inspect.isroutine(tools) else made
