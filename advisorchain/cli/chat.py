"""``advisorchain chat``: a conversation on the terminal."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console
from rich.text import Text

from ..client import ChatClient
from ..errors import AdvisorChainError
from ..messages import Message, UserMessage
from .choice import described
from .display import one_line
from .standard_input import is_terminal, read_line
from .termination import exit_code, was_terminated
from .turns import TurnView

PROMPT = "you> "
LEAVE = frozenset({"/exit", "/quit"})


class Conversation:
    """Reads, asks, shows; keeps the history of the turns that succeeded, unless the client's memory does, by an id.

    ``turn_done`` is called after every turn.
    """

    def __init__(
        self,
        client: ChatClient,
        console: Console,
        problems: Console,
        conversation_id: str | None = None,
        *,
        turn_done: Callable[[], None] = lambda: None,
    ) -> None:
        self._conversation_id = conversation_id
        self._client = client
        self._view = TurnView(console)
        self._console = console
        self._problems = problems
        self._turn_done = turn_done
        self._history: list[Message] = []
        self._by_hand = is_terminal()

    def run(self) -> int:
        """Converse until ``/exit``, the end of the input, a second Ctrl-C or SIGTERM; returns the exit code."""
        if self._by_hand:
            with suppress(ImportError):
                readline = importlib.import_module("readline")  # line editing and history for input()
                readline.parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one message
            self._note("/exit leaves; Ctrl-C cancels an answer, a second one leaves.")
        interrupted = asking = False
        while True:
            try:
                asking = False
                text = self._read()
                if text is None or text in LEAVE:
                    return 0
                interrupted, asking = False, bool(text)
                if text:
                    try:
                        answered = self._turn(text)
                    finally:
                        self._turn_done()
                    if answered:
                        self._console.print()
            except KeyboardInterrupt:
                if interrupted or was_terminated():
                    return exit_code()
                interrupted = True
                self._note(("cancelled; " if asking else "") + "Ctrl-C again or /exit leaves.")

    def _read(self) -> str | None:
        """The next line; None at the end of the input."""
        try:
            line = input(PROMPT) if self._by_hand else read_line()
        except EOFError:
            self._console.print()
            return None
        except KeyboardInterrupt:
            self._console.print()
            raise
        if not line and not self._by_hand:
            return None
        return line.encode("utf-8", "replace").decode().strip()

    def _turn(self, text: str) -> bool:
        """Ask and show; whether there was an answer."""
        message = UserMessage(content=text)
        try:
            response = self._view.run(self._client, [*self._history, message], self._conversation_id)
        except AdvisorChainError as exc:
            self._problem(one_line(str(exc)))
            return False
        except Exception as exc:  # a model or a tool failed: the conversation goes on
            self._problem(one_line(described(exc)))
            return False
        if self._conversation_id is None:
            self._history += [message, *response.new_messages]
        return True

    def _note(self, text: str) -> None:
        self._problems.print(Text(text, style="dim"))

    def _problem(self, text: str) -> None:
        self._problems.print(Text(f"error: {text}"), soft_wrap=True)
