"""Language models in this process: any GGUF file, by llama.cpp, as a model of advisorchain."""

from __future__ import annotations

from .model import LocalModel

__all__ = ["LocalModel"]

__version__ = "0.1.0"
