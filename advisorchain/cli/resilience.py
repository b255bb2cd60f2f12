"""The demo of a failing service: one conversation with the travel desk while its budget service fails and recovers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..advisors import AuditAdvisor, CircuitBreakerAdvisor, MemoryAdvisor, RetryAdvisor, ToolFallbackAdvisor
from ..audit import JsonLinesSink, records
from ..circuit import Circuit
from ..client import ChatClient
from ..exchange import ChatNext, ChatRequest, ChatResponse
from ..memory import SqliteStore
from ..messages import ToolCall
from ..order import Order
from ..testing import ScriptedModel
from ..tools.definition import Tool
from .demo_texts import Language
from .flaky_budget import FlakyBudgetService, Mode, TurnedClock
from .kept_warnings import KeptWarnings
from .resilience_texts import RESILIENCE_TEXTS, ResilienceTexts, StageTexts
from .timeline import TIMELINE, Timeline, TimelineAdvisor

CONTACT = "budget@example.com"
LOOKUP, BUDGET = "query_travel_request", "analyze_travel_budget"
RESET_AFTER = 60.0
FAILURES = 3


class Stage(NamedTuple):
    """One turn: what the service does from now on, what is asked for, and how much time passes before (seconds)."""

    mode: Mode
    request_id: str
    department: str
    passes: float = 0.0


STAGES = (
    Stage("works", "TR001", "engineering"),
    Stage("fails", "TR002", "sales"),
    Stage("hangs", "TR003", "marketing"),
    Stage("hangs", "TR002", "sales"),
    Stage("works", "TR002", "sales", RESET_AFTER),
)


@dataclass(frozen=True, slots=True)
class StageRun:
    """What one turn gave, all of it read from the chain: nothing here is part of the script.

    Attributes:
        response: the answer; its ``request`` is the last one that the model got.
        timeline: every attempt.
        before, after: the circuit of the budget tool.
        records: what the audit file has of the turn.
        log: what was logged as a warning.
        reached: how many calls have reached the service so far.
    """

    texts: StageTexts
    response: ChatResponse[Any]
    timeline: Timeline
    before: Circuit
    after: Circuit
    records: tuple[Mapping[str, Any], ...]
    log: tuple[str, ...]
    reached: int


class Resilience:
    """The desk, its flaky service, and the stack around it.

    Args:
        directory: where ``memory.db`` and ``audit.jsonl`` are; a second demo there is another conversation.
        language: of the desk and of the stack's texts.
        model: plays the model; default: a script.
        verbose: leave warnings to the log, instead of keeping them for `StageRun.log` only.
        timeout: seconds that the budget tool may take.
        pause: seconds between two attempts.
        telemetry: as for `ChatClient`.

    Raises:
        ConfigurationError: the audit file cannot be written, or is none.
    """

    def __init__(
        self,
        directory: Path,
        language: Language,
        model: ChatNext | None = None,
        *,
        verbose: bool = False,
        timeout: float = 0.4,
        pause: float = 0.2,
        telemetry: Any = True,
    ) -> None:
        self.texts = RESILIENCE_TEXTS[language]
        self.memory_path, self.audit_path = directory / "memory.db", directory / "audit.jsonl"
        self.service = FlakyBudgetService()
        self.clock = TurnedClock()
        self.sink = JsonLinesSink(self.audit_path)
        self.store = SqliteStore(self.memory_path)
        self.breaker = CircuitBreakerAdvisor(
            failures=FAILURES, reset_after=RESET_AFTER, clock=self.clock, notice=self.texts.notice
        )
        self.timeout = timeout
        self.conversation = "travel-desk"
        self._keep = KeptWarnings(drop=not verbose)
        self._seen = 0  # records of the audit file
        self.client = ChatClient(
            model or scripted(self.texts),
            tools=_tools(self.texts, self.service, timeout),
            system=self.texts.system,
            return_direct={LOOKUP: False},
            name="travel_desk",
            telemetry=telemetry,
            advisors=[
                AuditAdvisor(self.sink),
                MemoryAdvisor(self.store, order=Order.MEMORY_INSIDE),
                ToolFallbackAdvisor(language=language, contact=CONTACT),
                RetryAdvisor(tool={"attempts": 2, "wait": pause, "jitter": 0.0}),
                TimelineAdvisor(order=870),
                self.breaker,
            ],
        )

    async def begin(self) -> None:
        """Choose a conversation that is not stored yet, and see where the audit file ends."""
        taken = await self.store.conversations()
        number = 1
        while self.conversation in taken:
            number += 1
            self.conversation = f"travel-desk-{number}"
        self._seen = sum(1 for _ in records(self.audit_path))

    async def run(self, stage: Stage, texts: StageTexts) -> StageRun:
        """Run one turn."""
        self.service.mode = stage.mode
        self.clock.turn(stage.passes)
        before, timeline = self.breaker.circuit(BUDGET), Timeline()
        with self._keep as log:
            response = await self.client.call(
                texts.question, conversation_id=self.conversation, context={TIMELINE: timeline}
            )
        timeline.finish()
        found = tuple(records(self.audit_path))
        new, self._seen = found[self._seen :], len(found)
        after = self.breaker.circuit(BUDGET)
        return StageRun(texts, response, timeline, before, after, new, tuple(log), self.service.reached)

    def close(self) -> None:
        """Close the files."""
        self.store.close()
        self.sink.close()


def _tools(texts: ResilienceTexts, service: FlakyBudgetService, timeout: float) -> list[Tool]:
    return [
        tool.replace(title=texts.service, timeout=timeout) if tool.name == BUDGET else tool
        for tool in Tool.from_object(texts.desk(service))
    ]


def scripted(texts: ResilienceTexts) -> ScriptedModel:
    """The script: call those of the two tools that are offered, then say what they gave and what is missing."""

    def calls(stage: Stage) -> Any:
        wanted = [
            ToolCall(LOOKUP, {"request_id": stage.request_id}),
            ToolCall(BUDGET, {"department": texts.departments[stage.department]}),
        ]
        return lambda request: [call for call in wanted if call.name in request.tools]

    def answer(request: ChatRequest) -> str:
        said = [result.content for result in request.tool_results if not result.is_error]
        if not any(result.name == BUDGET and not result.is_error for result in request.tool_results):
            said.append(texts.missing)
            read = [message.text for message in request.messages if message.role == "system"]
            contact = re.search(r"[\w.]+@[\w.]+\w", "\n".join([*read, *(r.content for r in request.tool_results)]))
            if contact is not None:  # the script knows it from what it was told
                said.append(texts.please_ask.format(contact=contact[0]))
        return "\n".join(said)

    return ScriptedModel([step for stage in STAGES for step in (calls(stage), answer)])
