"""What tests need: a model that follows a script, and the contracts that plugins keep."""

from __future__ import annotations

from ..models.calls_allowed import allow_model_calls, forbid_model_calls
from .advisor import check_advisor
from .audit_sink import check_audit_sink
from .memory_store import check_memory_store
from .model import check_model
from .recording import RecordingModel
from .replay import ReplayModel
from .scripted import ScriptedModel
from .shared_state import check_shared_state
from .tool_index import check_tool_index

__all__ = [
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "allow_model_calls",
    "check_advisor",
    "check_audit_sink",
    "check_memory_store",
    "check_model",
    "check_shared_state",
    "check_tool_index",
    "forbid_model_calls",
]
