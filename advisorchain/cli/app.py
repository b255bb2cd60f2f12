"""The commands of ``advisorchain``."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from ..client import ChatClient
from .audit import audit_app
from .choice import ChosenModel, UsageProblem, check_names, choose_model, load_tools
from .config import ChainOption, ConfigOption, ConversationOption, ask, config_app, configured, until_closed
from .display import Flow, make_printable, open_console, print_wrapped
from .mcp import mcp_app
from .memory import memory_app
from .plugins import plugins_app
from .problems import one_line_errors
from .scaffold import plugin_app
from .standard_input import read_all
from .termination import end_on_sigterm
from .tools import tools_app
from .trace import trace_app
from .tracing import Tracing, trace_whole_process
from .tracing_options import (
    OtlpOption,
    TraceContentOption,
    TraceFileOption,
    TraceHtmlOption,
    TraceOption,
    TracingOptions,
)

app = typer.Typer(
    name="advisorchain",
    help="Send chat requests through a chain of advisors: try it, ask, chat, look at the chain.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(audit_app)
app.add_typer(config_app)
app.add_typer(mcp_app)
app.add_typer(memory_app)
app.add_typer(plugin_app)
app.add_typer(plugins_app)
app.add_typer(tools_app)
app.add_typer(trace_app)


class Format(StrEnum):
    """What `explain` prints."""

    text = "text"
    mermaid = "mermaid"
    svg = "svg"
    json = "json"


class Lang(StrEnum):
    """The languages of the demo."""

    en = "en"
    zh = "zh"


ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="keyword, openai:<model>, or plugin:<model>; default: OpenAI if its key is set."
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools", "-t", help="module:object with tools; may be repeated. The current directory is importable."
    ),
]
SystemOption = Annotated[str | None, typer.Option("--system", "-s", help="The system text.")]
DirectOption = Annotated[
    list[str] | None,
    typer.Option("--return-direct", help="A tool whose result is the answer; may be repeated."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Log every turn, model call and tool call.")]


def run_app() -> None:
    """Run the command line of this process."""
    make_printable(sys.stdout)
    make_printable(sys.stderr)
    end_on_sigterm()
    trace_whole_process()
    app(prog_name="advisorchain")


def _print_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"advisorchain {__version__}")
        raise typer.Exit


@app.callback()
def advisorchain(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Send chat requests through a chain of advisors: try it, ask, chat, look at the chain."""


@app.command()
def demo(
    lang: Annotated[Lang, typer.Option("--lang", "-l", help="The language.")] = Lang.en,
    model: ModelOption = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="Four MCP servers, of which one is killed half-way.")] = False,
    resilience: Annotated[
        bool, typer.Option("--resilience", help="The travel desk while its budget service fails, hangs and recovers.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="With --resilience: where its files go; default: a temporary one."),
    ] = None,
    tools: Annotated[
        int | None, typer.Option("--tools", metavar="N", help="The travel desk hidden among N tools, and tool search.")
    ] = None,
    trace: TraceOption = False,
    otlp: OtlpOption = None,
    trace_html: TraceHtmlOption = None,
    trace_file: TraceFileOption = None,
    trace_content: TraceContentOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Ask a travel desk three times: directly, summarised, streamed; with a timeline of what happened.

    It runs offline with the keyword model unless --model names another one. With --resilience: five turns of one
    conversation, with memory, audit, retry, fallback and circuit breaker around a service that fails. With --mcp: four
    turns with the tools of four MCP servers, each a process of its own; one dies. A script plays the model in both.
    With --tools N: one question, without and with tool search, and the tokens of every model call.
    """
    with one_line_errors(verbose):
        given = {"--resilience": resilience, "--mcp": mcp, "--tools": tools is not None}
        if sum(given.values()) > 1:
            names = " and ".join(name for name, wanted in given.items() if wanted)
            raise UsageProblem(f"{names} are demos of their own: give one of them.")
        if directory is not None and not resilience:
            raise UsageProblem("--dir goes with --resilience.")
        options = TracingOptions(trace, otlp, trace_html, trace_file, trace_content)
        with Tracing(options, "advisorchain demo", open_console()) as tracing:
            if mcp:
                _show_mcp(lang, model, verbose, tracing)
            elif tools is not None:
                _show_search(lang, model, tools, tracing)
            elif resilience:
                _show_resilience(lang, model, directory, verbose, tracing)
            else:
                _show_desk(lang, model, tracing)


def _show_desk(lang: Lang, model: str | None, tracing: Tracing) -> None:
    from .demo import Demo
    from .demo_texts import TEXTS

    chosen = choose_model(model or "keyword")
    anyio.run(Demo(chosen, TEXTS[lang.value], open_console(), tracing).show)


def _show_mcp(lang: Lang, model: str | None, verbose: bool, tracing: Tracing) -> None:
    from .mcp_demo_view import show_mcp

    chosen = choose_model(model) if model is not None else None
    given, name = (chosen.model, chosen.name) if chosen else (None, None)
    anyio.run(show_mcp, lang.value, given, name, open_console(), verbose, tracing)


def _show_search(lang: Lang, model: str | None, count: int, tracing: Tracing) -> None:
    from .crowd import MOST
    from .search_demo import FEWEST, SearchDemo

    if not FEWEST <= count <= MOST:
        raise UsageProblem(f"--tools takes a number from {FEWEST} to {MOST}, not {count}.")
    chosen = choose_model(model) if model is not None else None
    anyio.run(SearchDemo(chosen, lang.value, count, open_console(), tracing).show)


def _show_resilience(lang: Lang, model: str | None, directory: Path | None, verbose: bool, tracing: Tracing) -> None:
    from .resilience import Resilience
    from .resilience_view import ResilienceDemo

    chosen = choose_model(model) if model is not None else None
    temporary = directory is None
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="advisorchain-demo-"))
    else:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise UsageProblem(f"--dir {str(directory)!r}: {exc.strerror or exc}.") from None
    try:
        model_given, name = (chosen.model, chosen.name) if chosen else (None, None)
        desk = Resilience(directory.absolute(), lang.value, model_given, verbose=verbose, telemetry=tracing.telemetry)
        anyio.run(ResilienceDemo(desk, name, open_console(), tracing).show)
    except BaseException:
        if temporary:  # nobody was told where it is
            shutil.rmtree(directory, ignore_errors=True)
        raise


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask; - reads it from the input.")],
    model: ModelOption = None,
    tools: ToolsOption = None,
    system: SystemOption = None,
    return_direct: DirectOption = None,
    config: ConfigOption = None,
    chain: ChainOption = None,
    conversation: ConversationOption = None,
    trace: TraceOption = False,
    otlp: OtlpOption = None,
    trace_html: TraceHtmlOption = None,
    trace_file: TraceFileOption = None,
    trace_content: TraceContentOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run one turn and print the answer."""
    with one_line_errors(verbose):
        options = TracingOptions(trace, otlp, trace_html, trace_file, trace_content)
        with Tracing(options, "advisorchain run", open_console(stderr=True)) as tracing:
            given = {"--model": model, "--tools": tools, "--system": system, "--return-direct": return_direct}
            client = configured(config, chain, given, conversation, tracing.telemetry)
            client = client or _client(
                choose_model(model), tools, system, return_direct, tracing.telemetry, announce=True
            )
            text = read_all() if prompt == "-" else prompt
            response = anyio.run(ask, client, text.encode("utf-8", "replace").decode(), conversation)
            flow = Flow(open_console())
            flow.write(response.text)
            flow.end_line()
            tracing.turn_done()


@app.command()
def chat(
    model: ModelOption = None,
    tools: ToolsOption = None,
    system: SystemOption = None,
    return_direct: DirectOption = None,
    config: ConfigOption = None,
    chain: ChainOption = None,
    conversation: ConversationOption = None,
    trace: TraceOption = False,
    otlp: OtlpOption = None,
    trace_html: TraceHtmlOption = None,
    trace_file: TraceFileOption = None,
    trace_content: TraceContentOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Converse: answers are streamed, tool calls shown as they happen. /exit leaves."""
    from .chat import Conversation

    with one_line_errors(verbose):
        options = TracingOptions(trace, otlp, trace_html, trace_file, trace_content)
        with Tracing(options, "advisorchain chat", open_console()) as tracing:
            given = {"--model": model, "--tools": tools, "--system": system, "--return-direct": return_direct}
            client = configured(config, chain, given, conversation, tracing.telemetry)
            client = client or _client(
                choose_model(model), tools, system, return_direct, tracing.telemetry, announce=True
            )
            with until_closed(client):
                talk = Conversation(
                    client, open_console(), open_console(stderr=True), conversation, turn_done=tracing.turn_done
                )
                code = talk.run()
    raise typer.Exit(code)


@app.command()
def explain(
    model: ModelOption = None,
    tools: ToolsOption = None,
    return_direct: DirectOption = None,
    config: ConfigOption = None,
    chain: ChainOption = None,
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="mermaid: a flowchart for Markdown; svg: a picture.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the chain: the order of the advisors, what stands inside the tool loop, and the tools."""
    with one_line_errors(False):
        if as_json and format not in (None, Format.json):
            raise UsageProblem(f"--json and --format {format} are two formats: give one of them.")
        chosen = Format.json if as_json else format or Format.text
        client = configured(config, chain, {"--model": model, "--tools": tools, "--return-direct": return_direct})
        client = client or _client(choose_model(model), tools, None, return_direct)
        explained = client.explain(format=chosen.value)
        if chosen is Format.text:
            print_wrapped(open_console(), explained, hanging=2)
        else:
            typer.echo(explained, nl=not explained.endswith("\n"))


def _client(
    chosen: ChosenModel,
    tools: list[str] | None,
    system: str | None,
    return_direct: list[str] | None,
    telemetry: Any = True,
    announce: bool = False,
) -> ChatClient:
    """The client that the options describe; ``announce`` says which model was taken when nobody asked for one."""
    loaded = load_tools(tools or [])
    direct = dict.fromkeys(return_direct or [], True)
    client = ChatClient(chosen.model, tools=loaded, system=system, return_direct=direct, telemetry=telemetry)
    if direct and not any(_is_provider(item) for item in loaded):
        known = [row["name"] for row in json.loads(client.explain(format="json"))["tools"]]
        check_names(direct, known, "--return-direct")
    if announce and chosen.why is not None:
        open_console(stderr=True).print(Text(f"model: {chosen.name} ({chosen.why})", style="dim"), soft_wrap=True)
    return client


def _is_provider(item: Any) -> bool:
    """Whether its tools are known only when a turn asks for them."""
    return callable(getattr(item, "tools", None))
