"""A JSON Schema (Draft 2020-12) of the file, for editors: with the options of the built-in plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

from .. import plugins
from ..options import ChatOptions
from ..plugins.built_in import BUILT_IN
from .hints import Hint, annotations_of, hint_of, item_annotations
from .plan import AUDIT_KEYS, MEMORY_KEYS
from .shape import LADDER, ChainTable, FileTable, ServerTable

Schema = dict[str, Any]

_VARIABLE: Schema = {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}
_KINDS: dict[Any, Schema] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
}  # fmt: skip
_SWITCH: Schema = {"anyOf": [{"type": "boolean"}, _VARIABLE]}
_DOCS = {
    "model": 'The model: a plugin\'s name, "plugin:model", or a table with use and options.',
    "system": 'The system text, or {file = "prompt.md"}, relative to this file.',
    "name": "The client's name in traces and logs.",
    "tools": 'Tools: "module:object", or the name of a plugin.',
    "mcp": "MCP servers by name.",
    "mcp_servers": "JSON files with mcpServers, relative to this file.",
    "advisors": "The advisors; equal orders keep this order.",
    "tool_loop": "Another tool loop, options of the built-in one, or false: tool calls go to the caller.",
    "memory": "A memory store, and options of the memory advisor.",
    "audit": "An audit sink, and options of the audit advisor.",
    "telemetry": "False: no spans and metrics; or a table of settings.",
    "options": "Options of every model call.",
    "return_direct": "Overrides of return-direct, by the tool's name.",
    "plugins": "The plugins that may be loaded: distributions and group/name; default: all that are installed.",
    "chains": "Named chains, with the same keys.",
}


def json_schema() -> Schema:
    """The schema of the file, also of the table ``[tool.advisorchain]``."""
    chain = _chain()
    chain["mcp"] = {"anyOf": [_table_of(_ref("server")), {"type": "array", "items": {"type": "string"}}]}
    top = {**_chain(), "plugins": _strings(), "chains": _table_of(_ref("chain"))}
    for table, model in ((chain, ChainTable), (top, FileTable)):
        assert table.keys() == model.model_fields.keys()
        for key in table:
            table[key] = {"description": _DOCS[key], **table[key]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "advisorchain.toml",
        "description": "Chains of advisors for advisorchain.",
        **_closed(top),
        "$defs": {
            "chain": _closed(chain, required=["model"]),
            "server": _closed(_server()),
            "order": _order(),
            **_parts(),
        },
    }


def _chain() -> Schema:
    from ..telemetry import Telemetry  # here, since it imports OpenTelemetry, which not every file needs

    return {
        "model": _ref("models"),
        "system": {"anyOf": [{"type": "string"}, _closed({"file": {"type": "string"}}, required=["file"])]},
        "name": {"type": "string", "minLength": 1},
        "tools": {"type": "array", "items": _ref("tools")},
        "mcp": _table_of(_ref("server")),
        "mcp_servers": {"anyOf": [{"type": "string"}, _strings()]},
        "advisors": {"type": "array", "items": _ref("advisors")},
        "tool_loop": {"anyOf": [{"type": "boolean"}, {"type": "string"}, _closed(_loop(), open_to_more=True)]},
        "memory": _shortcut("memory_stores", "memory", MEMORY_KEYS, {"inside": {"type": "boolean"}}),
        "audit": _shortcut("audit_sinks", "audit", AUDIT_KEYS, {}),
        "telemetry": {"anyOf": [{"type": "boolean"}, _closed(_arguments(Telemetry))]},
        "options": _closed(_fields(ChatOptions.model_fields)),
        "return_direct": _table_of({"type": "boolean"}),
    }


def _server() -> Schema:
    special: Schema = {
        "enabled": _SWITCH,
        "transport": {"enum": ["http", "sse"]},
        "prefix": {"enum": ["auto", "always", "none"]},
        "pin": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
        "era": {"enum": ["auto", "legacy"]},
        "allow": {"anyOf": [{"type": "string"}, _strings()]},
        "deny": {"anyOf": [{"type": "string"}, _strings()]},
    }
    return {**_fields(ServerTable.model_fields), **special}


def _parts() -> Schema:
    """A definition for each group of plugins: a name, or a table with ``use``; of a built-in one, with its options."""
    found: Schema = {}
    for group, names in BUILT_IN.items():
        common: Schema = {"use": {"type": "string", "minLength": 1}, "enabled": _SWITCH}
        if group == "advisors":
            common |= {"order": _ref("order"), "name": {"type": "string", "minLength": 1}}
        rules = []
        for name in names:
            options = {**_options(group, name), **common}
            options["use"] = {"const": name}
            known = _closed(options)
            rules.append({"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": known})
        table: Schema = {"type": "object", "properties": common, "required": ["use"]}
        if rules:
            table["allOf"] = rules
        name_only: Schema = {"type": "string", "minLength": 1, "examples": list(names)} if names else {"type": "string"}
        found[group] = {"anyOf": [name_only, table]}
    return found


def _options(group: str, name: str) -> Schema:
    return _arguments(plugins.find(group, name))


def _arguments(factory: Callable[..., Any]) -> Schema:
    annotations = annotations_of(factory)
    known: Mapping[str, inspect.Parameter] = plugins.options_of(factory) or {}
    return {key: _value(hint_of(annotations.get(key, Any))) for key in known}


def _fields(fields: Mapping[str, Any]) -> Schema:
    return {key: _value(hint_of(field.annotation)) for key, field in fields.items()}


def _loop() -> Schema:
    return {
        **_options("advisors", "tool_calling"),
        "enabled": _SWITCH,
        "use": {"type": "string"},
        "order": _ref("order"),
    }


def _shortcut(group: str, advisor: str, keys: frozenset[str], more: Schema) -> Schema:
    own = {key: value for key, value in _options("advisors", advisor).items() if key in keys}
    both = {"use": {"type": "string", "minLength": 1}, "enabled": _SWITCH, "order": _ref("order"), "name": _KINDS[str]}
    rules = []
    for name in BUILT_IN[group]:
        options = {**_options(group, name), **own, **more, **both}
        rules.append({"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": _closed(options)})
    table = {"type": "object", "properties": {**own, **more, **both}, "required": ["use"], "allOf": rules}
    return {"anyOf": [{"type": "string", "minLength": 1, "examples": list(BUILT_IN[group])}, table]}


def _value(hint: Hint) -> Schema:
    """What an option takes."""
    if hint.anything or hint.thing:
        return {}
    kinds: list[Schema] = []
    for kind in hint.plain:
        if get_origin(kind) is Literal:
            kinds.append({"enum": list(get_args(kind))})
        elif kind in _KINDS:
            kinds.append(_KINDS[kind])
        else:
            return {}
    if hint.is_path or hint.function:
        kinds.append(_KINDS[str])
    if hint.items is not None:
        kinds.append({"type": "array", "items": _value(hint_of(item_annotations(hint.items, 1)[0]))})
    if hint.dataclass is not None:
        kinds.append(_closed(_arguments(hint.dataclass)))
    elif hint.values is not None:
        kinds.append(_table_of(_value(hint_of(hint.values))))
    elif hint.function:
        kinds.append({"type": "object", "required": ["use"]})
    if hint.group is not None:
        kinds.append(_ref(hint.group))
    if hint.none:
        kinds.append({"const": False})
    kinds.append(_VARIABLE)
    return {"anyOf": kinds}


def _order() -> Schema:
    return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 999}, {"enum": sorted(LADDER)}]}


def _closed(properties: Schema, *, required: list[str] | None = None, open_to_more: bool = False) -> Schema:
    table: Schema = {"type": "object", "properties": properties}
    if not open_to_more:
        table["additionalProperties"] = False
    return {**table, "required": required} if required else table


def _table_of(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _strings() -> Schema:
    return {"type": "array", "items": {"type": "string"}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
