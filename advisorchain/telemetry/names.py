"""The one table of names in traces and metrics, with the instruments that it describes. Imports no OpenTelemetry.

Spans are named as the GenAI conventions say: ``invoke_agent {client}``, ``chat {model}``, ``execute_tool {tool}``,
``retrieval {index}``, ``search_memory``, ``upsert_memory``; served tools as the MCP conventions say: ``tools/call
{tool}``. ``advisor {name}`` is ours, and so is everything that begins with ``advisorchain.``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..messages import Usage
from .guarded import Guarded

CONVENTIONS = (
    "OpenTelemetry GenAI and MCP semantic conventions, development, as of 2026-10 (opentelemetry-util-genai 1.3b0)"
)
"""Which conventions the names follow. All but ``error.type`` and ``server.*`` may change with a minor version."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
OUTPUT_TYPE = "gen_ai.output.type"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_TYPE = "gen_ai.tool.type"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
TOKEN_TYPE = "gen_ai.token.type"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
MCP_METHOD = "mcp.method.name"
RPC_STATUS = "rpc.response.status_code"
OPENINFERENCE_KIND = "openinference.span.kind"

TURN = "advisorchain.turn.id"
MODE = "advisorchain.mode"
PATH = "advisorchain.path"
ROUND = "advisorchain.round"
STOP_REASON = "advisorchain.stop_reason"
ROUNDS = "advisorchain.rounds"
MODEL_CALLS = "advisorchain.model_calls"
TOOL_CALLS = "advisorchain.tool_calls"
CANCELLED = "advisorchain.cancelled"
ADVISOR = "advisorchain.advisor.name"
ADVISOR_ORDER = "advisorchain.advisor.order"
ADVISOR_TYPE = "advisorchain.advisor.type"
ADVISOR_WRAPS = "advisorchain.advisor.wraps"
ADVISOR_OUTCOME = "advisorchain.advisor.outcome"
ADVISOR_NEXT_CALLS = "advisorchain.advisor.next_calls"
TOOL_LOOP = "advisorchain.tool_loop"
TOOL_SOURCE = "advisorchain.tool.source"
TOOL_DIRECT = "advisorchain.tool.direct"
CALL_NEXT = "advisorchain.call_next"
CALL_NEXT_NUMBER = "advisorchain.call_next.number"
CALL_NEXT_PREVIOUS = "advisorchain.call_next.previous"

INFERENCE_DETAILS = "gen_ai.client.inference.operation.details"
OPERATION_EXCEPTION = "gen_ai.client.operation.exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"

REQUEST_OPTIONS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "stop": "gen_ai.request.stop_sequences",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
"""By field of `ChatOptions`."""

_TOO_MANY = 2**63
"""No exporter takes such numbers."""
_USAGE = (
    ("input_tokens", "input_tokens"),
    ("output_tokens", "output_tokens"),
    ("cache_read_tokens", "cache_read.input_tokens"),
    ("cache_write_tokens", "cache_write.input_tokens"),
    ("reasoning_tokens", "reasoning.output_tokens"),
)


def usage_attributes(usage: Usage, prefix: str) -> dict[str, Any]:
    """Usage under ``gen_ai.usage`` (a model call) or ``gen_ai.aggregated_usage`` (a turn); what is missing is missing.

    The turn's has a name of its own: backends add up ``gen_ai.usage`` over a trace.
    """
    counts = ((name, token_count(usage, field)) for field, name in _USAGE)
    return {f"{prefix}.{name}": count for name, count in counts if count is not None}


def token_count(usage: Usage, field: str) -> int | None:
    """A field of the usage; None when the provider told none, or a number that cannot be one of tokens."""
    count = getattr(usage, field, None)
    return count if type(count) is int and 0 <= count < _TOO_MANY else None


MCP_METHODS = frozenset({
    "initialize", "ping", "server/discover", "subscriptions/listen", "tools/list", "tools/call", "prompts/list",
    "prompts/get", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
    "resources/unsubscribe", "completion/complete", "logging/setLevel", "tasks/get", "tasks/list", "tasks/cancel",
    "tasks/result", "notifications/initialized", "notifications/cancelled", "notifications/progress",
    "notifications/roots/list_changed", "notifications/tasks/status",
})  # fmt: skip
"""The methods that clients of a server have; what else they send is their invention, and may hold anything."""
OTHER = "_OTHER"
"""What the conventions call a value that is not from a known, small set."""


class Operation(NamedTuple):
    """An operation of `Context.operation`: what its target and the number of what it found are called, and its kind."""

    target: str
    found: str
    in_name: bool
    kind: str = "CHAIN"
    client: bool = False


OPERATIONS = {
    "search_memory": Operation("gen_ai.memory.store.id", "gen_ai.memory.record.count", False),
    "upsert_memory": Operation("gen_ai.memory.store.id", "gen_ai.memory.record.count", False),
    "retrieval": Operation("gen_ai.data_source.id", "advisorchain.retrieval.hits", True, "RETRIEVER"),
    "tools/list": Operation("advisorchain.mcp.server", "advisorchain.mcp.tools", False, client=True),
}
OTHER_OPERATION = Operation("advisorchain.operation.target", "advisorchain.operation.count", True)


class Note(NamedTuple):
    """A note of `Context.note` that is measured too: by which instrument, labels, and value (else it is counted)."""

    instrument: str
    by: tuple[str, ...]
    value: str | None = None


NOTES = {
    "advisorchain.retry": Note("retries", ("advisorchain.retry.what",)),
    "advisorchain.circuit_breaker": Note(
        "breaker_state", ("advisorchain.circuit_breaker.source",), "advisorchain.circuit_breaker.state"
    ),
}
BREAKER_STATES = {"closed": 0, "half_open": 1, "open": 2}
"""The values of the gauge ``advisorchain.circuit_breaker.state``."""

_SECONDS = tuple(0.01 * 2**n for n in range(14))
_TURN_SECONDS = tuple(0.1 * 2**n for n in range(13))
_MCP_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_TOKENS = tuple(4**n for n in range(14))
_CALLS = tuple(2**n for n in range(8))


class Instruments:
    """Every instrument, made of a meter (duck-typed, so that this file needs no OpenTelemetry)."""

    def __init__(self, meter: Any) -> None:
        def histogram(name: str, unit: str, buckets: tuple[float, ...], about: str) -> Any:
            return Guarded(
                meter.create_histogram(name, unit=unit, description=about, explicit_bucket_boundaries_advisory=buckets)
            )

        self.model = histogram("gen_ai.client.operation.duration", "s", _SECONDS, "Time of a model call.")
        self.first_chunk = histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            _SECONDS,
            "Time to the first chunk of a streamed answer.",
        )
        self.per_chunk = histogram(
            "gen_ai.client.operation.time_per_output_chunk", "s", _SECONDS, "Time between two chunks."
        )
        self.tokens = histogram("gen_ai.client.token.usage", "{token}", _TOKENS, "Tokens of a model call.")
        self.tool = histogram("gen_ai.execute_tool.duration", "s", _SECONDS, "Time of a tool call.")
        self.turn = histogram("gen_ai.invoke_agent.duration", "s", _TURN_SECONDS, "Time of a turn.")
        self.turn_model_calls = histogram(
            "gen_ai.invoke_agent.inference_calls", "{inference_call}", _CALLS, "Model calls of a turn."
        )
        self.turn_tool_calls = histogram(
            "gen_ai.invoke_agent.tool_calls", "{tool_call}", _CALLS, "Tool calls of a turn."
        )
        self.mcp_client = histogram(
            "mcp.client.operation.duration", "s", _MCP_SECONDS, "Time of a call to an MCP server."
        )
        self.mcp_server = histogram("mcp.server.operation.duration", "s", _MCP_SECONDS, "Time of a served MCP request.")
        self.hits = histogram("advisorchain.retrieval.hits", "{hit}", _CALLS, "What a retrieval found.")
        self.short_circuits = Guarded(
            meter.create_counter(
                "advisorchain.advisor.short_circuits", "{pass}", "Passes in which an advisor answered itself."
            )
        )
        self.retries = Guarded(meter.create_counter("advisorchain.retries", "{attempt}", "Attempts after the first."))
        self.breaker_state = Guarded(
            meter.create_gauge("advisorchain.circuit_breaker.state", "1", "0 closed, 1 half open, 2 open.")
        )
