"""The form of a line in a hash-chained file: which bytes a record's hash covers, and how a line is read back."""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigurationError

FORMAT = "advisorchain-audit-1"
NO_HASH = "0" * 64
"""What stands for the hash of the record before the very first one."""
MIN_KEY_BYTES = 16

_HEAD = re.compile(rb'\{"seq":(\d{1,18}),"prev":"([0-9a-f]{64})",')
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\n')
_TAIL_LENGTH = len(b',"hash":""}\n') + 64


class Line(NamedTuple):
    """A well-formed line.

    Attributes:
        seq: the number of the record, from 1, counted through rotated files.
        prev: the hash of the record before.
        stated: the record's own hash, as the line says.
        sealed: the bytes that the hash covers: everything before it.
    """

    seq: int
    prev: str
    stated: str
    sealed: bytes

    def record(self) -> dict[str, Any] | None:
        """The record without its hash; None when it is no JSON that can be read."""
        try:
            found: dict[str, Any] = json.loads(self.sealed + b"}")
        except (ValueError, RecursionError):
            return None
        return found


@dataclass(frozen=True, slots=True)
class Predecessor:
    """What the first record of a rotated file says of the file before it: its name and its head."""

    file: str
    count: int
    hash: str


def parse_line(line: bytes) -> Line | None:
    """A line with its end, or None when it is not exactly in the form that a sink writes."""
    tail = _TAIL.fullmatch(line, max(0, len(line) - _TAIL_LENGTH))
    head = _HEAD.match(line)
    if tail is None or head is None or head.end() > tail.start():
        return None
    return Line(int(head[1]), head[2].decode(), tail[1].decode(), line[: tail.start()])


class Digest:
    """SHA-256, or with a key HMAC-SHA-256.

    Args:
        key: the name of an environment variable that holds the key, or the key itself as bytes; None: no key.

    Raises:
        ConfigurationError: the variable is not set, or the key is shorter than 16 bytes.
    """

    __slots__ = ("_hash", "algorithm", "key_id")

    def __init__(self, key: str | bytes | None) -> None:
        secret = _key_bytes(key)
        self._hash: Callable[[bytes], str] = _sha256 if secret is None else partial(_hmac, secret)
        self.algorithm = "sha256" if secret is None else "hmac-sha256"
        self.key_id = None if secret is None else self(b"advisorchain audit key")[:16]
        """Tells keys apart and gives nothing of them away."""

    def __call__(self, data: bytes) -> str:
        """The hash of the data, in 64 hexadecimal digits."""
        return self._hash(data)


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()


def _hmac(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()


def _key_bytes(key: str | bytes | None) -> bytes | None:
    if key is None:
        return None
    if isinstance(key, bytes):
        value, where = key, "key="
    else:
        text = os.environ.get(key)
        if not text:
            raise ConfigurationError(
                f"The environment variable {key!r}, which should hold the key of the audit file, is not set. Set it, "
                "or pass the key itself as bytes."
            )
        value, where = text.encode(), f"the environment variable {key!r}"
    if len(value) < MIN_KEY_BYTES:
        raise ConfigurationError(
            f"The key of the audit file ({where}) has {len(value)} bytes; it needs at least {MIN_KEY_BYTES}, at "
            "random: python -c 'import secrets; print(secrets.token_hex(32))'."
        )
    return value


def start_record(digest: Digest, number: int, previous: Predecessor | None = None) -> dict[str, Any]:
    """The first record of a file: ``number`` counts rotated files, ``previous`` is the head of the one before."""
    record: dict[str, Any] = {
        "kind": "start",
        "time": time.time(),
        "format": FORMAT,
        "algorithm": digest.algorithm,
        "key_id": digest.key_id,
        "number": number,
    }
    return record if previous is None else {**record, "previous": asdict(previous)}


def predecessor(start: dict[str, Any] | None) -> Predecessor | None:
    """The file before the one that begins with ``start``; None when it does not say, or not as we write it."""
    previous = start.get("previous") if start is not None and start.get("kind") == "start" else None
    if not isinstance(previous, dict):
        return None
    file, count, own = previous.get("file"), previous.get("count"), previous.get("hash")
    if not isinstance(file, str) or not isinstance(count, int) or not isinstance(own, str):
        return None
    return Predecessor(file, count, own)


def check_start(path: Path, fd: int, digest: Digest) -> tuple[int, int]:
    """The number of a file, and how long its first line is; ``(1, 0)`` when that line is torn.

    Raises:
        ConfigurationError: it is no audit file, or was written with another key.
    """
    data = os.pread(fd, 8192, 0)
    line = data[: data.find(b"\n") + 1]
    parsed = parse_line(line)
    if parsed is None:
        torn = data.strip(b"\0")
        if torn and not torn.startswith(b'{"seq":1,"prev":"000000'[: len(torn)]):
            raise ConfigurationError(f"{path} is not an audit file; give the sink a path of its own.")
        return 1, 0
    start = parsed.record()
    if start is None:
        raise ConfigurationError(f"{path} is not an audit file; give the sink a path of its own.")
    key_id = start.get("key_id")
    if key_id != digest.key_id:
        how = "without a key" if key_id is None else "with a key" if digest.key_id is None else "with another key"
        raise ConfigurationError(
            f"The audit file {path} was written {how}; give the sink the same key=, or another path."
        )
    number = start.get("number")
    return number if isinstance(number, int) else 1, len(line)


def last_line(fd: int, size: int) -> tuple[Line | None, bytes]:
    """The last well-formed line of a file, read from its end, and the bytes behind it."""
    length = 8192
    while True:
        start = max(0, size - length)
        data = os.pread(fd, size - start, start)
        end = data.rfind(b"\n") + 1
        while end > 0:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            if begin == 0 and start > 0:
                break
            line = parse_line(data[begin:end])
            if line is not None:
                return line, data[end:]
            end = begin
        if start == 0:
            return None, data
        length *= 8
