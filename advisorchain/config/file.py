"""`ConfigFile`: from a file to clients, phase by phase. An error ends a phase, and tells all that it found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from .. import plugins
from ..errors import ConfigurationError
from ..options import ChatOptions
from ..plugins.making import is_secret
from .binding import Binder
from .blueprint import Blueprint, Workshop
from .client import ConfiguredClient
from .environment import Environment, plain
from .plan import ChainPlan, Planner
from .problems import Problems, nearest
from .servers import mcp_tools
from .shape import FileTable, checked_shape, wording
from .source import SourceFile, read_source
from .target import described

if TYPE_CHECKING:
    from ..telemetry import Telemetry


class ConfigFile:
    """A configuration file that was read, and whose shape is right. Nothing that it names is imported yet.

    Args:
        path: of an ``advisorchain.toml``, or a ``pyproject.toml`` with a table ``[tool.advisorchain]``.
        environ: the variables for ``"${NAME}"``; default: those of this process.

    Raises:
        ConfigurationError: it cannot be read, or its shape is wrong: tells file, line and key of everything.
    """

    def __init__(self, path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None) -> None:
        source = read_source(path)
        problems = _problems(source)
        shape = checked_shape(source.table, problems)
        problems.raise_if_any()
        assert shape is not None
        self.source = source
        self._shape: FileTable = shape
        self._environ = environ

    @property
    def chains(self) -> tuple[str | None, ...]:
        """The names of its chains; None is that of the top level, if there is one."""
        top = (None,) if self._has_top or not self._shape.chains else ()
        return (*top, *self._shape.chains)

    @property
    def _has_top(self) -> bool:
        return bool(self._shape.model_fields_set - {"chains", "plugins", "mcp", "mcp_servers"})

    def client(self, chain: str | None = None, *, telemetry: bool | Telemetry | None = None) -> ConfiguredClient:
        """The client of a chain; every call makes one of its own, which shares nothing with the others.

        ``telemetry`` takes the place of what the file says.

        Raises:
            ConfigurationError: a name, an option or a tool is wrong; tells file, line and key of everything.
        """
        problems = _problems(self.source)
        environment = Environment(problems, self._environ)
        folder = self.source.path.absolute().parent
        with plugins.allowing(self._shape.plugins, by="plugins of the file"):  # also what a plugin itself asks for
            plan = Planner(self._shape, folder, environment, problems).chain(chain)
            problems.raise_if_any()
            if telemetry is not None:
                plan.telemetry = telemetry
            for use in _uses(plan):
                environment.hide_secrets(use.options)
            for server in plan.servers:
                environment.hide(server.values.get("headers", {}).values())
                environment.hide([value for key, value in server.values.get("env", {}).items() if is_secret(key)])
            return self._client_of(plan, folder, problems)

    def _client_of(self, plan: ChainPlan, folder: Path, problems: Problems) -> ConfiguredClient:
        binder = Binder(folder, plan.known, problems)
        assert plan.model is not None
        model = binder.use(plan.model)
        advisors = [binder.use(use) for use in plan.advisors]
        loop = binder.use(plan.loop) if plan.loop is not None else None
        settings = _settings(plan, binder, problems)
        servers = mcp_tools(plan.servers, folder, problems)
        problems.raise_if_any()
        tools = [binder.tool(use) for use in plan.tools]
        problems.raise_if_any()
        assert model is not None
        workshop = Workshop(problems)
        try:
            made = [workshop.make(each) for each in (*advisors, loop) if each is not None]
            if loop is not None and made[-1] is not None and not getattr(made[-1], "is_tool_loop", False):
                problems.add(loop.path, f"{loop.label} is no tool loop: it has no is_tool_loop = True.")
            found = [*_tools(tools, workshop), *servers]
            model_made = workshop.make(model)
            problems.raise_if_any()
            client = self._client(plan, model_made, made, found, settings, problems)
            problems.raise_if_any()  # here, so that the error does not carry another one along
        except ConfigurationError:
            workshop.close()
            raise
        assert client is not None
        client._made = (*workshop.made, *servers)
        client._fleets = tuple(servers)
        return client

    def _client(
        self,
        plan: ChainPlan,
        model: Any,
        advisors: list[Any],
        tools: list[Any],
        settings: dict[str, Any],
        problems: Problems,
    ) -> ConfiguredClient | None:
        if plan.name is not None:
            settings["name"] = plan.name
        try:
            return ConfiguredClient(
                model,
                tools=tools,
                advisors=advisors,
                system=plan.system,
                return_direct=plan.return_direct or None,
                tool_loop=plan.tool_loop,
                **settings,
            )
        except Exception as exc:  # an advisor or a tool of somebody else's
            problems.add(plan.path, described(exc))
            return None


def _problems(source: SourceFile) -> Problems:
    return Problems(str(source.path), source.lines, source.above)


def _uses(plan: ChainPlan) -> list[Any]:
    return [use for use in (plan.model, plan.loop, *plan.advisors, *plan.tools) if use is not None]


def _settings(plan: ChainPlan, binder: Binder, problems: Problems) -> dict[str, Any]:
    """The other arguments of a client."""
    settings: dict[str, Any] = {}
    if plan.options:
        settings["options"] = _options(plan, problems)
    if plan.telemetry is not True:
        settings.update(_telemetry(plan, binder, problems))
    return settings


def _options(plan: ChainPlan, problems: Problems) -> ChatOptions | None:
    path = (*plan.path, "options")
    unknown = [key for key in plan.options if key not in ChatOptions.model_fields]
    for key in unknown:
        near = nearest(key, ChatOptions.model_fields, "known")
        problems.add((*path, key), f"unknown option; {near} An option of one provider goes into extra = {{…}}.")
    if unknown:
        return None
    try:
        return ChatOptions.model_validate(plain(plan.options))
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_input=False):
            problems.add((*path, *error["loc"]), wording(error))
        return None


def _telemetry(plan: ChainPlan, binder: Binder, problems: Problems) -> dict[str, Any]:
    path = (*plan.path, "telemetry")
    if not isinstance(plan.telemetry, dict):  # False, or what the caller gave
        return {"telemetry": plan.telemetry}
    from ..telemetry import Telemetry as factory

    blueprint = binder.plain(factory, "telemetry", plan.telemetry, path)
    made = Workshop(problems).make(blueprint) if blueprint is not None else None
    return {"telemetry": made}


def _tools(tools: list[Any], workshop: Workshop) -> list[Any]:
    """The tools; a list that was named, or made, gives all its items."""
    found: list[Any] = []
    for item in tools:
        thing = workshop.make(item) if isinstance(item, Blueprint) else item
        found.extend(thing if isinstance(thing, list | tuple) else [thing])
    return found
