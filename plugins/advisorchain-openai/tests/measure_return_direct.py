"""Measure one scenario with and without return-direct, on aimock and on SmolLM2, and print it as Markdown.

    uv run --all-packages --all-extras --group smollm2 python plugins/advisorchain-openai/tests/measure_return_direct.py

The scenario: the model thinks in two steps (each a call of the tool ``plan``), fetches a travel request with a tool,
and answers. With return-direct the tool's result is the answer. Which tool a step calls is prescribed, because so small
a model chooses badly; what it writes is its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
from pydantic import Field

from advisorchain import Advisor, ChatClient, ChatNext, ChatRequest, ChatResponse, Order, chat_advisor, tool
from advisorchain_openai import OpenAIModel

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "servers"))

from aimock import running_aimock
from smollm2 import running_smollm2

REPEATS = 5
STEPS = ["plan", "plan", "query_travel_request", "none"]
PROMPT = "Please tell me what became of the travel request TR001 of the engineering department."
SYSTEM = "You work at the travel desk of a company. Plan in short steps, then look the request up, then answer."
ANSWER = "The travel request TR001 of the engineering department was approved with a budget of 5000."


@tool(repeatable=True)
def plan(step: Annotated[str, Field(max_length=80)]) -> str:
    """Write down the next step of the plan."""
    return "noted"


@tool(return_direct=True)
def query_travel_request(request_id: Annotated[str, Field(pattern="^TR00[1-3]$")]) -> str:
    """The whole record of a travel request, by its id."""
    return (
        f"Travel request {request_id}\nStatus: approved\nBudget: 5000\nDepartment: engineering\nTraveller: J. Keller\n"
        "Destination: Lisbon, conference on distributed systems, four nights\nFlight: 07:25, returns Friday 18:10\n"
        "Hotel: Avenida, single room, breakfast included\nApproved by: head of engineering, within the yearly budget"
    )


@chat_advisor(order=Order.TOOL_FILTER)
async def prescribed_steps(request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
    """Let the model write the step of this round, and no other."""
    choice = STEPS[max(request.round, 1) - 1]
    return await call_next(request.replace(options=request.options.replace(tool_choice=choice)))


class ModelCalls(Advisor):
    """Counts the calls that reach the model."""

    order = Order.MODEL - 1

    def __init__(self) -> None:
        self.count = 0

    async def advise(self, request: ChatRequest, call_next: ChatNext) -> ChatResponse[Any]:
        """Count, and go on."""
        self.count += 1
        return await call_next(request)


class Measurement(NamedTuple):
    """What one turn took."""

    model_calls: float
    tokens: float
    seconds: float


async def measure(client: ChatClient, *, direct: bool) -> Measurement:
    """The scenario's medians, after one turn that warms caches and connections up."""
    found: list[Measurement] = []
    for _ in range(REPEATS + 1):
        calls = ModelCalls()
        settings: Any = {"advisors": [calls], "return_direct": {"query_travel_request": direct}}
        started = time.perf_counter()
        async with client.stream(PROMPT, **settings) as stream:
            response = await stream.response()
        seconds = time.perf_counter() - started
        if (response.stop_reason == "return_direct") is not direct or not response.usage:
            raise SystemExit(f"The turn went wrong: {response.stop_reason}, {response.new_messages}")
        found.append(Measurement(calls.count, response.usage.total_tokens or 0, seconds))
    del found[0]
    return Measurement(*[statistics.median([one[index] for one in found]) for index in range(3)])


def row(server: str, standard: Measurement, direct: Measurement) -> str:
    """One row of the table: standard against direct."""
    cells = [
        server,
        f"{standard.model_calls:g} → {direct.model_calls:g}",
        f"{standard.tokens:g} → {direct.tokens:g} ({1 - direct.tokens / standard.tokens:.0%} fewer)",
        f"{standard.seconds:.2f} s → {direct.seconds:.2f} s ({1 - direct.seconds / standard.seconds:.0%} less)",
    ]
    return f"| {' | '.join(cells)} |"


def aimock_fixtures() -> list[dict[str, Any]]:
    """The steps as aimock's fixtures, one by one along the turn."""

    def calls(name: str, arguments: dict[str, Any], turn: int) -> dict[str, Any]:
        call = {"name": name, "arguments": arguments, "id": f"call_{turn}"}
        return {"match": {"userMessage": "TR001", "turnIndex": turn}, "response": {"toolCalls": [call]}}

    return [
        calls("plan", {"step": "Find out which request is meant."}, 0),
        calls("plan", {"step": "Look it up and read its status."}, 1),
        calls("query_travel_request", {"request_id": "TR001"}, 2),
        {"match": {"userMessage": "TR001", "turnIndex": 3}, "response": {"content": ANSWER}},
    ]


async def compare(model: OpenAIModel) -> tuple[Measurement, Measurement]:
    """The scenario, standard and direct."""
    client = ChatClient(model, tools=[plan, query_travel_request], advisors=[prescribed_steps], system=SYSTEM)
    async with model:
        return await measure(client, direct=False), await measure(client, direct=True)


def main() -> None:
    """Measure, and print the table."""
    print("| server | model calls | tokens | wall time |\n|---|---|---|---|")
    with running_aimock() as aimock:
        aimock.load(aimock_fixtures())
        print(row("aimock", *anyio.run(compare, OpenAIModel("gpt-4o", base_url=aimock.openai_url))), flush=True)
    with running_smollm2() as smollm2:
        options = {"temperature": 0, "seed": 1, "max_tokens": 120}
        model = OpenAIModel("smollm2", base_url=smollm2.openai_url, prompted_tools=True, options=options)
        print(row("SmolLM2-135M", *anyio.run(compare, model)), flush=True)


if __name__ == "__main__":
    main()
