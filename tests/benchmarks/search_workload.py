"""What tool search costs in a turn that finds nothing new: W2 with 300 tools, of which the model sees two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from measurement import Measured, overhead, request_sample
from workloads import WORKLOADS, Advised, tool_functions

from advisorchain import ChatClient
from advisorchain.advisors import ToolCallingAdvisor, ToolSearchAdvisor

TOOLS = 300
TWO_SHOWN = replace(WORKLOADS["W2"], tools=2)
"""W2 with as many tools as the model sees of the 300: the search tool and the one that is called."""


class Searching(Advised):
    """W2 with 300 tools and a tool search, which shows two."""

    def __init__(self) -> None:
        super().__init__(TWO_SHOWN)
        self.client = ChatClient(
            self._model,
            tools=tool_functions(TOOLS),
            advisors=[ToolCallingAdvisor(max_rounds=None), ToolSearchAdvisor(always=["add"])],
        )


async def search_overhead(pairs: int) -> Callable[[], Awaitable[Measured]]:
    """Measures what tool search adds to a turn over one that has only the shown tools, in units of the bare W2."""
    ours = await request_sample(Searching(), TWO_SHOWN)
    without = await request_sample(Advised(TWO_SHOWN), TWO_SHOWN)
    bare = await request_sample("bare", WORKLOADS["W2"])
    return lambda: overhead(ours, without, bare, pairs)
