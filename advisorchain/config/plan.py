"""The first phase: what a chain consists of, by name. Variables are filled in; nothing is imported, made or run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from ..order import Order
from ..plugins.allowed import ALLOW_VARIABLE, Allowed
from .environment import Environment
from .lines import KeyPath
from .problems import Problems, nearest
from .server_plan import ServerPlan, servers_of
from .shape import AdvisorEntry, ChainTable, Entry, FileTable
from .source import read_text
from .target import Known, Target, described, target_of

MEMORY_KEYS = frozenset({"window", "keep_failed", "history", "branch"})
"""Keys of ``[memory]`` that are the advisor's; the others are options of the store."""
AUDIT_KEYS = frozenset({"values", "redact_fields", "redact_types", "max_chars", "required"})
"""Keys of ``[audit]`` that are the advisor's; the others are options of the sink."""


@dataclass(frozen=True, slots=True)
class Use:
    """One thing to make.

    Attributes:
        target: what it is.
        options: its options, with the variables filled in.
        path: where it stands in the file.
        paths: where options stand that are not below ``path``, by name.
        order, name: of an advisor, if the file says them.
    """

    target: Target
    options: dict[str, Any]
    path: KeyPath
    paths: dict[str, KeyPath] = field(default_factory=dict)
    order: int | None = None
    name: str | None = None


@dataclass(slots=True)
class ChainPlan:
    """One chain of a file; only what is enabled is in it."""

    path: KeyPath
    model: Use | None = None
    system: str | None = None
    name: str | None = None
    tools: list[Use] = field(default_factory=list)
    servers: list[ServerPlan] = field(default_factory=list)
    advisors: list[Use] = field(default_factory=list)
    tool_loop: bool = True
    loop: Use | None = None
    telemetry: Any = True
    options: dict[str, Any] = field(default_factory=dict)
    return_direct: dict[str, bool] = field(default_factory=dict)
    known: Known = field(default_factory=Known)


class Planner:
    """Plans the chains of one file; what is wrong goes to ``problems``."""

    def __init__(self, shape: FileTable, folder: Path, environment: Environment, problems: Problems) -> None:
        self._shape = shape
        self._folder = folder
        self._environment = environment
        self._problems = problems
        self._known = Known()

    def chain(self, name: str | None) -> ChainPlan:
        """The chain of that name; None: that of the top level.

        Raises:
            ConfigurationError: there is none.
        """
        if name is not None and name not in self._shape.chains:
            hint = nearest(name, self._shape.chains, "chains")
            raise ConfigurationError(f"{self._problems.file}: there is no chain {name!r}; {hint}")
        try:
            Allowed(None)  # whether the lists can be understood
        except ConfigurationError as exc:
            self._problems.add(() if str(exc).startswith(ALLOW_VARIABLE) else ("plugins",), str(exc))
            self._problems.raise_if_any()
        table: ChainTable = self._shape if name is None else self._shape.chains[name]
        path: KeyPath = () if name is None else ("chains", name)
        plan = ChainPlan(path, name=table.name or name, known=self._known)
        plan.return_direct = table.return_direct
        plan.system = self._system(table, path)
        plan.options = self._environment.filled(table.options, (*path, "options"))
        plan.telemetry = self._environment.filled(table.telemetry, (*path, "telemetry"))
        if table.model is None:
            others = f" The file has the chains {', '.join(self._shape.chains)}." if self._shape.chains else ""
            also = others if name is None else ""
            self._problems.add((*path, "model"), f'is missing: write model = "keyword", or another one.{also}')
        else:
            if table.model.enabled is not True:
                self._problems.add((*path, "model", "enabled"), "a chain cannot do without its model.")
            plan.model = self._use("models", table.model, (*path, "model"))
        plan.tools = self._each("tools", table.tools, (*path, "tools"))
        plan.advisors = [*self._shortcuts(table, path), *self._each("advisors", table.advisors, (*path, "advisors"))]
        self._loop(plan, table.tool_loop, (*path, "tool_loop"))
        plan.servers = servers_of(self._shape, table, path, self._folder, self._environment, self._problems)
        return plan

    def _system(self, table: ChainTable, path: KeyPath) -> str | None:
        said = table.system
        if said is None:
            return None
        path = (*path, "system")
        if said.file is None:
            text = self._environment.filled(said.text, path)
            return str(text)
        try:
            return read_text(self._folder / said.file, "system text")
        except ConfigurationError as exc:
            self._problems.add((*path, "file"), str(exc))
            return None

    def _each(self, group: str, entries: Iterable[Entry], path: KeyPath) -> list[Use]:
        found: list[Use] = []
        for number, entry in enumerate(entries):
            if self._problems.full:
                break
            use = self._use(group, entry, (*path, number))
            if use is not None:
                found.append(use)
        return found

    def _use(self, group: str, entry: Entry, path: KeyPath, options: dict[str, Any] | None = None) -> Use | None:
        """What the entry stands for; None when it is not enabled, or wrong."""
        before = len(self._problems)
        if not self._environment.enabled(entry.enabled, path):
            return None
        target = self._target(group, entry.use, path)
        filled: dict[str, Any] = self._environment.filled(entry.options if options is None else options, path)
        if target is None or len(self._problems) > before:
            return None
        order, name = (entry.order, entry.name) if isinstance(entry, AdvisorEntry) else (None, None)
        return Use(target, filled, path, order=order, name=name)

    def _target(self, group: str, use: str, path: KeyPath) -> Target | None:
        if group == "models":
            use = self._environment.filled(use, path)
        try:
            return target_of(group, str(use), self._known)
        except ConfigurationError as exc:
            self._problems.add((*path, "use"), described(exc))
            return None

    def _shortcuts(self, table: ChainTable, path: KeyPath) -> Iterable[Use]:
        """``[audit]`` and ``[memory]`` are their advisors with what they write to."""
        for advisor, part, group, keys, entry in (
            ("audit", "sink", "audit_sinks", AUDIT_KEYS, table.audit),
            ("memory", "store", "memory_stores", MEMORY_KEYS, table.memory),
        ):
            if entry is None:
                continue
            place = (*path, advisor)
            given = entry.options
            order = entry.order
            if advisor == "memory":
                order = self._inside(given.pop("inside", False), order, place)
            use = self._use(group, entry, place, given)
            if use is None:
                continue
            own = {key: value for key, value in use.options.items() if key in keys}
            rest = {key: value for key, value in use.options.items() if key not in keys}
            own[part] = {**rest, "use": entry.use}
            yield Use(target_of("advisors", advisor, self._known), own, place, {part: place}, order, entry.name)

    def _inside(self, inside: Any, order: int | None, path: KeyPath) -> int | None:
        if not isinstance(inside, bool):
            self._problems.add((*path, "inside"), "must be true or false.")
        elif inside and order is not None:
            self._problems.add((*path, "order"), "inside = true is an order already; leave one of them out.")
        return int(Order.MEMORY_INSIDE) if inside is True else order

    def _loop(self, plan: ChainPlan, said: Any, path: KeyPath) -> None:
        if isinstance(said, AdvisorEntry):
            plan.loop = self._use("advisors", said, path)
        else:
            plan.tool_loop = said
