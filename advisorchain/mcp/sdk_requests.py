"""How our clients make requests otherwise than the MCP SDK does, which has no settings for it.

Without its spans: it traces requests itself, with OpenTelemetry's global provider. A tool call has one span, which is
ours. The SDK's would double it, hold the texts of errors in its status, exist with ``telemetry=False`` too, and send
along its own trace context with the baggage, which may hold anything.

Without its long goodbye: it tells the server of every call that is given up, and for that holds up whoever gives up for
5 seconds when the server takes no message any more.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

GIVE_UP_SECONDS = 1.0
"""How long a call that is given up may take to tell the server so."""


def request_our_way(client: Any) -> None:
    """Have a client of the SDK, before it is entered, make requests as the module says.

    Only this client changes. What the SDK's inside calls otherwise one day stays as the SDK has it.
    """
    connect = getattr(client, "_connect", None)
    if connect is None:
        return

    async def connect_our_way(*args: Any, **kwargs: Any) -> Any:
        dispatcher = await connect(*args, **kwargs)
        send = getattr(type(dispatcher), "send_raw_request", None)
        if isinstance(send, FunctionType):
            ours = FunctionType(
                send.__code__, send.__globals__ | _OURS, send.__name__, send.__defaults__, send.__closure__
            )
            ours.__kwdefaults__ = send.__kwdefaults__
            dispatcher.send_raw_request = MethodType(ours, dispatcher)
        return dispatcher

    client._connect = connect_our_way


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


_OURS = {
    "otel_span": _no_span,
    "inject_trace_context": _inject_nothing,
    "_ABANDON_WRITE_TIMEOUT": GIVE_UP_SECONDS,
}
"""What the SDK's function that makes a request finds under these names of its module."""
