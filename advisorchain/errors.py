"""Every error that advisorchain raises, as one tree::

    AdvisorChainError
    ├── ConfigurationError        a client, chain, tool or option is set up wrongly
    │   ├── TranscriptError       the caller's messages are no valid conversation
    │   └── PluginError           a plugin is missing, ambiguous or fails to load
    ├── ModelError                a model call failed (transient, retry_after, status)
    ├── OutputError               an answer does not fit the output type
    ├── ToolError                 raised *by tools*: its text reaches the model verbatim
    │   ├── UnknownToolError      the model called a tool that this request does not offer
    │   ├── ToolArgumentsError    the model's arguments are malformed or invalid
    │   ├── ToolTimeoutError      the tool did not return within its timeout
    │   └── ToolPermissionError   the caller may not do what the tool was asked to do
    ├── CircuitOpenError          a source failed too often and is left alone for a while
    ├── ToolLoopLimitError        a limit of the tool loop, with ``on_limit="raise"``
    ├── TurnAbortedError          raised by an advisor or a tool to end the turn at once
    ├── BudgetExceededError       a budget is spent; raised before the next model call
    ├── McpError                  an MCP server failed, or does not keep to the protocol
    │   └── McpConnectionError    it could not be reached: nothing was sent
    ├── RateLimitError            a rate limit is reached and the wait is too long
    ├── AuditError                a record could not be written, and the audit is required; or a file cannot be checked
    ├── MemoryStoreError          a memory store failed to load or to append
    └── SharedStateError          state that processes share failed; all advisors but budgets go on without it

The same types are raised under ``call`` and ``stream``, never wrapped in an ``ExceptionGroup``.
"""

from __future__ import annotations

from typing import ClassVar


class AdvisorChainError(Exception):
    """Root of every error of this package."""

    ends_turn: ClassVar[bool] = False
    """True: raised inside a tool call it ends the turn. False: there it becomes an error result for the model."""


class ConfigurationError(AdvisorChainError):
    """Something is set up wrongly. The text says what, where, and what to do about it."""

    ends_turn = True


class TranscriptError(ConfigurationError):
    """The caller's messages are not a valid conversation, for example a tool call without its result."""


class PluginError(ConfigurationError):
    """A plugin is missing, ambiguous, or failed to load; names the distribution."""


class ModelError(AdvisorChainError):
    """A model call failed.

    Args:
        message: what happened, without secrets; may be shown to a user.
        transient: the same call may succeed later (rate limit, overload, connection).
        retry_after: seconds to wait before the next attempt, when the provider said so.
        status: the HTTP status, when there was one.
        provider: the provider's name, for example ``"openai"``.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after
        self.status = status
        self.provider = provider


class OutputError(AdvisorChainError):
    """The model's answer does not fit the requested output type.

    Args:
        message: what does not fit, field by field.
        text: the answer as the model gave it.
    """

    def __init__(self, message: str, *, text: str) -> None:
        super().__init__(message)
        self.text = text


class ToolError(AdvisorChainError):
    """Raise it in a tool to tell the model what went wrong: the text reaches the model verbatim.

    Any other exception reaches the model only as its type and a neutral sentence.
    """


class UnknownToolError(ToolError):
    """The model called a tool that its request did not offer."""


class ToolArgumentsError(ToolError):
    """The arguments of a tool call are malformed JSON or do not fit the tool's schema."""


class ToolTimeoutError(ToolError):
    """A tool did not return within its timeout (seconds)."""


class ToolPermissionError(ToolError):
    """Raise it in a tool when the user may not do this; never retried.

    Args:
        action: what was denied, in words, for example ``"approve TR002"``; or None.
    """

    def __init__(self, action: str | None = None) -> None:
        super().__init__("Permission denied." if action is None else f"Permission denied: {action}.")
        self.action = action


class CircuitOpenError(AdvisorChainError):
    """A call was not made: its source failed too often. Transient, but not worth a retry before ``retry_after``.

    Args:
        source: a server, a tool or a model.
        retry_after: seconds until the source is tried again; None when it is being tried right now.
    """

    def __init__(self, source: str, retry_after: float | None = None) -> None:
        when = "it is being tried again now" if retry_after is None else f"next try in {retry_after:.0f} s"
        super().__init__(f"{source} failed too often and is left alone for a while ({when}).")
        self.source = source
        self.retry_after = retry_after


class ToolLoopLimitError(AdvisorChainError):
    """The tool loop reached a limit whose outcome is ``"raise"``.

    Args:
        limit: ``"rounds"``, ``"calls"``, ``"calls_per_tool"``, ``"repeats"``, ``"seconds"`` or ``"tokens"``.
        allowed: the limit's value.
        message: the sentence that describes it.
    """

    def __init__(self, limit: str, allowed: float, message: str) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed


class TurnAbortedError(AdvisorChainError):
    """Raise it in an advisor or a tool to end the turn with this error.

    It is never turned into a tool result: a guard that must stop the turn raises this (or a subclass).
    """

    ends_turn = True


class MemoryStoreError(AdvisorChainError):
    """A memory store could not load or append; nothing of the turn was stored."""


class BudgetExceededError(AdvisorChainError):
    """A budget is spent: raised before the model call that would spend more. Ends the turn, in a sub-agent too.

    Args:
        message: the sentence that describes it.
        limit: ``"tokens"``, ``"cost"``, ``"seconds"``, ``"calls"``, or ``"price"`` for a model without a price.
        allowed: the budget.
        spent: what was spent already.
    """

    ends_turn = True

    def __init__(self, message: str, *, limit: str, allowed: float, spent: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed
        self.spent = spent


class RateLimitError(AdvisorChainError):
    """A rate limit is reached: nothing was called. The same call may succeed later.

    Args:
        message: the sentence that describes it.
        retry_after: seconds until there is room again.
    """

    transient = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class McpError(AdvisorChainError):
    """An MCP server failed, or does not keep to the protocol.

    Args:
        server: its name.
        reason: what happened, without secrets and without the server's own words; may be shown to a user.
        transient: the same call may succeed later.
        code: the JSON-RPC code of the server's answer, if there was one.
        status: the HTTP status of the server's answer, if it was an error.
        detail: what the server itself said, for the log.
    """

    def __init__(
        self,
        server: str,
        reason: str,
        *,
        transient: bool = False,
        code: int | None = None,
        status: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(f"MCP server {server!r}: {reason}")
        self.server = server
        self.reason = reason
        self.transient = transient
        self.code = code
        self.status = status
        self.detail = detail


class McpConnectionError(McpError):
    """An MCP server could not be reached; nothing was sent to it."""


class SharedStateError(AdvisorChainError):
    """A `SharedState` could not load or save a value: no connection, no answer, a value that is damaged.

    Breakers and rate limits go on without it for a while, so of theirs it reaches only those who use it themselves.
    A `BudgetAdvisor` whose state fails refuses the call with it.
    """


class AuditError(AdvisorChainError):
    """A record could not be written although the audit is required, or an audit file cannot be read or checked."""

    ends_turn = True
