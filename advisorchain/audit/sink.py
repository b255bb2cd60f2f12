"""What an audit sink is, and the sink that logs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias

from pydantic_core import to_json

AuditRecord: TypeAlias = dict[str, Any]
"""One record: plain JSON data. ``kind`` says what it is about, ``time`` when it was made (Unix seconds)."""


class AuditSink(Protocol):
    """Where records go. Shared by concurrent turns, threads and event loops."""

    def write(self, record: AuditRecord, *, durable: bool = False) -> Awaitable[None] | None:
        """Keep a record: done when it returns None, else when what it returns has been awaited.

        Args:
            record: must not be changed.
            durable: the record must be on disk (where there is one) before the write counts as done.

        Raises:
            Exception: the record was not kept.
        """
        ...

    def digest(self, data: bytes) -> str:
        """The hash that stands for arguments in a record; a sink with a key uses it."""
        return hashlib.sha256(data).hexdigest()


def encode_record(record: AuditRecord) -> bytes:
    """A record as one line of JSON, without the line's end; objects that JSON does not know become their ``str()``."""
    try:
        return to_json(record, inf_nan_mode="strings", fallback=str)
    except Exception:  # lone surrogates, for example
        return json.dumps(record, separators=(",", ":"), default=str, skipkeys=True).encode()


class LoggingSink:
    """Logs every record as one line of JSON; the record itself is ``log_record.audit``.

    Args:
        logger: a logger, or its name.
        level: of the log records.
    """

    def __init__(self, logger: logging.Logger | str = "advisorchain.audit", *, level: int = logging.INFO) -> None:
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.level = level

    def write(self, record: AuditRecord, *, durable: bool = False) -> None:
        """Log the record."""
        if self.logger.isEnabledFor(self.level):
            self.logger.log(self.level, "%s", encode_record(record).decode(), extra={"audit": record})

    def digest(self, data: bytes) -> str:
        """SHA-256."""
        return hashlib.sha256(data).hexdigest()
