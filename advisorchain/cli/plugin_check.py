"""``advisorchain plugins check``: the contract of a plugin's group, run on what is installed."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from .. import plugins
from ..audit import AuditRecord
from ..client import ChatClient
from ..config.binding import Binder
from ..config.blueprint import Workshop
from ..config.plan import Use
from ..config.problems import Problems
from ..config.target import Known, Target
from ..exchange import ChatRequest, ChatResponse
from ..messages import AssistantMessage
from ..runtime import new_id
from ..testing.contract import Verdict, collected
from .choice import UsageProblem, load_tools

NEW = "{new}"
"""In an option, what is another text for everything that is made: each rule is checked with a new store."""
SECONDS = 300.0
"""How long all rules together may take."""


def options_from(given: Sequence[str]) -> dict[str, Any]:
    """The options of ``key=value``: a value is TOML (``3``, ``true``, ``["a"]``, ``{a = 1}``), or else a text.

    Raises:
        UsageProblem: not of that form, or an option is given twice.
    """
    options: dict[str, Any] = {}
    for each in given:
        key, equals, text = each.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageProblem(f"--option {each!r}: write key=value, for example path=audit.jsonl.")
        if key in options:
            raise UsageProblem(f"--option {key} is given twice.")
        try:
            (options[key],) = tomllib.loads(f"value = {text}").values()
        except ValueError:
            options[key] = text
    return options


async def verdicts_on(
    plugin: plugins.PluginInfo, options: Mapping[str, Any], read: str | None, tools: bool = True
) -> list[Verdict]:
    """The verdicts of the contract on a plugin; each of its rules is checked with one that is newly made.

    Args:
        plugin: which one.
        options: its options, as they would stand in a file.
        read: of an audit sink: ``module:object``, a function that gives the records that were kept.
        tools: whether a model calls tools.

    Raises:
        UsageProblem: an audit sink says of no way to read what it keeps.
        ConfigurationError: it cannot be made of these options.
        TimeoutError: it took longer than `SECONDS`.
    """
    maker = _Maker(plugin, options)
    first = maker()
    if plugin.group == "tools":
        return await _tools(first)
    reader = _reader(first, options, read) if plugin.group == "audit_sinks" else None
    await _close(first)
    with anyio.fail_after(SECONDS), collected() as found:
        await _suite(plugin.group, maker, reader, tools)
    return found


async def _suite(group: str, make: Callable[[], Any], read: Any, tools: bool) -> None:
    from .. import testing

    suites: dict[str, Callable[[], Awaitable[None]]] = {
        "advisors": lambda: testing.check_advisor(make),
        "models": lambda: testing.check_model(make, tools=tools),
        "memory_stores": lambda: testing.check_memory_store(make),
        "tool_indexes": lambda: testing.check_tool_index(make),
        "audit_sinks": lambda: testing.check_audit_sink(make, read),
    }
    await suites[group]()


class _Maker:
    """Makes one plugin again and again, as the entries of a configuration file do."""

    def __init__(self, plugin: plugins.PluginInfo, options: Mapping[str, Any]) -> None:
        self._plugin = plugin
        self._options = options
        self._run, self._numbers = new_id(), itertools.count(1)

    def __call__(self) -> Any:
        new = f"{self._run}_{next(self._numbers)}".lower()
        problems = Problems(f"plugin {self._plugin.group}/{self._plugin.name}")
        target = Target(self._plugin.name, self._plugin.group, plugin=self._plugin)
        binder = Binder(Path.cwd(), Known(), problems)
        bound = binder.use(Use(target, {key: _filled(value, new) for key, value in self._options.items()}, ()))
        problems.raise_if_any()
        assert bound is not None
        made = Workshop(problems).make(bound)
        problems.raise_if_any()
        return made


def _filled(value: Any, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(NEW, new)
    if isinstance(value, list):
        return [_filled(item, new) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, new) for key, item in value.items()}
    return value


def _reader(sink: Any, options: Mapping[str, Any], read: str | None) -> Callable[[], Sequence[AuditRecord]]:
    if read is not None:
        (found,) = load_tools([read], "--read")
        reader: Callable[[], Sequence[AuditRecord]] = found
        return reader
    if callable(getattr(sink, "records", None)):
        own: Callable[[], Sequence[AuditRecord]] = sink.records
        return own
    path = options.get("path")
    if isinstance(path, str) and NEW not in path:
        from ..audit import records

        return lambda: list(records(path))
    raise UsageProblem(
        "The records that an audit sink keeps must be read for its check: give --read module:function; a sink with a "
        "method records() needs none, nor do those that write a file of records to the option path."
    )


async def _close(thing: Any) -> None:
    if hasattr(thing, "aclose"):
        await thing.aclose()
    elif hasattr(thing, "close"):
        thing.close()


async def _tools(made: Any) -> list[Verdict]:
    """Tools have no contract of their own; a client takes them, or says why not."""
    rule = "It gives tools that a client takes."
    names: list[str] = []

    async def model(request: ChatRequest) -> ChatResponse[Any]:
        names.extend(request.tools.names)
        return ChatResponse(AssistantMessage(content="done"))

    try:
        await ChatClient(model, tools=made if isinstance(made, list | tuple) else [made]).call("check")
    except Exception as exc:
        return [Verdict(rule, f"It raised {exc!r}.")]
    return [Verdict(rule, None if names else "It gives none.")]
