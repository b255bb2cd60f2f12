"""What the demo of MCP prints: every figure is read from the chain, the breaker and `McpTools.status`."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..errors import ConfigurationError
from ..exchange import ChatNext
from ..messages import ToolMessage
from .demo import described_call, milliseconds
from .demo_texts import Language
from .display import one_line, print_wrapped, shortened
from .mcp_demo import DIES_IN, FAILURES, McpDesk, TurnRun
from .mcp_demo_servers import DemoServers
from .mcp_demo_watch import Attempt
from .narration import INDENT, Narration
from .tracing import Tracing, not_traced
from .turns import Spinner

COLOURS = {"closed": "green", "half_open": "yellow", "open": "red"}
MARKS = {"connected": ("●", "green"), "failed": ("✗", "red"), "lost": ("○", "yellow"), "idle": ("○", "dim")}
RESULT_WIDTH = 300


async def show_mcp(
    language: Language,
    model: ChatNext | None,
    model_name: str | None,
    console: Console,
    verbose: bool = False,
    tracing: Tracing | None = None,
) -> list[TurnRun]:
    """Run the demo with server processes of its own; none is left at the end, however it ends."""
    with tempfile.TemporaryDirectory(prefix="advisorchain-demo-", ignore_cleanup_errors=True) as directory:
        servers = DemoServers(Path(directory), language)
        tracing = tracing or not_traced(console)
        desk = McpDesk(servers.servers, language, model, verbose=verbose, telemetry=tracing.telemetry)
        return await McpDemo(desk, servers.kill, model_name, console, tracing).show()


class McpDemo:
    """Runs the turns and tells what happened.

    Args:
        desk: what is run.
        kill: kills the activity server for good.
        model: the model's name; None: the script.
        console: where to print.
        tracing: shows the traces of the turns.
    """

    def __init__(
        self,
        desk: McpDesk,
        kill: Callable[[], None],
        model: str | None,
        console: Console,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing or not_traced(console)
        self._desk = desk
        self._texts = texts = desk.texts
        self._kill = kill
        self._model = model
        self._console = console
        labels = (
            texts.you, texts.answer, texts.said, texts.offered, texts.left_out, texts.guidance, texts.breaker,
            texts.log,
        )  # fmt: skip
        self._pages = Narration(console, labels)

    async def show(self) -> list[TurnRun]:
        """Run and print all of it; the connections are closed then.

        Raises:
            ConfigurationError: a server could not be started.
        """
        texts, console, desk, pages = self._texts, self._console, self._desk, self._pages
        console.print(Text(texts.title, style="bold"))
        print_wrapped(console, f"{texts.model}: {self._model or texts.script}")
        runs: list[TurnRun] = []
        try:
            with desk.keep, Spinner(console) as spinner:
                spinner.show(texts.starting)
                await desk.tools.listed()
            for status in desk.tools.status():
                if status.error is not None:
                    raise ConfigurationError(f"The server {status.name!r} could not be started: {status.error}")
            pages.heading(texts.servers)
            self._print_servers()
            pages.heading(texts.chain)
            pages.tell(desk.client.explain().partition("\n\n")[0], hanging=2)
            for number, turn in enumerate(texts.turns, 1):
                pages.heading(f"{number}  {turn.name}")
                pages.tell(turn.shows)
                if number == DIES_IN:
                    self._kill()
                    pages.state(texts.killed, "✗", "red")
                pages.say(texts.you, turn.question)
                runs.append(await desk.run(turn))
                self._print_run(runs[-1])
                self._tracing.turn_done()
            pages.heading(texts.end)
            self._print_servers(at_the_end=True)
        finally:
            await desk.tools.aclose()
        console.print()
        print_wrapped(console, texts.closed)
        return runs

    def _print_servers(self, at_the_end: bool = False) -> None:
        texts, pages = self._texts, self._pages
        found = self._desk.tools.status()
        rows: list[tuple[str, Text, str, str, str]] = []
        for status in found:
            mark, style = MARKS[status.state]
            state = Text(f"{mark} ", style=style).append(texts.states[status.state], style="default")
            trust = texts.trusted if status.trusted else texts.untrusted
            rows.append((one_line(status.name), state, status.protocol or "", trust, ", ".join(status.tools.values())))
        names = (texts.server, texts.state, texts.protocol, texts.trust, texts.tools)
        if at_the_end:
            pages.table(names[:2], "ll", [row[:2] for row in rows])
        elif not pages.is_narrow:
            pages.table(names, "llllf", rows)
        else:
            for name, state, protocol, trust, tools in rows:
                pages.tell(f"{name}  {state.plain}")
                pages.dim(filter(None, [protocol, trust]), INDENT + 2)
                pages.tell(f"  {tools}", hanging=2)
        for status in found:
            if status.error is not None:
                pages.tell(f"{status.name}: {one_line(status.error)}", hanging=2)
            for name, notes in () if at_the_end else status.notes.items():
                for note in notes:
                    pages.tell(f"{texts.note}  {status.name}/{name}: {one_line(note)}", hanging=2)

    # One turn --------------------------------------------------------------------------------------------------------

    def _print_run(self, run: TurnRun) -> None:
        texts, pages = self._texts, self._pages
        pages.say(texts.answer, run.response.text)
        self._console.print()
        self._print_attempts(run)
        self._console.print()
        for result in run.response.new_messages:
            if isinstance(result, ToolMessage) and result.is_error:
                pages.say(texts.said, one_line(result.text))
        pages.say(texts.offered, "\n".join(self._offered(run)))
        left_out = self._left_out(run)
        if left_out:
            pages.say(texts.left_out, ", ".join(map(one_line, left_out)))
        guidance = self._guidance(run)
        if guidance:
            pages.say(texts.guidance, guidance)
        self._print_breaker(run)
        for line in run.log:
            pages.say(texts.log, one_line(line))

    def _print_attempts(self, run: TurnRun) -> None:
        texts, pages = self._texts, self._pages
        direct = run.response.stop_reason == "return_direct"
        for attempt in run.watched.attempts:
            call = described_call(attempt.name, attempt.arguments)
            pages.tell(f"{milliseconds(attempt.seconds):>9}  {one_line(attempt.server)} / {call}", hanging=11)
            failed = attempt.result is None or attempt.result.is_error
            outcome = texts.direct if direct else _outcome(attempt)
            pages.state(outcome, "✗" if failed else "✓", "red" if failed else "green", further=11)
        pages.dim([texts.model_calls.format(count=run.watched.model_calls)], INDENT)

    def _offered(self, run: TurnRun) -> list[str]:
        """How many tools of each server the model was offered; more than one line when that changed in the turn."""
        lines: list[str] = []
        for request in run.watched.requests:
            count = Counter(one_line(tool.source) for tool in request.tools)
            line = " · ".join(f"{server} {number}" for server, number in count.items())
            if not lines or not lines[-1].endswith(line):
                lines.append(f"→ {line}" if lines else line)
        return lines

    def _left_out(self, run: TurnRun) -> list[str]:
        """Tools that the servers have, and that the model was not offered in the end."""
        known = [name for status in self._desk.tools.status() for name in status.tools.values()]
        last = run.watched.requests[-1].tools if run.watched.requests else None
        return [] if last is None else [name for name in known if name not in last]

    def _guidance(self, run: TurnRun) -> str:
        """What advisors have added to the system message of the last model call."""
        request = run.watched.requests[-1] if run.watched.requests else None
        system = request.messages[0].text if request is not None and request.messages[0].role == "system" else ""
        return "\n".join(line for line in system.removeprefix(self._texts.system).split("\n") if line)

    def _print_breaker(self, run: TurnRun) -> None:
        texts, after = self._texts, run.after
        path = [run.before.state, *(change.state for change in after.history[len(run.before.history) :])]
        said = " → ".join(texts.circuits[state] for state in path)
        if after.state == "open":
            seconds = after.until - self._desk.clock()
            said += " · " + texts.opens_for.format(seconds=f"{seconds:.0f}")
        else:
            said += " · " + texts.failures.format(count=after.failures, limit=FAILURES)
        self._pages.say(texts.breaker, said, "●", COLOURS[after.state])


def _outcome(attempt: Attempt) -> str:
    if attempt.result is None:
        return attempt.error
    text = attempt.result.content
    with suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False)  # with spaces, at which it can be wrapped
    return shortened(text, RESULT_WIDTH)
