"""`KeywordModel`: an offline, rule-based stand-in for a language model."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from typing import Any

from ..events import TextDelta, ToolCallDelta
from ..exchange import ChatRequest, ChatResponse, StopReason
from ..messages import AssistantMessage, ToolCall, ToolMessage
from .estimated_usage import CHARACTERS_PER_TOKEN, estimated_usage
from .keyword_answer import Outcome, ask_for, cannot_help, from_results, may_not_call
from .keyword_arguments import Filler
from .keyword_plan import PlannedCall, Planner, call_key
from .keyword_schema import MISSING
from .keyword_text import CJK, Clues, is_chinese, normal

MAX_PROMPT = 20_000
"""How many characters of the user's text are read."""

_PIECES = re.compile(rf"[{CJK}]{{1,2}}|[^\s{CJK}]+\s*|\s+")


class KeywordModel:
    """A rule-based stand-in for a language model: no network, no key, no download, and no understanding.

    It runs demos, first steps and offline tests of whole chains. It matches the words of the user's last message
    (English or Chinese) with the names, descriptions, tags, arguments and enum values of the tools that the request
    offers, fills the arguments from the text by their JSON schema, and makes its answer of the tools' results. It
    knows nothing else: when no tool matches, it says in one sentence that it is rule-based. When a required argument is
    not in the text, it asks for it.

    Several tools, or several ids for one tool, are called in parallel when the text asks for them. It follows
    ``tool_choice`` (``"none"``; ``"required"`` and a tool's name until that tool has answered), ``parallel_tool_calls``
    and ``max_tokens``. With an output type it answers with JSON if the text or the results fill the schema, else with
    plain text. The same request gives the same answer, except for "today" and "tomorrow".

    `Usage` is an estimate: characters of messages, tool descriptions and answer divided by 4, rounded up. It is a
    rule of thumb for English; a real tokenizer counts more for Chinese.

    Args:
        name: the model's name.
        today: the date that "tomorrow" counts from; default: the system's.
    """

    def __init__(self, name: str = "keyword", *, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self.name = name
        self._today = today

    async def __call__(self, request: ChatRequest) -> ChatResponse[Any]:
        """Answer the request by the rules."""
        text, calls = self._decide(request)
        message, stop_reason = self._message(text, calls, request)
        if request.streaming:
            for piece in _PIECES.findall(message.text):
                await request.emit(TextDelta(piece))
            for index, call in enumerate(calls):
                await request.emit(ToolCallDelta(index, call.id, call.name, json.dumps(call.arguments)))
        return ChatResponse(message, usage=estimated_usage(request, message), stop_reason=stop_reason)

    def _message(self, text: str, calls: list[ToolCall], request: ChatRequest) -> tuple[AssistantMessage, StopReason]:
        most = request.options.max_tokens
        if most is not None and len(text) > most * CHARACTERS_PER_TOKEN:
            return AssistantMessage(content=text[: most * CHARACTERS_PER_TOKEN]), "length"
        return AssistantMessage(content=text, tool_calls=tuple(calls)), "final"

    def _decide(self, request: ChatRequest) -> tuple[str, list[ToolCall]]:
        """The answer's text, or the tool calls instead of it."""
        turn = _Turn(request)
        question = normal(turn.question[:MAX_PROMPT])
        chinese = is_chinese(question)
        choice = request.options.tool_choice or "auto"
        planned: list[PlannedCall] = []
        if choice != "none":
            planned = self._planned(request, turn, question, choice)
            ready = [call for call in planned if not call.missing or choice != "auto"]
            if ready:
                if request.options.parallel_tool_calls is False:
                    del ready[1:]
                return "", [ToolCall(call.tool.name, call.arguments) for call in ready]
        if request.output is not None and request.output.type is not str:
            filled = self._output(request, turn, question)
            if filled is not None:
                return filled, []
        sentences = [from_results(chinese, turn.outcomes)] if turn.outcomes else []
        sentences += [ask_for(chinese, call.tool.title, call.missing) for call in planned]
        if not sentences and choice == "none" and request.tools.names:
            sentences = [may_not_call(chinese)]
        elif not sentences:
            sentences = [cannot_help(chinese, [tool.title for tool in request.tools])]
        return "\n".join(sentences), []

    def _planned(self, request: ChatRequest, turn: _Turn, question: str, choice: str) -> list[PlannedCall]:
        """The calls that the text asks for and that were not made yet."""
        forced = None if choice == "auto" else "" if choice == "required" else choice
        if forced is not None and (turn.made if forced == "" else forced in turn.called):
            return []
        planner = Planner(request.tools, question, self._today, turn.last_tool)
        return [call for call in planner.calls(forced) if call.key not in turn.made]

    def _output(self, request: ChatRequest, turn: _Turn, question: str) -> str | None:
        """JSON of the output type, from the results or else from the text; None when they do not fill it."""
        output = request.output
        assert output is not None
        for outcome in turn.outcomes:
            if not outcome.is_error and _fits(request, outcome.text):
                return outcome.text
        source = "\n".join(outcome.text for outcome in turn.outcomes if not outcome.is_error) or question
        value = Filler(output.schema, Clues(source, self._today), set()).value(output.schema)
        if value is MISSING:
            return None
        text = json.dumps(value, ensure_ascii=False)
        return text if _fits(request, text) else None


def _fits(request: ChatRequest, text: str) -> bool:
    try:
        assert request.output is not None
        request.output.validate(text)
    except Exception:  # OutputError, or whatever a validator of the application raises: it does not fit
        return False
    return True


class _Turn:
    """What the conversation says: the question, and the calls and results since then."""

    def __init__(self, request: ChatRequest) -> None:
        messages = request.messages
        start = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
        self.question = messages[start].text if start >= 0 else ""
        self.made: set[str] = set()
        self.called: set[str] = set()
        self.last_tool: str | None = None
        self.outcomes: list[Outcome] = []
        for index, message in enumerate(messages):
            if isinstance(message, AssistantMessage):
                for call in message.tool_calls:
                    self.last_tool = call.name
                    if index > start:
                        self.called.add(call.name)
                        self.made.add(call_key(call.name, _parsed(call)))
            elif isinstance(message, ToolMessage) and index > start:
                tool = request.tools.get(message.name)
                title = tool.title if tool is not None else message.name
                self.outcomes.append(Outcome(title, message.text, message.is_error))


def _parsed(call: ToolCall) -> Any:
    if isinstance(call.arguments, str):
        try:
            return json.loads(call.arguments)
        except (ValueError, RecursionError):
            return call.arguments
    return call.arguments or {}
