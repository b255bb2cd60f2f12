"""The W3C trace context of a call over MCP, in ``_meta``: what tracing hooks into, on both sides."""

from __future__ import annotations

from collections.abc import Mapping

from ..context import Context, ContextKey

TRACE_CONTEXT = ContextKey[Mapping[str, str]]("advisorchain.trace_context")
"""The W3C trace context: ``traceparent``, perhaps ``tracestate`` and ``baggage``. In the context of a tool that is
served it is what came with the call; what is in the context of a turn that is not traced here goes along with calls of
servers, without ``baggage``, which may hold anything. In a traced turn the tool call's own span goes along."""

RECEIVED = ("traceparent", "tracestate", "baggage")
SENT = ("traceparent", "tracestate")


def received_trace(meta: Mapping[str, object]) -> dict[str, str]:
    """The trace context that came in ``_meta``; empty without a ``traceparent``."""
    return _chosen(meta, RECEIVED)


def sent_trace(context: Context) -> dict[str, str]:
    """What of the trace context goes to a server; empty without a ``traceparent``."""
    observer = context.turn.observer
    if observer is not None and (carrier := _chosen(observer.carrier(), SENT)):
        return carrier
    trace = context.get(TRACE_CONTEXT)
    return _chosen(trace, SENT) if isinstance(trace, Mapping) else {}


def _chosen(values: Mapping[str, object], keys: tuple[str, ...]) -> dict[str, str]:
    chosen = {key: value for key in keys if isinstance(value := values.get(key), str)}
    return chosen if "traceparent" in chosen else {}
