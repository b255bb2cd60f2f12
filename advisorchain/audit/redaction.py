"""Taking secrets out of values before they are recorded: by field name at any depth, and by type."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import from_json, to_json

SECRET_FIELDS = frozenset({
    "password", "passwd", "passphrase", "secret", "token", "api_key", "access_key", "private_key", "authorization",
    "cookie", "credential", "credentials", "cvv", "card_number", "pin", "otp",
})  # fmt: skip
"""Field names that are always redacted; a name that ends in one of them is too (``db_password``, ``userToken``)."""

REDACTED = "[redacted]"
MAX_DEPTH = 32
MIN_SECRET = 4
"""A secret this long is also taken out of other texts; a shorter one would blot out half of them."""

_JOINTS = re.compile(r"[\s_\-.]+")


class Redaction:
    """What must not be recorded.

    Args:
        fields: names besides `SECRET_FIELDS`, in any spelling: ``api_key`` is also ``apiKey``, ``API-Key``,
            ``my_api_key``.
        types: values of these types are replaced, besides pydantic's ``SecretStr`` and ``SecretBytes``.
        max_chars: a value that is longer as JSON is cut; None: never.
    """

    def __init__(self, fields: Iterable[str] = (), types: Iterable[type] = (), *, max_chars: int | None = 1000) -> None:
        names = {*SECRET_FIELDS, *([fields] if isinstance(fields, str) else fields)}
        self._names = tuple(sorted({_plain(name) for name in names if _plain(name)}))
        self._types = (SecretStr, SecretBytes, *types)
        self.max_chars = max_chars
        spelled = "|".join("[_\\-. ]?".join(map(re.escape, _parts(name))) for name in sorted(names, key=len)[::-1])
        # "password": "x", password=x, Authorization: Bearer x
        self._in_text = re.compile(
            rf"((?:{spelled})[\"']?\s*[:=]\s*)(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?:(?:bearer|basic|digest)\s+)?[^\s,;&}}\])]+)",
            re.IGNORECASE,
        )

    def is_secret(self, name: str) -> bool:
        """Whether a field of that name is redacted."""
        return _plain(name).endswith(self._names)

    def value(self, value: Any, secrets: set[str]) -> Any:
        """A value as JSON data without its secrets, cut to size.

        Args:
            value: anything.
            secrets: known secrets, taken out of every text; those found in ``value`` are added.
        """
        clean = self._clean(value, secrets, 0)
        clean = (
            _scrubbed(clean, secrets) if secrets else clean
        )  # a secret may stand before the field that gives it away
        limit = self.max_chars
        if limit is None:
            return clean
        if isinstance(clean, str):
            return clean if len(clean) <= limit else f"{clean[:limit]}[cut: {len(clean)} characters]"
        text = to_json(clean, inf_nan_mode="strings").decode()
        return clean if len(text) <= limit else f"{text[:limit]}[cut: {len(text)} characters]"

    def _clean(self, value: Any, secrets: set[str], depth: int) -> Any:
        if isinstance(value, self._types):
            _remember(value, secrets)
            return f"[redacted: {type(value).__name__}]"
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self._text(str.__str__(value), secrets, depth)
        if depth >= MAX_DEPTH:
            return "[too deep]"
        if isinstance(value, bytes | bytearray | memoryview):
            return f"[{len(value)} bytes]"
        if isinstance(value, BaseModel):
            fields = {**value.__dict__, **(value.__pydantic_extra__ or {})}
            aliases = {name: info.alias for name, info in type(value).model_fields.items() if info.alias}
            return self._mapping(fields, secrets, depth, aliases)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._mapping(
                {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}, secrets, depth
            )
        if isinstance(value, Mapping):
            return self._mapping(value, secrets, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item, secrets, depth + 1) for item in value]
        return f"<{type(value).__name__}>"  # its str() may say anything

    def _mapping(
        self, value: Mapping[Any, Any], secrets: set[str], depth: int, aliases: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        clean: dict[str, Any] = {}
        for key, inner in value.items():
            name = (
                key
                if isinstance(key, str)
                else repr(key)
                if isinstance(key, int | float | None)
                else f"<{type(key).__name__}>"
            )
            name = name.encode(errors="replace").decode()
            if self.is_secret(name) or (aliases and self.is_secret(aliases.get(name, ""))):
                _remember(inner, secrets)
                clean[name] = REDACTED
            else:
                clean[name] = self._clean(inner, secrets, depth + 1)
        return clean

    def _text(self, text: str, secrets: set[str], depth: int) -> str:
        """A text: JSON in it is cleaned as JSON, and ``name: secret`` or ``name=secret`` is taken out."""
        text = text.encode(errors="replace").decode()
        if text[:1] in ("{", "[", '"') and depth < MAX_DEPTH:
            try:
                inner = from_json(text)
            except ValueError:
                pass
            else:
                return to_json(self._clean(inner, secrets, depth + 1), inf_nan_mode="constants").decode()

        def found(match: re.Match[str]) -> str:
            secret = match[2].strip("\"'")
            _remember(secret, secrets)
            _remember(secret.rpartition(" ")[2], secrets)
            return match[1] + REDACTED

        return self._in_text.sub(found, text)


def _plain(name: str) -> str:
    return _JOINTS.sub("", name).lower()


def _parts(name: str) -> list[str]:
    return [part for part in _JOINTS.split(name) if part]


def _remember(value: Any, secrets: set[str], depth: int = 0) -> None:
    """Add every text and number inside a secret value."""
    if isinstance(value, SecretStr | SecretBytes):
        value = value.get_secret_value()
    if isinstance(value, bytes):
        value = value.decode(errors="ignore")
    if isinstance(value, str):
        value = value.encode(errors="replace").decode()
        if len(value) >= MIN_SECRET:
            secrets.add(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if len(str(value)) >= MIN_SECRET:
            secrets.add(str(value))
    elif depth < MAX_DEPTH:
        items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple | set) else ()
        for item in items:
            _remember(item, secrets, depth + 1)


def _scrubbed(value: Any, secrets: set[str]) -> Any:
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            if secret in value:
                value = value.replace(secret, REDACTED)
            escaped = to_json(secret).decode()[1:-1]  # inside JSON inside a text
            if escaped != secret and escaped in value:
                value = value.replace(escaped, REDACTED)
        return value
    if isinstance(value, dict):
        return {_scrubbed(key, secrets): _scrubbed(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item, secrets) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in secrets:
        return REDACTED
    return value
