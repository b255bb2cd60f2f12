"""Tool fallback: what retry could not repair becomes a text that the model, and then the user, can work with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import CoroutineType
from typing import Any

from ..advisor import Advisor
from ..async_callable import passes_on
from ..context import Context, ContextKey, Turn
from ..disguise import Disguises, Matcher
from ..errors import AdvisorChainError, ConfigurationError, ToolError, ToolPermissionError, ToolTimeoutError
from ..exchange import ChatNext, ChatRequest, ChatResponse, ToolNext
from ..failures import ATTEMPTS, DEFAULT_FAILURES, FailureClass, FailureTable, tells_nothing, tool_failure
from ..invocation import ToolInvocation, ToolResult
from ..order import Order
from ..setting_checks import check_function, check_mapping, check_template

logger = logging.getLogger("advisorchain")

KINDS = {"transient": "degraded", "permission": "denied", "permanent": "failed"}

FALLBACK_LANGUAGE = ContextKey[str]("advisorchain.fallback.language")
"""The language of one call: ``client.call(..., context={FALLBACK_LANGUAGE: "zh"})``."""
_TITLE = "unavailable"
"""In a result's metadata: the tool's title, when the tool was unavailable."""
_UNAVAILABLE = ContextKey[tuple[Turn, dict[str, str]]]("advisorchain.fallback.unavailable")


@dataclass(frozen=True, slots=True)
class FallbackTexts:
    """The sentences of one language; each is a template.

    Args:
        degraded: for a transient failure; knows ``{title}`` and ``{contact}``.
        denied: for missing permission; knows ``{title}``, ``{action}`` and ``{contact}``.
        failed: for a permanent failure; knows ``{title}``, ``{reason}`` and ``{contact}``.
        action: stands for ``{action}`` when the tool named one; knows ``{action}``.
        contact: stands for ``{contact}`` when there is one; knows ``{contact}``.
        guidance: added to the system message while something is unavailable; knows ``{titles}`` and ``{contact}``.
        separator: between titles.
    """

    degraded: str
    denied: str
    failed: str
    action: str
    contact: str
    guidance: str
    separator: str = ", "


TEXTS: Mapping[str, FallbackTexts] = {
    "en": FallbackTexts(
        degraded='"{title}" is temporarily unavailable and gave no result. Do not call it again now.{contact}',
        denied='"{title}" was denied: the user does not have the permission{action}. Do not try again.{contact}',
        failed='"{title}" failed and gave no result ({reason}). The same call will fail again.{contact}',
        action=" to {action}",
        contact=" Contact: {contact}.",
        guidance=(
            "Some tools gave no result: {titles}. Do not give up the whole task: do what can be done without them, say "
            "what was found, and say clearly what is missing and why. Never make up what is missing.{contact}"
        ),
    ),
    "zh": FallbackTexts(
        degraded="“{title}”暂时不可用，未返回结果。请暂不要再次调用。{contact}",
        denied="“{title}”被拒绝：用户没有{action}权限。请不要重试。{contact}",
        failed="“{title}”执行失败，未返回结果（{reason}）。相同的调用还会失败。{contact}",
        action="“{action}”的",
        contact="如需帮助，请联系：{contact}。",
        guidance=(
            "以下工具未返回结果：{titles}。不要放弃整个任务：请完成不依赖这些工具的部分，说明已查到的内容，"
            "并明确指出缺少什么以及原因。不要编造缺失的内容。{contact}"
        ),
        separator="、",
    ),
}
"""The texts that ship, by language."""


class _Alert:
    """Whether a tool has ever failed, at any advisor: a cache may hand the failure of one client to another."""

    raised = False


class ToolFallbackAdvisor(Advisor):
    """Turns a failed tool call into an error result in plain words, by the class of its failure (see `classify`).

    Transient: *degraded*. Permission: *denied*. Permanent: *failed*, with the exception's type as the reason; its
    message, which may hold secrets, goes to the log only. A `ToolError`'s own text is kept. It never tries again:
    put a `RetryAdvisor` beside it for that. ``ToolResult.failure`` says what happened: class, kind, exception, attempts
    and source.

    While a tool is unavailable in a turn, the system message asks the model for a partial answer; the request is gone
    once the tool has answered again.

    Args:
        language: of the texts, ``"en"`` or ``"zh"`` or one of ``templates``; `FALLBACK_LANGUAGE` for one call.
        contact: where a user can turn to, for example ``"travel-desk@example.com"``; added to every text.
        templates: by language: `FallbackTexts`, or a mapping with some of its fields.
        matchers: by source (``"local"``, or a server's name): which result texts are failures in disguise; None for
            none. Default: `mcp_disguise` for every source.
        guidance: False: nothing is added to the system message.
        reason: ``reason(error) -> str`` for ``{reason}``; default: the exception's type.
        failures: the table that classifies exceptions.

    Raises:
        ConfigurationError: the language is unknown, or a template has a placeholder that nothing fills.
    """

    order: int = Order.FALLBACK

    def __init__(
        self,
        *,
        language: str = "en",
        contact: str | None = None,
        templates: Mapping[str, FallbackTexts | Mapping[str, str]] | None = None,
        matchers: Mapping[str, Matcher | None] | None = None,
        guidance: bool = True,
        reason: Callable[[BaseException], str] | None = None,
        failures: FailureTable = DEFAULT_FAILURES,
        order: int = Order.FALLBACK,
        name: str | None = None,
    ) -> None:
        check_mapping("templates", templates, "{'en': {'degraded': '{title} is resting.'}}")
        check_function("reason", reason, "an exception")
        if contact is not None and not isinstance(contact, str):
            raise ConfigurationError(f"contact must be a text, not {contact!r}.")
        if not isinstance(failures, FailureTable):
            raise ConfigurationError(f"failures must be a FailureTable, not {failures!r}.")
        self.texts = _texts(templates or {})
        if not isinstance(language, str) or language not in self.texts:
            raise ConfigurationError(
                f"ToolFallbackAdvisor: there are no texts in {language!r}; known are {', '.join(self.texts)}, "
                "more with templates={language: FallbackTexts(...)}."
            )
        self.language = language
        self.contact = contact
        self.guidance = guidance
        self.failures = failures
        self.order = order
        if name is not None:
            self.name = name
        self._disguises = Disguises(matchers)
        self._first = self._disguises.first
        self._reason = reason or _type_name

    @passes_on
    def advise(self, request: ChatRequest, call_next: ChatNext) -> CoroutineType[Any, Any, ChatResponse[Any]]:
        """Ask the model for a partial answer while something is unavailable."""
        if _Alert.raised:  # else no tool has ever failed, which spares the look into results and context
            for result in request.tool_results:
                metadata = result.metadata
                if metadata is not None and _TITLE in metadata and metadata.get("cache") == "hit":
                    self._note(request.context, result.name, metadata[_TITLE])  # it failed in another turn: for both
            noted = request.context.get(_UNAVAILABLE)
            if noted is not None and noted[1] and self.guidance and noted[0] is request.context.turn:
                texts = self._texts_for(request.context)
                # Sorted: calls that ran at once failed in any order, and the same turn must say the same to the model.
                titles = texts.separator.join(title for _, title in sorted(noted[1].items()))
                text = texts.guidance.format(titles=titles, contact=self._contact(texts))
                request = request.with_instruction(text)
        return call_next(request)  # type: ignore[return-value]  # an awaitable is enough

    async def advise_tool(self, invocation: ToolInvocation, call_next: ToolNext) -> ToolResult:
        """Run the call; put a failure into words."""
        try:
            result = await call_next(invocation)
        except BaseException as exc:
            error = tool_failure(exc)
            if error is None or (isinstance(error, AdvisorChainError) and error.ends_turn):
                raise
            return self._failed(invocation, error)
        if (result.content or " ")[0] in self._first:
            kind = self._disguises.failure(invocation, result)
            if kind is not None:
                return self._translated(invocation, kind, "ResultText", result=result)
        if _Alert.raised and result.failure is None:
            self._answered(invocation)
        return result

    def _answered(self, invocation: ToolInvocation) -> None:
        """Note that the tool is available, whatever its answer was."""
        context = invocation.request.context
        noted = context.get(_UNAVAILABLE)
        if noted is not None and noted[0] is context.turn:
            noted[1].pop(invocation.tool.name, None)

    def _failed(self, invocation: ToolInvocation, error: BaseException) -> ToolResult:
        kind = self.failures.classify(error)
        name = type(error).__name__
        if isinstance(error, ToolError) and not isinstance(error, ToolTimeoutError | ToolPermissionError):
            if not tells_nothing(error):
                self._answered(invocation)
            text = str(error) or f"The tool {invocation.tool.name!r} failed."
            return ToolResult.error(text, failure=self._record(invocation, kind, name))
        said_no = isinstance(error, ToolPermissionError)  # on purpose: where it was raised says nothing new
        logger.warning(
            "Tool %r failed (%s)%s", invocation.tool.name, kind, f": {error}" if said_no else "",
            exc_info=None if said_no else error,
        )  # fmt: skip
        return self._translated(invocation, kind, name, error=error)

    def _translated(
        self,
        invocation: ToolInvocation,
        kind: FailureClass,
        exception: str,
        *,
        error: BaseException | None = None,
        result: ToolResult | None = None,
    ) -> ToolResult:
        context = invocation.request.context
        # A breaker that left a tool out of the request refuses a call of it in the place of an unknown tool.
        tool = invocation.request.tools.get(invocation.tool.name) or invocation.tool
        texts = self._texts_for(context)
        title = tool.label or tool.name
        contact = self._contact(texts)
        if kind == "transient":
            text = texts.degraded.format(title=title, contact=contact)
        elif kind == "permission":
            denied = getattr(error, "action", None) if isinstance(error, ToolPermissionError) else None
            action = texts.action.format(action=denied) if denied else ""
            text = texts.denied.format(title=title, action=action, contact=contact)
        else:
            reason = self._reason(error) if error is not None else exception
            text = texts.failed.format(title=title, reason=reason, contact=contact)
        self._note(context, tool.name, title)
        if result is not None:
            logger.warning("Tool %r gave a failure as its result: %s", tool.name, result.content[:200])
        metadata = {**((result.metadata if result is not None else None) or {}), _TITLE: title}
        record = self._record(invocation, kind, exception)
        return ToolResult(text, is_error=True, failure=record, metadata=metadata)

    def _note(self, context: Context, name: str, title: str) -> None:
        """Note that a tool is unavailable."""
        noted = context.get(_UNAVAILABLE)
        if noted is None or noted[0] is not context.turn:
            context[_UNAVAILABLE] = noted = (context.turn, {})
        noted[1][name] = title
        _Alert.raised = True

    def _record(self, invocation: ToolInvocation, kind: FailureClass, exception: str) -> dict[str, Any]:
        context = invocation.request.context
        attempts = (context.get(ATTEMPTS) or {}).get((context.turn.id, invocation.call.id), 1)
        return {
            "class": kind,
            "kind": KINDS[kind],
            "exception": exception,
            "attempts": attempts,
            "source": (invocation.request.tools.get(invocation.tool.name) or invocation.tool).source,
        }

    def _texts_for(self, context: Context) -> FallbackTexts:
        return self.texts.get(context.get(FALLBACK_LANGUAGE, self.language)) or self.texts[self.language]

    def _contact(self, texts: FallbackTexts) -> str:
        return texts.contact.format(contact=self.contact) if self.contact else ""


def _type_name(error: BaseException) -> str:
    return type(error).__name__


_PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {
    "degraded": ("title", "contact"),
    "denied": ("title", "action", "contact"),
    "failed": ("title", "reason", "contact"),
    "action": ("action",),
    "contact": ("contact",),
    "guidance": ("titles", "contact"),
    "separator": (),
}


def _texts(templates: Mapping[str, FallbackTexts | Mapping[str, str]]) -> dict[str, FallbackTexts]:
    """The texts that ship and the caller's over them, checked."""
    found = dict(TEXTS)
    names = {field.name for field in fields(FallbackTexts)}
    for language, given in templates.items():
        if not isinstance(given, FallbackTexts):
            if not isinstance(given, Mapping) or given.keys() - names:
                raise ConfigurationError(
                    f"templates[{language!r}] must be FallbackTexts or a mapping of {', '.join(sorted(names))}."
                )
            given = replace(found.get(language, TEXTS["en"]), **given)
        for name, known in _PLACEHOLDERS.items():
            check_template(f"templates[{language!r}]: {name}", getattr(given, name), *known)
        found[language] = given
    return found
