"""The ``advisorchain`` logger: one line per start and end of turn, model call and tool call; never any content."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from advisorchain import ChatClient, ModelError, ToolCall, ToolError, tool
from advisorchain.testing import ScriptedModel

SECRET = "s3cr3t"


@tool
def work(text: str) -> str:
    """Work."""
    if text.endswith("fail"):
        raise ToolError(f"{SECRET} failure")
    return f"{SECRET} result"


@tool(return_direct=True)
async def show(text: str) -> str:
    """Show."""
    return f"{SECRET} {text}"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> list[str]:
    """The messages of our loggers, without what differs from run to run."""
    return [r.getMessage() for r in caplog.records if r.name.startswith("advisorchain") and r.levelno >= level]


async def test_one_line_per_start_and_end(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    steps = [
        [ToolCall("work", {"text": SECRET}), ToolCall("work", {"text": f"{SECRET}fail"})],
        [f"{SECRET} text", ToolCall("show", {"text": SECRET})],
    ]
    client = ChatClient(ScriptedModel(steps), tools=[work, show], system=SECRET, name="desk")
    with caplog.at_level(logging.DEBUG, "advisorchain"):
        response = await run(client, SECRET)
    assert response.text == f"{SECRET} {SECRET}"
    said = lines(caplog)

    def count(*words: str) -> int:
        return sum(all(word in line for word in words) for line in said)

    assert count("turn", "of desk", "starts") == 1
    assert count("turn", "ends after", "return_direct", "2 model calls", "3 tool calls") == 1
    assert count("model scripted", "starts") == count("model scripted", "ends") == 2
    assert count("tool work", "starts") == count("tool work", "ends") == 2
    assert count("tool work", "ends", "ok") == count("tool work", "ends", "error") == 1
    assert count("tool show", "[direct]", "starts") == count("tool show", "[direct]", "ends", "ok") == 1
    assert count("tool work", "[direct]") == 0
    assert count("round 1") >= 6 and count("round 2") >= 4
    assert said[0].endswith("starts") and "ends after" in said[-1]
    turn = response.request.context.turn.id
    assert all(turn in line for line in said if line.startswith("turn"))
    for record in caplog.records:
        assert SECRET not in record.getMessage() and not record.exc_info


async def test_a_failed_turn_ends_too(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = ChatClient(ScriptedModel([ModelError(f"{SECRET} overloaded")]))
    with caplog.at_level(logging.DEBUG, "advisorchain"), pytest.raises(ModelError):
        await run(client, "go")
    assert sum("ends after" in line and "ModelError" in line for line in lines(caplog)) == 1
    assert not any(SECRET in line for line in lines(caplog))


async def test_why_a_direct_call_was_not_direct(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    steps = [[ToolCall("work", {"text": "a"}), ToolCall("show", {"text": "a"})], "answer"]
    with caplog.at_level(logging.DEBUG, "advisorchain"):
        await run(ChatClient(ScriptedModel(steps), tools=[work, show]), "go")
    assert sum("not returned directly" in line and "mixed" in line for line in lines(caplog)) == 1


async def test_without_debug_nothing_is_said(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    steps = [[ToolCall("work", {"text": "a"}), ToolCall("ghost")], "answer"]
    with caplog.at_level(logging.INFO, "advisorchain"):
        await run(ChatClient(ScriptedModel(steps), tools=[work]), "go")
    assert lines(caplog) == []


async def test_the_detail_of_a_tools_exception_goes_to_the_log(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def broken() -> str:
        """Broken."""
        raise OSError("connection to 10.0.0.1 refused")

    model = ScriptedModel([[ToolCall("broken")], "answer"])
    with caplog.at_level(logging.WARNING, "advisorchain"):
        await run(ChatClient(model, tools=[broken]), "go")
    (record,) = caplog.records
    assert "'broken'" in record.getMessage() and record.exc_info is not None
    assert "10.0.0.1" in str(record.exc_info[1])
    assert "10.0.0.1" not in model.requests[1].messages[-1].text
