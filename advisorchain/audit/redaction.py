"""Taking secrets out of values before they are recorded: by field name at any depth, and by type."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import from_json, to_json

from ..errors import ConfigurationError
from ..setting_checks import check_number

T = TypeVar("T")

SECRET_FIELDS = frozenset({
    "password", "passwords", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "api_key", "api_keys",
    "access_key", "private_key", "secret_key", "authorization", "cookie", "cookies", "credential", "credentials", "cvv",
    "card_number", "pin", "otp",
})  # fmt: skip
"""Field names that are always redacted; a name that ends in one of them is too (``db_password``, ``userToken``)."""

REDACTED = "[redacted]"
MAX_DEPTH = 32
MAX_REPEATS = 1000
"""How often objects that were met before are recorded again, in one value."""
MAX_BITS = 10_000
"""A longer int is no number: Python reads none of over 4,300 digits."""
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

    Raises:
        ConfigurationError: a field is no text, a type is no class, or ``max_chars`` is no number.
    """

    def __init__(self, fields: Iterable[str] = (), types: Iterable[type] = (), *, max_chars: int | None = 1000) -> None:
        fields = (fields,) if isinstance(fields, str) else fields
        fields = _checked("Fields to redact must be names, for example ['ssn']", fields, str)
        types = _checked("Types to redact must be classes, for example [Iban]", types, type)
        if max_chars is not None:
            check_number("max_chars", max_chars, whole=True)
        names = {*SECRET_FIELDS, *fields}
        self._names = tuple(sorted({_plain(name) for name in names if _plain(name)}))
        self._types = (SecretStr, SecretBytes, *types)
        self.max_chars = max_chars
        spelled = "|".join("[_\\-. ]?".join(map(re.escape, _parts(name))) for name in sorted(names, key=len)[::-1])
        # "password": "x", password=x, Authorization: Bearer x, and \"password\": \"x\" of JSON inside JSON
        self._in_text = re.compile(
            rf"((?:{spelled})(?:\\*[\"'])?\s*[:=]\s*)"
            r"((?P<escaped>\\+)\".*?(?<!\\)(?P=escaped)\"|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
            r"|(?:(?:bearer|basic|digest)\s+)?[^\s,;&}\])]+)",
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
        clean = self._clean(value, _Walk(secrets), 0)
        if secrets:  # one may stand before the field that gives it away
            clean = _scrubbed(clean, secrets)
        limit = self.max_chars
        if limit is None:
            return clean
        if isinstance(clean, str):
            return clean if len(clean) <= limit else f"{clean[:limit]}[cut: {len(clean)} characters]"
        text = to_json(clean, inf_nan_mode="strings").decode()
        return clean if len(text) <= limit else f"{text[:limit]}[cut: {len(text)} characters]"

    def _clean(self, value: Any, walk: _Walk, depth: int) -> Any:
        if isinstance(value, self._types):
            if _named_values(value) is None:  # not every field of such an object is a secret elsewhere
                _remember(value, walk.secrets)
            return f"[redacted: {type(value).__name__}]"
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= MAX_BITS else f"[{value.bit_length()} bits]"
        if isinstance(value, str):
            return self._text(str.__str__(value), walk, depth)
        if depth >= MAX_DEPTH:
            return "[too deep]"
        if isinstance(value, bytes | bytearray | memoryview):
            return f"[{len(value)} bytes]"
        if not walk.enter(value):
            return "[again]"
        clean = self._inside(value, walk, depth + 1)
        walk.leave(value)
        return clean

    def _inside(self, value: Any, walk: _Walk, depth: int) -> Any:
        named = _named_values(value)
        if named is not None:
            clean: dict[str, Any] = {}
            for name, spellings, inner in named:
                if any(map(self.is_secret, spellings)):
                    _remember(inner, walk.secrets)
                    clean[name] = REDACTED
                else:
                    clean[name] = self._clean(inner, walk, depth)
            return clean
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item, walk, depth) for item in value]
        return f"<{type(value).__name__}>"  # its str() may say anything

    def _text(self, text: str, walk: _Walk, depth: int) -> str:
        """A text: JSON in it is cleaned as JSON, and ``name: secret`` or ``name=secret`` is taken out."""
        text = text.encode(errors="replace").decode()
        if text[:1] in ("{", "[", '"') and depth < MAX_DEPTH:
            try:
                inner = from_json(text)
            except ValueError:
                pass
            else:
                return to_json(self._clean(inner, walk, depth + 1), inf_nan_mode="constants").decode()

        def found(match: re.Match[str]) -> str:
            secret = match[2].strip("\\\"'")
            _remember(secret, walk.secrets)
            _remember(secret.rpartition(" ")[2], walk.secrets)
            return match[1] + REDACTED

        return self._in_text.sub(found, text)


class _Walk:
    """One way through a value: the secrets that are known, and the objects that were met.

    Objects that know each other make a graph, and the ways through it have no end: none goes into an object inside
    itself, and all together go into no more than `MAX_REPEATS` that were met before.
    """

    __slots__ = ("secrets", "_met", "_open", "_repeats")

    def __init__(self, secrets: set[str]) -> None:
        self.secrets = secrets
        self._met: dict[int, Any] = {}  # keeps the objects, or a new one could have the id of one that is gone
        self._open: set[int] = set()
        self._repeats = 0

    def enter(self, value: Any) -> bool:
        """Whether to go into an object; if so, `leave` it."""
        if id(value) in self._open:
            return False
        if id(value) in self._met:
            self._repeats += 1
            if self._repeats > MAX_REPEATS:
                return False
        self._met[id(value)] = value
        self._open.add(id(value))
        return True

    def leave(self, value: Any) -> None:
        self._open.remove(id(value))


def _checked(what: str, values: Iterable[T], kind: type[T]) -> tuple[T, ...]:
    found = tuple(values) if isinstance(values, Iterable) else ()
    if not isinstance(values, Iterable) or not all(isinstance(value, kind) for value in found):
        raise ConfigurationError(f"{what}, not {values!r}.")
    return found


def _plain(name: str) -> str:
    return _JOINTS.sub("", unicodedata.normalize("NFKC", name)).casefold()


def _parts(name: str) -> list[str]:
    return [part for part in _JOINTS.split(name) if part]


def _named_values(value: Any) -> list[tuple[str, tuple[str, ...], Any]] | None:
    """Of a value that has fields, each one's name, all its spellings, and its value; None for other values."""
    if isinstance(value, BaseModel):
        infos = type(value).model_fields
        inside = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        return [(name, (name, *_aliases(infos.get(name))), inner) for name, inner in inside.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, (f.name,), getattr(value, f.name, None)) for f in dataclasses.fields(value)]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a NamedTuple
        value = value._asdict()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    if isinstance(value, Mapping):
        return [(name := _key(key), (name,), inner) for key, inner in value.items()]
    return None


def _aliases(info: FieldInfo | None) -> list[str]:
    given = () if info is None else (info.alias, info.validation_alias, info.serialization_alias)
    return [alias for alias in given if isinstance(alias, str)]


def _key(key: Any) -> str:
    """The key of a mapping as the name of a field."""
    if isinstance(key, Enum):
        key = key.value if isinstance(key.value, str) else key.name
    if isinstance(key, str):
        return key.encode(errors="replace").decode()
    if isinstance(key, bytes):
        return key.decode(errors="replace")
    return repr(key) if isinstance(key, int | float | None) else f"<{type(key).__name__}>"


def _remember(secret: Any, secrets: set[str]) -> None:
    """Add every text and number inside a secret value."""
    met: dict[int, Any] = {}
    waiting = [secret]
    while waiting:
        value = waiting.pop()
        if isinstance(value, SecretStr | SecretBytes):
            value = value.get_secret_value()
        if isinstance(value, bytes | bytearray):
            value = value.decode(errors="ignore")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value) if isinstance(value, float) or value.bit_length() <= MAX_BITS else ""
        if isinstance(value, str):
            text = value.encode(errors="replace").decode()
            if len(text) >= MIN_SECRET:
                secrets.add(text)
        elif id(value) not in met:
            met[id(value)] = value
            named = _named_values(value)
            if named is not None:
                waiting += [inner for *_, inner in named]
            elif isinstance(value, list | tuple | set | frozenset):
                waiting += value


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
