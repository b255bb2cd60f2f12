"""The built-in advisors; each uses only public names of the package's modules and could be a plugin."""

from __future__ import annotations

from .return_direct import ReturnDirectAdvisor
from .tool_calling import LoopState, ToolCallingAdvisor

__all__ = ["LoopState", "ReturnDirectAdvisor", "ToolCallingAdvisor"]
