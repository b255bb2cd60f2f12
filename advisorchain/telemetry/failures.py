"""What is told of an exception in a trace."""

from __future__ import annotations

import asyncio
import sys

from ..errors import ModelError

_MCP = ("mcp.", "advisorchain.mcp", "advisorchain.errors")


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception is the cancellation of a task, of asyncio or of trio, or a group of nothing else."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return True
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_cancellation, error.exceptions))
    trio = sys.modules.get("trio")
    return trio is not None and isinstance(error, trio.Cancelled)


def error_type(error: BaseException) -> str:
    """What an exception is called in ``error.type``: a status or code that the other side gave, else its class."""
    if isinstance(error, ModelError) and isinstance(error.status, int):
        return str(error.status)
    if type(error).__module__.startswith(_MCP):  # others may have attributes that fail
        told = getattr(error, "error", error)  # the MCP SDK's errors hold what was told
        if isinstance(code := getattr(told, "code", None), int):
            return str(code)
    return type(error).__qualname__


def error_text(error: BaseException) -> str:
    """What an exception says; never fails."""
    try:
        return str(error)
    except Exception:  # its own __str__ fails
        return type(error).__qualname__
