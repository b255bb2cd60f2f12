"""One turn on the terminal: streamed text, tool events as they happen, a spinner while waiting."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from ..client import ChatClient
from ..events import Event, Restarted, TextDelta, ToolFinished, ToolProgress, ToolStarted
from ..exchange import ChatResponse
from ..messages import Message
from .demo import described_call
from .display import Flow, one_line, shortened


class Spinner:
    """Turns while nothing arrives; does nothing on what is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Turn, with a text beside it."""
        if not self._moves:
            return
        text = shortened(text, max(self._console.width - 4, 8))
        if self._status is None:
            self._status = self._console.status(Text(text, style="dim"), spinner="dots")
            self._status.start()
        else:
            self._status.update(Text(text, style="dim"))

    def hide(self) -> None:
        """Vanish from the screen."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __enter__(self) -> Spinner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.hide()


class TurnView:
    """Shows the events of turns."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def run(self, client: ChatClient, messages: list[Message], conversation_id: str | None = None) -> ChatResponse[Any]:
        """Run one turn and show it; Ctrl-C cancels it and raises ``KeyboardInterrupt``.

        Raises:
            Exception: what ended the turn.
        """
        flow = Flow(self._console)
        try:
            turn = client.stream_sync(messages, conversation_id=conversation_id)
            with Spinner(self._console) as spinner, turn as stream:
                spinner.show("thinking")
                for event in stream:
                    self._show(event, flow, spinner)
                response: ChatResponse[Any] = stream.response()
        finally:
            flow.end_line()
        return response

    def _show(self, event: Event, flow: Flow, spinner: Spinner) -> None:
        if isinstance(event, TextDelta):
            if event.text and not event.path:
                spinner.hide()
                flow.write(event.text)
        elif isinstance(event, ToolStarted):
            call = described_call(event.call.name, event.call.arguments, self._console.width)
            self._line(flow, spinner, event, f"→ {call}{' · direct' if event.direct else ''}")
            spinner.show(one_line(event.title or event.call.name))
        elif isinstance(event, ToolProgress):
            total = f" of {event.total:g}" if event.total is not None else ""
            spinner.show(f"{one_line(event.name)}: {event.progress:g}{total} {one_line(event.message or '')}")
        elif isinstance(event, ToolFinished):
            mark = "✗" if event.result.is_error else "✓"
            error = f" · {one_line(event.result.content)}" if event.result.is_error else ""
            self._line(
                flow, spinner, event, f"{mark} {one_line(event.result.name)} · {event.seconds * 1000:.1f} ms{error}"
            )
            spinner.show("thinking")
        elif isinstance(event, Restarted) and not event.path:
            self._line(flow, spinner, event, "the answer starts again")

    def _line(self, flow: Flow, spinner: Spinner, event: Event, text: str) -> None:
        spinner.hide()
        flow.end_line()
        inside = "  " * (len(event.path) + 1) + "".join(f"{one_line(name)} " for name in event.path)
        width = self._console.width if self._console.is_terminal else 1000
        self._console.print(Text(shortened_after(inside, text, width), style="dim"), soft_wrap=True)


def shortened_after(lead: str, text: str, width: int) -> str:
    """The lead and as much of the text as fits behind it."""
    return lead + shortened(text, max(width - len(lead), 16))
