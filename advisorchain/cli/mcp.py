"""``advisorchain mcp``: the commands about MCP. Nothing here imports the SDK before a command needs it."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from . import mcp_choice as choice
from .mcp_choice import ServerOptions, chosen_servers
from .mcp_serve import serve
from .problems import one_line_errors

mcp_app = typer.Typer(
    name="mcp",
    help="Look into MCP servers (Model Context Protocol), call and pin their tools, serve tools.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]
FileOption = Annotated[str, typer.Option("--file", "-f", metavar="PINS.JSON", help="The file with the pins.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to stderr.")]


@mcp_app.callback()
def mcp() -> None:
    """Look into MCP servers (Model Context Protocol), call and pin their tools, serve tools."""


@mcp_app.command("list")
def list_(
    stdio: choice.StdioOption = None,
    http: choice.HttpOption = None,
    sse: choice.SseOption = None,
    servers: choice.ServersOption = None,
    env: choice.EnvOption = None,
    header: choice.HeaderOption = None,
    header_env: choice.HeaderEnvOption = None,
    token_env: choice.TokenEnvOption = None,
    trust: choice.TrustOption = None,
    timeout: choice.TimeoutOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print what servers are and which tools they offer; what is left out, and why.

    Leaves with 1 if a server could not be reached or listed.
    """
    options = ServerOptions(stdio, http, sse, servers, env, header, header_env, token_env, trust, timeout)
    with one_line_errors(verbose):
        from .mcp_list import list_servers

        code = anyio.run(list_servers, chosen_servers(options), as_json, verbose)
    raise typer.Exit(code)


@mcp_app.command()
def call(
    tool: Annotated[str, typer.Argument(metavar="[SERVER/]TOOL", help="The tool, by the server's name for it.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENTS", help="JSON, NAME=VALUE for each, or - to read JSON from the input."),
    ] = None,
    stdio: choice.StdioOption = None,
    http: choice.HttpOption = None,
    sse: choice.SseOption = None,
    servers: choice.ServersOption = None,
    env: choice.EnvOption = None,
    header: choice.HeaderOption = None,
    header_env: choice.HeaderEnvOption = None,
    token_env: choice.TokenEnvOption = None,
    timeout: choice.TimeoutOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Call one tool and print its result. Leaves with 1 if the result is an error."""
    options = ServerOptions(stdio, http, sse, servers, env, header, header_env, token_env, None, timeout)
    with one_line_errors(verbose):
        from .mcp_call import call_tool

        code = anyio.run(call_tool, chosen_servers(options), tool, arguments or [], as_json, verbose)
    raise typer.Exit(code)


@mcp_app.command()
def pin(
    file: FileOption,
    stdio: choice.StdioOption = None,
    http: choice.HttpOption = None,
    sse: choice.SseOption = None,
    servers: choice.ServersOption = None,
    env: choice.EnvOption = None,
    header: choice.HeaderOption = None,
    header_env: choice.HeaderEnvOption = None,
    token_env: choice.TokenEnvOption = None,
    timeout: choice.TimeoutOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Store the definitions of tools as they are now, and print what has changed since they were stored before.

    Look at that before: `advisorchain mcp diff` prints it without storing anything.
    """
    options = ServerOptions(stdio, http, sse, servers, env, header, header_env, token_env, None, timeout)
    with one_line_errors(verbose):
        from .mcp_pins import store_pins

        code = anyio.run(store_pins, chosen_servers(options), file, verbose)
    raise typer.Exit(code)


@mcp_app.command()
def diff(
    file: FileOption,
    stdio: choice.StdioOption = None,
    http: choice.HttpOption = None,
    sse: choice.SseOption = None,
    servers: choice.ServersOption = None,
    env: choice.EnvOption = None,
    header: choice.HeaderOption = None,
    header_env: choice.HeaderEnvOption = None,
    token_env: choice.TokenEnvOption = None,
    timeout: choice.TimeoutOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print how tools differ from what was stored with `advisorchain mcp pin`, field by field.

    Leaves with 1 if something differs, or a server could not be listed.
    """
    options = ServerOptions(stdio, http, sse, servers, env, header, header_env, token_env, None, timeout)
    with one_line_errors(verbose):
        from .mcp_pins import compare_pins, existing

        code = anyio.run(compare_pins, chosen_servers(options), existing(file), as_json, verbose)
    raise typer.Exit(code)


mcp_app.command()(serve)
