"""Where audit records go: sinks, and what checks the file of `JsonLinesSink`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .json_lines import JsonLinesSink
    from .redaction import Redaction
    from .sink import AuditRecord, AuditSink, LoggingSink
    from .sqlite import SqliteSink
    from .verification import AuditProblem, AuditReport, head, records, verify

__all__ = [
    "AuditProblem",
    "AuditRecord",
    "AuditReport",
    "AuditSink",
    "JsonLinesSink",
    "LoggingSink",
    "Redaction",
    "SqliteSink",
    "head",
    "records",
    "verify",
]

# Loaded when asked for: who does not audit does not pay for it.
_MODULES = {
    "JsonLinesSink": "json_lines",
    "Redaction": "redaction",
    "AuditRecord": "sink",
    "AuditSink": "sink",
    "LoggingSink": "sink",
    "SqliteSink": "sqlite",
    "AuditProblem": "verification",
    "AuditReport": "verification",
    "head": "verification",
    "records": "verification",
    "verify": "verification",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)
