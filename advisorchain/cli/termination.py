"""SIGTERM ends a command as Ctrl-C does: what runs is cancelled and closed, child processes too."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143
"""The exit codes after Ctrl-C and after SIGTERM: 128 and the number of the signal, as in a shell."""

_terminated = False


def end_on_sigterm() -> None:
    """Take SIGTERM as a Ctrl-C from now on. For the program only: a library installs no signal handlers.

    A shell lets background jobs ignore Ctrl-C. They go on doing so, by a mask: an event loop that finds it ignored does
    not cancel its work in order when it ends.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, signal.default_int_handler)


def was_terminated() -> bool:
    """Whether a SIGTERM, and not Ctrl-C, has ended what ran."""
    return _terminated


def exit_code() -> int:
    """The exit code after a ``KeyboardInterrupt``."""
    return TERMINATED if _terminated else INTERRUPTED


def _on_sigterm(signum: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # the event loop's, which cancels its main task, or the one that raises KeyboardInterrupt
        handler(signum, frame)
    else:
        raise KeyboardInterrupt
