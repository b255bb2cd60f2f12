"""``advisorchain plugins``: what is installed, what is wrong with it, and whether it keeps its contract."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from .. import plugins
from ..errors import PluginError
from ..plugins.groups import hint
from .choice import UsageProblem
from .display import one_line, open_console, print_wrapped
from .problems import one_line_errors

plugins_app = typer.Typer(
    name="plugins",
    help="List the plugins that are installed, show one, check one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Backend(StrEnum):
    """The event loops."""

    asyncio = "asyncio"
    trio = "trio"


NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The plugin's name, or group/name where several groups have it.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", "-g", help=f"Only this group: {', '.join(plugins.GROUPS)}.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the plugin; the value is TOML, or else a text. {new} in it is another text for every rule.",
    ),
]


@plugins_app.command("list")
def list_plugins(
    group: GroupOption = None,
    load: Annotated[
        bool,
        typer.Option(
            "--load/--no-load", help="Import each, and make those that need no options; or read metadata only."
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Print group, name, distribution and version of every plugin, and what is wrong with it."""
    with one_line_errors():
        found = plugins.available(group)
        if load:
            found = tuple(_tried(plugin, make=True) for plugin in found)
        if as_json:
            typer.echo(json.dumps([plugin._asdict() for plugin in found], ensure_ascii=False, indent=2))
            return
        console = open_console()
        cells = [
            (f"{one_line(plugin.group)}/{one_line(plugin.name)}", one_line(f"{plugin.distribution} {plugin.version}"))
            for plugin in found
        ]
        widths = [max((len(row[column]) for row in cells), default=0) for column in range(2)]
        for plugin, row in zip(found, cells, strict=True):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            console.print(Text(line), soft_wrap=True)
            if plugin.problem is not None:
                print_wrapped(console, f"problem: {one_line(plugin.problem)}", 4, hanging=2)


@plugins_app.command("show")
def show_plugin(name: NameArgument, group: GroupOption = None, as_json: JsonOption = False) -> None:
    """Import a plugin, and print what it is and which options it takes."""
    with one_line_errors():
        plugin = _named(name, group)
        tried = _tried(plugin)
        if tried.problem is not None:
            raise PluginError(_sentence(plugin, tried.problem))
        factory = plugins.find(plugin.group, plugin.name)
        summary, described = _documented(factory)
        options = [_option(each, described) for each in (plugins.options_of(factory) or {}).values()]
        if as_json:
            row = {**plugin._asdict(), "summary": summary, "options": options}
            typer.echo(json.dumps(row, ensure_ascii=False, indent=2))
            return
        console = open_console()
        print_wrapped(console, f"{plugin.group}/{plugin.name}: {plugin.value}, {plugin.distribution} {plugin.version}")
        if summary:
            print_wrapped(console, one_line(summary))
        for option in options:
            text = f"{option['name']}: {option['type'] or 'anything'}"
            text += "" if option["required"] else f" = {option['default']}"
            print_wrapped(console, one_line(text), 2, hanging=4)
            if option["description"]:
                print_wrapped(console, one_line(option["description"]), 6, hanging=0)
        if plugins.options_of(factory) is None:
            print_wrapped(console, "it takes any options, or does not say which", 2)


@plugins_app.command("check")
def check_plugin(
    name: NameArgument,
    group: GroupOption = None,
    option: OptionsOption = None,
    read: Annotated[
        str | None,
        typer.Option("--read", metavar="MODULE:OBJECT", help="Of an audit sink: a function that gives its records."),
    ] = None,
    no_tools: Annotated[bool, typer.Option("--no-tools", help="Of a model: it calls no tools.")] = False,
    backend: Annotated[Backend, typer.Option("--backend", help="The event loop.")] = Backend.asyncio,
) -> None:
    """Check that a plugin keeps the contract of its group: a verdict on every rule, and code 1 if one is broken.

    What it needs to be made are its --option values. A memory store must be a new, empty one for every rule: let {new}
    stand where two stores differ, for example --option 'path=check-{new}.db'. What the check writes, it leaves there.
    A model is asked some 30 times.
    """
    from .plugin_check import SECONDS, options_from, verdicts_on

    with one_line_errors():
        plugin = _named(name, group)
        try:
            with quiet():
                given = options_from(option or [])
                found = anyio.run(verdicts_on, plugin, given, read, not no_tools, backend=backend.value)
        except TimeoutError:
            raise PluginError(_sentence(plugin, f"the check did not end within {SECONDS:g} seconds")) from None
        console = open_console()
        for verdict in found:
            kept = "ok    " if verdict.problem is None else "BROKEN"
            print_wrapped(console, f"{kept}  {one_line(verdict.rule)}", hanging=8)
            if verdict.problem is not None:
                print_wrapped(console, one_line(verdict.problem), 8)
        broken = sum(verdict.problem is not None for verdict in found)
        sum_up = f"keeps all {len(found)} rules" if not broken else f"breaks {broken} of {len(found)} rules"
        print_wrapped(console, f"{plugin.group}/{plugin.name} of {plugin.distribution} {plugin.version} {sum_up}")
    if broken:
        raise typer.Exit(1)


def _named(name: str, group: str | None) -> plugins.PluginInfo:
    """The plugin that a command is about."""
    before, slash, after = name.rpartition("/")
    if slash and group is not None:
        raise UsageProblem(f"{name!r} names the group already: leave --group out.")
    if slash or group is not None:
        return plugins.info(before if slash else str(group), after)
    groups = list(dict.fromkeys(plugin.group for plugin in plugins.available() if plugin.name == name))
    if len(groups) > 1:
        raise UsageProblem(f"Several groups have a {name!r}: write {' or '.join(f'{each}/{name}' for each in groups)}.")
    if not groups:
        names = dict.fromkeys(plugin.name for plugin in plugins.available())
        raise UsageProblem(f"There is no plugin {name!r}; {hint(name, names, 'known are')}")
    return plugins.info(groups[0], name)


def _tried(plugin: plugins.PluginInfo, *, make: bool = False) -> plugins.PluginInfo:
    """The plugin, and if it cannot be imported, why; ``make``: also if it cannot be made, unless it needs options."""
    if plugin.problem is not None:
        return plugin
    try:
        with quiet():
            options = plugins.options_of(plugins.find(plugin.group, plugin.name))
            needs_none = options is not None and all(each.default is not each.empty for each in options.values())
            if make and needs_none and not plugin.built_in:
                plugins.load(plugin.group, plugin.name)
    except PluginError as exc:
        told = str(exc).removeprefix(f"Plugin {plugin}: ")
        return plugin._replace(problem=told.removesuffix("."))
    return plugin


def quiet() -> contextlib.AbstractContextManager[Any]:
    """What a plugin prints is no part of the output."""
    return contextlib.redirect_stdout(sys.stderr)


def _sentence(plugin: plugins.PluginInfo, problem: str) -> str:
    return f"Plugin {plugin}: {problem.removesuffix('.')}."


def _documented(factory: Any) -> tuple[str, dict[str, str]]:
    """The first line of a docstring, and what it says of the arguments."""
    from docstring_parser import parse

    try:
        text = inspect.getdoc(factory) or ""
        parsed = parse(text)
    except Exception:  # somebody else's docstring
        return "", {}
    arguments = {each.arg_name.split()[0]: each.description or "" for each in parsed.params if each.arg_name}
    return parsed.short_description or "", arguments


def _option(parameter: inspect.Parameter, described: dict[str, str]) -> dict[str, Any]:
    required = parameter.default is parameter.empty
    annotation = parameter.annotation
    kind = "" if annotation is parameter.empty else annotation if isinstance(annotation, str) else _shown(annotation)
    return {
        "name": parameter.name,
        "type": kind,
        "required": required,
        "default": None if required else _default(parameter.default),
        "description": described.get(parameter.name, ""),
    }


def _shown(annotation: Any) -> str:
    return inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    """A default as one would write it; a function by its name."""
    if inspect.isroutine(value) or inspect.isclass(value):
        return str(getattr(value, "__qualname__", "…"))
    if isinstance(value, int) and type(value) not in (int, bool):  # an order: its number
        return str(int(value))
    try:
        text = repr(value)
    except Exception:
        return "…"
    return "…" if text.startswith("<") else text
