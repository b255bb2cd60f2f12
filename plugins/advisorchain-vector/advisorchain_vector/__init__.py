"""Finds tools by meaning: a vector index, and a model that works offline."""

from __future__ import annotations

from .index import Embedder, VectorIndex
from .minilm import MiniLmEmbedder

__all__ = ["Embedder", "MiniLmEmbedder", "VectorIndex"]
