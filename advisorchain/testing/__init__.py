"""What tests need: a model that follows a script."""

from __future__ import annotations

from .scripted import ScriptedModel

__all__ = ["ScriptedModel"]
