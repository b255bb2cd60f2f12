"""`McpServer`: how to reach an MCP server, and how far it is trusted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import urlsplit

from ..context import ContextKey
from ..errors import ConfigurationError
from .filters import as_filter
from .server_checks import check_server, check_url

if TYPE_CHECKING:
    from .callbacks import Elicitation, Sampling
    from .listed_tool import ListedTool

Transport: TypeAlias = Literal["stdio", "http", "sse", "in_process"]
Era: TypeAlias = Literal["auto", "legacy"]
Headers: TypeAlias = Mapping[str, str] | Callable[[], Awaitable[Mapping[str, str]]]

CONNECT_SECONDS = 10.0
LIST_SECONDS = 10.0
CALL_SECONDS = 60.0
LIST_TTL_SECONDS = 300.0
MAX_TOOLS = 10_000
MAX_DESCRIPTION_CHARS = 4_000
MAX_RESULT_BYTES = 8_388_608

_INTERPRETERS = frozenset({"python", "node", "npx", "uv", "uvx", "bun", "deno", "java", "docker", "sh", "bash"})


class ServerSettings(TypedDict, total=False):
    """What every kind of `McpServer` takes; see there."""

    trusted: bool
    return_direct: bool | None
    overrides: Mapping[str, Mapping[str, Any]]
    filter: Any
    connect_timeout: float
    list_timeout: float
    call_timeout: float | None
    list_ttl: float | None
    era: Era
    instructions: bool
    meta: Mapping[str, ContextKey[Any] | str]
    max_tools: int
    max_description_chars: int
    max_result_bytes: int
    elicitation: Elicitation | None
    sampling: Sampling | None
    roots: Sequence[str | Path]


@dataclass(frozen=True, kw_only=True, repr=False)
class McpServer:
    """How to reach an MCP server, and how far it is trusted. Made by `stdio`, `http`, `sse` or `in_process`.

    Nothing is started or connected until its tools are asked for. What a server says is never believed further than it
    must be: names, descriptions, hints and results come from outside.

    Attributes:
        name: names the server in policies, audit, spans, and in the names of tools that clash; default: of the program
            or host.
        transport: ``"stdio"``, ``"http"``, ``"sse"`` or ``"in_process"``.
        trusted: its return-direct flags count, its tools keep their names against those of untrusted servers, and its
            texts are marked as trusted.
        return_direct: whether its tools return directly when neither an override nor (trusted) the tool itself says.
        overrides: settings of single tools, by the server's name for them, over what the server says: ``title``,
            ``description``, ``tags``, ``return_direct``, the hints (``read_only``, ``destructive``, ``idempotent``,
            ``open_world``), ``timeout``, ``parallel``, ``repeatable``, ``result_converter``, ``max_result_chars``.
        filter: which of its tools are offered, see `ToolFilter`.
        connect_timeout, list_timeout: seconds, 10 each.
        call_timeout: seconds for one call, 60; None: no limit.
        list_ttl: seconds after which the list of tools is asked for anew, 300; None: only when the server says that it
            has changed, or was connected anew.
        era: ``"auto"`` speaks the newest protocol that both know; when that fails, the next attempt is made with the
            handshake of before 2026, which ``"legacy"`` uses at once.
        instructions: whether the system message says what the server wants the model to know. Off unless asked for: it
            is text from outside, read as if it were yours.
        meta: what is sent along in ``_meta`` of a call: its key, and the context key whose value it takes. Nothing else
            of the context leaves this process.
        max_tools: a server that lists more is refused, 10,000.
        max_description_chars: a longer description is cut, 4,000.
        max_result_bytes: a longer text is cut, images and files beyond it are left out, 8 MiB. How much of a text the
            model reads is for the loop to say.
        elicitation, sampling: answer the server's questions to the user and to the model; None: it cannot ask.
        roots: directories that the server is told to work in.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path | None = None
    url: str = ""
    headers: Headers | None = None
    auth: Any = None
    target: Any = None
    trusted: bool = False
    return_direct: bool | None = None
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    filter: Any = None
    connect_timeout: float = CONNECT_SECONDS
    list_timeout: float = LIST_SECONDS
    call_timeout: float | None = CALL_SECONDS
    list_ttl: float | None = LIST_TTL_SECONDS
    era: Era = "auto"
    instructions: bool = False
    meta: Mapping[str, ContextKey[Any] | str] = field(default_factory=dict)
    max_tools: int = MAX_TOOLS
    max_description_chars: int = MAX_DESCRIPTION_CHARS
    max_result_bytes: int = MAX_RESULT_BYTES
    elicitation: Elicitation | None = None
    sampling: Sampling | None = None
    roots: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        check_server(self)
        object.__setattr__(self, "permits", as_filter(self.filter))

    if TYPE_CHECKING:

        def permits(self, tool: ListedTool) -> bool:
            """Whether the server's own ``filter`` lets a tool through."""
            ...

    @staticmethod
    def stdio(
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        name: str | None = None,
        **settings: Unpack[ServerSettings],
    ) -> McpServer:
        """A server that is started as a child process and spoken to through its standard input and output.

        Args:
            command: the program. It runs with all the rights of this process: treat it like an import.
            args: its arguments; no shell sees them.
            env: variables besides HOME, LOGNAME, PATH, SHELL, TERM and USER, which are all that it gets.
            cwd: its working directory.
            name: see `McpServer`.
            settings: see `McpServer`.

        Raises:
            ConfigurationError: something makes no sense.
        """
        texts = isinstance(args, Sequence) and all(isinstance(text, str) for text in (command, *args))
        if not texts or isinstance(args, str) or not command:
            raise ConfigurationError(
                "McpServer.stdio takes a command and a list of arguments, all texts: stdio('python', ['server.py'])."
            )
        return McpServer(
            name=name or _program(command, args),
            transport="stdio",
            command=command,
            args=tuple(args),
            env=dict(env or {}),
            cwd=cwd,
            **settings,
        )

    @staticmethod
    def http(
        url: str,
        *,
        headers: Headers | None = None,
        auth: Any = None,
        name: str | None = None,
        **settings: Unpack[ServerSettings],
    ) -> McpServer:
        """A server behind streamable HTTP. Redirects to another origin are never followed.

        Args:
            url: ``https://host/path``.
            headers: sent with every request; or an async function that gives them whenever a connection is made, and
                again when the server answers 401, so that a token may expire.
            auth: an ``httpx2.Auth``, for example one of the SDK's OAuth providers.
            name: see `McpServer`.
            settings: see `McpServer`.

        Raises:
            ConfigurationError: something makes no sense.
        """
        check_url("http", url)
        name = name or _host(url)
        return McpServer(name=name, transport="http", url=url, headers=headers, auth=auth, **settings)

    @staticmethod
    def sse(
        url: str,
        *,
        headers: Headers | None = None,
        auth: Any = None,
        name: str | None = None,
        **settings: Unpack[ServerSettings],
    ) -> McpServer:
        """A server behind the old HTTP with SSE transport, which streamable HTTP has replaced; otherwise as `http`."""
        check_url("sse", url)
        settings.setdefault("era", "legacy")
        return McpServer(name=name or _host(url), transport="sse", url=url, headers=headers, auth=auth, **settings)

    @staticmethod
    def in_process(server: Any, *, name: str | None = None, **settings: Unpack[ServerSettings]) -> McpServer:
        """A server in this process: what `mcp_server` makes, or an ``MCPServer``, a lowlevel ``Server`` or a FastMCP.

        Raises:
            ConfigurationError: it is no server.
        """
        if not callable(getattr(server, "run", None)):
            raise ConfigurationError(f"McpServer.in_process takes a server, such as mcp_server([...]), not {server!r}.")
        return McpServer(
            name=name or _safe(str(getattr(server, "name", "") or "server")), transport="in_process", target=server,
            **settings,
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Where the server is, without secrets: for messages and `McpTools.status`."""
        if self.transport == "stdio":
            return PurePath(self.command).name
        if self.transport == "in_process":
            return "in this process"
        return place_of(self.url)

    def replace(self, **changes: Any) -> McpServer:
        """A changed copy."""
        return McpServer(**{each.name: getattr(self, each.name) for each in fields(self)} | changes)

    def __repr__(self) -> str:
        trusted = ", trusted" if self.trusted else ""
        return f"<McpServer {self.name!r}: {self.transport}, {self.place}{trusted}>"


def place_of(url: str) -> str:
    """An address without what may be secret in it: user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "an address"


def _program(command: str, args: Sequence[str]) -> str:
    """A name for a child process: of the script when an interpreter runs it."""
    name = PurePath(command).name.removesuffix(".exe")
    if re.sub(r"[\d.]+$", "", name) in _INTERPRETERS:
        for arg in args:
            if not arg.startswith("-"):
                script = PurePath(arg.rpartition(":")[0] or arg).name or arg
                name = script.rsplit(".", 1)[0] if script.endswith((".py", ".js", ".mjs", ".ts", ".jar")) else script
                break
    return _safe(name)


def _host(url: str) -> str:
    return _safe(urlsplit(url).hostname or "server")


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]+", "_", name).strip("_.-")[:64] or "server"
