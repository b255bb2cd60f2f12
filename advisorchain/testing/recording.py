"""`RecordingModel`: a real model whose exchanges are written to a file, for `ReplayModel`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio.to_thread

from ..events import Event, Restarted, TextDelta
from ..exchange import ChatNext, ChatRequest, ChatResponse, Emit
from ..model_call import model_name
from ..models.calls_allowed import CallsForbiddenError
from ..shield import run_shielded
from .recorded_exchange import CONTENT_EVENTS, Json, error_data, events_data, request_data, response_data
from .recording_file import RecordingFile, about_model
from .scrubbing import Scrubber


class RecordingModel:
    """A model around another one: passes everything on, and writes each exchange to a JSON-lines file.

    An exchange is what was asked (messages, tools, options, output type), and the answer with its usage, the pieces in
    which it was streamed, or the error; a call that was cancelled is recorded as that. The file is replaced at the
    first exchange and is whole after every one, in the order in which the calls began.

    Secrets do not get into the file: what stands under a field name such as ``password`` or ``api_key``, bearer tokens,
    ``sk-...`` keys and other known forms, and the values of environment variables whose names look like secrets. Look
    at a recording before you share it all the same: no rule finds every secret.

    Args:
        model: the real model.
        path: the file; a folder that is missing is made. One model, one file.
        secret_fields: further field names that hold secrets.
        secret_patterns: regular expressions of further secrets; with a group, only the group is taken out.
    """

    def __init__(
        self,
        model: ChatNext,
        path: str | os.PathLike[str],
        *,
        secret_fields: Iterable[str] = (),
        secret_patterns: Iterable[str] = (),
    ) -> None:
        self.model = model
        self._scrubber = Scrubber(secret_fields, secret_patterns)
        self.native_output = bool(getattr(model, "native_output", False))
        self.keeps_ledger = bool(getattr(model, "keeps_ledger", False))
        about = about_model(self._scrubber.text(self.name), self.native_output)
        self._file = RecordingFile(Path(path), about, self._scrubber)
        self._count = 0

    @property
    def name(self) -> str:
        """The name of the real model."""
        return model_name(self.model)

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Ask the real model, and record the exchange.

        Raises:
            ConfigurationError: the file cannot be written, or somebody else writes it.
        """
        index, self._count = self._count, self._count + 1
        events: list[Event] = []

        async def keep(event: Event, emit: Emit) -> None:
            if isinstance(event, Restarted):  # of a chain as the model: the answer begins again
                events.clear()
            elif isinstance(event, CONTENT_EVENTS) and event.path == ():
                events.append(event)
            await emit(event)

        try:
            response = await self.model(request.tap(keep))
        except CallsForbiddenError:
            raise  # nothing was asked: an old recording stays as it is
        except Exception as error:
            failure = error  # the name of an except clause is gone after it
            await self._write(index, request, events, lambda: {"error": error_data(failure, self._scrubber)})
            raise
        except BaseException:
            await self._write(index, request, events, lambda: {"cancelled": True})
            raise
        await self._write(
            index, request, events, lambda: {"response": response_data(response, self._scrubber)}, response
        )
        return response

    async def _write(
        self,
        index: int,
        request: ChatRequest,
        events: list[Event],
        outcome: Callable[[], Json],
        response: ChatResponse[Any] | None = None,
    ) -> None:
        streamed = "".join([event.text for event in events if isinstance(event, TextDelta)])
        if response is not None and streamed != response.text:  # of a chain as the model: several answers in a row
            events = []

        def exchange() -> Json:
            pieces = events_data(events, self._scrubber)
            asked = self._scrubber.data(request_data(request))
            return {"request": asked, **({"events": pieces} if pieces else {}), **outcome()}

        await run_shielded(lambda: anyio.to_thread.run_sync(self._file.write, index, exchange))

    async def aclose(self) -> None:
        """Close the real model, if it can be closed."""
        close = getattr(self.model, "aclose", None)
        closed = close() if close is not None else None
        if inspect.isawaitable(closed):
            await closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"RecordingModel({self.model!r})"
