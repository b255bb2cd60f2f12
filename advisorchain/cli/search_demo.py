"""The demo of tool search: the travel desk hidden among many tools, asked without and with a search."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from ..advisors import ToolSearchAdvisor
from ..client import ChatClient
from ..exchange import ChatResponse
from ..messages import ToolMessage
from ..tool_index.search_tool import NAME
from .choice import ChosenModel
from .crowd import office_tools
from .demo_texts import Language
from .display import one_line, print_wrapped
from .narration import INDENT, Narration
from .search_texts import SEARCH_TEXTS
from .searching import SearchingModel
from .timeline import TIMELINE, Step, Timeline, TimelineAdvisor
from .tracing import Tracing, not_traced

FEWEST = 10
"""How many tools there are at least."""
_OF_THE_DESK = 2


class SearchRun(NamedTuple):
    """What one run gave; ``rounds`` are its model calls."""

    response: ChatResponse[Any]
    rounds: tuple[Step, ...]

    @property
    def tokens(self) -> int:
        """The input tokens of all model calls."""
        return sum(map(_tokens, self.rounds))


class SearchDemo:
    """One question, asked twice.

    Args:
        chosen: the model; None: the stand-in.
        language: of tools and texts.
        count: how many tools there are in all.
        console: where to print.
        tracing: shows the traces of both.
    """

    def __init__(
        self,
        chosen: ChosenModel | None,
        language: Language,
        count: int,
        console: Console,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing or not_traced(console)
        self._texts = texts = SEARCH_TEXTS[language]
        self._chosen = chosen
        self._count = count
        self._console = console
        labels = (texts.you, texts.answer, texts.result, texts.added)
        self._narration = Narration(console, labels)
        others = office_tools(count - _OF_THE_DESK, language)
        middle = len(others) // 2
        self._tools = [*others[:middle], texts.desk(), *others[middle:]]
        self._search = ToolSearchAdvisor(threshold=0, guidance=texts.guidance)

    def _client(self, *advisors: Any) -> ChatClient:
        model: Any = self._chosen.model if self._chosen is not None else SearchingModel()
        return ChatClient(
            model, tools=self._tools, advisors=[TimelineAdvisor(), *advisors], system=self._texts.system,
            name="travel_desk", telemetry=self._tracing.telemetry,
        )  # fmt: skip

    async def show(self) -> tuple[SearchRun, SearchRun]:
        """Print the chain, ask twice, compare."""
        texts, console, narration = self._texts, self._console, self._narration
        console.print(Text(texts.title.format(count=self._count), style="bold"))
        name = self._chosen.name if self._chosen is not None else f"keyword ({texts.stand_in})"
        print_wrapped(console, f"{texts.model}: {name}")
        narration.heading(texts.chain)
        narration.tell(self._client(self._search).chain.explain().format("text"), hanging=2)
        plain = await self._run(1, texts.plain, texts.plain_shows, self._client())
        searched = await self._run(2, texts.searched, texts.searched_shows, self._client(self._search))
        self._compare(plain, searched)
        return plain, searched

    async def _run(self, number: int, name: str, shows: str, client: ChatClient) -> SearchRun:
        texts, narration = self._texts, self._narration
        narration.heading(f"{number}  {name}")
        narration.tell(shows.format(count=self._count))
        narration.say(texts.you, texts.question)
        timeline = Timeline()
        response = await client.call(texts.question, context={TIMELINE: timeline})
        timeline.finish()
        run = SearchRun(response, tuple(step for step in timeline.steps if step.kind == "model"))
        for message in response.new_messages:
            if isinstance(message, ToolMessage) and message.name == NAME:
                narration.say(texts.result, message.text)
        names = run.rounds[-1].seen.tools.names if run.rounds and run.rounds[-1].seen is not None else []
        narration.say(texts.added, self._listed(names))
        narration.say(texts.answer, response.text)
        self._tracing.turn_done()
        return run

    def _listed(self, names: list[str]) -> str:
        few = ", ".join(map(one_line, names[:9]))
        return few if len(names) <= 9 else f"{few}, … {self._texts.more.format(count=len(names))}"

    # The comparison --------------------------------------------------------------------------------------------------

    def _compare(self, plain: SearchRun, searched: SearchRun) -> None:
        texts, narration = self._texts, self._narration
        narration.heading(texts.side_by_side)
        percent = 100 * (1 - searched.tokens / plain.tokens) if plain.tokens else 0.0
        if narration.is_narrow:
            for name, run in ((texts.plain, plain), (texts.searched, searched)):
                narration.tell(f"{name} · {texts.total} {run.tokens:,}")
                for number, step in enumerate(run.rounds, 1):
                    shown, tokens, what = self._cells(step)
                    row = [f"{texts.call} {number}", f"{texts.shown} {shown}", f"{texts.tokens} {tokens}", what]
                    narration.dim(row, INDENT + 2)
        else:
            self._table(plain, searched)
        self._console.print()
        sentence = texts.saved if percent > 0 else texts.nothing
        print_wrapped(self._console, sentence.format(percent=f"{percent:.1f}"))
        print_wrapped(self._console, texts.counted if self._chosen is not None else texts.estimated)

    def _table(self, plain: SearchRun, searched: SearchRun) -> None:
        texts = self._texts
        rows: list[tuple[str, ...]] = []
        for number, (left, right) in enumerate(zip_longest(plain.rounds, searched.rounds), 1):
            rows.append((str(number), *self._cells(left), *self._cells(right)))
        rows.append((texts.total, "", f"{plain.tokens:,}", "", "", f"{searched.tokens:,}", ""))
        names = (texts.call, texts.shown, texts.tokens, texts.plain, texts.shown, texts.tokens, texts.searched)
        self._narration.table(names, "lrrfrrf", rows)

    def _cells(self, step: Step | None) -> tuple[str, str, str]:
        if step is None:
            return "", "", ""
        shown = len(step.seen.tools) if step.seen is not None else 0
        texts = self._texts
        if not step.calls:
            what = texts.answer
        else:
            what = texts.search if set(step.calls) == {NAME} else texts.calls.format(count=len(step.calls))
        return str(shown), f"{_tokens(step):,}", f"→ {what}"


def _tokens(step: Step) -> int:
    return (step.usage.input_tokens or 0) if step.usage is not None else 0
