"""The second phase: the options of what the file names, checked by the signature of what takes them, or by its model.

Only what the file names is imported. An option whose annotation names a model, a store, an index or a sink takes the
name of such a plugin, or a table with ``use``; so do the items of lists and the values of tables.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from .. import plugins
from ..errors import ConfigurationError
from .blueprint import Blueprint
from .environment import LEFT_OUT, EnvText, has_variables, plain
from .hints import Hint, annotations_of, collected, hint_of, item_annotations
from .lines import KeyPath
from .plan import Use
from .problems import Problems, nearest
from .shape import wording
from .target import Known, Target, imported, is_reference, target_of
from .values import WrongValueError, checked, takes

_WRONG: Any = object()


class Binder:
    """Imports what a chain names, and binds options to it; what is wrong goes to ``problems``.

    Args:
        folder: that of the file: paths are relative to it.
        known: the plugins that may be used.
        problems: what is wrong.
    """

    def __init__(self, folder: Path, known: Known, problems: Problems) -> None:
        self._folder = folder
        self._known = known
        self._problems = problems

    def use(self, use: Use) -> Blueprint | None:
        """A model or an advisor of the chain; None: something is wrong with it."""
        factory = _WRONG if self._problems.full else self._imported(use.target, use.path)
        if factory is _WRONG:
            return None
        bound = self._bound(factory, use.target, use.options, use.path, use.paths)
        if bound is None:
            return None
        known = plugins.options_of(factory) or {}
        for key, value in (("order", use.order), ("name", use.name)):
            if value is not None and bound.ready:
                self._problems.add((*use.path, key), f"{bound.label} is made already, with its {key}.")
            elif value is not None:
                (bound.options if key in known else bound.attributes)[key] = value
        return bound

    def tool(self, use: Use) -> Any:
        """A tool, or a source of tools: an object as it is, or the blueprint of one; None: something is wrong."""
        found = _WRONG if self._problems.full else self._imported(use.target, use.path)
        if found is _WRONG:
            return None
        if use.target.plugin is None and not inspect.isclass(found) and not use.options:
            return found
        return self._bound(found, use.target, use.options, use.path, {})

    def plain(self, factory: Any, label: str, options: dict[str, Any], path: KeyPath) -> Blueprint | None:
        """Something that is no plugin; None: something is wrong with its options."""
        before = len(self._problems)
        bound = self._by_signature(factory, repr(label), options, path, {})
        return Blueprint(factory, bound, path, repr(label)) if len(self._problems) == before else None

    # Things ----------------------------------------------------------------------------------------------------------

    def _imported(self, target: Target, path: KeyPath) -> Any:
        try:
            return imported(target)
        except ConfigurationError as exc:
            self._problems.add((*path, "use"), str(exc))
            return _WRONG

    def _bound(
        self, factory: Any, target: Target, options: Mapping[str, Any], path: KeyPath, paths: Mapping[str, KeyPath]
    ) -> Blueprint | None:
        label = target.label
        if not options and target.plugin is None and not _is_factory(factory, target):
            return Blueprint(lambda: factory, {}, path, label, target.group, ready=True)
        if not callable(factory):
            self._problems.add(path, f"{label} is of type {type(factory).__name__}, which takes no options.")
            return None
        given = dict(options)
        if target.model is not None:
            if "model" in given:
                self._problems.add((*path, "model"), f"{label} names the model already.")
                return None
            given["model"] = target.model
        before = len(self._problems)
        model = getattr(factory, "config_model", None)
        if inspect.isclass(model) and issubclass(model, BaseModel):
            bound = self._by_model(model, label, given, path)
        else:
            bound = self._by_signature(factory, label, given, path, paths)
        if len(self._problems) > before:
            return None
        return Blueprint(factory, bound, path, label, target.group)

    def _by_model(self, model: type[BaseModel], label: str, options: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        known = {field.alias or name for name, field in model.model_fields.items()}
        if model.model_config.get("extra") != "allow":
            self._check_names(options, known, label, path)
            options = {key: value for key, value in options.items() if key in known}
        try:
            if has_variables(options):
                made = model.model_validate(plain(options))
            else:
                made = model.model_validate_json(json.dumps(plain(options), default=str), strict=True)
        except ValidationError as exc:
            for error in exc.errors(include_url=False, include_input=False):
                self._problems.add((*path, *error["loc"]), wording(error))
            return {}
        except Exception as exc:  # a validator of the plugin's
            self._problems.add(path, f"{label} refuses its options: {type(exc).__name__}.")
            return {}
        names = [*made.model_fields_set, *(made.__pydantic_extra__ or {})]
        return {name: getattr(made, name) for name in dict.fromkeys(names)}

    def _by_signature(
        self,
        factory: Any,
        label: str,
        options: dict[str, Any],
        path: KeyPath,
        paths: Mapping[str, KeyPath],
        *,
        whole: bool = True,
    ) -> dict[str, Any]:
        known = plugins.options_of(factory)
        if known is not None:
            all_known = self._check_names(options, known, label, path, paths)
            for name, parameter in known.items():
                if all_known and whole and parameter.default is parameter.empty and name not in options:
                    hint = hint_of(annotations_of(factory).get(name, Any))
                    self._problems.add(path, f"{label} needs the option {name}: {takes(hint)}.")
        annotations = annotations_of(factory)
        bound: dict[str, Any] = {}
        for key, value in options.items():
            if known is None or key in known:
                bound[key] = self._value(value, annotations.get(key, Any), paths.get(key, (*path, key)))
        return bound

    def _check_names(
        self,
        options: Mapping[str, Any],
        known: Any,
        label: str,
        path: KeyPath,
        paths: Mapping[str, KeyPath] | None = None,
    ) -> bool:
        unknown = [key for key in options if key not in known]
        for key in unknown:
            if self._problems.full:
                break
            place = (paths or {}).get(key, (*path, key))
            self._problems.add(place, f"{label} has no such option; {nearest(key, known, 'its options')}")
        return not unknown

    # Values ----------------------------------------------------------------------------------------------------------

    def _value(self, value: Any, annotation: Any, path: KeyPath) -> Any:
        if self._problems.full:
            return _WRONG
        hint = hint_of(annotation)
        if isinstance(value, dict) and isinstance(value.get("use"), str):
            return self._part(value, hint, path)
        if isinstance(value, str) and not isinstance(value, EnvText):
            if hint.group is not None or (hint.parts and value in hint.parts):
                return self._part({"use": value}, hint, path)
            if (hint.function or hint.thing) and str not in hint.plain and is_reference(value):
                return self._part({"use": value}, hint, path)
        if isinstance(value, str) and hint.is_path:
            return self._path(str(value))
        if value is False and hint.none and bool not in hint.plain and not hint.anything:
            return None
        if isinstance(value, dict):
            if hint.dataclass is not None and hint.values is not None:  # a part of its fields will do
                return self._by_signature(hint.dataclass, f"{path[-1]!r}", value, path, {}, whole=False)
            if hint.values is not None:
                return {
                    self._key(key, hint, path): self._value(v, hint.values, (*path, key)) for key, v in value.items()
                }
            if hint.dataclass is not None:
                options = self._by_signature(hint.dataclass, f"{path[-1]!r}", value, path, {})
                return Blueprint(hint.dataclass, options, path, f"{path[-1]!r}")
        if isinstance(value, list) and hint.items is not None:
            return self._list(value, hint.items, path)
        try:
            return checked(plain(value) if hint.anything else value, hint)
        except WrongValueError as exc:
            self._problems.add(path, str(exc))
            return _WRONG

    def _list(self, value: list[Any], annotation: Any, path: KeyPath) -> Any:
        there = [(number, item) for number, item in enumerate(value) if item is not LEFT_OUT]
        annotations = item_annotations(annotation, len(there))
        if len(annotations) != len(there):
            self._problems.add(path, f"must be a list of {len(annotations)} values.")
            return _WRONG
        items = [
            self._value(item, each, (*path, number)) for (number, item), each in zip(there, annotations, strict=True)
        ]
        try:
            return collected(annotation, items)
        except TypeError:  # a set of what cannot be in one
            self._problems.add(path, "must be a list of single values.")
            return _WRONG

    def _key(self, key: str, hint: Hint, path: KeyPath) -> Any:
        keys = hint_of(hint.keys)
        if keys.anything or str in keys.plain or not keys.plain:
            return key
        try:
            return checked(EnvText(key), keys)  # a key is always a text
        except WrongValueError as exc:
            self._problems.add((*path, key), f"is no key of this table: it {exc}")
            return key

    def _part(self, value: Mapping[str, Any], hint: Hint, path: KeyPath) -> Any:
        """Something that is made for an option, or an object that is there."""
        use, options = str(value["use"]), {key: item for key, item in value.items() if key != "use"}
        if hint.group is None and not hint.parts and not (hint.function or hint.thing or hint.anything):
            self._problems.add(path, f"must be {takes(hint)}.")
            return _WRONG
        try:
            target = target_of(hint.group, use, self._known, names=hint.parts)
            found = imported(target)
        except ConfigurationError as exc:
            self._problems.add(path, str(exc))
            return _WRONG
        if hint.function and not options and target.plugin is None:
            return found
        bound = self._bound(found, target, options, path, {})
        if bound is None:
            return _WRONG
        bound.makes = hint.makes
        return bound

    def _path(self, value: str) -> str:
        return value if value.startswith(":") else str(self._folder / value)


def _is_factory(found: Any, target: Target) -> bool:
    """Whether an object of a module is to be called; one that is made already is not, nor is a model's own function."""
    if target.group == "models" and inspect.iscoroutinefunction(found):
        return False
    return inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, partial)
