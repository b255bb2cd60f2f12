"""Conversations of advisorchain in PostgreSQL."""

from __future__ import annotations

from .store import PostgresStore

__all__ = ["PostgresStore"]
