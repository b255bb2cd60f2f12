"""The lines of a trace file, in the form of the OpenTelemetry SDK or of OTLP JSON, as the fields of spans."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

Fields = dict[str, Any]

DEEPEST = 32
"""Levels of a nested attribute value that are kept."""

_KINDS = ("internal", "internal", "server", "client", "producer", "consumer")  # OTLP's numbers; 0: not said
_STATUSES = ("unset", "ok", "error")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_LONGEST_NAME = 80


class LineProblem(ValueError):
    """A line is no span; says why, without a full stop."""


def spans_of_line(line: bytes) -> Iterator[Fields]:
    """The fields of the spans on one line, named as in ``TraceSpan``.

    Raises:
        LineProblem: the line is neither a span of the SDK nor an OTLP export.
    """
    try:
        found = json.loads(line.decode("utf-8"))
        yield from _spans(_object(found, "it"))
    except UnicodeDecodeError:
        raise LineProblem("this is not text in UTF-8") from None
    except json.JSONDecodeError as exc:
        raise LineProblem(f"this is not JSON ({exc.msg} at column {exc.colno})") from None
    except RecursionError:
        raise LineProblem("this is nested too deeply") from None
    except LineProblem:
        raise
    except ValueError:  # a number of thousands of digits
        raise LineProblem("this has a number that is too long") from None


def _spans(found: Fields) -> Iterator[Fields]:
    if "resourceSpans" in found:
        for resource in _objects(found, "resourceSpans"):
            for scope in _objects(resource, "scopeSpans"):
                name = _text(_object(scope.get("scope") or {}, "scope"), "name", "")
                for span in _objects(scope, "spans"):
                    yield _of_otlp(span, name)
    elif "context" in found and "name" in found:
        yield _of_sdk(found)
    elif not ("resourceLogs" in found or "resourceMetrics" in found):
        raise LineProblem("this is no span: it has neither 'name' and 'context' nor 'resourceSpans'")


def _of_sdk(span: Fields) -> Fields:
    context = _object(span["context"], "context")
    status = _object(span.get("status") or {}, "status")
    return {
        "trace_id": _id(context, "trace_id"),
        "span_id": _id(context, "span_id"),
        "parent_id": _id(span, "parent_id") if span.get("parent_id") else None,
        "name": _text(span, "name"),
        "kind": _one_of(_KINDS, span.get("kind"), "kind", "SpanKind."),
        "start": _iso_time(span, "start_time") or 0,
        "end": _iso_time(span, "end_time"),
        "status": _one_of(_STATUSES, status.get("status_code"), "status_code", ""),
        "status_text": _text(status, "description", ""),
        "attributes": plain_value(_object(span.get("attributes") or {}, "attributes")),
        "events": [
            {
                "name": _text(event, "name"),
                "time": _iso_time(event, "timestamp") or 0,
                "attributes": plain_value(_object(event.get("attributes") or {}, "attributes")),
            }
            for event in _objects(span, "events")
        ],
    }


def _of_otlp(span: Fields, scope: str) -> Fields:
    status = _object(span.get("status") or {}, "status")
    return {
        "trace_id": _id(span, "traceId"),
        "span_id": _id(span, "spanId"),
        "parent_id": _id(span, "parentSpanId") if span.get("parentSpanId") else None,
        "name": _text(span, "name", ""),
        "kind": _one_of(_KINDS, span.get("kind"), "kind", "SPAN_KIND_"),
        "start": _nanoseconds(span, "startTimeUnixNano"),
        "end": _nanoseconds(span, "endTimeUnixNano") or None,
        "status": _one_of(_STATUSES, status.get("code"), "code", "STATUS_CODE_"),
        "status_text": _text(status, "message", ""),
        "attributes": _pairs(span, "attributes"),
        "events": [
            {
                "name": _text(event, "name", ""),
                "time": _nanoseconds(event, "timeUnixNano"),
                "attributes": _pairs(event, "attributes"),
            }
            for event in _objects(span, "events")
        ],
        "scope": scope,
    }


def plain_value(value: Any, depth: int = 0) -> Any:
    """The value in what JSON has: bytes as base64, unknown objects as text, what is nested too deeply as an "…"."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth >= DEEPEST:
        return "…"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): plain_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain_value(item, depth + 1) for item in value]
    return str(value)


def _pairs(owner: Fields, name: str, depth: int = 1) -> Fields:
    return {_text(pair, "key", ""): _any_value(pair.get("value"), depth) for pair in _objects(owner, name)}


def _any_value(value: Any, depth: int) -> Any:
    """A value of OTLP: an object with one field that names the type; no field at all is None."""
    for kind, inner in _object(value or {}, "value").items():
        if kind in ("stringValue", "boolValue", "bytesValue"):
            return _checked(inner, bool if kind == "boolValue" else str, kind)
        if kind == "intValue":
            return _integer(inner, kind)
        if kind == "doubleValue":
            return _double(inner)
        if kind in ("arrayValue", "kvlistValue"):
            if depth >= DEEPEST:
                return "…"
            holder = _object(inner, kind)
            if kind == "kvlistValue":
                return _pairs(holder, "values", depth + 1)
            return [_any_value(item, depth + 1) for item in _objects(holder, "values")]
    return None


def _double(value: Any) -> float:
    if value in ("NaN", "Infinity", "-Infinity"):  # the names that JSON of protobuf has for them
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LineProblem("'doubleValue' is not a number")
    try:
        return float(value)
    except OverflowError:
        raise LineProblem("'doubleValue' is not a number") from None


def _integer(value: Any, name: str) -> int:
    """64-bit numbers are text in the JSON of protobuf."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value, re.ASCII):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineProblem(f"{name!r} is not a whole number")
    return value


def _nanoseconds(owner: Fields, name: str) -> int:
    value = _integer(owner.get(name) or 0, name)
    if not 0 <= value < 1 << 64:
        raise LineProblem(f"{name!r} is not a time")
    return value


def _iso_time(owner: Fields, name: str) -> int | None:
    value = owner.get(name)
    if value is None:  # the SDK's own form of 0, too
        return None
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        if match is None:
            raise ValueError
        moment = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3]))
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError):
        raise LineProblem(f"{name!r} is not a time such as 2026-01-31T12:00:00.000000Z") from None
    if seconds < 0:
        raise LineProblem(f"{name!r} is before 1970")
    return seconds * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


def _id(owner: Fields, name: str) -> str:
    value = _text(owner, name).removeprefix("0x").lower()
    if not value:
        raise LineProblem(f"{name!r} is empty")
    return value


def _one_of(names: Sequence[str], value: Any, what: str, prefix: str) -> str:
    """A name of an enumeration from its number or its name; what is not said is the first."""
    if value is None:
        return names[0]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return names[value]
    if isinstance(value, str):
        name = value.removeprefix(prefix).lower()
        if name in names:
            return name
        if name in ("unspecified", "unset"):
            return names[0]
    raise LineProblem(f"{what!r} is unknown: {str(value)[:_LONGEST_NAME]!r}")


def _text(owner: Fields, name: str, default: str | None = None) -> str:
    value = owner.get(name, default)
    return cast("str", _checked(value, str, name))


def _checked(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise LineProblem(f"{name!r} is not {'text' if kind is str else 'true or false'}")
    return value


def _object(value: Any, name: str) -> Fields:
    if not isinstance(value, dict):
        raise LineProblem(f"{name!r} is not an object" if name != "it" else "this is no JSON object")
    return cast("Fields", value)


def _objects(owner: Fields, name: str) -> list[Fields]:
    value = owner.get(name) or []
    if not isinstance(value, list):
        raise LineProblem(f"{name!r} is not a list")
    return [_object(item, f"an item of {name}") for item in value]
