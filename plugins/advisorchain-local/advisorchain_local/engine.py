"""llama.cpp with a model's weights in this process, loaded once for everybody who wants the same."""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio
from anyio.lowlevel import current_token

from advisorchain import ConfigurationError, ModelError

from .process_end import in_flight, keep_for_ever

Json = dict[str, Any]
PROVIDER = "local"

_PROMPT_BATCH = 256
"""Tokens of a prompt that are read in one go: between two of them the engine can be told to stop."""


class EngineSettings(NamedTuple):
    """What makes an engine; models with the same settings share one.

    Attributes:
        path: the file of the weights.
        context_tokens: tokens of prompt and answer together; 0: what the model was trained for.
        parallel: how many answers are made at once; each has its share of the context.
        threads: of the processor; None: as many as the engine finds good.
        gpu_layers: layers on the graphics card; None: as the engine finds good.
        chat_template: a Jinja template instead of the one in the file.
    """

    path: Path
    context_tokens: int
    parallel: int
    threads: int | None
    gpu_layers: int | None
    chat_template: str | None


class Engine:
    """A loaded model.

    Args:
        settings: see `EngineSettings`.

    Raises:
        ConfigurationError: the engine is not installed, or it cannot load the weights.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._pid = os.getpid()
        self._parallel = settings.parallel
        self._server = _server(settings)
        self._limiters: WeakKeyDictionary[object, anyio.CapacityLimiter] = WeakKeyDictionary()

    @property
    def is_usable(self) -> bool:
        """Whether it lives in this process: after a fork its threads are missing in the child."""
        return self._pid == os.getpid()

    def limiter(self) -> anyio.CapacityLimiter:
        """What bounds the calls of the running event loop that wait for this engine in a thread."""
        loop = current_token().native_token
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter = self._limiters[loop] = anyio.CapacityLimiter(self._parallel)
        return limiter

    def answer(self, body: Json, take: Callable[[Json], bool]) -> None:
        """Make an answer, and return at its end.

        Args:
            body: of a chat completion.
            take: is given every chunk, in this thread; true: stop. It must not raise: the engine would not tell.

        Raises:
            ModelError: the engine refuses the request.
        """
        try:
            with in_flight.inside():
                self._server.handle_chat_completions(
                    {**body, "stream": True}, lambda chunk: in_flight.is_ending or take(chunk)
                )
        except (RuntimeError, TypeError, ValueError) as error:
            raise ModelError(f"{PROVIDER}: {str(error)[:500]}", provider=PROVIDER) from error


def load_engine(settings: EngineSettings) -> Engine:
    """The engine for these settings: the one that is there, or a new one.

    Takes seconds, and the binding of the engine holds Python's lock for most of that time: other threads wait.

    Raises:
        ConfigurationError: the engine is not installed, or it cannot load the weights.
    """
    with _lock:
        loading = _loading.setdefault(settings, threading.Lock())
    with loading:
        engine = _engines.get(settings)
        if engine is None or not engine.is_usable:
            engine = _engines[settings] = Engine(settings)
    return engine


# Weak: an engine is freed when the last model that uses it is closed or forgotten.
_engines: WeakValueDictionary[EngineSettings, Engine] = WeakValueDictionary()
_loading: dict[EngineSettings, threading.Lock] = {}
_lock = threading.Lock()


def _forget_the_parents() -> None:
    global _lock
    for engine in _engines.values():
        keep_for_ever(engine)
    _engines.clear()
    _loading.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_the_parents)


def check_installed() -> None:
    """Check that the engine is there, without loading it.

    Raises:
        ConfigurationError: the package xllamacpp is not installed.
    """
    try:
        found = importlib.util.find_spec("xllamacpp")
    except ValueError:  # somebody put None into its place
        found = None
    if found is None:
        raise ConfigurationError(
            "LocalModel runs llama.cpp from the package xllamacpp, which is not installed: pip install xllamacpp."
        )


def _server(settings: EngineSettings) -> Any:
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    except ImportError as error:
        raise ConfigurationError(
            f"LocalModel runs llama.cpp from the package xllamacpp, which cannot be imported here: {error}."
        ) from error
    wanted: Any = xllamacpp.CommonParams()
    wanted.model.path = str(settings.path)
    wanted.n_ctx = settings.context_tokens
    wanted.n_parallel = settings.parallel
    wanted.n_batch = wanted.n_ubatch = _PROMPT_BATCH
    wanted.use_jinja = True
    wanted.warmup = False
    wanted.verbosity = 0
    if settings.chat_template is not None:
        wanted.chat_template = settings.chat_template
    if settings.threads is not None:
        wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = settings.threads
    if settings.gpu_layers is not None:
        wanted.n_gpu_layers = settings.gpu_layers
    # The engine also listens on a port of this machine. Nobody uses it, so nobody knows its key.
    wanted.port = 0
    wanted.api_keys = [secrets.token_hex(32)]
    try:
        with in_flight.inside():
            server = xllamacpp.Server(wanted)
            # One that is freed before its loop has started waits for that for ever. An answer means that it has.
            server.handle_completions({"prompt": "a", "n_predict": 1})
            return server
    except Exception as error:
        raise ConfigurationError(
            f"llama.cpp cannot load {settings.path}: the file is damaged, too big for the memory, or of a kind that "
            f"this version of xllamacpp does not know ({error})."
        ) from error
