"""The ladder of orders: a lower order is further outside, `TOOL_LOOP` parts outside from inside the tool loop."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .errors import ConfigurationError


class Order(IntEnum):
    """Where the built-in advisors stand; any int from 0 to 999 is an order.

    Below `TOOL_LOOP` an advisor wraps the whole turn, above it every round. Equal orders keep registration order:
    the first registered is the outermost.
    """

    AUDIT = 100
    """One record per turn."""
    GUARD_INPUT = 150
    """Checks on the new input, outside memory: it never trips over old messages."""
    MEMORY = 200
    """History loaded once; user and final messages stored."""
    GUARD_OUTPUT = 225
    """Checks on the answer, inside memory: what is stored is what the user saw."""
    RETRIEVAL = 240
    """Retrieval, once per turn."""
    OUTPUT = 250
    """Structured output and evaluation, which re-enter the loop with feedback."""
    DEADLINE = 400
    """Wall time of the turn."""
    TOOL_LOOP = 500
    """The tool loop itself."""
    MEMORY_INSIDE = 550
    """Memory that keeps the tool messages too."""
    GUARD_ROUND = 560
    """Checks on tool calls and tool results."""
    TOOL_FILTER = 590
    """Which tools the model may see."""
    TOOL_SEARCH = 600
    """A few tools instead of hundreds."""
    AUGMENTATION = 620
    """Extra arguments that the model fills in."""
    RETURN_DIRECT = 650
    """Answers the next round from the tool results."""
    APPROVAL = 690
    """Nothing further inside may change the arguments."""
    TOOL_CACHE = 700
    """Inside filter and approval, outside retry and breaker."""
    FALLBACK = 800
    """Translates what retry could not repair."""
    RETRY = 850
    """Each model call, each tool call."""
    RATE_LIMIT = 880
    """Every attempt."""
    CIRCUIT_BREAKER = 900
    """Opens after consecutive failures of one source."""
    BUDGET = 950
    """Checked before every single attempt's spend."""
    MODEL = 1000
    """The terminal model call and the tool itself; reserved."""


def checked_order(order: Any, name: str) -> int:
    """The order of the advisor ``name`` as an int.

    Raises:
        ConfigurationError: it is no int from 0 to 999.
    """
    if not isinstance(order, int) or isinstance(order, bool):
        raise ConfigurationError(
            f"Advisor {name!r} has no order: set order to an int from 0 to {Order.MODEL - 1}, for example "
            f"Order.GUARD_INPUT (is: {order!r})."
        )
    if not 0 <= order < Order.MODEL:
        raise ConfigurationError(
            f"Advisor {name!r} has order {int(order)}; orders go from 0 to {Order.MODEL - 1} "
            f"({int(Order.MODEL)} is the model itself)."
        )
    return int(order)
