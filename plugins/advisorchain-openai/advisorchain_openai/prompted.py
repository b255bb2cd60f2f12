"""Tools for servers that have no tool calls but enforce ``json_schema``: chosen by structured output."""

from __future__ import annotations

from typing import Any

from advisorchain import ChatRequest
from advisorchain.models.prompted_tools import prompted_schema


def prompted_format(request: ChatRequest, choice: str | None) -> dict[str, Any]:
    """The ``response_format`` that allows a call of one of the tools, or an answer, as ``tool_choice`` says."""
    form = {"name": "tool_or_answer", "schema": prompted_schema(request, choice), "strict": False}
    return {"type": "json_schema", "json_schema": form}
