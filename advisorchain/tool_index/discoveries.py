"""`Discoveries`: the tools that one turn has found so far."""

from __future__ import annotations

from collections.abc import Sequence

from ..invocation import ToolResult
from ..memory.store import MemoryStore
from ..tool_set import ToolSet
from .catalogue import Catalogue
from .search_tool import NAME

FOUND = "tools_found"
"""Under this key of ``ToolResult.metadata``: the names that a search found."""


class Discoveries:
    """What one turn has found so far, of which tools, and for whom.

    Attributes:
        tools: all tools, as the last round had them.
        catalogue: what is known of them.
        found: the names, in the order of discovery.
        pending: by call: what the searches of this round have found; shown from the next round on.
        shown: what the model sees; None when that must be made anew.
        owner, store: for whom discoveries are kept, and where; None: for nobody, in this process.
    """

    __slots__ = ("tools", "catalogue", "found", "pending", "shown", "owner", "store")

    def __init__(self, tools: ToolSet, catalogue: Catalogue) -> None:
        self.tools = tools
        self.catalogue = catalogue
        self.found: dict[str, None] = {}
        self.pending: dict[str, tuple[str, ...]] = {}
        self.shown: ToolSet | None = None
        self.owner: str | None = None
        self.store: MemoryStore | None = None

    def taken(self, results: Sequence[ToolResult]) -> list[str]:
        """What the searches of the last round have found, in the order of their calls."""
        found: list[str] = []
        for result in results:
            if result.name == NAME:
                names = self.pending.pop(result.call_id, None)
                if names is None and result.metadata is not None:  # answered by a cache
                    names = result.metadata.get(FOUND)
                found.extend(names or ())
        if self.pending:  # of a loop that does not hand results on
            for names in self.pending.values():
                found.extend(names)
            self.pending.clear()
        return found
