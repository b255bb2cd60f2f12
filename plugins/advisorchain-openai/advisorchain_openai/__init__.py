"""OpenAI, and every server that speaks its chat completions, as a model of advisorchain."""

from __future__ import annotations

from .model import OpenAIModel

__all__ = ["OpenAIModel"]

__version__ = "0.1.0"
