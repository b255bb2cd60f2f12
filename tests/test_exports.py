"""The public names: those that programs rely on are there, and nothing is public by accident."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest

import advisorchain

RELIED_ON = {
    "advisorchain": """
        ChatClient ChatModel ChatRequest ChatResponse ChatOptions Advisor chat_advisor tool_advisor Order
        tool Tool ToolProvider ToolCall ToolResult ToolError ToolInvocation ToolContext augment
        SystemMessage UserMessage AssistantMessage ToolMessage Usage ContextKey
        RoundStarted TextDelta ToolStarted ToolFinished RoundFinished Restarted Finished
        AdvisorChainError ConfigurationError ModelError OutputError ToolLoopLimitError MemoryStoreError PluginError
    """,
    "advisorchain.advisors": """
        AugmentationAdvisor CircuitBreakerAdvisor FALLBACK_LANGUAGE FallbackTexts MemoryAdvisor ModelFallbackAdvisor
        RetryAdvisor RetryPolicy ReturnDirectAdvisor ToolCallingAdvisor ToolFallbackAdvisor
        ToolFilterAdvisor ToolSearchAdvisor
    """,
    "advisorchain.mcp": """
        Elicitation InMemoryPins ListedTool McpCaller McpServer McpTools MCP_CALLER MCP_META Pin PinFile PinStore
        Pinning Question RemoteTool Sampling ServerStatus ToolFilter ToolMatch TRACE_CONTEXT
        mcp_app mcp_server serve_tools
    """,
    "advisorchain.config": "ConfigFile ConfiguredClient json_schema",
    "advisorchain.models": "ChatModel KeywordModel check_calls_allowed",
    "advisorchain.telemetry": "Telemetry CONVENTIONS",
    "advisorchain.memory": "InMemoryStore SqliteStore MemoryStore LastTurns LastMessages TokenWindow",
    "advisorchain.tool_index": """
        ToolIndex ToolHit ToolPredicate Bm25Index RegexIndex HybridIndex best_hits check_search fields_of split_words
    """,
    "advisorchain.testing": """
        RecordingModel ReplayModel ScriptedModel allow_model_calls check_advisor check_audit_sink check_memory_store
        check_model check_shared_state check_tool_index forbid_model_calls
    """,
}
"""Names that tests and programs elsewhere import; none of them may go."""

ALSO_PUBLIC = """
    AdvisorChain AudioPart AuditError AugmentedCall BudgetExceededError ChatNext ChatStream Context Emit Event FilePart
    FunctionAdvisor ImagePart Ledger McpConnectionError McpError
    Message Part PartDelta ProviderPart RateLimitError ReasoningDelta ReasoningPart Runtime SharedStateError
    StopReason Tap TextPart
    CircuitOpenError FailureTable ToolArgumentsError ToolCallDelta ToolExecution ToolNext ToolPermissionError
    ToolProgress ToolRegistry ToolSet ToolTimeoutError
    Transcript TranscriptError Turn TurnAbortedError TurnEnd UnknownMessage UnknownPart UnknownToolError
    classify dump_messages load_messages register_failure
"""


def public_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in RELIED_ON.items() for name in names.split()]
)
def test_a_name_that_programs_rely_on(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is not None


def test_nothing_else_is_public_by_accident() -> None:
    late = {"AugmentedCall", "augment"}  # imported when they are asked for
    expected = set(RELIED_ON["advisorchain"].split()) | set(ALSO_PUBLIC.split())
    assert public_names(advisorchain) | late == expected
    assert late <= set(advisorchain.__all__)


def test_a_star_import_gives_the_public_names() -> None:
    namespace: dict[str, Any] = {}
    exec("from advisorchain import *", namespace)
    assert set(RELIED_ON["advisorchain"].split()) <= namespace.keys()


def test_every_public_name_is_documented() -> None:
    undocumented = []
    for module in map(import_module, RELIED_ON):
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                doc = inspect.getdoc(value) or ""
                if not doc.strip() or doc.startswith(f"{name}("):  # what dataclasses make up
                    undocumented.append(f"{module.__name__}.{name}")
    assert undocumented == []


def test_errors_have_one_root() -> None:
    errors = [
        value for value in vars(advisorchain).values() if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(errors) >= 13
    assert [error.__name__ for error in errors if not issubclass(error, advisorchain.AdvisorChainError)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    assert advisorchain.__version__ == version("advisorchain")


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in map(import_module, RELIED_ON):
        with pytest.raises(AttributeError, match="nonsense"):
            module.nonsense  # noqa: B018
