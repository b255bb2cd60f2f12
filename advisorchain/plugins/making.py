"""From a plugin's entry to what it makes: it is imported, called with its options, and looked at."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import AdvisorChainError, PluginError
from .groups import KINDS, PluginInfo, hint

_SECRET = re.compile("key|token|secret|passw|credential|auth|cookie|header|dsn|ur[il]", re.IGNORECASE)
MAX_CAUSE = 500
"""How many characters of an error's text are told."""
_METHODS = {
    "models": ("__call__",),
    "memory_stores": ("load", "append", "delete", "conversations"),
    "tool_indexes": ("add", "remove", "search"),
    "audit_sinks": ("write", "digest"),
}
"""What a thing of a group must have, at least."""


def is_secret(option: Any) -> bool:
    """Whether what stands under a name may be a secret, by the name."""
    return isinstance(option, str) and _SECRET.search(option) is not None


def options_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The options of a class or factory by name; None: it does not tell, or takes any (``**options``)."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except Exception:  # built in C, or a signature that is broken: then it is the call that tells
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}


def imported(plugin: PluginInfo) -> Callable[..., Any]:
    """The class or factory of a plugin.

    Raises:
        PluginError: it cannot be imported, or cannot be called.
    """
    module, _, path = plugin.value.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # the plugin is somebody else's code; sys.exit() in a module is a SystemExit
        raise PluginError(f"Plugin {plugin}: cannot import {plugin.value}: {_cause(exc)}") from exc
    if not callable(found):
        raise PluginError(f"Plugin {plugin}: {plugin.value} is a {type(found).__name__}, not a class or a function.")
    make: Callable[..., Any] = found
    return make


def _check_options(plugin: PluginInfo, known: Mapping[str, inspect.Parameter], options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in known:
            raise PluginError(f"Plugin {plugin}: it has no option {name!r}; {hint(name, known, 'its options are')}")
    needed = [each.name for each in known.values() if each.default is each.empty and each.name not in options]
    if needed:
        raise PluginError(f"Plugin {plugin}: it needs the option{'s' * (len(needed) > 1)} {', '.join(needed)}.")


def wrong_with(group: str, made: Any, verb: str = "made") -> str | None:
    """Why a thing does not belong to a group of plugins, as a sentence that begins "it made a …"; None: it does."""
    if inspect.iscoroutine(made):
        made.close()
        return "its factory is async; it must be a plain function or a class."
    try:
        missing = _missing(group, made)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # a property of somebody else's, which may even end the program
        return _cause(exc)
    if missing or (inspect.isclass(made) and group != "tools"):
        what = f"the class {made.__name__}" if inspect.isclass(made) else f"a {type(made).__name__}"
        without = f" without {' and '.join(missing)}" if missing else ""
        return f"it {verb} {what}{without}, which is no {KINDS[group]}."
    return None


def _missing(group: str, made: Any) -> list[str]:
    if group == "tools":
        return ["anything"] if made is None else []
    if group != "advisors":
        return [name for name in _METHODS[group] if not callable(getattr(made, name, None))]
    has = callable(getattr(made, "advise", None)) or callable(getattr(made, "advise_tool", None))
    missing = [] if has else ["advise or advise_tool"]
    return missing if isinstance(getattr(made, "order", None), int) else [*missing, "order"]


def made_by(plugin: PluginInfo, options: Mapping[str, Any]) -> Any:
    """What a plugin makes of these options.

    Raises:
        PluginError: it cannot be imported, does not have an option, refuses one, or makes what is not of its group.
    """
    if not isinstance(options, Mapping):
        raise PluginError(f"Plugin {plugin}: its options are a mapping of names to values, not {options!r}.")
    factory = imported(plugin)
    known = options_of(factory)
    if known is not None:
        _check_options(plugin, known, options)
    try:
        made = factory(**options)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # the plugin is somebody else's code
        secret = [name for name in options if is_secret(name)]
        if not secret or isinstance(exc, AdvisorChainError):  # errors of ours have no secrets
            raise PluginError(f"Plugin {plugin}: {_cause(exc)}") from exc
        hidden = f"{type(exc).__name__} (its text is not shown, it may hold the option {', '.join(secret)})."
        raise PluginError(f"Plugin {plugin}: {hidden}") from None  # nor is it in a traceback
    wrong = wrong_with(plugin.group, made)
    if wrong is not None:
        raise PluginError(f"Plugin {plugin}: {wrong}")
    return made


def _cause(exc: BaseException) -> str:
    """What went wrong, in one line that ends in a full stop."""
    try:
        text = " ".join(str(exc).split())
    except Exception:  # an error of somebody else's code, which cannot even be told
        text = ""
    text = text if len(text) <= MAX_CAUSE else f"{text[:MAX_CAUSE]}…"
    if not isinstance(exc, AdvisorChainError) or not text:
        text = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."
