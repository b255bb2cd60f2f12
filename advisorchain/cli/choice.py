"""What the options of a command name: a model, and tools in the user's own modules."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import plugins
from ..errors import ConfigurationError
from ..exchange import ChatNext
from ..models.keyword import KeywordModel

KEYWORD = "keyword"
OPENAI = "openai"
DEFAULT_OPENAI_MODEL = "gpt-4o-mini"


class UsageProblem(Exception):
    """The command line itself is wrong: leaves with code 2."""


class ChosenModel(NamedTuple):
    """A model, its name on the command line, and why it was taken (None: it was asked for)."""

    model: ChatNext
    name: str
    why: str | None = None


def choose_model(name: str | None) -> ChosenModel:
    """The model of that name; without a name, OpenAI if its key is set, else the keyword model.

    Raises:
        UsageProblem: there is no such model.
        PluginError: its plugin is missing, broken or not allowed.
    """
    if name is not None:
        return ChosenModel(_model(name), name)
    if not os.environ.get("OPENAI_API_KEY"):
        return ChosenModel(KeywordModel(), KEYWORD, "offline and rule-based; OPENAI_API_KEY is not set")
    if OPENAI not in [plugin.name for plugin in plugins.available("models")]:
        why = "OPENAI_API_KEY is set, but the plugin is missing: pip install advisorchain-openai"
        return ChosenModel(KeywordModel(), KEYWORD, why)
    chosen = "openai:" + (os.environ.get("OPENAI_MODEL") or DEFAULT_OPENAI_MODEL)
    return ChosenModel(_model(chosen), chosen, "OPENAI_API_KEY is set")


def _model(name: str) -> ChatNext:
    if name == "scripted" or name.startswith("scripted:"):
        raise UsageProblem("The model 'scripted' plays the script of a test: use advisorchain.testing.ScriptedModel.")
    provider, colon, rest = name.partition(":")
    known = _known()
    if provider not in known or (colon and not rest):
        raise UsageProblem(f"There is no model {name!r}: {_nearest(name, known)} Models: {_list(known)}.")
    if not colon and provider != KEYWORD:
        needed = plugins.options_of(plugins.find("models", provider)) or {}
        if "model" in needed and needed["model"].default is inspect.Parameter.empty:
            raise UsageProblem(f"There is no model {name!r}: {_nearest(name, known)} Models: {_list(known)}.")
    model: ChatNext = plugins.named_model(name)
    return model


def _known() -> list[str]:
    return list(dict.fromkeys([*(plugin.name for plugin in plugins.available("models")), OPENAI]))


def _list(known: Iterable[str]) -> str:
    return ", ".join(name if name == KEYWORD else f"{name}:<model>" for name in known)


def _nearest(name: str, known: Iterable[str]) -> str:
    provider, colon, rest = name.partition(":")
    if not colon and name.startswith(("gpt-", "chatgpt", "o1", "o3", "o4")):
        return f"did you mean 'openai:{name}'?"
    near = difflib.get_close_matches(provider, list(known), 1, cutoff=0)[0]
    default = rest or (DEFAULT_OPENAI_MODEL if near == OPENAI else "<model>")
    if near == provider:
        return f"name one, for example '{near}:{default}'."
    return f"did you mean {KEYWORD if near == KEYWORD else f'{near}:{default}'!r}?"


def load_tools(specs: Iterable[str], option: str = "--tools") -> list[Any]:
    """The objects that ``module:object`` names; the current directory is importable.

    A class without required arguments is called; a list gives all its items. ``option`` is what errors call it.

    Raises:
        UsageProblem: not of that form.
        ConfigurationError: cannot be imported, or has no such object.
    """
    make_current_directory_importable()
    found: list[Any] = []
    for spec in specs:
        value = _load(spec, option)
        found.extend(value if isinstance(value, list | tuple) else [value])
    return found


def make_current_directory_importable() -> None:
    """Let ``module:object`` name what is in the current directory, as ``python -m`` does."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _load(spec: str, option: str) -> Any:
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path):
        raise UsageProblem(f"{option} {spec!r}: write module:object, for example my_tools:weather.")
    try:
        value: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:  # the module is the user's own code
        raise ConfigurationError(f"{option} {spec!r}: cannot import {module_name}: {described(exc)}") from exc
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            near = difflib.get_close_matches(name, dir(value), 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ConfigurationError(f"{option} {spec!r}: {module_name} has no {name!r}{hint}") from None
    if inspect.isclass(value):
        try:
            return value()
        except Exception as exc:  # again the user's own code
            raise ConfigurationError(
                f"{option} {spec!r}: cannot make a {value.__name__}: {described(exc)}. Name an instance instead."
            ) from exc
    return value


def described(exc: BaseException) -> str:
    """An exception in one line: its type and text."""
    text = " ".join(str(exc).split())
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def check_names(wanted: Iterable[str], known: Iterable[str], option: str) -> None:
    """Check that tools of these names are there.

    Raises:
        UsageProblem: names the unknown one and the nearest known one.
    """
    names = list(known)
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"tools: {', '.join(names) or 'none'}."
            raise UsageProblem(f"{option} {name!r}: there is no such tool; {hint}")
