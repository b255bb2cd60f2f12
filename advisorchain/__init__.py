"""advisorchain: every LLM request goes through an ordered chain of advisors; the tool loop is one of them."""

from __future__ import annotations

from .advisor import Advisor
from .chain import AdvisorChain
from .client import ChatClient
from .context import Context, ContextKey, Ledger, Turn, TurnEnd
from .errors import (
    AdvisorChainError,
    ConfigurationError,
    MemoryStoreError,
    ModelError,
    OutputError,
    PluginError,
    ToolArgumentsError,
    ToolError,
    ToolLoopLimitError,
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
from .exchange import ChatNext, ChatRequest, ChatResponse, Emit, StopReason, Tap, ToolNext, ToolSet
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
from .tools import Tool, ToolContext, ToolProvider, ToolRegistry, tool

__version__ = "0.1.0"

__all__ = [
    "Advisor",
    "AdvisorChain",
    "AdvisorChainError",
    "AssistantMessage",
    "AudioPart",
    "ChatClient",
    "ChatModel",
    "ChatNext",
    "ChatOptions",
    "ChatRequest",
    "ChatResponse",
    "ChatStream",
    "ConfigurationError",
    "Context",
    "ContextKey",
    "Emit",
    "Event",
    "FilePart",
    "Finished",
    "FunctionAdvisor",
    "ImagePart",
    "Ledger",
    "MemoryStoreError",
    "Message",
    "ModelError",
    "Order",
    "OutputError",
    "Part",
    "PartDelta",
    "PluginError",
    "ProviderPart",
    "ReasoningDelta",
    "ReasoningPart",
    "Restarted",
    "RoundFinished",
    "RoundStarted",
    "Runtime",
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
    "chat_advisor",
    "dump_messages",
    "load_messages",
    "tool",
    "tool_advisor",
]
