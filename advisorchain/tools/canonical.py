"""One text for arguments that mean the same: keys in order, no spaces."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json


def canonical_arguments(arguments: dict[str, Any] | str | None) -> bytes:
    """The arguments of a call as canonical JSON; malformed JSON stays as it came.

    Two calls whose arguments differ only in spaces or in the order of keys give the same bytes.
    """
    if not arguments:
        return b"{}"
    try:
        value = from_json(arguments) if isinstance(arguments, str) else arguments
        if type(value) is dict and _PLAIN.issuperset(map(type, value.values())):  # most are flat
            keys = [*value]
            return to_json(value if keys == sorted(keys) else dict(sorted(value.items())))
        return to_json(_ordered(value))
    except Exception:  # malformed, nested too deeply, or no JSON
        if isinstance(arguments, str):
            return arguments.encode(errors="surrogatepass") if not arguments.isspace() else b"{}"
        return repr(arguments).encode(errors="surrogatepass")


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_ordered(inner) for inner in value]
    return value
