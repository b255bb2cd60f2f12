"""`ReplayModel`: answers as a real model did when it was recorded."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import anyio

from ..errors import ConfigurationError
from ..exchange import ChatRequest, ChatResponse
from .differences import aligned, difference
from .recorded_exchange import Json, events_of, load_error, load_events, load_response, request_data
from .recording_file import read_recording
from .scrubbing import Scrubber

RequestField = Literal["messages", "tools", "options", "output"]
"""What of a request can be compared with the recorded one."""
CANCELLED_WITHIN = 5.0
"""Seconds that a call which was cancelled when it was recorded waits to be cancelled again."""

_FIELDS: tuple[RequestField, ...] = get_args(RequestField)


class ReplayModel:
    """Plays what `RecordingModel` wrote: no network, the same answers, errors and streamed pieces.

    Each call takes the next exchange, and its request must be the recorded one; a difference fails the test and is
    shown as a diff. Ids of messages and calls and the option ``timeout`` do not count, and a recorded ``[redacted]``
    stands for any text. An exchange that was recorded under ``call`` is streamed in one piece per part.

    Args:
        path: the recording.
        strict: what of a request must be as recorded: True: messages, tools, options and output type; False: nothing,
            only the order counts; or the names of some of these.
        in_order: False: a call takes the first unused exchange that fits it, for calls that run at the same time.
        volatile: regular expressions of what may differ in texts, for example the time in a system text.
        secret_fields: as given to the `RecordingModel`.
        secret_patterns: as given to the `RecordingModel`.

    Attributes:
        name: the name of the recorded model.
        requests: every request, in order.

    Raises:
        ConfigurationError: there is no such recording, it is damaged (says where), or an argument is wrong.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        strict: bool | Iterable[RequestField] = True,
        in_order: bool = True,
        volatile: Iterable[str | re.Pattern[str]] = (),
        secret_fields: Iterable[str] = (),
        secret_patterns: Iterable[str] = (),
    ) -> None:
        about, self._exchanges = read_recording(Path(path))
        self.name = str(about.get("model") or "replay")
        self.native_output = bool(about.get("native_output"))
        self.requests: list[ChatRequest] = []
        self._path = Path(path)
        self._fields = _fields(strict)
        self._in_order = in_order
        self._volatile = [re.compile(pattern) for pattern in volatile]
        self._scrubber = Scrubber(secret_fields, secret_patterns)
        self._unused = list(range(len(self._exchanges)))
        self._mismatch: str | None = None
        self._lock = threading.Lock()

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Play the exchange of this request.

        Raises:
            AssertionError: the request is not the recorded one (has a diff), or the recording is over.
        """
        with self._lock:
            self.requests.append(request)
            exchange = self._take(request)
        if "error" in exchange or exchange.get("cancelled"):
            await self._stream(request, exchange, None)
            if "error" in exchange:
                raise load_error(exchange["error"])
            await anyio.sleep(CANCELLED_WITHIN)
            raise self._failed("this call was cancelled when it was recorded, and now nobody cancels it.")
        response = load_response(exchange["response"])
        await self._stream(request, exchange, response)
        return response

    def assert_finished(self) -> None:
        """Fail when a request did not fit, even if somebody caught that error, or when exchanges were not used."""
        if self._mismatch is not None:
            raise AssertionError(self._mismatch)
        if self._unused:
            numbers = ", ".join([str(index + 1) for index in self._unused])
            raise AssertionError(
                f"{self._path}: {len(self._unused)} of {len(self._exchanges)} exchanges were not used: {numbers}."
            )

    def _take(self, request: ChatRequest) -> Json:
        asked = self._scrubber.data(request_data(request))
        number = len(self.requests)
        if not self._unused:
            last = asked["messages"][-1] if asked["messages"] else None
            raise self._failed(
                f"call {number} is beyond the {len(self._exchanges)} exchanges of the recording; the last message was "
                f"{last!r}"
            )
        closest = ""
        for index in self._unused[:1] if self._in_order else list(self._unused):
            found = self._difference(self._exchanges[index]["request"], asked)
            if not found:
                self._unused.remove(index)
                return self._exchanges[index]
            if not closest or len(found) < len(closest):
                closest = found
        where = (
            f"exchange {self._unused[0] + 1}" if self._in_order else "any exchange that is left; the closest differs"
        )
        raise self._failed(f"call {number} does not ask what was recorded as {where}:\n{closest}")

    def _difference(self, recorded: Json, asked: Json) -> str:
        before: Json = {name: recorded.get(name) for name in self._fields}
        after: Json = {name: aligned(before[name], asked[name], self._volatile) for name in self._fields}
        return "" if before == after else difference(before, after) or "(the order of fields differs)"

    def _failed(self, what: str) -> AssertionError:
        text = f"{self._path}: {what}"
        if self._mismatch is None:
            self._mismatch = text
        return AssertionError(text)

    async def _stream(self, request: ChatRequest, exchange: Json, response: ChatResponse[Any] | None) -> None:
        if not request.streaming:
            return
        events = load_events(exchange.get("events", ()))
        for event in events_of(response) if response is not None and not events else events:
            await request.emit(event)

    def __repr__(self) -> str:
        return f"ReplayModel({str(self._path)!r})"


def _fields(strict: bool | Iterable[RequestField]) -> tuple[RequestField, ...]:
    if isinstance(strict, bool):
        return _FIELDS if strict else ()
    names = [strict] if isinstance(strict, str) else list(strict)
    unknown = [name for name in names if name not in _FIELDS]
    if unknown:
        raise ConfigurationError(
            f"strict= takes True, False or some of {', '.join(map(repr, _FIELDS))}; it has "
            f"{', '.join(map(repr, unknown))}."
        )
    return tuple([name for name in _FIELDS if name in names])
