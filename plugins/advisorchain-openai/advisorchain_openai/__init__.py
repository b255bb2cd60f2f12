"""OpenAI, and every server that speaks its chat completions or its Responses API, as a model of advisorchain."""

from __future__ import annotations

from .model import OpenAIModel
from .responses import OpenAIResponsesModel

__all__ = ["OpenAIModel", "OpenAIResponsesModel"]

__version__ = "0.1.0"
