"""Turns of every kind: how each is set up, anew for every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import anyio

from advisorchain import (
    AssistantMessage,
    ChatClient,
    ChatRequest,
    ChatResponse,
    ModelError,
    ToolCall,
    ToolError,
    Usage,
    chat_advisor,
    tool,
)
from advisorchain.advisors import (
    AuditAdvisor,
    BudgetAdvisor,
    CircuitBreakerAdvisor,
    MemoryAdvisor,
    ModelFallbackAdvisor,
    RetryAdvisor,
    ToolCacheAdvisor,
    ToolFallbackAdvisor,
    ToolSearchAdvisor,
)
from advisorchain.audit import LoggingSink
from advisorchain.memory import InMemoryStore
from advisorchain.order import Order
from advisorchain.telemetry import Telemetry
from advisorchain.testing import ScriptedModel

USAGE = Usage(input_tokens=10, output_tokens=3)


class Scenario(NamedTuple):
    """A client, and how it is asked; ``error`` is what its turn must end with."""

    client: ChatClient
    settings: dict[str, Any]
    error: type[BaseException] | None = None
    ordered: bool = True
    timeout: float | None = None


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(return_direct=True)
async def status(id: str) -> str:
    """The status."""
    return f"{id} is approved."


@tool
async def broken() -> str:
    """It fails."""
    raise ToolError("The scanner is down.")


@tool
async def slow() -> str:
    """It takes for ever."""
    await anyio.sleep(60)
    return "late"


def _flaky(failures: int) -> Any:
    left = failures

    @tool(idempotent=True)
    async def flaky() -> str:
        """It fails now and then."""
        nonlocal left
        if left:
            left -= 1
            raise ConnectionError("reset by peer")
        return "fine"

    return flaky


ADD = [ToolCall("add", {"a": 1, "b": 2})]


def _client(steps: list[Any], telemetry: Telemetry, **settings: Any) -> ChatClient:
    return ChatClient(ScriptedModel(steps, usage=USAGE), telemetry=telemetry, **settings)


def direct(telemetry: Telemetry) -> Scenario:
    return Scenario(_client(["Hello."], telemetry), {})


def with_tools(telemetry: Telemetry) -> Scenario:
    return Scenario(_client([ADD, ADD, "3"], telemetry, tools=[add]), {})


def parallel_tools(telemetry: Telemetry) -> Scenario:
    calls = [ToolCall("add", {"a": n, "b": 1}) for n in range(4)]
    return Scenario(_client([calls, "done"], telemetry, tools=[add]), {}, ordered=False)


def return_direct(telemetry: Telemetry) -> Scenario:
    return Scenario(_client([[ToolCall("status", {"id": "T1"})]], telemetry, tools=[status]), {})


def short_circuit(telemetry: Telemetry) -> Scenario:
    @chat_advisor(order=300, name="canned")
    async def canned(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        return ChatResponse(AssistantMessage(content="From the cache."))

    return Scenario(_client([], telemetry, advisors=[canned]), {})


def cached_tool(telemetry: Telemetry) -> Scenario:
    reading = add.replace(read_only=True, idempotent=True)
    return Scenario(_client([ADD, ADD, "3"], telemetry, tools=[reading], advisors=[ToolCacheAdvisor(ttl=60)]), {})


async def _at_once(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


def retried_model(telemetry: Telemetry) -> Scenario:
    steps = [ModelError("overloaded", transient=True), ModelError("overloaded", transient=True, status=529), "Hello."]
    return Scenario(_client(steps, telemetry, advisors=[RetryAdvisor(sleep=_at_once)]), {})


def retried_tool(telemetry: Telemetry) -> Scenario:
    calls = [[ToolCall("flaky", {})], "fine"]
    return Scenario(_client(calls, telemetry, tools=[_flaky(1)], advisors=[RetryAdvisor(sleep=_at_once)]), {})


def fallback_tool(telemetry: Telemetry) -> Scenario:
    advisors = [ToolFallbackAdvisor(), RetryAdvisor(sleep=_at_once), CircuitBreakerAdvisor(failures=1)]
    return Scenario(_client([[ToolCall("flaky", {})], "no"], telemetry, tools=[_flaky(9)], advisors=advisors), {})


def fallback_model(telemetry: Telemetry) -> Scenario:
    other = ScriptedModel(["From the other."], name="other", usage=USAGE)
    steps = [ModelError("down", transient=True)]
    return Scenario(_client(steps, telemetry, advisors=[ModelFallbackAdvisor([other])]), {})


def limit(telemetry: Telemetry) -> Scenario:
    from advisorchain.advisors import ToolCallingAdvisor

    loop = ToolCallingAdvisor(max_rounds=1)
    return Scenario(_client([ADD, ADD, "enough"], telemetry, tools=[add], advisors=[loop]), {})


def error_in_tool(telemetry: Telemetry) -> Scenario:
    return Scenario(_client([[ToolCall("broken", {})], "sorry"], telemetry, tools=[broken]), {})


def unknown_tool(telemetry: Telemetry) -> Scenario:
    return Scenario(_client([[ToolCall("invented", {})], "sorry"], telemetry, tools=[add]), {})


def error_in_advisor(telemetry: Telemetry) -> Scenario:
    @chat_advisor(order=600, name="faulty")
    async def faulty(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        await call_next(request)
        raise LookupError("the advisor's secret")

    return Scenario(_client(["Hello."], telemetry, advisors=[faulty]), {}, error=LookupError)


def error_in_model(telemetry: Telemetry) -> Scenario:
    return Scenario(_client([ModelError("no", status=401)], telemetry), {}, error=ModelError)


def budget_spent(telemetry: Telemetry) -> Scenario:
    from advisorchain import BudgetExceededError

    client = _client([ADD, "3"], telemetry, tools=[add], advisors=[BudgetAdvisor(max_calls=1)])
    return Scenario(client, {}, error=BudgetExceededError)


def cancelled(telemetry: Telemetry) -> Scenario:
    client = _client([[ToolCall("slow", {})], "late"], telemetry, tools=[slow], advisors=[RetryAdvisor()])
    return Scenario(client, {}, error=TimeoutError, timeout=0.05)


def search(telemetry: Telemetry) -> Scenario:
    tools = [add, *(status.replace(name=f"status_{n}", return_direct=False) for n in range(30))]
    steps = [[ToolCall("tool_search", {"query": "add two numbers"})], ADD, "3"]
    return Scenario(_client(steps, telemetry, tools=tools, advisors=[ToolSearchAdvisor()]), {})


def memory_inside(telemetry: Telemetry) -> Scenario:
    memory = MemoryAdvisor(InMemoryStore(), order=Order.MEMORY_INSIDE)
    client = _client([ADD, "3"], telemetry, tools=[add], advisors=[memory, AuditAdvisor(LoggingSink())])
    return Scenario(client, {"conversation_id": "c1"})


def nested(telemetry: Telemetry) -> Scenario:
    inner = ChatClient(ScriptedModel([ADD, "3"], usage=USAGE), tools=[add], name="calculator")
    steps = [[ToolCall("calculator", {"prompt": "1 + 2"})], "It is 3."]
    return Scenario(_client(steps, telemetry, tools=[inner.as_tool("calculator", "Calculates.")]), {})


def holding(telemetry: Telemetry) -> Scenario:
    @chat_advisor(order=225, name="redactor")
    async def redactor(request: ChatRequest, call_next: Any) -> ChatResponse[Any]:
        response = await call_next(request)
        return response.replace(message=AssistantMessage(content="[redacted]"))

    redactor.streams = "hold"
    return Scenario(_client([ADD, "3"], telemetry, tools=[add], advisors=[redactor]), {})


SCENARIOS: list[Callable[[Telemetry], Scenario]] = [
    direct, with_tools, parallel_tools, return_direct, short_circuit, cached_tool, retried_model, retried_tool,
    fallback_tool, fallback_model, limit, error_in_tool, unknown_tool, error_in_advisor, error_in_model, budget_spent,
    cancelled, search, memory_inside, nested, holding,
]  # fmt: skip
