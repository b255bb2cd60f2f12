"""The demo's travel desk on a real protocol server and on a real small model."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from advisorchain import Advisor, ChatClient, Order
from advisorchain_openai import OpenAIModel

if TYPE_CHECKING:
    from aimock import Aimock
    from smollm2 import SmolLM2

pytest.importorskip("typer", reason="the demo needs the extra cli")

TR001 = "TR001 is approved. Amount: 5000. Department: engineering."


@pytest.mark.parametrize(
    ("lang", "direct", "question"),
    [("en", TR001, "TR001"), ("zh", "TR001 已批准。金额：5000。部门：工程部。", "TR001")],
)
def test_the_demo_on_aimock(aimock: Aimock, lang: str, direct: str, question: str) -> None:
    call = {"name": "query_travel_request", "arguments": {"request_id": "TR001"}}
    budget = {"name": "analyze_travel_budget", "arguments": {}}
    aimock.load([
        {"match": {"userMessage": question, "hasToolResult": False}, "response": {"toolCalls": [call]}},
        {"match": {"userMessage": question, "hasToolResult": True}, "response": {"content": "SUMMARY-1"}},
        {"match": {"userMessage": "", "hasToolResult": False}, "response": {"toolCalls": [budget]}},
        {"match": {"userMessage": "", "hasToolResult": True}, "response": {"content": "SUMMARY-2"}},
    ])  # fmt: skip
    environment = {**os.environ, "OPENAI_BASE_URL": aimock.openai_url, "OPENAI_API_KEY": "k", "COLUMNS": "120",
                   "PYTHONIOENCODING": "utf-8"}  # fmt: skip
    command = [sys.executable, "-m", "advisorchain.cli", "demo", "--model", "openai:gpt-4o", "--lang", lang]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert direct in output and "SUMMARY-1" in output
    # One model call when direct, two when summarised, and the streamed run's.
    asked = [body["messages"][-1]["role"] for body in aimock.bodies()]
    assert asked[:3] == ["user", "user", "tool"]
    assert aimock.bodies()[-1]["stream"] is True


class RoundByRound(Advisor):
    """Prescribes each round's tool, because so small a model chooses badly, and counts the model's calls."""

    order = Order.MODEL - 1

    def __init__(self, *choices: str) -> None:
        self.choices = choices
        self.calls = 0

    async def advise(self, request: Any, call_next: Any) -> Any:
        choice = self.choices[self.calls]
        self.calls += 1
        return await call_next(request.replace(options=request.options.replace(tool_choice=choice)))


@pytest.mark.smollm2
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
async def test_the_travel_desk_on_smollm2(smollm2: SmolLM2, run: Any) -> None:
    from advisorchain.cli.travel_desk import TravelDesk

    options = {"temperature": 0, "max_tokens": 80}
    question = "What is the status of the travel request TR001?"
    async with OpenAIModel("smollm2", base_url=smollm2.openai_url, prompted_tools=True, options=options) as model:
        client = ChatClient(model, tools=[TravelDesk()], system="You work at the travel desk of a company.")

        steps = RoundByRound("query_travel_request")
        response = await run(client, question, advisors=[steps])
        assert (response.stop_reason, steps.calls) == ("return_direct", 1)
        assert "travel request" in response.text or response.text.startswith("TR00")
        (result,) = response.direct_results
        assert result.content == response.text
        tokens = response.usage.total_tokens

        steps = RoundByRound("query_travel_request", "none")
        response = await run(client, question, advisors=[steps], return_direct={"query_travel_request": False})
        assert response.stop_reason in ("final", "length") and steps.calls == 2
        assert response.text and response.usage.total_tokens > tokens

        steps = RoundByRound("analyze_travel_budget", "none")
        response = await run(client, "How much travel budget is spent?", advisors=[steps])
        assert response.stop_reason in ("final", "length") and steps.calls == 2
