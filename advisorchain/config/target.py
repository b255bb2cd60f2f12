"""What ``use`` names: a plugin, or ``module:object``. Found by metadata alone; imported in a second step."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import plugins
from ..errors import ConfigurationError
from ..plugins import making
from ..plugins.built_in import BUILT_IN, PUBLISHED

_OBJECT = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<path>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")


class Target(NamedTuple):
    """Something that is named, and not imported yet."""

    use: str
    """As it is written."""
    group: str | None
    """The group of plugins it belongs to, if there is one."""
    plugin: plugins.PluginInfo | None = None
    """None: it is an object of a module."""
    module: str = ""
    path: str = ""
    model: str | None = None
    """Of ``openai:gpt-5-mini``, what follows the plugin's name."""

    @property
    def label(self) -> str:
        """What errors call it."""
        return repr(self.use)


class Known:
    """The plugins that a file may use. The metadata of what is installed is read once, and only if it must be."""

    def __init__(self) -> None:
        self._installed: tuple[plugins.PluginInfo, ...] | None = None

    def info(self, group: str, name: str) -> plugins.PluginInfo:
        """The plugin of that name.

        Raises:
            PluginError: there is none, or it may not be used; see `plugins.info`.
        """
        if name not in BUILT_IN[group]:
            found = [each for each in self.of(group) if each.name == name]
            if len(found) == 1 and found[0].problem is None:
                return found[0]
        return plugins.info(group, name)

    def of(self, group: str) -> list[plugins.PluginInfo]:
        """All plugins of a group, also those that cannot be used."""
        if self._installed is None:
            self._installed = plugins.available()
        return [each for each in self._installed if each.group == group]


def is_reference(value: str) -> bool:
    """Whether a text has the form ``module:object``."""
    return _OBJECT.fullmatch(value) is not None


def target_of(group: str | None, use: str, known: Known, *, names: Mapping[str, str] | None = None) -> Target:
    """What a name means in a group; nothing is imported.

    Args:
        group: the group of plugins; None: only ``module:object`` and ``names``.
        use: the name.
        known: the plugins that may be used.
        names: short names of objects.

    Raises:
        ConfigurationError: there is no such plugin, it may not be used, or the name has no form that is known.
    """
    if names and use in names:
        module, _, path = names[use].partition(":")
        return Target(use, group, module=module, path=path)
    match = _OBJECT.fullmatch(use)
    plugin, colon, model = use.partition(":")
    if group == "models" and colon and not (match and _is_module(match["module"], known)):
        if not model:
            raise ConfigurationError(f"{use!r} names no model: write it behind the colon.")
        return Target(use, group, plugin=known.info(group, plugin), model=model)
    if match:
        return Target(use, group, module=match["module"], path=match["path"])
    if colon:
        raise ConfigurationError(f"{use!r} is neither a name nor of the form module:object.")
    if group is None:
        short = f", or one of {', '.join(names)}" if names else ""
        raise ConfigurationError(f"{use!r}: here goes module:object, for example my_app.parts:Thing{short}.")
    return Target(use, group, plugin=known.info(group, use))


def _is_module(module: str, known: Known) -> bool:
    """Whether the first part of ``x:y``, where a model is wanted, is a module and no plugin."""
    if "." in module:
        return True
    if module in PUBLISHED["models"] or any(each.name == module for each in known.of("models")):
        return False
    try:
        return importlib.util.find_spec(module) is not None  # of a name without dots, nothing is imported
    except (ImportError, ValueError):
        return False


def imported(target: Target) -> Any:
    """The plugin's factory, or the object.

    Raises:
        ConfigurationError: it cannot be imported, or the module has no such object.
    """
    if target.plugin is not None:
        return making.imported(target.plugin)
    try:
        value: Any = importlib.import_module(target.module)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # somebody else's code
        raise ConfigurationError(f"cannot import {target.module}: {described(exc)}") from exc
    for name in target.path.split("."):
        try:
            value = getattr(value, name)
        except Exception:  # an AttributeError, or what a property of somebody else's raises
            near = difflib.get_close_matches(name, dir(value), 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ConfigurationError(f"{target.module} has no {name!r}{hint}") from None
    return value


def described(exc: BaseException) -> str:
    """An exception in one line that ends in a full stop."""
    text = " ".join(str(exc).split())
    if not (isinstance(exc, ConfigurationError) and text):
        text = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."
