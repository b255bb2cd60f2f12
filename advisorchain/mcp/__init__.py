"""MCP: the tools of any server, safely, and our tools for any client. The SDK is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import Elicitation, Question, Sampling
    from .exposure import MCP_CALLER, MCP_META, McpCaller
    from .filters import ToolFilter, ToolMatch
    from .listed_tool import ListedTool
    from .pin import InMemoryPins, Pin, PinStore
    from .pin_file import PinFile
    from .pinning import Pinning
    from .remote_tool import RemoteTool
    from .server import McpServer
    from .serving import mcp_app, mcp_server, serve_tools
    from .status import ServerStatus
    from .tools import McpTools
    from .trace_context import TRACE_CONTEXT

_MODULES = {
    "Elicitation": "callbacks",
    "Question": "callbacks",
    "Sampling": "callbacks",
    "MCP_CALLER": "exposure",
    "MCP_META": "exposure",
    "TRACE_CONTEXT": "trace_context",
    "McpCaller": "exposure",
    "ToolFilter": "filters",
    "ToolMatch": "filters",
    "ListedTool": "listed_tool",
    "InMemoryPins": "pin",
    "Pin": "pin",
    "PinFile": "pin_file",
    "PinStore": "pin",
    "Pinning": "pinning",
    "RemoteTool": "remote_tool",
    "McpServer": "server",
    "mcp_app": "serving",
    "mcp_server": "serving",
    "serve_tools": "serving",
    "ServerStatus": "status",
    "McpTools": "tools",
}

__all__ = [
    "MCP_CALLER",
    "MCP_META",
    "TRACE_CONTEXT",
    "Elicitation",
    "InMemoryPins",
    "ListedTool",
    "McpCaller",
    "McpServer",
    "McpTools",
    "Pin",
    "PinFile",
    "PinStore",
    "Pinning",
    "Question",
    "RemoteTool",
    "Sampling",
    "ServerStatus",
    "ToolFilter",
    "ToolMatch",
    "mcp_app",
    "mcp_server",
    "serve_tools",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return __all__
