"""Conversations of advisorchain in Redis or Valkey."""

from __future__ import annotations

from .store import RedisStore

__all__ = ["RedisStore"]
