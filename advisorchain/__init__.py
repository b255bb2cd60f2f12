"""advisorchain: every LLM request goes through an ordered chain of advisors; the tool loop is one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .advisor import Advisor
from .chain import AdvisorChain
from .client import ChatClient
from .context import Context, ContextKey, Ledger, Turn
from .errors import (
    AdvisorChainError,
    AuditError,
    BudgetExceededError,
    CircuitOpenError,
    ConfigurationError,
    McpConnectionError,
    McpError,
    MemoryStoreError,
    ModelError,
    OutputError,
    PluginError,
    RateLimitError,
    SharedStateError,
    ToolArgumentsError,
    ToolError,
    ToolLoopLimitError,
    ToolPermissionError,
    ToolTimeoutError,
    TranscriptError,
    TurnAbortedError,
    UnknownToolError,
)
from .events import (
    Event,
    Finished,
    PartDelta,
    ReasoningDelta,
    Restarted,
    RoundFinished,
    RoundStarted,
    TextDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from .exchange import ChatNext, ChatRequest, ChatResponse, Emit, StopReason, Tap, ToolNext
from .failures import FailureTable, classify, register_failure
from .function_advisor import FunctionAdvisor, chat_advisor, tool_advisor
from .invocation import ToolInvocation, ToolResult
from .messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownMessage,
    UnknownPart,
    Usage,
    UserMessage,
    dump_messages,
    load_messages,
)
from .models import ChatModel
from .options import ChatOptions
from .order import Order
from .prompt import Transcript
from .runtime import Runtime
from .stream import ChatStream
from .tool_execution import ToolExecution
from .tool_set import ToolSet
from .tools import Tool, ToolContext, ToolProvider, ToolRegistry, tool
from .turn_end import TurnEnd
from .version import __version__

if _TYPE_CHECKING:
    from .tools.augment import AugmentedCall, augment

__all__ = [
    "Advisor",
    "AdvisorChain",
    "AdvisorChainError",
    "AssistantMessage",
    "AudioPart",
    "AuditError",
    "AugmentedCall",
    "BudgetExceededError",
    "ChatClient",
    "ChatModel",
    "ChatNext",
    "ChatOptions",
    "ChatRequest",
    "ChatResponse",
    "ChatStream",
    "CircuitOpenError",
    "ConfigurationError",
    "Context",
    "ContextKey",
    "Emit",
    "Event",
    "FailureTable",
    "FilePart",
    "Finished",
    "FunctionAdvisor",
    "ImagePart",
    "Ledger",
    "McpConnectionError",
    "McpError",
    "MemoryStoreError",
    "Message",
    "ModelError",
    "Order",
    "OutputError",
    "Part",
    "PartDelta",
    "PluginError",
    "ProviderPart",
    "RateLimitError",
    "ReasoningDelta",
    "ReasoningPart",
    "Restarted",
    "RoundFinished",
    "RoundStarted",
    "Runtime",
    "SharedStateError",
    "StopReason",
    "SystemMessage",
    "Tap",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolError",
    "ToolExecution",
    "ToolFinished",
    "ToolInvocation",
    "ToolLoopLimitError",
    "ToolMessage",
    "ToolNext",
    "ToolPermissionError",
    "ToolProgress",
    "ToolProvider",
    "ToolRegistry",
    "ToolResult",
    "ToolSet",
    "ToolStarted",
    "ToolTimeoutError",
    "Transcript",
    "TranscriptError",
    "Turn",
    "TurnAbortedError",
    "TurnEnd",
    "UnknownMessage",
    "UnknownPart",
    "UnknownToolError",
    "Usage",
    "UserMessage",
    "__version__",
    "augment",
    "chat_advisor",
    "classify",
    "dump_messages",
    "load_messages",
    "register_failure",
    "tool",
    "tool_advisor",
]

_LATE = ("AugmentedCall", "augment")  # imported when they are asked for, which few programs do


def __getattr__(name: str) -> object:
    if name in _LATE:
        from .tools import augment as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
