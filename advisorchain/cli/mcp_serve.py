"""``advisorchain mcp serve``: tools of the user's own modules as an MCP server."""

from __future__ import annotations

import contextlib
import hmac
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.abc
import typer

from .choice import UsageProblem, load_tools
from .display import one_line
from .problems import one_line_errors
from .standard_input import is_terminal

ENDS_WITHIN = 5.0
"""Seconds after a signal when the process ends whatever still runs."""
INTERRUPTED = 130


class TransportName(StrEnum):
    """How clients reach the server."""

    stdio = "stdio"
    http = "http"


def serve(
    tools: Annotated[
        list[str], typer.Argument(metavar="MODULE:OBJECT...", help="The tools; the current directory is importable.")
    ],
    transport: Annotated[TransportName, typer.Option("--transport", help="How clients reach it.")] = (
        TransportName.stdio
    ),
    host: Annotated[str, typer.Option("--host", help="With http: the address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="With http: the port; 0: any free one.", min=0, max=65535)] = 8000,
    path: Annotated[str, typer.Option("--path", help="With http: where the endpoint is.")] = "/mcp",
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", metavar="NAME", help="With http: clients must send the token in this variable."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="With http: a host name that requests may be for; may be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", help="With http: the origin of web pages that may ask; may be repeated."),
    ] = None,
    advisors: Annotated[
        list[str] | None,
        typer.Option("--advisors", "-a", metavar="MODULE:OBJECT", help="Advisors around every call; may be repeated."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The server's name.")] = "advisorchain",
    instructions: Annotated[
        str | None, typer.Option("--instructions", help="What clients may tell their model about the server.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every tool call to stderr.")] = False,
) -> None:
    """Serve tools over MCP, by default to the one client that started this process.

    SIGTERM ends it with code 0, Ctrl-C with 130. Over stdio it also ends when the client closes the input; what tools
    print goes to stderr.
    """
    with one_line_errors(verbose):
        http = transport is TransportName.http
        settings: dict[str, Any] = {"transport": transport.value, "name": name, "instructions": instructions}
        if http:
            settings |= {
                "host": host,
                "port": port,
                "path": path,
                "allowed_hosts": allow_host or None,
                "allowed_origins": allow_origin or (),
                "token_verifier": None if token_env is None else _verifier(token_env),
            }
        elif token_env is not None:
            raise UsageProblem("--token-env is for --transport http: over stdio no token is sent.")
        with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to the protocol, also while modules are imported
            found = load_tools(tools, "tools")
            settings["advisors"] = load_tools(advisors or [], "--advisors")
        code = anyio.run(_serve, found, settings)
    raise typer.Exit(code)


async def _serve(tools: list[Any], settings: dict[str, Any]) -> int:
    """Serve until a signal comes or the client goes; returns the exit code."""
    from ..mcp.serving import serve_tools

    code = 0
    async with anyio.create_task_group() as group:

        def ended_by(signum: signal.Signals) -> None:
            nonlocal code
            code = INTERRUPTED if signum == signal.SIGINT else 0
            timer = threading.Timer(ENDS_WITHIN, os._exit, (code,))  # a tool that cannot be stopped must not keep us
            timer.daemon = True
            timer.start()
            group.cancel_scope.cancel()

        await group.start(_watch_signals, ended_by)
        served: Callable[..., Any] = partial(serve_tools, tools, **settings)
        async with anyio.create_task_group() as serving:
            address = await serving.start(served)
            if address != "stdio":
                _say(f"serving at {address}; Ctrl-C stops it")
            elif is_terminal():
                _say("waiting for an MCP client on the standard input; Ctrl-C stops it")
        group.cancel_scope.cancel()
    return code


async def _watch_signals(
    ended_by: Callable[[signal.Signals], None], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    if sys.platform == "win32":  # no signals on its event loop; Ctrl-C arrives as KeyboardInterrupt
        task_status.started()
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for signum in signals:
            ended_by(signum)
            return


def _verifier(variable: str) -> Callable[[str], bool]:
    token = os.environ.get(variable, "")
    if not token:
        raise UsageProblem(f"--token-env {variable!r}: this environment variable is not set.")
    expected = token.encode()
    return lambda given: hmac.compare_digest(given.encode("utf-8", "replace"), expected)


def _say(text: str) -> None:
    typer.echo(one_line(text), err=True)
