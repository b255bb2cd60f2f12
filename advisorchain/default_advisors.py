"""The advisors that a client adds to those it is given: the tool loop, and return-direct inside it."""

from __future__ import annotations

from typing import Any

from .advisors import ReturnDirectAdvisor, ToolCallingAdvisor
from .order import Order


def with_loop(advisors: list[Any], tool_loop: bool) -> list[Any]:
    """The advisors with the tool loop and return-direct added when absent, or with both left out."""
    if not tool_loop:
        return [
            advisor
            for advisor in advisors
            if not getattr(advisor, "is_tool_loop", False) and not isinstance(advisor, ReturnDirectAdvisor)
        ]
    loop = next((advisor for advisor in advisors if getattr(advisor, "is_tool_loop", False)), None)
    added: list[Any] = []
    if loop is None:
        added.append(ToolCallingAdvisor())
    if not any(isinstance(advisor, ReturnDirectAdvisor) for advisor in advisors):
        inside = getattr(loop, "order", 0)
        order = max(int(Order.RETURN_DIRECT), inside if isinstance(inside, int) else 0)
        added.append(ReturnDirectAdvisor(order=order))
    return [*advisors, *added]
