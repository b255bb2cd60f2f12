"""The shape of a configuration file: which keys there are, and what kind of value each has. Nothing is imported for it.

An entry is what names a thing to make: a table with ``use``, or only the name. Its other keys are options, which are
checked later, when it is known what takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..order import Order
from .environment import is_variable
from .lines import KeyPath
from .problems import Problems, nearest, shown_path

LADDER = {order.name.lower(): int(order) for order in Order if order is not Order.MODEL}
"""The names of the orders, as a file writes them: ``order = "memory_inside"``."""

MAX_ENTRIES = 1000
"""How many advisors, tools or MCP servers a chain may name."""

_SYSTEM = 'must be a text, or {file = "prompt.md"}'
_SWITCH = 'must be true, false, or "${NAME}" of an environment variable'


def _flag(value: Any) -> Any:
    if isinstance(value, bool) or is_variable(value):
        return value
    raise ValueError(_SWITCH)


def _order(value: Any) -> Any:
    if isinstance(value, str):
        if value not in LADDER:
            raise ValueError(f"there is no order {value[:100]!r}; {nearest(value, LADDER)}")
        return LADDER[value]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < int(Order.MODEL):
        raise ValueError(f"must be a whole number from 0 to {int(Order.MODEL) - 1}, or the name of an order")
    return value


def _named(value: Any) -> Any:
    """Only a name stands for the table with that name."""
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a name, or a table with use")
    return {"use": value} if isinstance(value, str) else value


def _text(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) != {"file"} or not isinstance(value["file"], str):
            raise ValueError(_SYSTEM)
        return value
    if not isinstance(value, str):
        raise ValueError(_SYSTEM)
    return {"text": value}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _loop(value: Any) -> Any:
    if isinstance(value, str):
        return {"use": value}
    if isinstance(value, Mapping):
        return {"use": "tool_calling", **value}
    if not isinstance(value, bool):
        raise ValueError("must be the name of a tool loop, a table of its options, or false")
    return value


def _switch_or_table(value: Any) -> Any:
    if isinstance(value, bool | Mapping):
        return value
    raise ValueError("must be true, false, or a table")


def _pin(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, str) and value):
        return value
    raise ValueError("must be true, false, or the name of a file for the pins")


def _definitions(value: Any) -> Any:
    if isinstance(value, list):
        raise ValueError("a list of names goes into [chains.NAME] only; here it is one table for each server")
    return value


def _servers(value: Any) -> Any:
    """In a chain, a list of names means servers of the top level."""
    if isinstance(value, list):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("must be a list of names, or one table for each server")
        return {name: {} for name in value}
    return value


def _choice(*names: str) -> BeforeValidator:
    def chosen(value: Any) -> Any:
        if value not in names:
            raise ValueError(f"must be {' or '.join(map(repr, names))}")
        return value

    return BeforeValidator(chosen)


class Strict(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Entry(BaseModel):
    """A thing to make: what, whether, and its options."""

    model_config = ConfigDict(extra="allow", strict=True)

    use: str = Field(min_length=1, max_length=300)
    enabled: Annotated[bool | str, BeforeValidator(_flag)] = True

    @property
    def options(self) -> dict[str, Any]:
        """Its other keys."""
        return dict(self.__pydantic_extra__ or {})


class AdvisorEntry(Entry):
    """An advisor: where it stands, and what it is called."""

    order: Annotated[int | None, BeforeValidator(_order)] = None
    name: str | None = Field(default=None, min_length=1)


class SystemText(Strict):
    """The system text, or the file that it is in."""

    text: str | None = None
    file: str | None = Field(default=None, min_length=1)


class ServerTable(Strict):
    """An MCP server; all but ``enabled``, ``allow``, ``deny``, ``prefix`` and ``pin`` are settings of `McpServer`."""

    enabled: Annotated[bool | str, BeforeValidator(_flag)] = True
    command: str | None = None
    args: list[str] = Field(default=[])
    env: dict[str, str] = Field(default={})
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default={})
    transport: Annotated[str | None, _choice("http", "sse")] = None
    trusted: bool = False
    return_direct: bool | None = None
    overrides: dict[str, dict[str, Any]] = Field(default={})
    allow: Annotated[list[str] | None, BeforeValidator(_listed)] = None
    deny: Annotated[list[str] | None, BeforeValidator(_listed)] = None
    prefix: Annotated[str, _choice("auto", "always", "none")] = "auto"
    pin: Annotated[bool | str, BeforeValidator(_pin)] = True
    connect_timeout: float | None = None
    list_timeout: float | None = None
    call_timeout: float | None = None
    list_ttl: float | None = None
    era: Annotated[str | None, _choice("auto", "legacy")] = None
    instructions: bool = False
    max_tools: int | None = None
    max_description_chars: int | None = None
    max_result_bytes: int | None = None
    roots: list[str] = Field(default=[])


class ChainTable(Strict):
    """A chain: the top level of the file, or one of ``[chains.NAME]``."""

    model: Annotated[Entry | None, BeforeValidator(_named)] = None
    system: Annotated[SystemText | None, BeforeValidator(_text)] = None
    name: str | None = Field(default=None, min_length=1)
    tools: list[Annotated[Entry, BeforeValidator(_named)]] = Field(default=[], max_length=MAX_ENTRIES)
    mcp: Annotated[dict[str, ServerTable], BeforeValidator(_servers)] = Field(default={}, max_length=MAX_ENTRIES)
    mcp_servers: Annotated[list[str], BeforeValidator(_listed)] = Field(default=[])
    advisors: list[Annotated[AdvisorEntry, BeforeValidator(_named)]] = Field(default=[], max_length=MAX_ENTRIES)
    tool_loop: Annotated[Any, BeforeValidator(_loop)] = True
    memory: Annotated[AdvisorEntry | None, BeforeValidator(_named)] = None
    audit: Annotated[AdvisorEntry | None, BeforeValidator(_named)] = None
    telemetry: Annotated[Any, BeforeValidator(_switch_or_table)] = True
    options: dict[str, Any] = Field(default={})
    return_direct: dict[str, bool] = Field(default={})


class FileTable(ChainTable):
    """The whole file."""

    mcp: Annotated[dict[str, ServerTable], BeforeValidator(_definitions)] = Field(default={}, max_length=MAX_ENTRIES)
    plugins: list[str] | None = None
    chains: dict[str, ChainTable] = Field(default={})


_WORDS: dict[str, str] = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dataclass_type": "must be a table",
    "missing": "is missing",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
    "none_required": "must be left out",
    "too_long": f"has more than {MAX_ENTRIES:,} entries",
}


def wording(error: Mapping[str, Any]) -> str:
    """A pydantic error in our words, without the value."""
    text = (
        str(error["ctx"]["error"]) if error["type"] == "value_error" else _WORDS.get(error["type"], str(error["msg"]))
    )
    return text if text.endswith((".", "?")) else f"{text}."


def checked_shape(data: Mapping[str, Any], problems: Problems) -> FileTable | None:
    """The tables of the file; None when something is wrong with them, which is noted."""
    try:
        shape = FileTable.model_validate(data)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_input=False):
            if problems.full:
                break
            _note(error, problems)
        return None
    for path, chain in chain_tables(shape):
        if isinstance(chain.tool_loop, Mapping):
            _check_loop(chain, (*path, "tool_loop"), problems)
    return None if len(problems) else shape


def chain_tables(shape: FileTable) -> list[tuple[KeyPath, ChainTable]]:
    """The chains of a file with their paths; the top level first."""
    return [((), shape), *((("chains", name), chain) for name, chain in shape.chains.items())]


def _check_loop(chain: ChainTable, path: KeyPath, problems: Problems) -> None:
    try:
        chain.tool_loop = AdvisorEntry.model_validate(chain.tool_loop)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_input=False):
            _note({**error, "loc": (*path, *error["loc"])}, problems)


def _note(error: Mapping[str, Any], problems: Problems) -> None:
    path = tuple(error["loc"])
    if error["type"] == "list_type" and path[-1] in ("tools", "advisors"):
        problems.add(path, f"must be a list of names, or of tables: each begins with [[{shown_path(path)}]].")
        return
    if error["type"] != "extra_forbidden":
        problems.add(path, wording(error))
        return
    if path[0] == "chains" and len(path) == 3 and path[2] in FileTable.model_fields:
        problems.add(path, "goes to the top of the file, it holds for every chain.")
        return
    table = _table_of(path)
    problems.add(path, f"unknown key; {nearest(str(path[-1]), table.model_fields)}")


def _table_of(path: KeyPath) -> type[BaseModel]:
    """The model of the table that a path's last key is in."""
    inner = path[2:] if path[0] == "chains" else path
    if len(inner) == 3 and inner[0] == "mcp":
        return ServerTable
    if len(inner) == 2 and inner[0] == "system":
        return SystemText
    return ChainTable if path[0] == "chains" else FileTable
