"""Limits and outcomes that make no sense are refused when the loop is made."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ChatClient, ConfigurationError, tool
from advisorchain.advisors import RetryAdvisor, ToolCallingAdvisor
from advisorchain.testing import ScriptedModel


@tool
async def tick() -> str:
    """Tick."""
    return "tock"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_calls": -1}, "max_calls"),
        ({"max_repeats": 0}, "max_repeats"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_calls_per_tool": -1}, "max_calls_per_tool"),
        ({"max_calls_per_tool": {"tick": -1}}, "max_calls_per_tool"),
        ({"max_calls_per_tool": {tick: 1}}, "by the names of tools"),
        ({"max_rounds": "3"}, "max_rounds"),
        ({"concurrency": None}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"max_result_chars": -1}, "max_result_chars"),
        ({"on_limit": "explode"}, "must be 'answer', 'stop' or 'raise'"),
        ({"on_limit": {"rounds": "explode"}}, "rounds must be 'answer', 'stop' or 'raise'"),
        ({"on_limit": {"turns": "stop"}}, "unknown limit 'turns'"),
    ],
    ids=str,
)
def test_wrong_limits(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolCallingAdvisor(**settings)


def test_settings_of_tools_go_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"tools must be a mapping by name, for example .*<Tool 'tick'"):
        RetryAdvisor(tools={tick: None})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="return_direct= maps tool names"):
        ChatClient(ScriptedModel([]), tools=[tick], return_direct={tick: True})  # type: ignore[dict-item]
