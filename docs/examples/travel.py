"""Tools of a travel desk, for the command line and for first steps."""

from __future__ import annotations

from typing import Literal

from advisorchain import ToolError, tool

REQUESTS = {"TR001": "approved", "TR002": "pending", "TR003": "rejected"}


@tool(read_only=True)
def travel_request(request_id: str) -> str:
    """Status of a travel request."""
    if request_id not in REQUESTS:
        raise ToolError(f"There is no travel request {request_id!r}.")
    return REQUESTS[request_id]


@tool(return_direct=True, read_only=True)
def allowance(country: Literal["Switzerland", "Italy", "Japan"]) -> str:
    """Daily travel allowance of a country."""
    return {"Switzerland": "95 CHF", "Italy": "60 EUR", "Japan": "9000 JPY"}[country]
