"""`ChatClient`: builds requests, owns the chain, runs turns under ``call`` and ``stream``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from typing_extensions import TypeForm, TypeVar

from .advisors import ToolCallingAdvisor
from .call_settings import CallSettings, Options, Prompt
from .chain import AdvisorChain
from .context import Context, Turn
from .default_advisors import with_loop
from .errors import ConfigurationError
from .exchange import CONVERSATION, RETURN_DIRECT, ChatNext, ChatRequest, ChatResponse
from .messages import Message, UserMessage, check_pairing
from .observers import global_observer, watch_of
from .options import ChatOptions
from .output import output_type_of
from .prepared_turn import PreparedTurn
from .prompt import messages_of, system_message
from .runtime import Runtime
from .stream import ChatStream
from .sub_agent import ClientModel, ClientTool
from .tool_execution import ToolExecution, execute_tools
from .tool_set import ToolSet
from .tools.definition import Tool
from .tools.execution import run_tool
from .tools.registry import ToolSources

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from .config.client import ConfiguredClient
    from .sync import SyncStream
    from .telemetry import Telemetry

T = TypeVar("T", default=str)

_RUNTIME = Runtime()


class ChatClient:
    """Sends chat requests through an ordered chain of advisors to a model.

    Args:
        model: any `ChatModel`: an async function of the request, usually with a ``name``.
        tools: tools, functions, objects with ``@tool`` methods, registries and providers, in any mix.
        advisors: advisors for every call; the tool loop and return-direct are added when absent.
        system: the system text; ``{identifier}`` placeholders are filled by a call's ``variables``.
        options: options for every call.
        return_direct: overrides tools' ``return_direct`` by name.
        tool_loop: False leaves the tool loop out and hands tool calls to the caller.
        name: of the client, in traces and logs.
        runtime: clock, ids and jitter.
        telemetry: True: turns are traced once the application has set up OpenTelemetry; False: never; or `Telemetry`.
        tracer_provider: instead of OpenTelemetry's global one.
        meter_provider: as above.

    Raises:
        ConfigurationError: advisors or tools do not fit together.
    """

    def __init__(
        self,
        model: ChatNext,
        *,
        tools: Iterable[Any] = (),
        advisors: Iterable[Any] = (),
        system: str | None = None,
        options: Options | None = None,
        return_direct: Mapping[str, bool] | None = None,
        tool_loop: bool = True,
        name: str = "chat_client",
        runtime: Runtime | None = None,
        telemetry: bool | Telemetry = True,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        if isinstance(model, type):
            raise ConfigurationError(f"{model.__name__} is a class; pass an instance: {model.__name__}(...).")
        if not callable(model):
            by_name = "; one by its name is plugins.named_model('openai:gpt-5-mini')" if isinstance(model, str) else ""
            raise ConfigurationError(
                f"{model!r} is no model: a model is an async function of the request, or an object with async __call__"
                f"{by_name}."
            )
        self._model = model
        self.name = name
        self._advisors = _listed(advisors)
        self._sources = ToolSources(tools)
        self._system = system
        self._system_message = system_message(system, None) if system is not None else None
        self._options = ChatOptions.of(options)
        self._return_direct = _flags(return_direct)
        self._tool_loop = tool_loop
        self._runtime = runtime or _RUNTIME
        self._watch = watch_of(telemetry, tracer_provider, meter_provider)
        self._chains: dict[bool, AdvisorChain] = {}
        self._chain(tool_loop, None)

    @classmethod
    def from_config(
        cls, path: str | PathLike[str], chain: str | None = None, *, telemetry: bool | Telemetry | None = None
    ) -> ConfiguredClient:
        """The client of a TOML file, or of its ``[chains.NAME]``; ``async with`` closes it. See `ConfigFile`.

        ``telemetry`` takes the place of what the file says.

        Raises:
            ConfigurationError: something in the file is wrong: tells file, line, key, and the nearest valid name.
        """
        from .config import ConfigFile

        return ConfigFile(path).client(chain, telemetry=telemetry)

    @property
    def model(self) -> ChatNext:
        """The model that the chain ends in."""
        return self._model

    # Calls -----------------------------------------------------------------------------------------------------------

    @overload
    async def call(
        self, prompt: Prompt, *, output_type: TypeForm[T], **settings: Unpack[CallSettings]
    ) -> ChatResponse[T]: ...
    @overload
    async def call(
        self, prompt: Prompt, *, output_type: None = ..., **settings: Unpack[CallSettings]
    ) -> ChatResponse[str]: ...
    async def call(
        self, prompt: Prompt, *, output_type: Any = None, **settings: Unpack[CallSettings]
    ) -> ChatResponse[Any]:
        """Run one turn and return the answer.

        Args:
            prompt: the user's text, a message, or messages (a whole conversation, without the client's system text).
            output_type: any type that pydantic can validate; the answer is ``response.output``.
            system: replaces the client's system text.
            variables: fills the system text's ``{identifier}`` placeholders.
            tools: added to the client's.
            advisors: added to the client's, for this call.
            options: over the client's, field by field.
            conversation_id: names the conversation for memory; None: no memory.
            context: values for the turn's `Context`: the advisors' per-call settings.
            return_direct: overrides tools' ``return_direct`` by name, over the client's.
            tool_loop: False hands the tool calls to the caller: ``response.tool_calls``.

        Raises:
            ConfigurationError: the call is set up wrongly.
            ModelError: the model failed. Any other error of a model or an advisor arrives as itself.
            OutputError: the answer does not fit ``output_type``.
            ToolLoopLimitError: a limit with outcome ``"raise"`` is reached.
        """
        return await self._prepare(prompt, output_type, **settings).run()

    @overload
    def stream(
        self, prompt: Prompt, *, output_type: TypeForm[T], **settings: Unpack[CallSettings]
    ) -> ChatStream[T]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, output_type: None = ..., **settings: Unpack[CallSettings]
    ) -> ChatStream[str]: ...
    def stream(self, prompt: Prompt, *, output_type: Any = None, **settings: Unpack[CallSettings]) -> ChatStream[Any]:
        """Run one turn and read its events while it runs; the arguments are those of `call`.

        Use it as ``async with client.stream(...) as stream``; see `ChatStream`.
        """
        prepared = self._prepare(prompt, output_type, **settings)
        return ChatStream(prepared.run, prepared.request.context.turn)

    @overload
    def call_sync(
        self, prompt: Prompt, *, output_type: TypeForm[T], **settings: Unpack[CallSettings]
    ) -> ChatResponse[T]: ...
    @overload
    def call_sync(
        self, prompt: Prompt, *, output_type: None = ..., **settings: Unpack[CallSettings]
    ) -> ChatResponse[str]: ...
    def call_sync(
        self, prompt: Prompt, *, output_type: Any = None, **settings: Unpack[CallSettings]
    ) -> ChatResponse[Any]:
        """`call` for sync code: the same turn, run on one background event loop per process.

        Ctrl-C cancels the turn and waits for it. Works inside a running event loop too, for example in Jupyter,
        which it blocks.

        Raises:
            ConfigurationError: called on the background loop itself.
        """
        from .sync import run_sync

        return run_sync(self._prepare(prompt, output_type, **settings).run)

    @overload
    def stream_sync(
        self, prompt: Prompt, *, output_type: TypeForm[T], **settings: Unpack[CallSettings]
    ) -> SyncStream[T]: ...
    @overload
    def stream_sync(
        self, prompt: Prompt, *, output_type: None = ..., **settings: Unpack[CallSettings]
    ) -> SyncStream[str]: ...
    def stream_sync(
        self, prompt: Prompt, *, output_type: Any = None, **settings: Unpack[CallSettings]
    ) -> SyncStream[Any]:
        """`stream` for sync code: ``with client.stream_sync(...) as stream: for event in stream: ...``."""
        from .sync import SyncStream

        return SyncStream(self.stream(prompt, output_type=output_type, **settings))

    # Tools in the caller's hands -------------------------------------------------------------------------------------

    async def execute_tools(
        self,
        response: ChatResponse[Any],
        calls: Iterable[Any] | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> ToolExecution:
        """Run the open calls of a response made with ``tool_loop=False``, through the same tool advisors.

        Args:
            response: the response with ``tool_calls``.
            calls: the calls to run (`ToolCall`, perhaps edited, or ids); default: all. The others get an error result.
            results: results that the caller already has, by call id: `ToolResult`, or a text.

        Returns:
            ``.messages`` (the full history for the next call), ``.results``, ``.direct``.

        Raises:
            ConfigurationError: a call or a result does not belong to the response.
        """
        loop = next((advisor for advisor in self._advisors if isinstance(advisor, ToolCallingAdvisor)), None)
        return await execute_tools(response, calls, results, loop or ToolCallingAdvisor())

    # Sub-agents ------------------------------------------------------------------------------------------------------

    def as_tool(self, name: str, description: str, **settings: Any) -> Tool:
        """This client as a tool of another client: its one argument is the prompt, its result the answer.

        It runs a turn of its own: a child context, no conversation, usage added to the outer turn, events under its
        path ``(..., name)``. The settings are those of `Tool`; ``timeout`` defaults to 600 seconds. An error of its
        model or its limits becomes an error result; one that ends a turn (`TurnAbortedError`, `ConfigurationError`)
        ends the outer turn too.

        Raises:
            ConfigurationError: the client has no tool loop, so it could leave calls open.
        """
        self._check_nested()
        return ClientTool(self._nested, name, description, settings)

    def as_model(self, name: str | None = None) -> ClientModel:
        """This client as a model of another client: it answers the conversation with its own tools and advisors."""
        self._check_nested()
        return ClientModel(self._nested, name or self.name)

    def _check_nested(self) -> None:
        if not self._tool_loop:
            raise ConfigurationError(f"{self!r} has tool_loop=False; as a sub-agent a client needs its tool loop.")

    async def _nested(self, prompt: Prompt, parent: ChatRequest, name: str) -> ChatResponse[Any]:
        """Run a turn inside another one."""
        prepared = self._prepare(prompt, parent=parent, name=name)
        return await prepared.run(parent.emit if parent.streaming else None)

    # The chain -------------------------------------------------------------------------------------------------------

    @property
    def chain(self) -> AdvisorChain:
        """The composed chain of a call without advisors of its own."""
        return self._chain(self._tool_loop, None)

    def explain(self, format: Literal["text", "mermaid", "svg", "json"] = "text") -> str:
        """The chain as text, JSON or picture: order, outside or inside the loop, which calls each advisor wraps; tools.

        Args:
            format: ``"text"``; ``"json"``; ``"mermaid"``, a flowchart for Markdown; or ``"svg"``, a picture that needs
                nothing but itself, light or dark as its reader prefers.

        Raises:
            ConfigurationError: the format is unknown.
        """
        from .explain import with_tools

        sources = self._sources
        explanation = with_tools(self.chain.explain(), sources.tools, self._return_direct, sources.providers)
        return explanation.format(format)

    def _chain(self, tool_loop: bool, extra: Iterable[Any] | None) -> AdvisorChain:
        if extra is None or extra == ():
            chain = self._chains.get(tool_loop)
            if chain is None:
                advisors = with_loop(self._advisors, tool_loop)
                chain = self._chains[tool_loop] = AdvisorChain(advisors, self._model, tool=run_tool)
            return chain
        advisors = with_loop([*self._advisors, *_listed(extra)], tool_loop)
        return AdvisorChain(advisors, self._model, tool=run_tool)

    def _prepare(
        self,
        prompt: Prompt,
        output_type: Any = None,
        *,
        system: str | None = None,
        variables: Mapping[str, Any] | None = None,
        tools: Iterable[Any] = (),
        advisors: Iterable[Any] = (),
        options: Options | None = None,
        conversation_id: str | None = None,
        context: Mapping[Any, Any] | None = None,
        return_direct: Mapping[str, bool] | None = None,
        tool_loop: bool | None = None,
        parent: ChatRequest | None = None,
        name: str = "",
    ) -> PreparedTurn:
        """Check a call's arguments, and make its turn and its request; ``parent`` and ``name`` are a sub-agent's."""
        chain = self._chain(self._tool_loop if tool_loop is None else tool_loop, advisors)
        if type(prompt) is str:
            messages: tuple[Message, ...] = (UserMessage(content=prompt),)
            turn_id = call_ids = None
        else:
            messages, turn_id = messages_of(prompt)
            call_ids = check_pairing(messages)
        overrides = {**self._return_direct, **_flags(return_direct)} if return_direct else self._return_direct
        if parent is None:
            turn = Turn(self._runtime, id=turn_id, messages=messages, call_ids=call_ids)
            shared = Context(turn, _values(context) if context is not None else None)
        else:
            outer = parent.context.turn
            path = outer.path_of(name)
            turn = Turn(outer.runtime, messages=messages, call_ids=call_ids, parent=outer, path=path)
            shared = parent.context.fork(turn)
            if parent.conversation_id is not None:
                shared[CONVERSATION] = parent.conversation_id
        if overrides or parent is not None:
            shared[RETURN_DIRECT] = overrides
        if conversation_id is not None and not (isinstance(conversation_id, str) and conversation_id):
            raise ConfigurationError(
                f"conversation_id must be a text or None, not {conversation_id!r}"
                + (": everybody without one would share a conversation." if conversation_id == "" else ".")
            )
        if system is None and variables is None:
            head = self._system_message
        else:
            head = system_message(self._system if system is None else system, variables)
        available, providers = self._sources.tools, self._sources.provided
        if tools:
            more = ToolSources(tools)
            available = ToolSet([*available, *more.tools])
            providers = [*providers, *more.provided]
        request = ChatRequest(
            (head, *messages) if head is not None else messages,
            tools=available,
            context=shared,
            execute=chain.execute,
            options=self._options if options is None else ChatOptions.of(options).over(self._options),
            output=None if output_type is None or output_type is str else output_type_of(output_type),
            conversation_id=conversation_id,
            offers={},
        )
        # A sub-agent that has no setting of its own is seen by whoever sees the turn, or by nobody, as the turn is.
        follows = parent is not None and self._watch is global_observer
        observer = parent.context.turn.observer if parent is not None and follows else self._watch()
        return PreparedTurn(self.name, chain, request, providers, observer)

    def __repr__(self) -> str:
        return f"ChatClient({self.name!r}, model={getattr(self._model, 'name', self.model)!r})"


def _flags(return_direct: Any) -> dict[str, bool]:
    if return_direct is None:
        return {}
    if not isinstance(return_direct, Mapping) or not all(
        isinstance(name, str) and isinstance(flag, bool) for name, flag in return_direct.items()
    ):
        raise ConfigurationError(f"return_direct= maps tool names to True or False, not {return_direct!r}.")
    return dict(return_direct)


def _values(context: Any) -> dict[Any, Any]:
    if not isinstance(context, Mapping):
        raise ConfigurationError(f"context= maps keys to values, for example {{KEY: value}}; not {context!r}.")
    return dict(context)


def _listed(advisors: Any) -> list[Any]:
    if isinstance(advisors, str) or not isinstance(advisors, Iterable):
        raise ConfigurationError(f"advisors= takes a list, for example advisors=[{advisors!r}].")
    return list(advisors)
