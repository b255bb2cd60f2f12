"""What the demo of a failing service prints: every figure is read from the chain, the store and the audit file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from ..audit import AuditReport, verify
from ..errors import AuditError
from ..messages import ToolMessage
from .demo import milliseconds
from .display import one_line, print_wrapped
from .memory import print_turns
from .narration import INDENT, Narration
from .resilience import FAILURES, RESET_AFTER, STAGES, Resilience, StageRun
from .timeline import Step
from .tracing import Tracing, not_traced

COLOURS = {"closed": "green", "half_open": "yellow", "open": "red"}


class ResilienceDemo:
    """Runs the stages and tells what happened.

    Args:
        demo: what is run.
        model: the model's name; None: the script.
        console: where to print.
        tracing: shows the traces of the stages.
    """

    def __init__(self, demo: Resilience, model: str | None, console: Console, tracing: Tracing | None = None) -> None:
        self._tracing = tracing or not_traced(console)
        self._demo = demo
        self._texts = texts = demo.texts
        self._model = model
        self._console = console
        labels = (
            texts.you, texts.answer, texts.result, texts.offered, texts.added, texts.breaker, texts.audit, texts.log,
        )  # fmt: skip
        self._narration = Narration(console, labels)
        self._steps: list[tuple[str, ...]] = []

    async def show(self) -> list[StageRun]:
        """Run and print all of it; the files are closed then.

        Raises:
            AuditError: the audit file is not intact.
        """
        texts, console, demo = self._texts, self._console, self._demo
        try:
            await demo.begin()
            self._narration.title(texts.title)
            print_wrapped(console, f"{texts.model}: {self._model or texts.script}")
            self._narration.heading(texts.chain)
            self._narration.tell(demo.client.explain().partition("\n\n")[0], hanging=2)
            runs: list[StageRun] = []
            for number, (stage, stage_texts) in enumerate(zip(STAGES, texts.stages, strict=True), 1):
                self._narration.heading(f"{number}  {stage_texts.name}")
                shows = stage_texts.shows.format(timeout=f"{demo.timeout * 1000:.0f}", seconds=f"{RESET_AFTER:.0f}")
                self._narration.tell(shows)
                self._narration.say(texts.you, stage_texts.question)
                run = await demo.run(stage, stage_texts)
                self._print_run(run)
                self._tracing.turn_done()
                runs.append(run)
            self._narration.heading(f"{texts.memory} · {demo.conversation}")
            print_turns(console, await demo.store.load(demo.conversation), INDENT)
        finally:
            demo.close()
        report = self._print_audit(runs)
        self._print_commands(report)
        if report.problem is not None:
            raise AuditError(f"The audit file is not intact: {report.problem.message}")
        return runs

    # One turn --------------------------------------------------------------------------------------------------------

    def _print_run(self, run: StageRun) -> None:
        texts, narration = self._texts, self._narration
        narration.say(texts.answer, run.response.text)
        self._console.print()
        self._print_steps(run.timeline.steps)
        self._console.print()
        for result in run.response.new_messages:
            if isinstance(result, ToolMessage) and result.is_error:
                narration.say(texts.result, result.text)
        narration.say(texts.offered, "\n".join(_offered(run)))
        narration.say(texts.added, self._added(run))
        self._print_breaker(run)
        calls = [record for record in run.records if record["kind"] == "tool"]
        narration.say(texts.audit, "\n".join(self._recorded(record) for record in calls))
        for line in run.log:
            narration.say(texts.log, one_line(line))

    def _print_steps(self, steps: list[Step]) -> None:
        texts = self._texts
        rows: list[tuple[str, str, Text]] = []
        models, attempts = 0, dict[str, int]()
        for step in steps:
            if step.kind == "model":
                models += 1
                what = texts.model_call.format(number=models)
                ended = texts.calls.format(count=len(step.calls)) if step.calls else texts.answers
            else:
                attempts[step.name] = attempts.get(step.name, 0) + 1
                what = texts.attempt.format(tool=one_line(step.name), number=attempts[step.name])
                ended = ""
            mark = Text("✗ " if step.failed else "✓ ", style="red" if step.failed else "green")
            rows.append((milliseconds(step.seconds), what, mark.append(step.error or ended, style="default")))
        names = (texts.took, texts.what, texts.outcome)
        if not self._narration.is_narrow:
            self._narration.table(names, "rlf", rows)
            return
        for took, what, outcome in rows:
            self._narration.tell(what)
            self._narration.dim([f"{texts.took} {took}", outcome.plain.rstrip()], INDENT + 2)

    def _added(self, run: StageRun) -> str:
        """What advisors have added to the system message of the last model call."""
        request = run.response.request
        system = request.messages[0].text if request is not None and request.messages[0].role == "system" else ""
        added = [line for line in system.removeprefix(self._texts.system).split("\n") if line]
        return "\n".join(added) or self._texts.nothing

    def _print_breaker(self, run: StageRun) -> None:
        texts, after = self._texts, run.after
        new = after.history[len(run.before.history) :]
        path = [run.before.state, *(transition.state for transition in new)]
        said = " → ".join(texts.states[state] for state in path)
        if after.state == "open":
            said += " · " + texts.opens_for.format(seconds=f"{after.until - self._demo.clock():.0f}")
        else:
            said += " · " + texts.failures.format(count=after.failures, limit=FAILURES)
        said += "\n" + texts.reached.format(count=run.reached)
        self._narration.say(texts.breaker, said, "●", COLOURS[after.state])

    def _recorded(self, record: Mapping[str, Any]) -> str:
        attempts, error = record.get("attempts"), record.get("error")
        found = [record["outcome"], self._texts.attempts.format(count=attempts) if attempts else None, error]
        return f"{record['tool']}: {', '.join(filter(None, found))}"

    # The end ---------------------------------------------------------------------------------------------------------

    def _print_audit(self, runs: list[StageRun]) -> AuditReport:
        texts, narration = self._texts, self._narration
        narration.heading(texts.audit_file)
        report = verify(self._demo.audit_path)
        if report.problem is None:
            narration.state(texts.intact.format(first=report.first, last=report.count), "✓", "green")
        else:
            narration.state(texts.broken.format(message=one_line(report.problem.message)), "✗", "red")
        self._console.print()
        names = (texts.record, texts.what, texts.took, texts.tries, texts.outcome)
        rows: list[tuple[str, ...]] = []
        for number, run in enumerate(runs, 1):
            for record in run.records:
                what = record["tool"] if record["kind"] == "tool" else texts.turn.format(number=number)
                took, attempts = milliseconds(record["seconds"]), str(record.get("attempts") or "")
                rows.append((str(record["seq"]), what, took, attempts, _ended(record)))
        if not narration.is_narrow:
            narration.table(names, "rlrrf", rows)
            return report
        for record_number, what, took, attempts, ended in rows:
            narration.tell(f"{record_number}  {what}")
            narration.dim(filter(None, [took, attempts and texts.attempts.format(count=attempts), ended]), INDENT + 2)
        return report

    def _print_commands(self, report: AuditReport) -> None:
        texts, demo = self._texts, self._demo
        self._narration.heading(texts.look)
        audit = shlex.quote(str(demo.audit_path))
        store = shlex.quote(f"sqlite:///{demo.memory_path}")
        for command in (
            f"memory show {demo.conversation} --store {store}",
            f"audit verify {audit} --expect {report.head}",
            f"audit show {audit}",
        ):  # each in one line however long it is, to be copied
            self._console.print(Text(" " * INDENT + f"advisorchain {command}"), soft_wrap=True)
        self._console.print()
        self._console.print(Text(texts.files.format(directory=demo.audit_path.parent)), soft_wrap=True)


def _offered(run: StageRun) -> list[str]:
    """The tools that the model was offered; more than one line when that changed within the turn."""
    lines: list[str] = []
    for step in run.timeline.steps:
        if step.seen is not None:
            names = ", ".join(map(one_line, step.seen.tools.names))
            if not lines or lines[-1] != names:
                lines.append(names)
    return [line if number == 0 else f"→ {line}" for number, line in enumerate(lines)]


def _ended(record: Mapping[str, Any]) -> str:
    return " · ".join(str(record[name]) for name in ("outcome", "error") if record.get(name))
