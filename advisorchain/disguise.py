"""Tool results whose text is a failure in disguise: some servers report a broken connection as a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from typing import get_args

from .errors import ConfigurationError
from .failures import TRANSIENT_MCP_CODES, FailureClass
from .invocation import ToolInvocation, ToolResult
from .setting_checks import check_function, check_mapping

FAILURE_CLASSES = get_args(FailureClass)

Matcher = Callable[[ToolResult], FailureClass | None]
"""Looks at a tool result; the failure class when its text is a failure in disguise, else None."""

_MCP = re.compile(r"(?:Error: )?MCP error:?\s*\(?(-\d{5})\b", re.IGNORECASE)
_MCP_FIRST = frozenset("EeMm")  # a look at one character is cheaper than the expression
_MCP_CHARS = 2000


def mcp_disguise(result: ToolResult) -> FailureClass | None:
    """The default `Matcher`: a text that begins with ``MCP error -32603`` (or -32000, -32001) is a transient failure.

    -32602 (invalid parameters) is none: the model can repair it.
    """
    text = result.content
    if len(text) > _MCP_CHARS:
        return None
    found = _MCP.match(text)
    return "transient" if found is not None and int(found[1]) in TRANSIENT_MCP_CODES else None


class _Everything:
    def __contains__(self, item: object) -> bool:
        return True


class Disguises:
    """The matchers of an advisor.

    Args:
        matchers: by source (``"local"``, or a server's name); None: its results are never failures in disguise. A
            source without one has `mcp_disguise`.

    Attributes:
        first: holds the first character of every text that needs to be looked at, a space for an empty one:
            ``if (text or " ")[0] in disguises.first`` (an index costs half of a slice).

    Raises:
        ConfigurationError: a matcher is none.
    """

    __slots__ = ("_matchers", "first")

    def __init__(self, matchers: Mapping[str, Matcher | None] | None) -> None:
        check_mapping("matchers", matchers, "{'crm': lambda result: 'transient' if result.content == 'BUSY' else None}")
        for source, matcher in (matchers or {}).items():
            check_function(f"matchers[{source!r}]", matcher, "a ToolResult, or None")
        self._matchers = dict(matchers or {})
        self.first: Container[str] = _Everything() if matchers else _MCP_FIRST

    def failure(self, invocation: ToolInvocation, result: ToolResult) -> FailureClass | None:
        """The failure class that a result's text stands for; None for an honest one."""
        source = invocation.tool.source
        matcher = self._matchers.get(source, mcp_disguise)
        failure = None if matcher is None else matcher(result)
        if failure is not None and failure not in FAILURE_CLASSES:
            raise ConfigurationError(
                f"matchers[{source!r}] gave {failure!r} for a result of the tool {invocation.tool.name!r}; it must "
                f"give None or one of {', '.join(FAILURE_CLASSES)}."
            )
        return failure
