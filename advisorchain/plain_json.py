"""Any Python value as JSON, as the model reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python


def json_text(value: Any) -> str:
    """A value as JSON; NaN is ``"NaN"``, objects that JSON does not know become their ``str()``.

    Lone surrogates (undecodable file names have them) become ``?``, bytes that are no UTF-8 a note of their length.

    Raises:
        ValueError, RecursionError: the value holds itself, or is nested too deeply.
    """
    try:
        return to_json(value, fallback=str, inf_nan_mode="strings").decode()
    except PydanticSerializationError:
        return to_json(writable(value, _leaf), fallback=_text_of, inf_nan_mode="strings").decode()


def writable(value: Any, leaf: Callable[[Any], Any] | None = None) -> Any:
    """The value with ``?`` for every lone surrogate in its texts, in keys too; it is not changed.

    UTF-8 has no such half characters, so no file, no store and no provider takes them.

    Args:
        value: plain data: texts, mappings, lists.
        leaf: what to put for a value that is none of these; default: the value itself.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, Any]", value).items()
        return {_writable_key(key, leaf): writable(inner, leaf) for key, inner in items}
    if isinstance(value, list | tuple):
        return [writable(item, leaf) for item in cast("Iterable[Any]", value)]
    return value if leaf is None else leaf(value)


def _writable_key(key: object, leaf: Callable[[Any], Any] | None) -> Any:
    """Of what a key can be, only these may hold half characters, and each becomes what can be a key again."""
    return writable(key, leaf) if isinstance(key, str | bytes | PurePath) else key


def binary_note(data: bytes | bytearray) -> str:
    """What a model reads in place of bytes that are no text."""
    return f"[binary data, {len(data)} bytes]"


def _leaf(value: Any) -> Any:
    """Other values whose texts and bytes JSON may not be able to hold."""
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return binary_note(value)
    if isinstance(value, PurePath):
        return _text_of(value)
    if isinstance(value, set | frozenset):
        return writable(list(cast("Iterable[Any]", value)), _leaf)
    if hasattr(value, "model_dump") or hasattr(value, "__dataclass_fields__"):
        return writable(to_jsonable_python(value, fallback=str, bytes_mode="base64"))
    return value


def _text_of(value: Any) -> Any:
    return writable(str(value))
