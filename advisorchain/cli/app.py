"""The commands of ``advisorchain``."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, cast

import anyio
import typer
from rich.text import Text

from ..client import ChatClient
from ..errors import AdvisorChainError
from .choice import ChosenModel, UsageProblem, check_names, choose_model, described, load_tools
from .display import Flow, clean, make_printable, one_line, open_console, print_wrapped

app = typer.Typer(
    name="advisorchain",
    help="Send chat requests through a chain of advisors: try it, ask, chat, look at the chain.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Lang(StrEnum):
    """The languages of the demo."""

    en = "en"
    zh = "zh"


ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="keyword, or openai:<model>; default: OpenAI if its key is set.")
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
    verbose: VerboseOption = False,
) -> None:
    """Ask a travel desk three times: directly, summarised, streamed; with a timeline of what happened.

    It runs offline with the keyword model unless --model names another one.
    """
    from .demo import Demo
    from .demo_texts import TEXTS

    with _one_line_errors(verbose):
        chosen = choose_model(model or "keyword")
        shown = Demo(chosen, TEXTS[lang.value], open_console())
        anyio.run(shown.show)


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask; - reads it from the input.")],
    model: ModelOption = None,
    tools: ToolsOption = None,
    system: SystemOption = None,
    return_direct: DirectOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run one turn and print the answer."""
    with _one_line_errors(verbose):
        client = _client(choose_model(model), tools, system, return_direct, announce=True)
        text = sys.stdin.read() if prompt == "-" else prompt
        response = anyio.run(client.call, text.encode("utf-8", "replace").decode())
        flow = Flow(open_console())
        flow.write(response.text)
        flow.end_line()


@app.command()
def chat(
    model: ModelOption = None,
    tools: ToolsOption = None,
    system: SystemOption = None,
    return_direct: DirectOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Converse: answers are streamed, tool calls shown as they happen. /exit leaves."""
    from .chat import Conversation

    with _one_line_errors(verbose):
        client = _client(choose_model(model), tools, system, return_direct, announce=True)
        code = Conversation(client, open_console(), open_console(stderr=True)).run()
    raise typer.Exit(code)


@app.command()
def explain(
    model: ModelOption = None,
    tools: ToolsOption = None,
    return_direct: DirectOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print the chain: the order of the advisors, what stands inside the tool loop, and the tools."""
    with _one_line_errors(False):
        client = _client(choose_model(model), tools, None, return_direct)
        if as_json:
            typer.echo(client.explain(format="json"))
        else:
            print_wrapped(open_console(), client.explain(), hanging=2)


def _client(
    chosen: ChosenModel,
    tools: list[str] | None,
    system: str | None,
    return_direct: list[str] | None,
    announce: bool = False,
) -> ChatClient:
    """The client that the options describe; ``announce`` says which model was taken when nobody asked for one."""
    loaded = load_tools(tools or [])
    direct = dict.fromkeys(return_direct or [], True)
    client = ChatClient(chosen.model, tools=loaded, system=system, return_direct=direct)
    if direct and not any(_is_provider(item) for item in loaded):
        known = [row["name"] for row in json.loads(client.explain(format="json"))["tools"]]
        check_names(direct, known, "--return-direct")
    if announce and chosen.why is not None:
        open_console(stderr=True).print(Text(f"model: {chosen.name} ({chosen.why})", style="dim"), soft_wrap=True)
    return client


def _is_provider(item: Any) -> bool:
    """Whether its tools are known only when a turn asks for them."""
    return callable(getattr(item, "tools", None))


# Errors and the log --------------------------------------------------------------------------------------------------


@contextmanager
def _one_line_errors(verbose: bool) -> Generator[None]:
    """An error is one line on stderr, and code 1; a wrong command line is code 2, Ctrl-C 130."""
    handler = _LineHandler(verbose)
    logger = logging.getLogger("advisorchain")
    level = logger.level
    logger.addHandler(handler)
    if verbose:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except UsageProblem as exc:
        raise _failed(str(exc), 2) from exc
    except KeyboardInterrupt:
        raise _failed("cancelled", 130) from None
    except Exception as exc:
        logger.debug("The command failed", exc_info=exc)
        raise _failed(_described(exc), 1) from exc
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _described(exc: BaseException) -> str:
    while isinstance(exc, BaseExceptionGroup):
        exc = cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
    return str(exc) if isinstance(exc, AdvisorChainError) and str(exc) else described(exc)


def _failed(text: str, code: int) -> typer.Exit:
    typer.echo(f"error: {one_line(text)}", err=True)
    return typer.Exit(code)


class _LineHandler(logging.Handler):
    """Writes each record as one cleaned line to what is stderr now; a traceback only when asked to be verbose."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(logging.DEBUG if verbose else logging.WARNING)
        self._verbose = verbose
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s" if verbose else "%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        if self._verbose:
            text = clean(self.format(record))
        else:
            error = record.exc_info[1] if record.exc_info else None
            text = one_line(record.getMessage() + (f": {described(error)}" if error is not None else ""))
            text = f"{record.levelname.lower()}: {text}"
        print(text, file=sys.stderr)
