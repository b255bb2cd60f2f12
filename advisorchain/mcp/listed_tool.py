"""`ListedTool`: one tool as a server lists it, as plain data that filters, pins and names are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTool:
    """One tool as a server lists it; everything in it is said by the server and to be believed as far as that goes.

    Attributes:
        server: the server's name, as it is configured here.
        name: the tool's name, as the server knows it.
        title: for people, or None.
        description: for the model; empty when the server gives none.
        input_schema: JSON schema of the arguments.
        output_schema: JSON schema of the structured result, or None.
        annotations: as they came over the wire: ``readOnlyHint``, ``destructiveHint``, ``idempotentHint``,
            ``openWorldHint``, ``title``, and whatever else, for example ``returnDirect``.
        meta: the tool's ``_meta``.
        task_support: ``"required"``, ``"optional"``, ``"forbidden"`` or None.
        trusted: whether the server is configured as trusted.
    """

    server: str
    name: str
    title: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    task_support: str | None = None
    trusted: bool = False

    @property
    def tags(self) -> frozenset[str]:
        """The tags that the server gives the tool: ``_meta["advisorchain/tags"]``, or FastMCP's."""
        for value in (self.meta.get("advisorchain/tags"), _inner(self.meta, "_fastmcp"), _inner(self.meta, "fastmcp")):
            if isinstance(value, list | tuple):
                return frozenset(tag for tag in value if isinstance(tag, str))
        return frozenset()

    def hint(self, name: str) -> bool | None:
        """A hint of the annotations, for example ``"readOnlyHint"``; None when the server does not say."""
        value = self.annotations.get(name)
        return value if isinstance(value, bool) else None


def _inner(meta: Mapping[str, Any], name: str) -> Any:
    inner = meta.get(name)
    return inner.get("tags") if isinstance(inner, Mapping) else None
