"""Tools that several tests serve over MCP, and what is read of their results."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from advisorchain import ToolContext, tool
from advisorchain.mcp import MCP_CALLER


class Sum(TypedDict):
    sum: int


@tool(read_only=True)
async def add(a: int, b: int) -> Sum:
    """Add."""
    return {"sum": a + b}


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


@tool(return_direct=True, read_only=True)
async def receipt(order: int) -> str:
    """Give a receipt."""
    return f"Receipt of order {order}."


@tool
async def total(order: int, context: ToolContext) -> dict[str, Any]:
    """Give a total."""
    await context.progress(1, 2, "half")
    return {"order": order, "client": context.context[MCP_CALLER].client_id}
