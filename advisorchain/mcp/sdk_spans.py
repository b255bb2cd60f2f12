"""The MCP SDK traces its requests itself, with OpenTelemetry's global provider; this leaves that out for our clients.

A tool call has one span, which is ours. The SDK's would double it, hold the texts of errors in its status, exist with
``telemetry=False`` too, and send along its own trace context with the baggage, which may hold anything.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any


def without_sdk_spans(client: Any) -> None:
    """Have a client of the SDK, before it is entered, make requests without spans and trace contexts of its own.

    Only this client changes. The SDK has no setting for it; should its inside be another one day, nothing is changed.
    """
    connect = getattr(client, "_connect", None)
    if connect is None:
        return

    async def connect_quietly(*args: Any, **kwargs: Any) -> Any:
        dispatcher = await connect(*args, **kwargs)
        send = getattr(type(dispatcher), "send_raw_request", None)
        if isinstance(send, FunctionType) and _QUIET.keys() <= send.__globals__.keys():
            quiet = FunctionType(
                send.__code__, send.__globals__ | _QUIET, send.__name__, send.__defaults__, send.__closure__
            )
            quiet.__kwdefaults__ = send.__kwdefaults__
            dispatcher.send_raw_request = MethodType(quiet, dispatcher)
        return dispatcher

    client._connect = connect_quietly


class _NoSpan:
    """Takes what the SDK tells its span."""

    def set_attributes(self, *args: Any) -> None:
        """Nothing."""

    def set_status(self, *args: Any) -> None:
        """Nothing."""


_NO_SPAN = _NoSpan()


@contextmanager
def _no_span(*args: Any, **kwargs: Any) -> Generator[_NoSpan]:
    yield _NO_SPAN


def _inject_nothing(meta: dict[str, Any]) -> None:
    pass


_QUIET = {"otel_span": _no_span, "inject_trace_context": _inject_nothing}
