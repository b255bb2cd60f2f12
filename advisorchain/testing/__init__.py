"""What tests need: a model that follows a script, and the contracts that plugins keep."""

from __future__ import annotations

from .advisor import check_advisor
from .memory_store import check_memory_store
from .scripted import ScriptedModel

__all__ = ["ScriptedModel", "check_advisor", "check_memory_store"]
