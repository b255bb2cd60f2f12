"""Conversations, circuits and rate limits of advisorchain in Redis or Valkey."""

from __future__ import annotations

from .state import RedisState
from .store import RedisStore

__all__ = ["RedisState", "RedisStore"]
