"""Tools: what they are, how they are made, validated and run."""

from __future__ import annotations

from .definition import Tool, ToolContext, ToolProvider
from .execution import run_tool
from .function import tool
from .registry import ToolRegistry
from .result import MAX_RESULT_BYTES, MAX_RESULT_CHARS
from .threads import abandoned_threads

__all__ = [
    "MAX_RESULT_BYTES",
    "MAX_RESULT_CHARS",
    "Tool",
    "ToolContext",
    "ToolProvider",
    "ToolRegistry",
    "abandoned_threads",
    "run_tool",
    "tool",
]
