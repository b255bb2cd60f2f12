"""What the annotation of an option says about the values that a file may give it."""

from __future__ import annotations

import collections.abc
import dataclasses
import importlib
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from ..exchange import ChatNext

_GROUPS = {
    "advisorchain.memory.store.MemoryStore": "memory_stores",
    "advisorchain.audit.sink.AuditSink": "audit_sinks",
    "advisorchain.tool_index.index.ToolIndex": "tool_indexes",
    "advisorchain.models.model.ChatModel": "models",
    "advisorchain.advisor.Advisor": "advisors",
}
_PARTS: dict[str, dict[str, str]] = {
    "advisorchain.memory.windows.Window": {
        "last_turns": "advisorchain.memory:LastTurns",
        "last_messages": "advisorchain.memory:LastMessages",
        "tokens": "advisorchain.memory:TokenWindow",
    },
    "advisorchain.shared_state.SharedState": {"in_memory": "advisorchain.shared_state:InMemorySharedState"},
    "advisorchain.advisors.budget.BudgetState": {"in_memory": "advisorchain.advisors.budget:InMemoryBudget"},
}
_MAPPINGS = (collections.abc.Mapping, collections.abc.MutableMapping, dict)
_LISTS = (
    collections.abc.Iterable, collections.abc.Collection, collections.abc.Sequence, collections.abc.MutableSequence,
    collections.abc.Set, list, tuple, set, frozenset,
)  # fmt: skip


class Hint(NamedTuple):
    """The kinds of values that an option takes."""

    plain: tuple[Any, ...] = ()
    """Types of single values: str, int, float, bool, literals, and others that pydantic can check."""
    none: bool = False
    anything: bool = False
    """Nothing is known, or any value will do."""
    group: str | None = None
    """A plugin of this group."""
    makes: bool = False
    """A function that makes plugins of the group, one for each use."""
    parts: Mapping[str, str] | None = None
    """Short names of objects, for example of windows."""
    function: bool = False
    """A function, or a class."""
    thing: bool = False
    """An instance of a class of which nothing is known here."""
    is_path: bool = False
    items: Any = None
    """The hint's annotation of a list."""
    values: Any = None
    """The annotation of a table's values."""
    keys: Any = str
    dataclass: type | None = None


def annotations_of(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a class's or a factory's options; one that cannot be read is `Any`."""
    target: Any = factory
    if inspect.isclass(factory):
        target = factory.__init__
    elif isinstance(factory, partial):
        target = factory.func
    target = inspect.unwrap(target)
    names: dict[str, Any] = getattr(target, "__globals__", {})
    found: dict[str, Any] = {}
    for name, annotation in dict(getattr(target, "__annotations__", {})).items():
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, names)
        found[name] = annotation
    return found


def _evaluated(annotation: str, names: dict[str, Any]) -> Any:
    """What `typing.get_type_hints` does, for one annotation: it is the plugin's own source."""
    try:
        return eval(annotation, names)
    except NameError:  # a name that only type checkers import
        pass
    except Exception:
        return Any
    try:
        return eval(annotation, names, _Known())
    except Exception:
        return Any


class _Known(dict[str, Any]):
    """The types of `_GROUPS` and `_PARTS` by their names alone."""

    def __missing__(self, name: str) -> Any:
        for whole in (*_GROUPS, *_PARTS):
            module, _, own = whole.rpartition(".")
            if own == name:
                return getattr(importlib.import_module(module), name)
        raise KeyError(name)


def hint_of(annotation: Any) -> Hint:
    """What is known of an annotation."""
    hint = Hint()
    plain: list[Any] = []
    for member in _members(annotation):
        hint = _with(hint, member, plain)
    return hint._replace(plain=tuple(plain))


def _members(annotation: Any) -> Iterable[Any]:
    """The members of a union, however it is written."""
    origin = get_origin(annotation)
    if annotation is ChatNext or annotation == ChatNext:
        yield ChatNext
    elif origin is Union or isinstance(annotation, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif isinstance(annotation, TypeVar):
        yield from _members(annotation.__bound__ if annotation.__bound__ is not None else Any)
    elif type(annotation).__name__ == "TypeAliasType":
        yield from _members(annotation.__value__)
    elif origin is Annotated:
        inner = get_args(annotation)[0]
        parts = list(_members(inner))
        # What is annotated is checked by pydantic as a whole, unless it is nothing that pydantic knows.
        yield from [annotation] if len(parts) == 1 and _is_plain(parts[0]) else parts
    else:
        yield annotation


def _with(hint: Hint, member: Any, plain: list[Any]) -> Hint:
    origin = get_origin(member)
    name = f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"
    if member is None or member is type(None):
        return hint._replace(none=True)
    if member is Any or member is object or member is inspect.Parameter.empty:
        return hint._replace(anything=True)
    if member is ChatNext:
        return hint._replace(group="models")
    if name in _GROUPS:
        return hint._replace(group=_GROUPS[name])
    if name in _PARTS:
        return hint._replace(parts=_PARTS[name], thing=True)
    if origin is collections.abc.Callable or member is collections.abc.Callable:
        made = hint_of(get_args(member)[1]) if len(get_args(member)) == 2 and get_args(member)[0] == [] else Hint()
        if made.group is not None:
            return hint._replace(group=made.group, makes=True)
        return hint._replace(function=True)
    if origin is type or member is type:
        return hint._replace(function=True)
    if origin in _MAPPINGS or member in _MAPPINGS:
        keys, values = get_args(member) or (str, Any)
        return hint._replace(keys=keys, values=values)
    if origin in _LISTS or member in _LISTS:
        return hint if hint.items is not None else hint._replace(items=member)
    if _is_path(member):
        return hint._replace(is_path=True)
    if inspect.isclass(member) and dataclasses.is_dataclass(member):
        return hint._replace(dataclass=member)
    if _is_plain(member):
        plain.append(member)
        return hint
    call = inspect.isclass(member) and getattr(member, "_is_protocol", False) and "__call__" in vars(member)
    return hint._replace(function=True) if call else hint._replace(thing=True)


def _is_path(member: Any) -> bool:
    origin = get_origin(member) or member
    return origin is os.PathLike or (inspect.isclass(origin) and issubclass(origin, PurePath))


def _is_plain(member: Any) -> bool:
    """Whether pydantic can check a value against it."""
    origin = get_origin(member)
    if origin is Annotated:
        return True
    if origin is Literal or member in (str, int, float, bool, bytes) or typing.is_typeddict(member):
        return True
    if not inspect.isclass(member):
        return False
    from datetime import date, time, timedelta
    from enum import Enum

    from pydantic import BaseModel

    return issubclass(member, str | int | float | Enum | date | time | timedelta | BaseModel)


def item_annotations(member: Any, count: int) -> list[Any]:
    """The annotation of each of so many items of a list; too many items get none."""
    arguments = get_args(member)
    if (get_origin(member) or member) is not tuple:
        return [arguments[0] if arguments else Any] * count
    if not arguments:
        return [Any] * count
    if len(arguments) == 2 and arguments[1] is ...:
        return [arguments[0]] * count
    return list(arguments)


def collected(member: Any, items: list[Any]) -> Any:
    """The items in the kind of collection that the annotation names."""
    origin = get_origin(member) or member
    if origin is tuple:
        return tuple(items)
    if origin is frozenset:
        return frozenset(items)
    if origin in (set, collections.abc.Set):
        return set(items)
    return items
