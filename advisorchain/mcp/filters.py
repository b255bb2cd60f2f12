"""`ToolFilter`: which of the tools that servers list are offered; by server, name, description, tag and hint."""

from __future__ import annotations

import fnmatch
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from ..errors import ConfigurationError
from .cleaning import cleaned
from .listed_tool import ListedTool

SEARCHED = 100_000
"""How many characters of a description are searched."""

# What the protocol says a tool is when its server does not say.
_SILENT = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatch:
    """A description of tools for `ToolFilter`: a tool fits when everything that is given holds.

    Hints are what the server says. One that it does not give counts as the protocol says: not read-only, destructive,
    not idempotent, open world; a read-only tool is not destructive. A server may lie: give ``trusted=True`` beside a
    hint where that matters.

    Args:
        server: the server's name, a glob.
        name: the tool's original name, a glob; case counts.
        description: a text that the description contains, in any case; or a compiled pattern to search it with. Hidden
            characters do not hide a word from it.
        tag: one of the tool's tags.
        read_only, destructive, idempotent, open_world: the hint, True or False.
        trusted: whether the server is configured as trusted.

    Raises:
        ConfigurationError: nothing is given, or something of a wrong type.
    """

    server: str | None = None
    name: str | None = None
    description: str | re.Pattern[str] | None = None
    tag: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    _server: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)
    _name: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = self._given()
        if not given:
            raise ConfigurationError(
                "ToolMatch() describes no tool: give server=, name=, description=, tag= or a hint."
            )
        for key, value in given.items():
            wanted: Any = bool if key in ("read_only", "destructive", "idempotent", "open_world", "trusted") else str
            pattern = key == "description" and isinstance(value, re.Pattern) and isinstance(value.pattern, str)
            if not pattern and not isinstance(value, wanted):
                raise ConfigurationError(f"ToolMatch({key}={value!r}): {key} must be a {wanted.__name__}.")
            if value == "":
                raise ConfigurationError(f"ToolMatch({key}=''): an empty {key} fits nothing; leave it out.")
        object.__setattr__(self, "_server", _glob(self.server))
        object.__setattr__(self, "_name", _glob(self.name))

    def fits(self, tool: ListedTool) -> bool:
        """Whether the tool is one of those that are described."""
        if self.trusted is not None and tool.trusted is not self.trusted:
            return False
        if self._server is not None and not (tool.server == self.server or self._server.match(tool.server)):
            return False
        if self._name is not None and not (tool.name == self.name or self._name.match(tool.name)):
            return False
        if self.tag is not None and self.tag not in tool.tags:
            return False
        hints = (
            (self.read_only, "readOnlyHint"),
            (self.destructive, "destructiveHint"),
            (self.idempotent, "idempotentHint"),
            (self.open_world, "openWorldHint"),
        )
        if any(wanted is not None and wanted is not _hint(tool, name) for wanted, name in hints):
            return False
        return self.description is None or self._describes(tool.description)

    def _describes(self, description: str) -> bool:
        text, _ = cleaned(description, limit=SEARCHED)
        if isinstance(self.description, re.Pattern):
            return self.description.search(text) is not None
        return self.description is not None and self.description.casefold() in text.casefold()

    def _given(self) -> dict[str, Any]:
        return {f.name: value for f in fields(self) if f.init and (value := getattr(self, f.name)) is not None}

    def __repr__(self) -> str:
        return f"ToolMatch({', '.join(f'{key}={value!r}' for key, value in self._given().items())})"


Rule: TypeAlias = str | ToolMatch
"""A pattern ``"server/name"`` with ``*``, ``?`` and ``[...]``, or a `ToolMatch`."""
Filter: TypeAlias = Callable[[ListedTool], bool]


class ToolFilter:
    """Says for every listed tool whether it is offered: what a rule of ``deny`` fits is not, whatever ``allow`` says.

    A rule is a pattern ``"server/name"`` over the server's name and the tool's original name (``*`` any text, ``?``
    one character, ``[abc]`` one of these; case counts; the first ``/`` parts the two), or a `ToolMatch`. A name
    without a server is no rule: local tools go by bare names, and here it would be a guess which server is meant.

    Args:
        allow: rules; a tool that one of them fits is offered.
        deny: rules; a tool that one of them fits is not offered.
        default: what happens to a tool that no rule fits: ``"allow"`` or ``"deny"``. Without it: ``"deny"`` if there is
            an ``allow``, else ``"allow"``. ``ToolFilter(default="deny")`` offers nothing.

    Raises:
        ConfigurationError: a rule is none, or ``allow`` is given where ``default="allow"`` offers everything anyway.
    """

    def __init__(
        self,
        allow: str | ToolMatch | Iterable[Rule] | None = None,
        deny: str | ToolMatch | Iterable[Rule] | None = None,
        *,
        default: Literal["allow", "deny"] | None = None,
    ) -> None:
        self.allow = _rules(allow, "allow")
        self.deny = _rules(deny, "deny")
        if default not in ("allow", "deny", None):
            raise ConfigurationError(f"default must be 'allow' or 'deny', not {default!r}.")
        if allow is not None and default == "allow":
            raise ConfigurationError("ToolFilter: allow= changes nothing with default='allow'; leave one of them out.")
        self.default: Literal["allow", "deny"] = default or ("allow" if allow is None else "deny")
        self._allow = [_match(rule) for rule in self.allow]
        self._deny = [_match(rule) for rule in self.deny]

    def permits(self, tool: ListedTool) -> bool:
        """Whether the tool is offered."""
        if any(match.fits(tool) for match in self._deny):
            return False
        return any(match.fits(tool) for match in self._allow) or self.default == "allow"

    __call__ = permits

    def unused(self, tools: Sequence[ListedTool]) -> list[Rule]:
        """The rules that fit none of the tools: perhaps misspelt."""
        rules = zip([*self.allow, *self.deny], [*self._allow, *self._deny], strict=True)
        return [rule for rule, match in rules if not any(match.fits(tool) for tool in tools)]

    def __repr__(self) -> str:
        given = [f"{name}={list(rules)!r}" for name, rules in (("allow", self.allow), ("deny", self.deny)) if rules]
        return f"ToolFilter({', '.join([*given, f'default={self.default!r}'])})"


def as_filter(value: Any) -> Filter:
    """What ``filter=`` was given, as a function of a `ListedTool`.

    None offers everything; a rule or a list of rules is ``ToolFilter(allow=...)``; a function is asked for every tool
    and must return True or False.

    Raises:
        ConfigurationError: the value is nothing of this; or, later, the function returns something else.
    """
    if value is None:
        return ToolFilter()
    if isinstance(value, ToolFilter):
        return value
    if isinstance(value, str | ToolMatch | list | tuple | set | frozenset):
        return ToolFilter(allow=value)
    if not callable(value) or isinstance(value, type):
        raise ConfigurationError(
            "filter must be a ToolFilter, patterns such as 'server/name*', or a function of a ListedTool, not "
            f"{value!r}."
        )
    if inspect.iscoroutinefunction(value):
        raise ConfigurationError(f"filter {value!r} must be a plain function, not async.")

    def asked(tool: ListedTool) -> bool:
        answer = value(tool)
        if not isinstance(answer, bool):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError(
                f"filter {value!r} must return True or False; for {tool.server}/{tool.name} it returned "
                f"{type(answer).__name__}."
            )
        return answer

    return asked


def _rules(value: Any, name: str) -> tuple[Rule, ...]:
    if value is None:
        return ()
    if isinstance(value, str | ToolMatch):
        return (value,)
    if not isinstance(value, Iterable):
        raise ConfigurationError(f"{name} must be a list of patterns such as 'server/name*', not {value!r}.")
    return tuple(value)


def _match(rule: Any) -> ToolMatch:
    if isinstance(rule, ToolMatch):
        return rule
    if not isinstance(rule, str):
        raise ConfigurationError(f"A filter rule is a pattern such as 'server/name*' or a ToolMatch, not {rule!r}.")
    server, slash, name = rule.partition("/")
    if not slash:
        raise ConfigurationError(
            f"The filter pattern {rule!r} names no server: write 'server/{rule}' for the tools of one server, or "
            f"'*/{rule}' for those of any."
        )
    if not server or not name:
        raise ConfigurationError(
            f"The filter pattern {rule!r} must have a server's name before the '/' and a tool's name behind it; "
            "'*' stands for any."
        )
    return ToolMatch(server=server, name=name)


def _glob(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(fnmatch.translate(pattern))


def _hint(tool: ListedTool, name: str) -> bool:
    said = tool.hint(name)
    if name == "destructiveHint" and tool.hint("readOnlyHint") is True:
        return False  # the protocol gives the hint a meaning only for tools that are not read-only
    return _SILENT[name] if said is None else said
