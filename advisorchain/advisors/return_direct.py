"""Return direct: a tool's result is the answer, without another model call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal

from ..advisor import Advisor
from ..context import ContextKey, Turn
from ..errors import ConfigurationError
from ..exchange import RETURN_DIRECT, ChatNext, ChatRequest, ChatResponse
from ..invocation import ToolResult
from ..messages import AssistantMessage, TextPart
from ..order import Order
from ..stream import emit_text
from ..tool_set import ToolSet

logger = logging.getLogger("advisorchain")

_RETURNS_DIRECT = attrgetter("return_direct")
Policy = Literal["all", "any", "first"]

_WHY_NOT = ContextKey[tuple[Turn, str]]("advisorchain.return_direct.why_not")


class ReturnDirectAdvisor(Advisor):
    """Answers the next round from the results of return-direct tools instead of calling the model.

    A tool returns directly by its own flag (``@tool(return_direct=True)``), which the client's and then the call's
    ``return_direct={"name": True}`` override. An error is never direct, so the model sees it and can repair it.
    When a round had a direct call but was not answered directly, ``response.metadata["return_direct"]`` says why.

    Args:
        policy: for a round with several calls. ``"all"``: every call must be direct and successful. ``"any"``: the
            direct ones answer, if at least one succeeded. ``"first"``: the first successful direct one answers.
        errors: an error result may be the answer too.
        combine: ``combine(results) -> str`` makes the text of several results; default: joined by an empty line.
        hint: mark direct tools for the model, with ``mark`` before the description and ``instruction`` in the system
            message.

    Raises:
        ConfigurationError: the policy is unknown.
    """

    order: int = Order.RETURN_DIRECT
    inside = "tool_loop"

    def __init__(
        self,
        *,
        policy: Policy = "all",
        errors: bool = False,
        combine: Callable[[Sequence[ToolResult]], str] | None = None,
        hint: bool = False,
        mark: str = "[DIRECT] ",
        instruction: str | None = None,
        order: int = Order.RETURN_DIRECT,
        name: str | None = None,
    ) -> None:
        if policy not in ("all", "any", "first"):
            raise ConfigurationError(f"policy must be 'all', 'any' or 'first', not {policy!r}.")
        self.policy: Policy = policy
        self.errors = errors
        self.combine = combine or _joined
        self.hint = hint
        self.mark = mark
        self.instruction = instruction or (
            f"The result of a tool marked {mark.strip()} goes to the user as it is, without you seeing it. Call such a "
            "tool when its result alone answers the request."
        )
        self.order = order
        if name is not None:
            self.name = name
        self._hinted: tuple[ToolSet, Any, ToolSet] | None = None

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Answer from the round's results if the policy allows it."""
        context = request.context
        results = request.tool_results
        if results and (context.get(RETURN_DIRECT) is not None or any(map(_RETURNS_DIRECT, results))):
            answers = self._answers(results)
            if answers:
                response = self._respond(request, answers)
                if request.streaming:
                    await emit_text(request, response.text)
                return response
            why_not = self._why_not(results, request)
            if why_not is not None:
                context[_WHY_NOT] = (context.turn, why_not)
                logger.debug("turn %s round %d: not returned directly: %s", context.turn.id, request.round, why_not)
        if self.hint:
            request = self._with_hint(request)
        response = await call_next(request)
        noted = context.get(_WHY_NOT)
        if noted is None or noted[0] is not context.turn:  # none, or that of the turn around a sub-agent's
            return response
        return response.replace(metadata={**response.metadata, "return_direct": noted[1]})

    def _answers(self, results: Sequence[ToolResult]) -> Sequence[ToolResult]:
        direct = [result for result in results if result.return_direct and (self.errors or not _failed(result))]
        if self.policy == "all":
            return direct if len(direct) == len(results) else ()
        return direct[:1] if self.policy == "first" else direct

    def _respond(self, request: ChatRequest, answers: Sequence[ToolResult]) -> ChatResponse[Any]:
        text = answers[0].content if len(answers) == 1 else self.combine(answers)
        parts = tuple(part for result in answers for part in result.parts)
        content: Any = text
        if parts:
            content = (TextPart(text=text), *parts) if text else parts
        return ChatResponse(
            AssistantMessage(content=content),
            stop_reason="return_direct",
            direct_results=tuple(answers),
            request=request,
        )

    def _why_not(self, results: Sequence[ToolResult], request: ChatRequest) -> str | None:
        """Why a round with a direct call goes back to the model; None when it had no direct call."""
        overrides = request.context.get(RETURN_DIRECT) or {}
        reasons: list[str] = []
        wanted = False
        for result in results:
            if result.return_direct:
                wanted = True
                if _failed(result):
                    reasons.append(f"{result.name}: its result is an error")
                continue
            tool = request.tools.get(result.name)
            if tool is not None and tool.return_direct and overrides.get(tool.policy_name) is False:
                wanted = True
                reasons.append(f"{result.name}: overridden by return_direct")
            elif result.source == "unknown":
                reasons.append(f"{result.name}: unknown tool")
            elif not result.trusted:
                reasons.append(f"{result.name}: its server is not trusted")
            else:
                reasons.append(f"{result.name}: not a direct tool (mixed round)")
        return "; ".join(reasons) if wanted else None

    def _with_hint(self, request: ChatRequest) -> ChatRequest:
        overrides = request.context.get(RETURN_DIRECT)
        hinted = self._hinted
        if hinted is None or hinted[0] is not request.tools or hinted[1] is not overrides:
            marked = ToolSet(
                tool.replace(description=self.mark + tool.description) if tool.is_direct(request.context) else tool
                for tool in request.tools
            )
            self._hinted = hinted = (request.tools, overrides, marked)
        if not any(new is not old for new, old in zip(hinted[2], hinted[0], strict=True)):
            return request
        return request.replace(tools=hinted[2]).with_instruction(self.instruction)


def _joined(results: Sequence[ToolResult]) -> str:
    return "\n\n".join(result.content for result in results)


def _failed(result: ToolResult) -> bool:
    """An error, or a degraded or denied result: the model must see it."""
    return result.is_error or result.failure is not None
