"""The demo of MCP: one client over four servers, each a process of its own; then one of them is killed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..advisors import CircuitBreakerAdvisor, RetryAdvisor, ToolFallbackAdvisor
from ..circuit import Circuit
from ..client import ChatClient
from ..exchange import ChatNext, ChatRequest, ChatResponse
from ..mcp.server import McpServer
from ..mcp.tools import McpTools
from ..messages import Message, ToolCall, ToolMessage, UserMessage
from ..testing import ScriptedModel
from .demo_texts import Language
from .domain_desks import USER
from .kept_warnings import KeptWarnings
from .mcp_demo_servers import ACTIVITIES
from .mcp_demo_texts import MCP_TEXTS, McpTexts, TurnTexts
from .mcp_demo_watch import Watch, Watched

CONTACT = "events@example.com"
FAILURES = 2
RESET_AFTER = 60.0
DIES_IN = 3
"""Before this turn the activity server is killed."""
_STEPS = 40


@dataclass(frozen=True, slots=True)
class TurnRun:
    """What one turn gave, all of it read from the chain; ``before`` and ``after`` are the activity server's circuit."""

    texts: TurnTexts
    response: ChatResponse[Any]
    watched: Watched
    before: Circuit
    after: Circuit
    log: tuple[str, ...]


class McpDesk:
    """The client, its servers, and what guards them.

    Args:
        servers: named as in `DemoServers`.
        language: of the texts.
        model: plays the model; default: a script.
        verbose: leave warnings to the log, instead of keeping them for `TurnRun.log` only.
        telemetry: as for `ChatClient`.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        language: Language,
        model: ChatNext | None = None,
        *,
        verbose: bool = False,
        telemetry: Any = True,
    ) -> None:
        self.texts = texts = MCP_TEXTS[language]
        self.tools = McpTools(servers)
        self.watch = Watch()
        self.clock = time.monotonic
        self.breaker = CircuitBreakerAdvisor(
            failures=FAILURES, reset_after=RESET_AFTER, clock=self.clock, notice=texts.notice
        )
        self.keep = KeptWarnings(drop=not verbose)
        self.client = ChatClient(
            model or scripted(texts),
            tools=[self.tools],
            system=texts.system,
            name="travel_desk",
            telemetry=telemetry,
            advisors=[
                ToolFallbackAdvisor(language=language, contact=CONTACT),
                RetryAdvisor(tool={"attempts": 2, "wait": 0.1, "jitter": 0.0}),
                self.watch,
                self.breaker,
            ],
        )
        self._history: list[Message] = []

    async def run(self, texts: TurnTexts) -> TurnRun:
        """Run one turn; the next one knows of it."""
        message = UserMessage(content=texts.question)
        self.watch.seen = watched = Watched()
        before = self.breaker.circuit(ACTIVITIES)
        with self.keep as log:
            response = await self.client.call([*self._history, message])
        self._history += [message, *response.new_messages]
        return TurnRun(texts, response, watched, before, self.breaker.circuit(ACTIVITIES), tuple(log))


def scripted(texts: McpTexts) -> ScriptedModel:
    """The script. It knows the user and the question; every other argument is from the result before."""
    return ScriptedModel([_decided(texts)] * _STEPS)


def _decided(texts: McpTexts) -> Callable[[ChatRequest], Any]:
    def decide(request: ChatRequest) -> Any:
        asked = max(number for number, message in enumerate(request.messages) if isinstance(message, UserMessage))
        if "TR001" in request.messages[asked].text:
            return ToolCall("query_travel_request", {"request_id": "TR001"})
        results = {message.name: message for message in request.messages[asked:] if isinstance(message, ToolMessage)}
        if "queryOrderList" not in results:
            return ToolCall("queryOrderList", {"user_id": USER})
        orders = _read(results["queryOrderList"]).get("orders", ())
        order = next((order for order in orders if order["status"] == "refunding"), None)
        if order is None:
            return texts.nothing
        if "queryRefundStatus" not in results:
            return ToolCall("queryRefundStatus", {"order_id": order["order_id"]})
        refund = _read(results["queryRefundStatus"])
        if "queryActivity" not in results and "queryActivity" in request.tools:
            return ToolCall("queryActivity", {"activity_id": refund["because_of_activity"]})
        known = {**order, **refund, "status": texts.statuses[refund["status"]]}
        return "\n".join([texts.refund.format(**known), *_reason(request, results.get("queryActivity"), refund)])

    def _reason(request: ChatRequest, result: ToolMessage | None, refund: dict[str, Any]) -> list[str]:
        if result is not None and not result.is_error:
            activity = _read(result)
            return [texts.activity.format(**{**activity, "status": texts.statuses[activity["status"]]})]
        told = [message.text for message in request.messages if message.role in ("system", "tool")]
        contact = re.search(r"[\w.]+@[\w.]+\w", "\n".join(told))  # the script knows it from what it was told
        missing = texts.missing.format(activity_id=refund["because_of_activity"])
        return [missing, *([texts.please_ask.format(contact=contact[0])] if contact else [])]

    return decide


def _read(message: ToolMessage) -> dict[str, Any]:
    """The result as JSON; nothing when it is a failure in words."""
    try:
        value = json.loads(message.text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
