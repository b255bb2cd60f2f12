"""`ToolRegistry`, and how ``tools=[...]`` takes any mix of tools, functions, objects, registries and providers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import ConfigurationError
from ..exchange import ChatRequest
from ..tool_set import ToolSet
from .definition import Tool, ToolProvider
from .function import FunctionTool


class ToolRegistry:
    """A mutable collection of tools by name, in order of registration.

    A client that was given a registry sees its changes from the next turn on.
    """

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.version = 0
        """Grows with every change."""
        self.register(*tools)

    def register(self, *tools: Any) -> None:
        """Add tools, functions, or objects with ``@tool`` methods; all of them or none.

        Raises:
            ConfigurationError: names that are already taken; lists all of them with both origins.
        """
        found = [tool for item in tools for tool in _static_tools(item)]
        ToolSet([*self._tools.values(), *found])
        self._tools.update((tool.name, tool) for tool in found)
        self.version += 1

    def unregister(self, name: str) -> Tool:
        """Remove a tool and return it.

        Raises:
            KeyError: there is no tool of that name.
        """
        tool = self._tools.pop(name)
        self.version += 1
        return tool

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    @property
    def direct(self) -> list[Tool]:
        """The tools whose results may be the answer."""
        return [tool for tool in self if tool.return_direct]

    @property
    def normal(self) -> list[Tool]:
        """The tools whose results go back to the model."""
        return [tool for tool in self if not tool.return_direct]

    def __iter__(self) -> Iterator[Tool]:
        return iter(list(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __repr__(self) -> str:
        return f"ToolRegistry({list(self._tools)})"


class ToolSources:
    """What ``tools=[...]`` was given: fixed tools, registries that may change, providers that are asked per turn."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items: list[Tool | ToolRegistry] = []
        self.providers: list[ToolProvider] = []
        self.provided: list[ProvidedTools] = []
        """The same providers, each with what it gave last."""
        self._version = -1
        self._tools = ToolSet()
        for item in _listed(items):
            if isinstance(item, ToolRegistry):
                self._items.append(item)
            elif _is_provider(item):
                self.providers.append(item)
                self.provided.append(ProvidedTools(item))
            else:
                self._items.extend(_static_tools(item))
        self._registries = [item for item in self._items if isinstance(item, ToolRegistry)]
        _ = self.tools  # duplicates are an error here, not at the first call

    @property
    def tools(self) -> ToolSet:
        """All tools that need no provider; the same object until a registry changes."""
        version = sum([registry.version for registry in self._registries]) if self._registries else 0
        if version != self._version:
            self._tools = ToolSet(
                tool for item in self._items for tool in (item if isinstance(item, ToolRegistry) else (item,))
            )
            self._version = version
        return self._tools


def tools_of(obj: Any) -> list[Tool]:
    """The ``@tool`` methods of an object, in order of definition.

    Raises:
        ConfigurationError: there are none.
    """
    found: dict[str, Tool | None] = {}
    owner = obj if isinstance(obj, type) else type(obj)
    for base in reversed(owner.__mro__):
        for name, value in vars(base).items():
            inner = _inner(value)
            if isinstance(inner, FunctionTool):
                target = owner if isinstance(value, classmethod) or inner.binds_class else obj
                found[name] = inner.bind(target) if inner.takes_self else inner
            elif name in found:
                found[name] = None  # overridden by something that is no tool
    tools = [tool for tool in found.values() if tool is not None]
    if not tools:
        raise ConfigurationError(f"{owner.__qualname__} has no @tool methods; decorate some with @tool.")
    return tools


async def provided_tools(provider: ToolProvider, request: ChatRequest) -> list[Tool]:
    """What a provider offers for this request; functions and objects count as in ``tools=[...]``.

    Raises:
        ConfigurationError: the provider gives something else than tools.
    """
    return _tools_in(await _answer(provider, request), provider)


class ProvidedTools:
    """A provider, and what its last answer made of the tools before it: mostly, nothing has changed since."""

    __slots__ = ("provider", "_last")

    def __init__(self, provider: ToolProvider) -> None:
        self.provider = provider
        self._last: tuple[ToolSet, Any, ToolSet] | None = None

    async def added_to(self, request: ChatRequest) -> ToolSet:
        """The request's tools, and what the provider offers for it; the same object as long as both are the same.

        Raises:
            ConfigurationError: the provider gives something else than tools, or a name that is taken.
        """
        before, answer = request.tools, await _answer(self.provider, request)
        last = self._last
        if last is not None and last[0] is before and last[1] is answer:
            return last[2]
        found = _tools_in(answer, self.provider)
        joined = ToolSet([*before, *found]) if found else before
        if type(answer) is tuple and all(isinstance(item, Tool) for item in answer):  # it cannot change behind us
            self._last = (before, answer, joined)
        return joined


async def _answer(provider: ToolProvider, request: ChatRequest) -> Iterable[Any]:
    name = type(provider).__qualname__
    asked: Any = provider.tools(request)
    if not inspect.isawaitable(asked):
        raise ConfigurationError(f"Tool provider {name}: tools(request) must be async def.")
    items: Any = await asked
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"Tool provider {name}: tools(request) must return tools, not {items!r}.")
    return items


def _tools_in(items: Iterable[Any], provider: ToolProvider) -> list[Tool]:
    try:
        return [tool for item in items for tool in _static_tools(item)]
    except ConfigurationError as error:
        raise ConfigurationError(f"Tool provider {type(provider).__qualname__}: {error}") from error


def _listed(items: Any) -> Iterable[Any]:
    if isinstance(items, ToolRegistry):
        return (items,)
    if isinstance(items, Tool | str) or callable(items) or not isinstance(items, Iterable):
        raise ConfigurationError(f"tools= takes a list, for example tools=[{items!r}].")
    return items


def _is_provider(item: Any) -> bool:
    tools = getattr(item, "tools", None)
    return not isinstance(item, type | Tool) and callable(tools) and not isinstance(tools, Tool)


def _static_tools(item: Any) -> Iterable[Tool]:
    if isinstance(item, Tool):
        return (item,)
    if isinstance(item, ToolRegistry):
        return item
    if isinstance(item, type):
        if issubclass(item, Tool):
            raise ConfigurationError(f"{item.__name__} is a class; pass an instance: {item.__name__}().")
        raise ConfigurationError(f"{item.__name__} is a class; pass an instance, for example {item.__name__}(...).")
    if inspect.isroutine(item):
        return (Tool.from_function(item),)
    if isinstance(item, list | tuple):
        return [tool for inner in item for tool in _static_tools(inner)]
    if any(isinstance(_inner(value), FunctionTool) for base in type(item).__mro__ for value in vars(base).values()):
        return tools_of(item)
    if callable(item):
        return (Tool.from_function(item),)
    raise ConfigurationError(
        f"{item!r} ({type(item).__name__}) is no tool: pass a Tool, a function, an object with @tool methods, a "
        "ToolRegistry, or a ToolProvider (async tools(request))."
    )


def _inner(value: Any) -> Any:
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value
