"""What the options of a command name: a model, and tools in the user's own modules."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from ..exchange import ChatNext
from ..models.keyword import KeywordModel

KEYWORD = "keyword"
OPENAI_PLUGIN = "advisorchain_openai"
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
        ConfigurationError: its plugin is missing.
    """
    if name is not None:
        return ChosenModel(_model(name), name)
    if not os.environ.get("OPENAI_API_KEY"):
        return ChosenModel(KeywordModel(), KEYWORD, "offline and rule-based; OPENAI_API_KEY is not set")
    if importlib.util.find_spec(OPENAI_PLUGIN) is None:
        why = "OPENAI_API_KEY is set, but the plugin is missing: pip install advisorchain-openai"
        return ChosenModel(KeywordModel(), KEYWORD, why)
    chosen = "openai:" + (os.environ.get("OPENAI_MODEL") or DEFAULT_OPENAI_MODEL)
    return ChosenModel(_model(chosen), chosen, "OPENAI_API_KEY is set")


def _model(name: str) -> ChatNext:
    if name == KEYWORD:
        return KeywordModel()
    if name == "scripted" or name.startswith("scripted:"):
        raise UsageProblem("The model 'scripted' plays the script of a test: use advisorchain.testing.ScriptedModel.")
    provider, _, rest = name.partition(":")
    if provider == "openai" and rest:
        return _openai(rest)
    raise UsageProblem(f"There is no model {name!r}: {_nearest(name)} Models: keyword, openai:<model>.")


def _nearest(name: str) -> str:
    provider, colon, rest = name.partition(":")
    if provider == "openai":
        return f"name one, for example 'openai:{DEFAULT_OPENAI_MODEL}'."
    if not colon and name.startswith(("gpt-", "chatgpt", "o1", "o3", "o4")):
        return f"did you mean 'openai:{name}'?"
    near = difflib.get_close_matches(provider, [KEYWORD, "openai"], 1, cutoff=0)[0]
    return f"did you mean {KEYWORD if near == KEYWORD else f'openai:{rest or DEFAULT_OPENAI_MODEL}'!r}?"


def _openai(name: str) -> ChatNext:
    try:
        # By name: the core must not depend on a plugin.
        plugin = importlib.import_module(OPENAI_PLUGIN)
    except ModuleNotFoundError as exc:
        if exc.name != OPENAI_PLUGIN:
            raise
        raise ConfigurationError(
            f"The model 'openai:{name}' needs the plugin advisorchain-openai: pip install advisorchain-openai"
        ) from None
    model: ChatNext = plugin.OpenAIModel(name)
    return model


def load_tools(specs: Iterable[str], option: str = "--tools") -> list[Any]:
    """The objects that ``module:object`` names; the current directory is importable.

    A class without required arguments is called; a list gives all its items. ``option`` is what errors call it.

    Raises:
        UsageProblem: not of that form.
        ConfigurationError: cannot be imported, or has no such object.
    """
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: list[Any] = []
    for spec in specs:
        value = _load(spec, option)
        found.extend(value if isinstance(value, list | tuple) else [value])
    return found


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
