"""Which MCP servers the options of a command name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigurationError
from .choice import UsageProblem, check_names, load_tools

if TYPE_CHECKING:
    from ..mcp.server import McpServer
    from ..mcp.tools import McpTools

StdioOption = Annotated[
    list[str] | None,
    typer.Option("--stdio", metavar="[NAME=]COMMAND", help="A server to start, in quotes; may be repeated."),
]
HttpOption = Annotated[
    list[str] | None,
    typer.Option("--http", metavar="[NAME=]URL", help="A server behind streamable HTTP; may be repeated."),
]
SseOption = Annotated[
    list[str] | None,
    typer.Option("--sse", metavar="[NAME=]URL", help="A server behind the old HTTP with SSE; may be repeated."),
]
ServersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--servers",
        "-s",
        metavar="MODULE:OBJECT",
        help="An McpServer, an McpTools, or a list of them; the current directory is importable; may be repeated.",
    ),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env", metavar="NAME[=VALUE]", help="A variable for the server of --stdio; without a value, ours; repeatable."
    ),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="Sent to the server of --http or --sse; may be repeated."),
]
HeaderEnvOption = Annotated[
    list[str] | None,
    typer.Option("--header-env", metavar="'NAME: VARIABLE'", help="The same, with the value of a variable."),
]
TokenEnvOption = Annotated[
    str | None,
    typer.Option("--token-env", metavar="VARIABLE", help="Sent as a bearer token: the value of this variable."),
]
TrustOption = Annotated[
    list[str] | None, typer.Option("--trust", metavar="NAME", help="Mark a server as trusted; may be repeated.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", help="To connect, to list, and to call; default: 10, 10 and 60.", min=0.001
    ),
]

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.\-]*)=(.*)", re.DOTALL)
_HEADER = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a command, as they were given."""

    stdio: list[str] | None = None
    http: list[str] | None = None
    sse: list[str] | None = None
    servers: list[str] | None = None
    env: list[str] | None = None
    header: list[str] | None = None
    header_env: list[str] | None = None
    token_env: str | None = None
    trust: list[str] | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class ChosenServers:
    """What the options name: servers, and `McpTools` of the user's own with their filters and pins."""

    servers: list[McpServer] = field(default_factory=list)
    tools: list[McpTools] = field(default_factory=list)

    @property
    def fleets(self) -> list[McpTools]:
        """All of them as `McpTools`."""
        from ..mcp.tools import McpTools

        return ([McpTools(self.servers, pinning=False)] if self.servers else []) + self.tools

    @property
    def every_server(self) -> list[McpServer]:
        """The servers, also those of the user's `McpTools`."""
        return self.servers + [server for tools in self.tools for server in tools.servers]


def chosen_servers(options: ServerOptions) -> ChosenServers:
    """The servers that the options name; nothing is started or connected.

    Raises:
        UsageProblem: the options make no sense.
        ConfigurationError: a module cannot be imported, or what it has is no server.
    """
    from ..mcp.server import McpServer
    from ..mcp.tools import McpTools

    timeouts: dict[str, Any] = {}
    if options.timeout is not None:
        if not (options.stdio or options.http or options.sse):
            raise UsageProblem(
                "--timeout is for servers of --stdio, --http and --sse; those of a module have their own."
            )
        timeouts = dict.fromkeys(("connect_timeout", "list_timeout", "call_timeout"), options.timeout)
    servers = [_started(spec, _environment(options), timeouts) for spec in options.stdio or ()]
    headers = _headers(options)
    addresses = [("--http", McpServer.http, spec) for spec in options.http or ()]
    addresses += [("--sse", McpServer.sse, spec) for spec in options.sse or ()]
    if headers and len(addresses) != 1:
        raise UsageProblem(
            "Headers and tokens are for exactly one server of --http or --sse, so that none gets another's secret; "
            "for several, name them in a module and use --servers."
        )
    servers += [_at(option, make, spec, headers, timeouts) for option, make, spec in addresses]
    found = ChosenServers(servers)
    for item in load_tools(options.servers or [], "--servers"):
        if isinstance(item, McpTools):
            found.tools.append(item)
        elif isinstance(item, McpServer):
            found.servers.append(item)
        else:
            raise ConfigurationError(f"--servers: {item!r} is no McpServer and no McpTools.")
    if not found.every_server:
        raise UsageProblem("Name a server: --stdio 'COMMAND', --http URL, --sse URL or --servers MODULE:OBJECT.")
    names = [server.name for server in found.every_server]
    for name in names:
        if names.count(name) > 1:
            raise UsageProblem(f"Several servers are named {name!r}: write NAME= before the command or the URL.")
    check_names(options.trust or (), [server.name for server in found.servers], "--trust")
    found.servers[:] = [
        server.replace(trusted=True) if server.name in (options.trust or ()) else server for server in found.servers
    ]
    return found


def _started(spec: str, env: dict[str, str], timeouts: dict[str, Any]) -> McpServer:
    from ..mcp.server import McpServer

    name, text = _named(spec)
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise UsageProblem(f"--stdio {spec!r}: {exc}.") from None
    if not words:
        raise UsageProblem(f"--stdio {spec!r}: write a command, for example --stdio 'python server.py'.")
    return McpServer.stdio(words[0], words[1:], env=env, name=name, **timeouts)


def _at(
    option: str, make: Callable[..., McpServer], spec: str, headers: dict[str, str], timeouts: dict[str, Any]
) -> McpServer:
    name, url = _named(spec)
    try:
        return make(url, headers=headers or None, name=name, **timeouts)
    except ConfigurationError:  # the URL itself may hold a password
        raise UsageProblem(f"{option} takes a URL such as https://host/mcp.") from None


def _named(spec: str) -> tuple[str | None, str]:
    match = _NAMED.fullmatch(spec)
    return (match[1], match[2]) if match else (None, spec)


def _environment(options: ServerOptions) -> dict[str, str]:
    if options.env and len(options.stdio or ()) != 1:
        raise UsageProblem("--env is for exactly one server of --stdio; for several, use --servers MODULE:OBJECT.")
    env: dict[str, str] = {}
    for spec in options.env or ():
        name, equals, value = spec.partition("=")
        if not name:
            raise UsageProblem(f"--env {spec!r}: write NAME or NAME=VALUE.")
        env[name] = value if equals else _variable("--env", name)
    return env


def _headers(options: ServerOptions) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in _pairs("--header", options.header):
        headers[name] = value
    for name, variable in _pairs("--header-env", options.header_env):
        headers[name] = _variable("--header-env", variable)
    if options.token_env is not None:
        headers["Authorization"] = f"Bearer {_variable('--token-env', options.token_env)}"
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise UsageProblem(f"The header {name} has characters that a header may not have.")
    return headers


def _pairs(option: str, specs: Iterable[str] | None) -> Iterable[tuple[str, str]]:
    for spec in specs or ():
        match = _HEADER.fullmatch(spec)
        if match is None:
            raise UsageProblem(f"{option} takes 'Name: value'.")  # does not repeat it: it may be a secret
        yield match[1], match[2]


def _variable(option: str, name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageProblem(f"{option} {name!r}: this environment variable is not set.")
    return value
