"""``--config FILE``, and ``advisorchain config``: check a configuration file, show what it builds, print its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..client import ChatClient
from ..errors import ConfigurationError
from ..exchange import ChatResponse
from .choice import UsageProblem, make_current_directory_importable
from .display import one_line, open_console, print_wrapped
from .plugins import quiet
from .problems import one_line_errors

if TYPE_CHECKING:
    from ..config import ConfigFile

config_app = typer.Typer(
    name="config",
    help="Check a configuration file, show the chains that it builds, print the schema for editors.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="An advisorchain.toml, or a pyproject.toml; trusted like code."
    ),
]
ChainOption = Annotated[
    str | None, typer.Option("--chain", metavar="NAME", help="One of the file's [chains.NAME]; default: its top level.")
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="The conversation in the memory of --config.")
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="An advisorchain.toml, or a pyproject.toml with [tool.advisorchain].")
]


def configured(
    file: Path | None,
    chain: str | None,
    others: Mapping[str, object],
    conversation: str | None = None,
    telemetry: Any = True,
) -> ChatClient | None:
    """The client of the file; None without a file. The current directory is importable.

    Args:
        file: of ``--config``.
        chain: of ``--chain``.
        others: the options that say what the file says already.
        conversation: of ``--conversation``.
        telemetry: of the options about traces; True: what the file says.

    Raises:
        UsageProblem: the options contradict each other.
        ConfigurationError: the file is wrong.
    """
    if file is None:
        if chain is not None:
            raise UsageProblem("--chain names a chain of a file: give --config FILE too.")
        if conversation is not None:
            raise UsageProblem("--conversation is for the memory of a file's chain: give --config FILE too.")
        return None
    for option, value in others.items():
        if value:
            raise UsageProblem(f"{option} and --config cannot go together: the file says what the chain has.")
    make_current_directory_importable()
    with quiet():
        return ChatClient.from_config(file, chain, telemetry=None if telemetry is True else telemetry)


async def ask(client: ChatClient, text: str, conversation: str | None) -> ChatResponse[str]:
    """Run one turn; a client of a file is closed then."""
    from ..config.client import ConfiguredClient

    if not isinstance(client, ConfiguredClient):
        return await client.call(text, conversation_id=conversation)
    async with client:
        return await client.call(text, conversation_id=conversation)


def until_closed(client: ChatClient) -> AbstractContextManager[Any]:
    """Closes a client of a file at the end."""
    from ..config.client import ConfiguredClient

    return client if isinstance(client, ConfiguredClient) else nullcontext()


@config_app.command("check")
def check_config(file: FileArgument) -> None:
    """Check every chain of a file: one line for each, and code 1 if one is wrong.

    What the file names is imported and made, as for a turn; nothing is connected, started or asked.
    """
    with one_line_errors():
        read = _read(file)
        failed = False
        for chain in read.chains:
            try:
                with quiet():
                    client = read.client(chain)
            except ConfigurationError as exc:
                _tell(exc)
                failed = True
                continue
            with client:
                rows = json.loads(client.explain("json"))
            parts = [f"model {rows['model']}", f"{len(rows['rows'])} advisors", f"{len(rows['tools'])} tools"]
            parts += [f"{len(fleet.servers)} MCP servers" for fleet in client.mcp]
            typer.echo(one_line(f"ok: {_titled(chain)}: {', '.join(parts)}"))
    if failed:
        raise typer.Exit(1)


@config_app.command("show")
def show_config(file: FileArgument, chain: ChainOption = None) -> None:
    """Print the chains of a file as they are built, and their settings; secrets are masked."""
    from ..config.shown import settings_of

    with one_line_errors():
        read = _read(file)
        console = open_console()
        try:
            for number, name in enumerate(read.chains if chain is None else [chain]):
                with quiet():
                    made = read.client(name)
                with made as client:
                    onion = client.explain()
                    fleets = [server for fleet in client.mcp for server in fleet.servers]
                if number:
                    console.print()
                console.print(Text(_titled(name), style="bold"), soft_wrap=True)
                print_wrapped(console, onion, hanging=2)
                for server in fleets:
                    trusted = ", trusted" if server.trusted else ""
                    print_wrapped(console, f"  MCP server {server.name}: {server.transport}, {server.place}{trusted}")
                print_wrapped(console, "\nsettings")
                for line in settings_of(read, name):
                    print_wrapped(console, line, 2, hanging=2)
        except ConfigurationError as exc:
            _tell(exc)
            raise typer.Exit(1) from None


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    from ..config import json_schema

    with one_line_errors():
        typer.echo(json.dumps(json_schema(), indent=2))


def _read(file: Path) -> ConfigFile:
    from ..config import ConfigFile

    make_current_directory_importable()
    try:
        return ConfigFile(file)
    except ConfigurationError as exc:
        _tell(exc)
        raise typer.Exit(1) from None


def _tell(error: ConfigurationError) -> None:
    """Each problem on a line of its own."""
    for number, line in enumerate(str(error).splitlines()):
        typer.echo(f"{'error: ' if not number else '  '}{one_line(line)}", err=True)


def _titled(chain: str | None) -> str:
    return "the top level" if chain is None else f"chain {chain}"
