"""Limits and outcomes that make no sense are refused when the loop is made."""

from __future__ import annotations

from typing import Any

import pytest

from advisorchain import ConfigurationError
from advisorchain.advisors import ToolCallingAdvisor


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
        ({"max_rounds": "3"}, "max_rounds"),
        ({"concurrency": None}, "concurrency"),
        ({"on_limit": "explode"}, "must be 'answer', 'stop' or 'raise'"),
        ({"on_limit": {"rounds": "explode"}}, "rounds must be 'answer', 'stop' or 'raise'"),
        ({"on_limit": {"turns": "stop"}}, "unknown limit 'turns'"),
    ],
    ids=str,
)
def test_wrong_limits(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolCallingAdvisor(**settings)
