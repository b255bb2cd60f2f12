"""Claude, and every server that speaks Anthropic's Messages API, as a model of advisorchain."""

from __future__ import annotations

from .model import AnthropicModel

__all__ = ["AnthropicModel"]

__version__ = "0.1.0"
