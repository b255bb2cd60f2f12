"""advisorchain: every LLM request goes through an ordered chain of advisors; the tool loop is one of them."""

from __future__ import annotations

from .advisor import Advisor, FunctionAdvisor, chat_advisor, tool_advisor
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
from .runtime import Runtime
from .stream import ChatStream
from .tool_execution import ToolExecution, Transcript
from .tools import Tool, ToolContext, ToolProvider, ToolRegistry, tool

__version__ = "0.1.0"
