"""The demo: the travel desk asked three times, with everything that happened measured and printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from ..client import ChatClient
from ..events import Restarted, TextDelta
from ..exchange import ChatResponse
from ..models.keyword import KeywordModel
from .choice import ChosenModel
from .demo_texts import DemoTexts, RunTexts
from .display import one_line, print_wrapped, shortened
from .narration import INDENT, Narration
from .timeline import TIMELINE, Step, Timeline, TimelineAdvisor
from .tracing import Tracing, not_traced


class DemoRun(NamedTuple):
    """What one run gave."""

    texts: RunTexts
    response: ChatResponse[Any]
    timeline: Timeline


class Demo:
    """The three runs of one client.

    Args:
        chosen: the model.
        texts: the language.
        console: where to print.
        tracing: shows the runs' traces.
    """

    def __init__(self, chosen: ChosenModel, texts: DemoTexts, console: Console, tracing: Tracing | None = None) -> None:
        self._tracing = tracing or not_traced(console)
        self._chosen = chosen
        self._texts = texts
        self._console = console
        self._narration = Narration(console, (texts.you, texts.answer))
        self._client = self._client_of(chosen.model, self._tracing.telemetry)

    def _client_of(self, model: Any, telemetry: Any) -> ChatClient:
        return ChatClient(
            model, tools=[self._texts.tools()], advisors=[TimelineAdvisor()], system=self._texts.system,
            name="travel_desk", telemetry=telemetry,
        )  # fmt: skip

    async def show(self) -> list[DemoRun]:
        """Print the chain, run three times, compare."""
        texts, console = self._texts, self._console
        await self._warm_up()
        self._narration.title(texts.title)
        about = f" ({texts.stand_in})" if isinstance(self._chosen.model, KeywordModel) else ""
        print_wrapped(console, f"{texts.model}: {self._chosen.name}{about}")
        self._narration.heading(texts.chain)
        self._narration.tell(self._client.explain(), hanging=2)
        runs = [
            await self._run(1, texts.direct),
            await self._run(2, texts.summarised, {"query_travel_request": False}),
            await self._run(3, texts.streamed, stream=True),
        ]
        self._compare(runs)
        return runs

    async def _warm_up(self) -> None:
        """Load what a first turn loads, so that the three runs are alike; always offline."""
        client = self._client_of(KeywordModel(), self._tracing.throw_away())
        async with client.stream(self._texts.streamed.question) as stream:
            await stream.response()

    async def _run(
        self, number: int, texts: RunTexts, return_direct: Mapping[str, bool] | None = None, stream: bool = False
    ) -> DemoRun:
        self._narration.heading(f"{number}  {texts.name}")
        self._narration.tell(texts.shows)
        self._narration.say(self._texts.you, texts.question)
        timeline = Timeline()
        if stream:
            response = await self._streamed(texts.question, timeline)
        else:
            response = await self._client.call(
                texts.question, context={TIMELINE: timeline}, return_direct=return_direct
            )
            timeline.finish()
            self._narration.say(self._texts.answer, response.text)
        self._print_timeline(timeline)
        self._tracing.turn_done()
        return DemoRun(texts, response, timeline)

    async def _streamed(self, question: str, timeline: Timeline) -> ChatResponse[Any]:
        """Run under ``stream`` and print the text while it arrives."""
        flow = self._narration.label(self._texts.answer)
        async with self._client.stream(question, context={TIMELINE: timeline}) as stream:
            async for event in stream:
                if isinstance(event, TextDelta) and not event.path:
                    timeline.saw_text()
                    flow.write(event.text)
                elif isinstance(event, Restarted) and not event.path:
                    flow.end_line()
            response = await stream.response()
        timeline.finish()
        flow.end_line()
        return response

    # Printing --------------------------------------------------------------------------------------------------------

    def _print_timeline(self, timeline: Timeline) -> None:
        texts, number = self._texts, 0
        rows: list[tuple[str, str, str, str]] = []
        for step in timeline.steps:
            number += step.kind == "model"
            times = milliseconds(step.start), milliseconds(step.seconds)
            rows.append((*times, _tokens(step), self._described(step, number)))
        note = ""
        if timeline.first_text is not None:
            note = texts.first_text.format(first=milliseconds(timeline.first_text), count=timeline.text_events)
        self._console.print()
        names = (texts.start, texts.took, texts.tokens, texts.what)
        if not self._narration.is_narrow:
            cells = [(*row[:3], Text(row[3])) for row in rows]
            if note:
                cells.append(("", "", "", Text(note, style="dim")))
            self._narration.table(names, "rrrf", cells)
            return
        for start, took, tokens, what in rows:
            self._narration.tell(what, hanging=2)
            pairs = zip(names, (start, took, tokens), strict=False)
            self._narration.dim((f"{name} {detail}" for name, detail in pairs if detail), INDENT + 2)
        if note:
            self._narration.dim([note], INDENT + 2)

    def _described(self, step: Step, number: int) -> str:
        texts = self._texts
        if step.kind == "model":
            text = texts.model_call.format(number=number)
            what = f"→ {', '.join(map(one_line, step.calls))}" if step.calls else f"→ {texts.answer}"
        else:
            text = described_call(step.name, step.arguments)
            what = f"· {texts.is_direct}" if step.direct else ""
        return f"{text} {f'· {texts.failed}' if step.failed else what}".rstrip()

    def _compare(self, runs: list[DemoRun]) -> None:
        texts = self._texts
        self._narration.heading(texts.compared)
        names = (texts.model_calls, texts.tool_calls, texts.tokens, texts.time)
        rows: list[tuple[str, ...]] = []
        for number, run in enumerate(runs, 1):
            usage = run.response.usage
            total = usage.total_tokens
            timeline = run.timeline
            figures = (
                str(timeline.count("model")), str(timeline.count("tool")), "-" if total is None else str(total),
                milliseconds(timeline.seconds),
            )  # fmt: skip
            rows.append((f"{number}  {run.texts.name}", *figures))
        if self._narration.is_narrow:
            for row in rows:
                self._narration.tell(row[0])
                self._narration.dim(map(" ".join, zip(names, row[1:], strict=True)), INDENT + 3)
        else:
            self._narration.table((texts.run, *names), "lrrrr", rows, gap=INDENT)
        self._console.print()
        print_wrapped(self._console, texts.measured)
        if isinstance(self._chosen.model, KeywordModel):
            print_wrapped(self._console, texts.estimated)


def milliseconds(seconds: float) -> str:
    """Seconds as printed: two decimals below 100 ms."""
    value = seconds * 1000
    return f"{value:.2f} ms" if value < 100 else f"{value:.0f} ms"


def _tokens(step: Step) -> str:
    usage = step.usage
    if usage is None or usage.input_tokens is None:
        return ""
    return f"{usage.input_tokens} + {usage.output_tokens or 0}"


def described_call(name: str, arguments: Mapping[str, Any] | str | None, width: int = 60) -> str:
    """A tool call as one cleaned line: ``query_travel_request(request_id="TR001")``."""
    if isinstance(arguments, Mapping):
        inside = ", ".join(
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in arguments.items()
        )
    else:
        inside = str(arguments or "")
    return f"{shortened(name, width)}({shortened(inside, width)})"
